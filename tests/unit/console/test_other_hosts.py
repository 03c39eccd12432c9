"""A reset that is typed on a host which does not own the job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.console.commands import job_verbs, reset
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.access import AccessRules
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import Refused

JOB = cast(JobSpec, SimpleNamespace(name="orders"))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The commands that were given to host etl1, which owns the job."""
    found: list[Any] = []
    monkeypatch.setattr(job_verbs, "other_owner", lambda *_: "etl1")
    monkeypatch.setattr(job_verbs, "by_owner", lambda *args: found.append(args[3:]))
    return found


def loaded(folder: Path, access: AccessRules | None = None) -> Loaded:
    hosts, path = SimpleNamespace(name="etl2"), folder / "config.toml"
    return cast(Loaded, SimpleNamespace(hosts=hosts, state_dir=folder / "state", path=path, access=access))


def by_owner(found: Loaded, verb: str, options: dict[str, str]) -> bool:
    return reset._by_owner(cast(Any, None), found, JOB, verb, options, "", False)


def test_an_unfinished_reset_is_resumed_by_the_owner_without_a_plan(tmp_path: Path, given: list[Any]) -> None:
    options = {"table": "ods.orders", "slot": "orders_rt", "steal": ""}
    assert by_owner(loaded(tmp_path), "resume", options)
    assert given == [("resume", options, "etl1", "", False, "")]
    with pytest.raises(Refused, match="unknown plan 'p1'"):
        by_owner(loaded(tmp_path), "reset", {**options, "plan": "p1"})
