"""Tells the source that a lane is done up to a point: both points, under the progress row's lock (design 4.2 step 6).

`false` first, then the status for `true`, then `true`: a wipe in between always leaves one of the two missing, so it is
seen. Next door: `core.domain.advance` chooses the xmin; `loop.py` decides when, for lanes that come from a task, and
`lane_io.py` for idle ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.clock import Clock
from core.domain.advance import XminChoice, choose_xmin
from core.domain.lane import Lane
from core.domain.position import Position
from core.domain.progress import LaneKey, Registered
from core.domain.slot import Shard, SlotStatus
from core.domain.watch import Expected, ahead_of_row, judge
from core.domain.watch import trouble as named
from core.engine.worker.step import Probe, nothing
from core.errors import Busy, Defect, SlotkeeperError, Superseded, Trouble, TroubleName, classed
from core.ports.progress import Rows
from core.ports.source import SlotAdmin


@dataclass(frozen=True, slots=True)
class Registration:
    """What is to be registered for a lane; `expected` is what both looks may show."""

    key: LaneKey
    shard: Shard
    epoch: int
    expected: Expected
    point: int
    xmin: XminChoice


LOCKED_SECONDS = 10.0
"""From the row's lock to the last send: a driver that stalls for longer may have lost the lock meanwhile."""


@dataclass(frozen=True, slots=True)
class _Limit:
    clock: Clock
    end: float

    def check(self) -> None:
        """Raise Busy once the time from the lock to a send is over (model: a stalled registrar hides a wipe)."""
        if self.clock.monotonic() > self.end:
            raise Busy("a registration took too long between its lock and its calls; nothing more was sent")


def register(admin: SlotAdmin, rows: Rows, wanted: Registration, clock: Clock, probe: Probe = nothing) -> Registered:
    """Register both points and write them into the row.

    After any error but a Trouble or Superseded it is not known what landed: the caller has to expect the old and the
    new points from then on, and to be sure that no call of ours is still on its way before it looks again.
    """
    with admin.pinned(), rows.registration(wanted.key, wanted.epoch) as lock:
        limit = _Limit(clock, clock.monotonic() + LOCKED_SECONDS)
        _clear_the_way(admin, rows)
        first = _read_status(admin, wanted)
        position = lock.row.position
        if position is None:
            raise Defect(f"{wanted.shard.name}: a lane without a position is not registered")
        back = ahead_of_row(first, position)
        if back:
            raise back
        if wanted.point > position.point:  # what we know to be committed is not there any more
            sentence = f"{wanted.shard.name}: the sink's row is at {position.text}, we had committed {wanted.point}"
            raise named(TroubleName.SINK_OLDER, sentence)
        xmin = _xmin(admin, wanted)
        probe("before_false")
        _both(admin, wanted, first, xmin, limit, probe)
        registered = Registered(wanted.point, wanted.point, xmin)
        lock.record(registered)
    return registered


def _clear_the_way(admin: SlotAdmin, rows: Rows) -> None:
    """Behind a new sink session may stand a sink that fell back, and with it an older driver whose row fits again.

    Its registrars are ended, or waited out by whoever called us (model: a wipe hidden after 12 moves without this).
    """
    if rows.generation <= admin.cleared_for:
        return
    admin.cleared_for = rows.generation
    if not admin.end_rivals():
        raise Busy("the sink connection is new, and whether an older registration is on its way is not known")


def widened(expected: Expected, point: int) -> Expected:
    """What statuses may show while it is not known whether `point` was registered."""
    return Expected(expected.live | {point}, expected.durable | {point}, expected.fingerprint)


def exactly(registered: Registered, fingerprint: str) -> Expected:
    """What statuses must show after a registration whose answer came."""
    return Expected(frozenset({registered.live}), frozenset({registered.durable}), fingerprint)


def _both(admin: SlotAdmin, wanted: Registration, first: SlotStatus, xmin: int, limit: _Limit, probe: Probe) -> None:
    limit.check()
    _one(admin, wanted, False, xmin)
    probe("after_false")
    second = _seen(admin, wanted.shard)
    now = Expected(frozenset({wanted.point}), frozenset({first.points.durable or 0}), wanted.expected.fingerprint)
    trouble = judge(second, now)
    if trouble:
        raise trouble
    probe("before_true")
    limit.check()
    _one(admin, wanted, True, xmin)
    probe("after_true")


def _one(admin: SlotAdmin, wanted: Registration, checkpoint: bool, xmin: int) -> None:
    nodes = admin.register(wanted.shard, wanted.point, checkpoint, xmin)
    if nodes != 1:
        flag = "true" if checkpoint else "false"
        raise Busy(f"{wanted.shard.name}: registering {flag} reached {nodes} of 1 nodes (partial registration)")


def _seen(admin: SlotAdmin, shard: Shard) -> SlotStatus:
    found = next((status for status in admin.read_status(shard) if status.shard == shard), None)
    if found is None:
        raise Busy(f"{shard.name} does not answer under its name; the DN set may have changed", where="source")
    return found


def _read_status(admin: SlotAdmin, wanted: Registration) -> SlotStatus:
    found = _seen(admin, wanted.shard)
    trouble = judge(found, wanted.expected)
    if trouble:
        raise trouble
    return found


def _xmin(admin: SlotAdmin, wanted: Registration) -> int:
    choice = wanted.xmin
    if choice.known is not None:
        return choice.known
    found = admin.xmin_at(wanted.shard, choice.ask_at) if choice.ask_at is not None else None
    return max(found, choice.fallback) if found is not None else choice.fallback


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling a lane gave: its position, what is registered now, or that rows came in between.

    `error` came after the position was moved, so both count; `certain` is False where a call may still be on its way.
    """

    position: Position
    registered: Registered | None = None
    waiting: bool = False
    error: SlotkeeperError | None = None
    wanted: int = 0
    certain: bool = True


def after_task(
    admin: SlotAdmin,
    rows: Rows,
    lane: Lane,
    epoch: int,
    status: tuple[int, int, int | None],
    clock: Clock,
    probe: Probe,
) -> Settled:
    """The registration of a lane whose task is in; `status` is (latest, xmin, highest point with rows)."""
    latest, status_xmin, top = status
    choice = choose_xmin(lane.position.point, latest, status_xmin, top, lane.registered.xmin)
    return register_at(admin, rows, lane, epoch, lane.position, choice, clock, probe)


def register_at(
    admin: SlotAdmin,
    rows: Rows,
    lane: Lane,
    epoch: int,
    position: Position,
    xmin: XminChoice,
    clock: Clock,
    probe: Probe,
) -> Settled:
    """Register a lane's position; an error comes back as a value, with the point that may have landed."""
    wanted = Registration(lane.key, lane.shard, epoch, lane.expected, position.point, xmin)
    try:
        return Settled(position, register(admin, rows, wanted, clock, probe), wanted=position.point)
    except Exception as error:  # whatever it was: it is not known what landed
        named = isinstance(error, Trouble | Superseded)
        return Settled(position, error=classed(error), wanted=position.point, certain=named or admin.end_rivals())
