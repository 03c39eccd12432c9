"""A kind of server is opened by the name that the configuration has, and by nothing else."""

from __future__ import annotations

import pytest

from core.errors import Defect
from core.sinks import registry as sinks
from core.sources import registry as sources


@pytest.mark.parametrize("registry", [sources, sinks], ids=["sources", "sinks"])
def test_a_kind_is_loaded_once_and_an_unknown_one_is_our_own_defect(registry: object) -> None:
    for name in registry.KINDS:  # type: ignore[attr-defined]
        assert registry.open(name) is registry.open(name)  # type: ignore[attr-defined]
    with pytest.raises(Defect, match=r"there is no (source|sink) kind 'oracle'"):
        registry.open("oracle")  # type: ignore[attr-defined]
