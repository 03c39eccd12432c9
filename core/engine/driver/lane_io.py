"""The driver's questions about idle lanes, and the empty step of one: each runs in a thread and
returns plain values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import ahead_of_row, explain_miss, judge, no_point, stands_free, trouble
from slotkeeper.core.engine.driver.registration import Proven, Settled, register_at
from slotkeeper.core.engine.worker.step import Probe
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.ports.driver import Rows
from slotkeeper.core.ports.source import SlotAdmin, Source


@dataclass(frozen=True, slots=True)
class Seen:
    """What reading one lane gave: a status and whether rows wait (None: not asked), or an error."""

    shard: Shard
    status: SlotStatus | None = None
    waiting: bool | None = False
    error: SlotkeeperError | None = None


def see_all(
    source: Source, lanes: Iterable[Lane], ours: set[Shard], fingerprint: str, asks: bool = True
) -> tuple[list[Seen], set[Shard]]:
    """The status of all DNs, then, where it `asks`, a cheap question per idle lane; also the set of DNs that there are.

    A server that does not create a slot when asked answers no row for a DN whose points are gone: SLOT LOST.
    """
    statuses = {status.shard: status for status in source.read_status(None)}
    there = set(statuses)
    if ours - there:
        there |= set(source.nodes())
        lost = ours & there - set(statuses)
        if lost:
            raise no_point(lost, fingerprint, source.identify().text)
    seen = [_ask(source, lane, statuses[lane.shard], asks) for lane in lanes if lane.shard in statuses]
    return seen, there


def see_one(source: Source, lane: Lane, asks: bool = True) -> Seen:
    """The status of one DN, where that of all of them fails."""
    try:
        status = next(status for status in source.read_status(lane.shard) if status.shard == lane.shard)
        return _ask(source, lane, status, asks)
    except SlotkeeperError as error:
        return Seen(lane.shard, error=error)


def _ask(source: Source, lane: Lane, status: SlotStatus, asks: bool) -> Seen:
    if judge(status, lane.expected) or status.latest < lane.position or status.latest == lane.checked:
        return Seen(lane.shard, status)
    if not asks:
        return Seen(lane.shard, status, waiting=None)
    try:
        return Seen(lane.shard, status, source.has_changes(lane.shard, lane.position, status.latest))
    except SlotkeeperError as error:
        return Seen(lane.shard, status, error=_named_by_status(source, lane) or error)


def _named_by_status(source: Source | SlotAdmin, lane: Lane) -> Trouble | None:
    """What made a question fail may be DDL: then the trouble that a status shows says more than the error."""
    try:
        statuses = source.read_status(lane.shard)
    except Trouble as named:
        return named
    except SlotkeeperError:
        return None
    return next((judge(status, lane.expected) for status in statuses if status.shard == lane.shard), None)


def settle(
    admin: SlotAdmin,
    rows: Rows,
    lane: Lane,
    epoch: int,
    move: bool,
    clock: Clock,
    probe: Probe,
    others: tuple[LaneKey, ...] = (),
    proven: Proven | None = None,
    keeps: bool = True,
) -> Settled:
    """The empty step of an idle lane where `move` allows it, then the registration of what is proven.

    Nothing is registered where that is what was registered before, unless it `keeps` the slot alive.
    """
    position = lane.position
    if move:
        found = _empty_step(admin, rows, lane, epoch)
        if found is None:
            return Settled(position, waiting=True)
        position = found
    if proven is not None and not keeps and lane.registered.at(proven.place) == lane.registered:
        return Settled(position)
    return register_at(admin, rows, lane, epoch, position, clock, probe, others, proven)


def _empty_step(admin: SlotAdmin, rows: Rows, lane: Lane, epoch: int) -> Position | None:
    """Where the lane stands now, or None where rows wait (then nothing was moved)."""
    first = _judged(admin, lane)
    back = ahead_of_row(first, lane.position)
    if back:
        raise back
    if first.latest <= lane.position:
        return lane.position
    try:
        if admin.has_changes(lane.shard, lane.position, first.latest):
            return None
    except SlotkeeperError as error:
        raise (_named_by_status(admin, lane) or error) from error
    _judged(admin, lane)
    new = admin.standing(lane.position, first)
    if not rows.advance_empty(lane.key, epoch, lane.position, new):
        row = rows.read_row(lane.key)
        reason = explain_miss(row, epoch, lane.position)
        if isinstance(reason, Position) or stands_free(row, epoch, lane.position):
            return None  # another copy of ours moved on, or withdrew a plan: a task reads the row itself
        raise reason
    return new


def _judged(admin: SlotAdmin, lane: Lane) -> SlotStatus:
    status = next((status for status in admin.read_status(lane.shard) if status.shard == lane.shard), None)
    if status is None:
        raise trouble(TroubleName.TOPOLOGY_CHANGED, f"{lane.shard.name} no longer answers for this table")
    found = judge(status, lane.expected)
    if found:
        raise found
    return status
