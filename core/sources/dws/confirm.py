"""Registers a lane's position at a DWS: both points of one DN, the status read between them.

`false` first, then the status for `true`, then `true`: a wipe in between always leaves one of the two missing, so it is
seen (tests/model). Next door: `position.py` has the values, `source.py` the session's calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from core.domain.kept import Kept
from core.domain.slot import Shard, SlotStatus
from core.domain.watch import exactly, judge, trouble
from core.errors import Busy, ErrorKind, Refused, SlotkeeperError, TroubleName
from core.ports.source import Confirmation
from core.sources.dws.position import DwsPosition, SyncPoints, ours, points_of

REFUSED_BACK = "this server does not move a point backwards; take --to snapshot instead"


class PointCalls(Protocol):
    """What registering asks of a session."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """The status of one DN."""

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """The xmin that belongs to the record at exactly `point`, or None."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN; returns the number of nodes registered."""


def confirm(calls: PointCalls, first: SlotStatus, asked: Confirmation) -> SyncPoints:
    """Register the position of a lane; `first` was judged."""
    shard, position = first.shard, ours(asked.position)
    goal = SyncPoints(position.point, position.point, _xmin(calls, shard, position, points_of(asked.before)))
    asked.probe("before_false")
    asked.check()
    _one(calls, shard, goal, False)
    asked.probe("after_false")
    second = _seen(calls, shard)
    between = SyncPoints(goal.live, points_of(first.kept).durable or 0)
    wrong = judge(second, exactly(between, asked.fingerprint))
    if wrong:
        raise wrong
    asked.probe("before_true")
    asked.check()
    _one(calls, shard, goal, True)
    asked.probe("after_true")
    return goal


def restore(
    calls: PointCalls, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]
) -> None:
    """Register exactly these points; the second is judged before it is touched."""
    goal, before = points_of(kept), points_of(first.kept)
    _sent(calls, shard, goal, False)
    probe("after_false")
    second = points_of(_seen(calls, shard).kept)
    if second.live != goal.live:
        raise Refused(f"{shard.name}: {goal.live} was registered, {second.live} is there", REFUSED_BACK)
    if second.durable != before.durable and not (lost and not second.durable):
        raise trouble(TroubleName.SLOT_LOST, f"{shard.name}: the slot changed between its two points")
    _sent(calls, shard, goal, True)
    probe("after_true")


def register_first(calls: PointCalls, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
    """Register both points whatever was there; Busy where one reached no node."""
    goal = points_of(kept)
    for checkpoint in (False, True):
        if calls.register(shard, _of(goal, checkpoint), checkpoint, goal.xmin) != 1:
            raise Busy(f"{shard.name}: the first registration reached no node", where="source")
        probe("in_first_registration")


def _one(calls: PointCalls, shard: Shard, goal: SyncPoints, checkpoint: bool) -> None:
    nodes = calls.register(shard, _of(goal, checkpoint), checkpoint, goal.xmin)
    if nodes != 1:
        flag = "true" if checkpoint else "false"
        raise Busy(f"{shard.name}: registering {flag} reached {nodes} of 1 nodes (partial registration)")


def _sent(calls: PointCalls, shard: Shard, goal: SyncPoints, checkpoint: bool) -> None:
    try:
        _one(calls, shard, goal, checkpoint)
    except SlotkeeperError as error:
        if error.kind is not ErrorKind.UNKNOWN:
            raise
        raise Refused(f"{shard.name}: {error.message}", REFUSED_BACK, error.code, error.where) from error


def _of(goal: SyncPoints, checkpoint: bool) -> int:
    return (goal.durable if checkpoint else goal.live) or 0


def _seen(calls: PointCalls, shard: Shard) -> SlotStatus:
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
