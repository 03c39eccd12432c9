"""Judging one status while a job runs: are both points still what we registered, is it still the same table? Pure.

Next door: `core.domain.start` compares at a start, where more is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.domain.position import Position
from core.domain.slot import Shard, SlotStatus
from core.domain.start import SAFE, cause
from core.errors import Trouble, TroubleName


@dataclass(frozen=True, slots=True)
class Expected:
    """What a status may show: the last registered points, two values each while an answer is outstanding."""

    live: frozenset[int]
    durable: frozenset[int]
    fingerprint: str


def judge(status: SlotStatus, expected: Expected) -> Trouble | None:
    """The trouble that a status shows, or None; SLOT LOST outranks SCHEMA CHANGED, which becomes its cause."""
    live, durable = status.points.both
    place = status.shard.name
    changed = status.fingerprint != expected.fingerprint
    if status.points.missing:
        cause = "; cause: the table was changed or made again" if changed else ""
        sentence = f"{place}: the slot holds {live}/{durable}, we registered {_said(expected)}{cause}"
        return trouble(TroubleName.SLOT_LOST, sentence)
    if changed:
        return trouble(TroubleName.SCHEMA_CHANGED, f"{place}: the table's columns or its oid changed")
    if live not in expected.live or durable not in expected.durable:
        sentence = f"{place}: the slot holds {live}/{durable}, we registered {_said(expected)}: someone else uses it"
        return trouble(TroubleName.SLOT_MOVED, sentence)
    return None


def ahead_of_row(status: SlotStatus, row: Position) -> Trouble | None:
    """SINK OLDER where the slot stands beyond the progress row while a job runs, or None.

    The slot follows the row, so this means that the sink fell back to an older copy of itself: what lies between may
    be purged, and an empty read would look like nothing to do (model: loss after 17 moves without this rule).
    """
    reached = max(status.points.live or 0, status.points.durable or 0)
    if reached <= row.point:
        return None
    sentence = f"{status.shard.name}: the slot is registered at {reached}, the sink's row is back at {row.text}"
    return trouble(TroubleName.SINK_OLDER, sentence)


def no_point(shards: Iterable[Shard], then: str, now: str) -> Trouble:
    """SLOT LOST for DNs that are there and answer no row for our slot: a server that does not create it when asked.

    `then` and `now` are the table's fingerprints: a difference is the cause.
    """
    names = ", ".join(shard.name for shard in sorted(shards))
    return trouble(TroubleName.SLOT_LOST, f"{names}: the source holds no point of this slot any more{cause(then, now)}")


def trouble(name: TroubleName, sentence: str) -> Trouble:
    """The error for a name of trouble, with what is safe to do as its hint."""
    return Trouble(sentence, SAFE[name], name=name)


def _said(expected: Expected) -> str:
    def either(points: frozenset[int]) -> str:
        return " or ".join(str(point) for point in sorted(points))

    return f"{either(expected.live)}/{either(expected.durable)}"
