"""Registers a lane's position at a DWS: two points on one DN, a status between them.

Next door: `source.py` has the calls, `core.engine.driver.registration` the row's lock around them.
"""

from __future__ import annotations

from typing import Protocol

from core.domain.slot import Shard, SlotStatus
from core.domain.watch import exactly, judge
from core.errors import Busy
from core.ports.source import Confirmation
from core.sources.dws.position import DwsPosition, SyncPoints, ours, points_of


class PointCalls(Protocol):
    """What registering a lane's position asks of a session."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]: ...
    def xmin_at(self, shard: Shard, point: int) -> int | None: ...
    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int: ...


def confirm(calls: PointCalls, first: SlotStatus, asked: Confirmation) -> SyncPoints:
    """Register the position of a lane; `first` was judged.

    `false` first, then the status for `true`, then `true`: a wipe in between always leaves one of the two missing, so
    it is seen (tests/model).
    """
    shard, position = first.shard, ours(asked.position)
    goal = SyncPoints(position.point, position.point, _xmin(calls, shard, position, points_of(asked.before)))
    asked.probe("before_false")
    asked.check()
    register_one(calls, shard, goal, False)
    asked.probe("after_false")
    second = seen(calls, shard)
    between = SyncPoints(goal.live, points_of(first.kept).durable or 0)
    wrong = judge(second, exactly(between, asked.fingerprint))
    if wrong:
        raise wrong
    asked.probe("before_true")
    asked.check()
    register_one(calls, shard, goal, True)
    asked.probe("after_true")
    return goal


def register_one(calls: PointCalls, shard: Shard, goal: SyncPoints, checkpoint: bool) -> None:
    """Register one of two points; Busy where it reached another number of nodes than one (partial registration)."""
    nodes = calls.register(shard, (goal.durable if checkpoint else goal.live) or 0, checkpoint, goal.xmin)
    if nodes != 1:
        flag = "true" if checkpoint else "false"
        raise Busy(f"{shard.name}: registering {flag} reached {nodes} of 1 nodes (partial registration)")


def seen(calls: PointCalls, shard: Shard) -> SlotStatus:
    """The status of one DN under its name."""
    found = next((status for status in calls.read_status(shard) if status.shard == shard), None)
    if found is None:
        raise Busy(f"{shard.name} does not answer under its name; the DN set may have changed", where="source")
    return found


def _xmin(calls: PointCalls, shard: Shard, position: DwsPosition, before: SyncPoints) -> int:
    """An xmin that is never newer than the point, and never older than the one before (design 4.2 step 6)."""
    found = position.xmin
    if found is None and position.top is not None:
        found = calls.xmin_at(shard, position.top)
    return before.xmin if found is None else max(found, before.xmin)
