"""Decides what a lane does at a start, from its progress row and a status of its DN (design 4.5). Pure.

Each trouble names what is safe; none resumes at the newest point by itself. `node_change` compares the set of DNs.
It adopts DNs under a new name, known by their id, and new DNs that hold a point of the slot, because recording began
there at that point and everything older lies on the DNs that are known (tests/model/topology.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.errors import TroubleName

READINGS = "either the sink was restored to an older copy, or somebody moved the slot"
"""Both readings of a slot that is ahead of its row, where no record of our own tells which it is."""
ANEW = "copy anew"
"""How the text ends where a new copy is safe; whoever knows the job puts the commands behind it."""
SAFE = {
    TroubleName.SLOT_LOST: "never resume from here, what is missing is in no binlog any more: copy anew",
    TroubleName.SLOT_MOVED: (
        "by hand: find out whether the sink was restored to an older copy, and bring the newer one back where that can"
        " be; where it was not, find who else uses this slot, and stop that; then copy anew"
    ),
    TroubleName.PROGRESS_LOST: (
        "by hand: restore slotkeeper_progress and the target from one backup of the sink, and start the job; or drop"
        " the slot (slots drop), set on_existing to replace or merge, and start it; without rows a reset is refused"
    ),
    TroubleName.SOURCE_OLDER: (
        "by hand: find out whether the source was restored from a backup, and whether the older state is meant: the"
        " target may be the last copy of the rest; then copy anew"
    ),
    TroubleName.SINK_OLDER: (
        "by hand: find out whether the sink was restored from a backup, and bring the newer one back where that can be;"
        " or copy anew"
    ),
    TroubleName.TARGET_CHANGED: (
        "by hand: find the session that changed the target in the sink's log, and revert an altered column, trigger,"
        " rule or policy; then copy anew"
    ),
    TroubleName.SCHEMA_CHANGED: "by hand: bring the target's columns in line; then copy anew",
    TroubleName.TOPOLOGY_CHANGED: "the DNs are taken as they are where you copy anew",
    TroubleName.POSITIONS_DIFFER: (
        "by hand: find out whether the source was rebuilt or failed over, and which one is meant; then copy anew"
    ),
    TroubleName.QUARANTINE_FULL: (
        "by hand: take away at the sink what refuses the rows (`slotkeeper errors list JOB` has those in quarantine),"
        " or raise quarantine_limit in [jobs.JOB.sink_options]; then `slotkeeper jobs start JOB`; then"
        " `slotkeeper errors replay JOB --all --reason TEXT`"
    ),
}
"""What a person may do without losing more, per name of trouble; `slotkeeper.core.domain.remedy` says how it is
written."""


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


def compare(row: ProgressRow | None, status: SlotStatus, others_begun: bool = False) -> StartDecision:
    """Decide for one DN from what the sink remembers and what the source holds.

    `others_begun`: a start has registered for other channels of the job, so that what they share may be theirs.
    """
    if row is None or row.state is LaneState.CREATING:
        return _created(row, status, others_begun)
    refused = _slot_trouble(row, status)
    if refused:
        return refused
    if row.fingerprint != status.fingerprint:
        what = _what_changed(row.fingerprint, status.fingerprint)
        return _refuse(TroubleName.SCHEMA_CHANGED, f"{status.shard.name}: {what}")
    if row.position is not None and status.latest < row.position:
        newest, here = status.latest.shown, row.position.shown
        sentence = f"{status.shard.name}: the source's newest point {newest} is below our {here}"
        return _refuse(TroubleName.SOURCE_OLDER, sentence)
    return StartDecision(StartAction.COPY if row.state is LaneState.COPYING else StartAction.STREAM)


def by_record(
    decision: StartDecision, row: ProgressRow, status: SlotStatus, recorded: Position | None
) -> StartDecision:
    """SINK OLDER in place of SLOT MOVED, where our own record says that we had come as far as the slot stands.

    `recorded` is where this lane stood by the last report of its job on this machine, None where there is none: the
    sink alone cannot tell a slot that somebody moved from rows that fell back to a backup's.
    """
    here, there = row.position, status.kept.furthest
    if decision.trouble is not TroubleName.SLOT_MOVED or recorded is None or here is None or there is None:
        return decision
    if not here < there <= recorded:
        return decision
    sentence = (
        f"{status.shard.name}: the sink's row is back at {here.shown}, and by the last report of this machine we had"
        f" committed up to {recorded.shown}; the slot ({status.kept.shown}) stands where we registered it"
    )
    return _refuse(TroubleName.SINK_OLDER, sentence)


def is_first(row: ProgressRow) -> bool:
    """Whether nothing was registered under this row yet, nor about to be: its start has not passed its comparison.

    A start writes `registered` before its first registration (as what it saw), so that a kill in between
    leaves a row that knows of it; a reset to snapshot keeps what was registered.
    """
    return row.state is LaneState.CREATING and row.registered is None


def owes_copy(row: ProgressRow, keeps_positions: bool) -> bool:
    """Whether a row in state creating stands for a mirror that was there: a start without a copy would skip changes.

    Its job has applied some (`changes` is never set back), or a reset to snapshot has emptied it: then it has no
    position but says what was `registered`. A start without a copy that is broken off leaves neither. Before it knows
    its points, it writes that nothing was ever registered; where the source keeps no positions, it writes nothing, so
    that there whatever is `registered` without a position was left by a reset.
    """
    if row.changes > 0:
        return True
    ours = row.registered
    return row.position is None and ours is not None and (not keeps_positions or ours.furthest is not None)


def _created(row: ProgressRow | None, status: SlotStatus, others_begun: bool) -> StartDecision:
    """A lane that has no position to go on from: its slot is made, or made anew.

    Points that nobody of ours can have registered are another's: before the first registration any at all, afterwards
    those ahead of what was known and what was intended. Without an intended point (the server chose it, or a reset
    emptied the row) every point may be ours.
    """
    place, highest, there = status.shard.name, status.kept.furthest, status.kept.shown
    if row is None or row.registered is None:
        if highest is not None and not (status.kept.shared and others_begun):
            sentence = f"{place}: the slot holds points {there}, but the sink has no progress row for it"
            return _refuse(TroubleName.PROGRESS_LOST, sentence)
    elif row.position is not None and highest is not None:
        reached = max(row.position, row.registered.furthest or row.position)
        if highest > reached:
            sentence = f"{place}: the slot ({there}) is ahead of {reached.shown}, where our start was to register it"
            sentence += f": {READINGS}"
            return _refuse(TroubleName.SLOT_MOVED, sentence)
    return StartDecision(StartAction.CREATE)


def _slot_trouble(row: ProgressRow, status: SlotStatus) -> StartDecision | None:
    place, there, ours = status.shard.name, status.kept, row.position
    why = cause(row.fingerprint, status.fingerprint)
    if there.missing:
        sentence = f"{place}: our position is {ours.text if ours else '?'}, the slot holds {there.shown}"
        return _refuse(TroubleName.SLOT_LOST, sentence + why)
    if ours is not None and status.oldest is not None and status.oldest > ours:
        sentence = f"{place}: our position is {ours.text}, the binlog begins at {status.oldest.shown}"
        return _refuse(TroubleName.SLOT_LOST, sentence + why)
    if there.furthest is not None and (ours is None or there.furthest > ours):
        sentence = f"{place}: the slot ({there.shown}) is ahead of our position {ours.shown if ours else 'none'}"
        sentence += f": {READINGS}"
        return _refuse(TroubleName.SLOT_MOVED, sentence)
    known = row.registered
    if known and there.behind(known):
        sentence = f"{place}: the slot ({there.shown}) is behind what we registered ({known.shown})"
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
        return "the table was dropped and made again"
    return "the table's columns changed"


def _refuse(trouble: TroubleName, sentence: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, trouble, sentence)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What a start may adopt; `sentence` says what changed."""

    renamed: tuple[tuple[ProgressRow, Shard], ...]
    come: tuple[SlotStatus, ...]
    sentence: str

    @property
    def begins(self) -> Position | None:
        """Up to here nothing may be unread on the old DNs: where the last new one begins; None without new ones."""
        found = [status.kept.furthest for status in self.come]
        return max((place for place in found if place is not None), default=None)


def node_change(
    rows: Iterable[ProgressRow], statuses: Iterable[SlotStatus], nodes: Iterable[Shard], adopts: bool
) -> NodeChange | StartDecision | None:
    """None where the DNs are those of the rows; else what may be adopted, or TOPOLOGY CHANGED.

    `nodes` are the cluster's DNs; a DN counts as there where it is one of them or answers when it is asked. `adopts` is
    the parameter need_redistribution.
    """
    rows = list(rows)
    ours = {row.node_id: row for row in rows}
    seen = {status.shard.node_id: status for status in statuses}
    there = {shard.node_id: shard for shard in (*nodes, *(status.shard for status in seen.values()))}
    gone = [row for node, row in ours.items() if node not in there]
    come = [shard for node, shard in sorted(there.items()) if node not in ours]
    renamed = [(row, there[node]) for node, row in ours.items() if node in there and there[node].name != row.key.shard]
    if not (gone or come or renamed):
        return None
    parts = {
        "gone": sorted(row.key.shard for row in gone),
        "new": sorted(shard.name for shard in come),
        "renamed": sorted(f"{row.key.shard} to {shard.name}" for row, shard in renamed),
    }
    said = (f"{word} {', '.join(names)}" for word, names in parts.items() if names)
    sentence = "the DN set changed: " + "; ".join(said)
    if not adopts:
        return _refused(sentence, "need_redistribution = false adopts none")
    if gone:
        return _refused(sentence, "what was left unread on a DN that is gone cannot be told")
    if come and any(row.state is LaneState.COPYING for row in rows):
        return _refused(sentence, "this was during the copy, which is discarded")
    for shard in come:
        status = seen.get(shard.node_id)
        if status is None or not status.kept.settled:
            stands = "none" if status is None else status.kept.shown
            return _refused(sentence, f"since when {shard.name} records is not known, its points of the slot: {stands}")
    return NodeChange(tuple(renamed), tuple(seen[shard.node_id] for shard in come), sentence)


def left_unread(change: NodeChange, shards: Iterable[Shard]) -> StartDecision:
    """TOPOLOGY CHANGED where rows moved past changes that were not applied yet."""
    names = ", ".join(sorted(shard.name for shard in shards))
    begins = change.begins.shown if change.begins else "them"
    return _refused(change.sentence, f"changes before {begins} are left unread on {names}")


def _refused(sentence: str, why: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, TroubleName.TOPOLOGY_CHANGED, f"{sentence}; {why}")
