"""The library reads sources that store a slot's points and return COPY text; other kinds are rejected by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.errors import Refused
from slotkeeper.core.library import Reader, load
from slotkeeper.core.sources import registry
from tests.unit.config.samples import VALID


@pytest.mark.parametrize("kind", sorted(registry.KINDS.keys() - {"dws"}))
def test_a_reader_of_a_kind_that_the_library_cannot_read_is_refused_by_name(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DWS1_PASSWORD", "x")
    file = tmp_path / "c.toml"
    file.write_text(VALID)
    job = replace(load(str(file)).jobs["orders_rt"], source_kind=kind)
    with pytest.raises(Refused, match=f"^the library cannot read a source of kind {kind}: ") as refused:
        Reader(job)
    assert "\n" not in str(refused.value)
    assert refused.value.hint == "read it with a job: `slotkeeper jobs start orders_rt`"
