"""A reset to a time never goes to a record after the safe point that was read before the search."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.reset import Goal, TargetKind
from slotkeeper.core.slots import reset_plan
from slotkeeper.core.slots.reset_plan import ResetContext, SlotSeen
from slotkeeper.core.sources.hologres.position import HoloPosition


def test_of_dns_apart_each_starts_at_its_own_record_and_at_most_at_its_newest_safe_point() -> None:
    """A record whose commit is in progress is not visible to the search, and is after the safe point."""
    at = {name: HoloPosition(lsn, 0) for name, lsn in (("0", 70), ("1", 90))}
    since: dict[str, Position | None] = {"0": at["0"], "1": at["1"], "2": None}
    newest = {name: HoloPosition(80, 0) for name in "012"}
    lanes = [
        SimpleNamespace(latest=newest[name], row=SimpleNamespace(key=SimpleNamespace(shard=name))) for name in "012"
    ]
    ctx = SimpleNamespace(apart=True, table=SimpleNamespace(inspector=SimpleNamespace(since=lambda at: since)))
    goal = Goal(TargetKind.TIME, at="2026-11-27T00:00:00Z")
    found = reset_plan._resolve(cast(ResetContext, ctx), goal, cast(SlotSeen, SimpleNamespace(lanes=lanes)))
    assert found == {"0": at["0"], "1": newest["1"], "2": newest["2"]}
