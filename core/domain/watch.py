"""Judging one status while a job runs: are both points still what we registered, is it still the same table? Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slotkeeper.core.domain.kept import Kept
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import SAFE, cause
from slotkeeper.core.errors import Trouble, TroubleName


@dataclass(frozen=True, slots=True)
class Expected:
    """What a status may show: what was registered last, and more while an answer is outstanding."""

    kept: frozenset[Kept]
    fingerprint: str

    def widened(self, to: Kept) -> Expected:
        """While it is not known how much of a registration of `to` has landed."""
        return replace(self, kept=self.kept.union(*(one.on_the_way(to) for one in self.kept)))

    @property
    def shown(self) -> str:
        """In words."""
        return " or ".join(sorted(one.shown for one in self.kept))


def exactly(registered: Kept, fingerprint: str) -> Expected:
    """What statuses must show after a registration whose answer came."""
    return Expected(frozenset({registered}), fingerprint)


def judge(status: SlotStatus, expected: Expected) -> Trouble | None:
    """The trouble that a status shows, or None; SLOT LOST outranks SCHEMA CHANGED, which becomes its cause."""
    place, there = status.shard.name, status.kept
    changed = status.fingerprint != expected.fingerprint
    if there.missing:
        cause = "; cause: the table was changed or made again" if changed else ""
        sentence = f"{place}: the slot holds {there.shown}, we registered {expected.shown}{cause}"
        return trouble(TroubleName.SLOT_LOST, sentence)
    if changed:
        return trouble(TroubleName.SCHEMA_CHANGED, f"{place}: the table was changed or made again")
    if there not in expected.kept and not _moved_on(there, expected):
        sentence = f"{place}: the slot holds {there.shown}, we registered {expected.shown}: someone else uses it"
        return trouble(TroubleName.SLOT_MOVED, sentence)
    return None


def _moved_on(there: Kept, expected: Expected) -> bool:
    """Whether other channels' lanes may have moved it: on, and `ahead_of_row` says how far at most."""
    return there.shared and not all(there.behind(one) for one in expected.kept)


def ahead_of_row(status: SlotStatus, row: Position) -> Trouble | None:
    """SINK OLDER where the slot stands beyond the progress row while a job runs, or None.

    The slot follows the row, so this means that the sink fell back to an older copy of itself: what lies between may
    be purged, and an empty read would look like nothing to do (model: loss after 17 moves without this rule).
    """
    reached = status.kept.furthest
    if reached is None or reached <= row:
        return None
    sentence = f"{status.shard.name}: the slot is registered at {reached.shown}, the sink's row is back at {row.text}"
    return trouble(TroubleName.SINK_OLDER, sentence)


def purged(status: SlotStatus, row: Position) -> Trouble | None:
    """SLOT LOST where the binlog begins behind a lane's position; or None, as where a server does not tell."""
    if status.oldest is None or not status.oldest > row:
        return None
    sentence = f"{status.shard.name}: our position is {row.text}, the binlog begins at {status.oldest.shown}"
    return trouble(TroubleName.SLOT_LOST, sentence)


def no_point(shards: Iterable[Shard], then: str, now: str) -> Trouble:
    """SLOT LOST for DNs that are there and answer no row for our slot: a server that does not create it when asked.

    `then` and `now` are the table's fingerprints: a difference is the cause.
    """
    names = ", ".join(shard.name for shard in sorted(shards))
    return trouble(TroubleName.SLOT_LOST, f"{names}: the source holds no point of this slot any more{cause(then, now)}")


def trouble(name: TroubleName, sentence: str) -> Trouble:
    """The error for a name of trouble, with what is safe to do as its hint."""
    return Trouble(sentence, SAFE[name], name=name)
