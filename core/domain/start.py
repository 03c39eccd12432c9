"""The start comparison: from a progress row and a look at its DN to one decision (design 4.5). Pure.

Each trouble names what is safe; none resumes at the newest point by itself.
Next door: `topology.py` compares the set of DNs; `core.engine.start` carries the decision out; `core.domain.watch`
judges looks while a job runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core.domain.progress import LaneState, ProgressRow
from core.domain.slot import Look
from core.errors import TroubleName

SAFE = {
    TroubleName.SLOT_LOST: "safe: verify the target, then take a new snapshot; never resume from here",
    TroubleName.SLOT_MOVED: "safe: find who else uses this slot (slots show), then verify or take a new snapshot",
    TroubleName.PROGRESS_LOST: "safe: restore the sink's slotkeeper_progress, or drop the slot and take a new snapshot",
    TroubleName.SOURCE_OLDER: "safe: find out whether the source was restored from a backup; then a new snapshot",
    TroubleName.SINK_OLDER: "safe: find out whether the sink was restored from a backup; then a new snapshot",
    TroubleName.SCHEMA_CHANGED: "safe: bring the target's columns in line, then take a new snapshot",
    TroubleName.TOPOLOGY_CHANGED: "safe: take a new snapshot (slots reset --to snapshot): it takes the DNs as they are",
    TroubleName.QUARANTINE_FULL: "safe: slotkeeper errors list JOB; cure the target, errors replay, jobs start",
}
"""What a person may do without losing more, per name of trouble."""


class StartAction(Enum):
    """What a start does with one lane."""

    CREATE = "create"
    COPY = "copy"
    STREAM = "stream"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class StartDecision:
    """One lane's answer; `trouble` and `sentence` are set only with REFUSE."""

    action: StartAction
    trouble: TroubleName | None = None
    sentence: str = ""

    @property
    def safe(self) -> str:
        """What is safe to do, or nothing where there is no trouble."""
        return SAFE[self.trouble] if self.trouble else ""


def compare(row: ProgressRow | None, look: Look, first_start: bool = False) -> StartDecision:
    """Decide for one DN from what the sink remembers and what the source holds.

    `first_start` is true in the very start that wrote the row: a slot with points then belongs to somebody else.
    """
    live, durable = look.points.both
    if row is None or (row.state is LaneState.CREATING and first_start):
        if live or durable:
            return _refuse(
                TroubleName.PROGRESS_LOST,
                f"{look.shard.name}: the slot holds points {live}/{durable}, but the sink has no progress row for it",
            )
        return StartDecision(StartAction.CREATE)
    if row.state is LaneState.CREATING:
        return StartDecision(StartAction.CREATE)
    refused = _slot_trouble(row, look)
    if refused:
        return refused
    if row.incarnation != look.incarnation:
        return _refuse(
            TroubleName.SCHEMA_CHANGED, f"{look.shard.name}: {_what_changed(row.incarnation, look.incarnation)}"
        )
    if row.position is not None and look.latest < row.position.point:
        sentence = f"{look.shard.name}: the source's newest point {look.latest} is below our {row.position.point}"
        return _refuse(TroubleName.SOURCE_OLDER, sentence)
    return StartDecision(StartAction.COPY if row.state is LaneState.COPYING else StartAction.STREAM)


def _slot_trouble(row: ProgressRow, look: Look) -> StartDecision | None:
    live, durable = look.points.both
    place = look.shard.name
    if look.points.missing or live is None or durable is None:
        ours = row.position.text if row.position else "?"
        sentence = f"{place}: our position is {ours}, the slot holds {live}/{durable}"
        sentence += cause(row.incarnation, look.incarnation)
        return _refuse(TroubleName.SLOT_LOST, sentence)
    reached = row.position.point if row.position else 0
    if max(live, durable) > reached:
        sentence = f"{place}: the slot ({live}/{durable}) is ahead of our position {reached}"
        return _refuse(TroubleName.SLOT_MOVED, sentence)
    known = row.registered
    if known and (live < known.live or durable < known.durable):
        sentence = f"{place}: the slot ({live}/{durable}) is behind what we registered ({known.live}/{known.durable})"
        return _refuse(TroubleName.SLOT_MOVED, sentence)
    return None


def cause(then: str, now: str) -> str:
    """Why a slot is lost, where the table is not the one of the rows any more; else nothing. Incarnations as text."""
    return f"; cause: {_what_changed(then, now)}" if then != now else ""


def _what_changed(then: str, now: str) -> str:
    old, new = then.split(":"), now.split(":")
    if old[:1] != new[:1]:
        return "another database answers under this address"
    if old[1:2] != new[1:2]:
        return "the table was dropped and made again (its oid changed)"
    return "the table's columns changed"


def _refuse(trouble: TroubleName, sentence: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, trouble, sentence)
