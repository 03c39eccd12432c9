"""Tells the source that a lane is done up to a position, under the progress row's lock (design 4.2 step 6).

What a server keeps, and how it is told, is the dialect's (`SlotAdmin.confirm`).
"""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Kept, Position, confirmable
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.watch import Expected, ahead_of_row, judge
from slotkeeper.core.domain.watch import trouble as named
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import Busy, Defect, SlotkeeperError, Superseded, Trouble, TroubleName, classed
from slotkeeper.core.ports.driver import Rows
from slotkeeper.core.ports.source import Confirmation, SlotAdmin


@dataclass(frozen=True, slots=True)
class Registration:
    """What is to be registered for a lane; `before` was registered last, `expected` is what a status may show now.

    `others` are the lanes of other channels for which the server keeps the same position. `committed` is what is known
    to be committed, where that is more; `seen` is the record of the check of the target that `position` rests on.
    """

    key: LaneKey
    shard: Shard
    epoch: int
    expected: Expected
    position: Position
    before: Kept
    others: tuple[LaneKey, ...] = ()
    committed: Position | None = None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """Up to where a lane may be registered: what stood when the last passed check began, and that check's record."""

    place: Position
    seen: str = ""


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


def register(admin: SlotAdmin, rows: Rows, wanted: Registration, clock: Clock, probe: Probe = nothing) -> Kept:
    """Register the position and write into the row what is kept now.

    After any error but a Trouble or Superseded it is not known what landed: the caller has to expect what was there
    and what was to be from then on, and to be sure that no call of ours is still on its way before it looks again.
    """
    with admin.pinned(), rows.registration(wanted.key, wanted.epoch, wanted.others) as lock:
        limit = _Limit(clock, clock.monotonic() + LOCKED_SECONDS)
        _clear_the_way(admin, rows)
        first = _read_status(admin, wanted)
        position = lock.row.position
        if position is None:
            raise Defect(f"{wanted.shard.name}: a lane without a position is not registered")
        for row in (lock.row, *lock.others):
            back = ahead_of_row(first, row.position) if row.position is not None else None
            if back:
                raise back
        committed = wanted.committed or wanted.position
        if committed > position:  # what we know to be committed is not there any more
            had = committed.text
            sentence = f"{wanted.shard.name}: the sink's row is at {position.text}, we had committed {had}"
            raise named(TroubleName.SINK_OLDER, sentence)
        place = wanted.position
        if wanted.others:
            place = confirmable(place, (row.position for row in lock.others), first.kept.furthest)
        asked = Confirmation(place, wanted.before, wanted.expected.fingerprint, limit.check, probe)
        registered = admin.confirm(first, asked)
        lock.record(registered, wanted.seen)
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


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling a lane gave: its position, what is registered now, or that rows came in between.

    `error` came after the position was moved, so both count; `sent`: something of it may have landed, of `asked`;
    `certain` is False where a call may still be on its way.
    """

    position: Position
    registered: Kept | None = None
    waiting: bool = False
    error: SlotkeeperError | None = None
    sent: bool = False
    certain: bool = True
    asked: Position | None = None


def register_at(
    admin: SlotAdmin,
    rows: Rows,
    lane: Lane,
    epoch: int,
    position: Position,
    clock: Clock,
    probe: Probe,
    others: tuple[LaneKey, ...] = (),
    proven: Proven | None = None,
) -> Settled:
    """Register a lane's position, as far as `others` and what is `proven` allow it; an error comes back as a value."""
    place, seen = (proven.place, proven.seen) if proven else (position, "")
    expected, before = lane.expected, lane.registered
    wanted = Registration(lane.key, lane.shard, epoch, expected, place, before, others, position, seen)
    try:
        return Settled(position, register(admin, rows, wanted, clock, probe))
    except Exception as error:  # whatever it was: it is not known what landed
        named = isinstance(error, Trouble | Superseded)
        return Settled(position, error=classed(error), sent=True, certain=named or admin.end_rivals(), asked=place)
