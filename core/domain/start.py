"""Choose the action of a start for a lane from its progress row and the status of its DN (design 4.5). Pure.

Each failure has a safe action; no action resumes at the newest point automatically. `node_change` compares the set of
DNs. It accepts renamed DNs, identified by their id, and new DNs that have a point of the slot: on a new DN, recording
started at that point, and all older changes are on the previous DNs (tests/model/topology.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.position import ANOTHER_HISTORY, Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.errors import TroubleName

READINGS = "either the sink was restored to an older copy, or another session moved the slot"
"""The two possible causes of a slot ahead of its progress row, if no record on this host decides between them."""
SNAPSHOT = "take a new snapshot"
"""The last part of a hint if a new copy is safe; callers that have the job's name append the commands."""
SAFE = {
    TroubleName.SLOT_LOST: "A start cannot continue, as no binlog retains the missing changes: take a new snapshot",
    TroubleName.SLOT_MOVED: (
        "Find out whether the sink was restored to an older copy. If it was, restore the newer one if possible; if"
        " not, find the other program that uses this slot, and stop it; then take a new snapshot"
    ),
    TroubleName.PROGRESS_LOST: (
        "Restore slotkeeper_progress and the target from one backup of the sink, and start the job; or drop the slot"
        " (slots drop), set on_existing to replace or merge, and start the job. Without progress rows, a reset is"
        " rejected"
    ),
    TroubleName.SOURCE_OLDER: (
        "Find out whether the source was restored from a backup, and whether the older state is intended: the target"
        " may be the last copy of the newer rows; then take a new snapshot"
    ),
    TroubleName.SINK_OLDER: (
        "Find out whether the sink was restored from a backup, and restore the newer state if it still exists; or take"
        " a new snapshot"
    ),
    TroubleName.TARGET_CHANGED: (
        "Find the session that changed the target in the sink's log, and revert the change if possible; then take a"
        " new snapshot"
    ),
    TroubleName.SCHEMA_CHANGED: "Alter the target's columns to match the source's; then take a new snapshot",
    TroubleName.TOPOLOGY_CHANGED: "To adopt the current DNs, take a new snapshot",
    TroubleName.POSITIONS_DIFFER: ANOTHER_HISTORY,
    TroubleName.QUARANTINE_FULL: (
        "`slotkeeper errors list JOB` shows the rows in quarantine; then fix the cause in the sink, or raise"
        " quarantine_limit in [jobs.JOB.sink_options]; then `slotkeeper jobs start JOB`; then"
        " `slotkeeper errors replay JOB --all --reason TEXT`"
    ),
}
"""The action that loses no further data, per `TroubleName`, in the format of `slotkeeper.core.domain.remedy`."""


class StartAction(Enum):
    """Actions of a start for one lane."""

    CREATE = "create"
    COPY = "copy"
    STREAM = "stream"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class StartDecision:
    """The decision for one lane; `trouble` and `sentence` are set only with REFUSE."""

    action: StartAction
    trouble: TroubleName | None = None
    sentence: str = ""

    @property
    def safe(self) -> str:
        return SAFE[self.trouble] if self.trouble else ""


def compare(row: ProgressRow | None, status: SlotStatus, others_begun: bool = False) -> StartDecision:
    """Decide for one DN from the sink's progress row and the source's status.

    `others_begun`: other channels of the job are already registered, so shared points can belong to those channels.
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
        sentence = f"{status.shard.name}: the source's newest point {newest} is before the job's position {here}"
        return _refuse(TroubleName.SOURCE_OLDER, sentence)
    return StartDecision(StartAction.COPY if row.state is LaneState.COPYING else StartAction.STREAM)


def by_record(
    decision: StartDecision, row: ProgressRow, status: SlotStatus, recorded: Position | None
) -> StartDecision:
    """Return SINK OLDER instead of SLOT MOVED if this host's record shows that the job had reached the slot's position.

    `recorded` is the lane's position in the job's last report on this host; None: no report. Based on the sink alone, a
    moved slot cannot be distinguished from progress rows that were restored from a backup.
    """
    here, there = row.position, status.kept.furthest
    if decision.trouble is not TroubleName.SLOT_MOVED or recorded is None or here is None or there is None:
        return decision
    if not here < there <= recorded:
        return decision
    sentence = (
        f"{status.shard.name}: the sink's progress row is back at {here.shown}, but the last report on this host shows"
        f" the job committed up to {recorded.shown}; the slot ({status.kept.shown}) is where the job registered it"
    )
    return _refuse(TroubleName.SINK_OLDER, sentence)


def is_first(row: ProgressRow) -> bool:
    """Return whether this row's start has not finished its comparison: no registration was completed or intended.

    A start writes the points that it saw to `registered` before its first registration, so that the row records the
    attempt even if the process is killed in between. A reset to snapshot retains `registered`.
    """
    return row.state is LaneState.CREATING and row.registered is None


def owes_copy(row: ProgressRow, keeps_positions: bool) -> bool:
    """Return whether a row in state creating belongs to an earlier mirror; a start without a copy would skip changes.

    Either the job has applied changes (`changes` is never reset), or a reset to snapshot has cleared the row, which
    then has no position but still has `registered`. Neither applies after an interrupted start without a copy. Before
    its points are known, such a start writes a `registered` without points. If the source stores no positions, the
    start writes nothing; with such a source, a `registered` without a position always comes from a reset.
    """
    if row.changes > 0:
        return True
    ours = row.registered
    return row.position is None and ours is not None and (not keeps_positions or ours.furthest is not None)


def _created(row: ProgressRow | None, status: SlotStatus, others_begun: bool) -> StartDecision:
    """Decide for a lane that has no position to resume from, so that its slot is created, or created again.

    Points that this job cannot have registered belong to another program. Before the first registration, this applies
    to any point; afterwards, to points ahead of both the known and the intended point. If there is no intended point
    (the server chose the point, or a reset cleared the row), any point can be this job's.
    """
    place, highest, there = status.shard.name, status.kept.furthest, status.kept.shown
    if row is None or row.registered is None:
        if highest is not None and not (status.kept.shared and others_begun):
            sentence = f"{place}: the slot holds points {there}, but the sink has no progress row for it"
            return _refuse(TroubleName.PROGRESS_LOST, sentence)
    elif row.position is not None and highest is not None:
        reached = max(row.position, row.registered.furthest or row.position)
        if highest > reached:
            sentence = (
                f"{place}: the slot ({there}) is ahead of {reached.shown}, which the job's start was about to register"
            )
            sentence += f": {READINGS}"
            return _refuse(TroubleName.SLOT_MOVED, sentence)
    return StartDecision(StartAction.CREATE)


def _slot_trouble(row: ProgressRow, status: SlotStatus) -> StartDecision | None:
    place, there, ours = status.shard.name, status.kept, row.position
    why = cause(row.fingerprint, status.fingerprint)
    if there.missing:
        sentence = f"{place}: the job's position is {ours.text if ours else 'unknown'}, the slot holds {there.shown}"
        return _refuse(TroubleName.SLOT_LOST, sentence + why)
    if ours is not None and status.oldest is not None and status.oldest > ours:
        sentence = f"{place}: the job's position is {ours.text}, but the binlog starts at {status.oldest.shown}"
        return _refuse(TroubleName.SLOT_LOST, sentence + (why if why != LAPSED else ""))
    if there.furthest is not None and (ours is None or there.furthest > ours):
        sentence = f"{place}: the slot ({there.shown}) is ahead of the job's position {ours.shown if ours else 'none'}"
        sentence += f": {READINGS}"
        return _refuse(TroubleName.SLOT_MOVED, sentence)
    known = row.registered
    if known and there.behind(known):
        sentence = f"{place}: the slot ({there.shown}) is behind the job's last registration ({known.shown})"
        return _refuse(TroubleName.SLOT_MOVED, sentence)
    return None


LAPSED = "; it expired, or another session cleared it"
"""The possible causes of a lost slot if its table has not changed; no server records which of them it was."""


def cause(then: str, now: str) -> str:
    """Return the cause of a lost slot: the change if the table's fingerprint has changed, else the possible causes."""
    return f"; cause: {_what_changed(then, now)}" if then != now else LAPSED


def _what_changed(then: str, now: str) -> str:
    old, new = then.split(":"), now.split(":")
    if old[:1] != new[:1]:
        return "another database answers at this address"
    if old[1:2] != new[1:2]:
        return "the table was dropped and created again"
    return "the table's columns changed"


def _refuse(trouble: TroubleName, sentence: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, trouble, sentence)


@dataclass(frozen=True, slots=True)
class NodeChange:
    """New and renamed DNs that a start can accept; `sentence` describes the change."""

    renamed: tuple[tuple[ProgressRow, Shard], ...]
    come: tuple[SlotStatus, ...]
    sentence: str

    @property
    def begins(self) -> Position | None:
        """The position up to which old DNs must be read: the latest start of any new DN; None without a new DN."""
        found = [status.kept.furthest for status in self.come]
        return max((place for place in found if place is not None), default=None)


def node_change(
    rows: Iterable[ProgressRow], statuses: Iterable[SlotStatus], nodes: Iterable[Shard], adopts: bool
) -> NodeChange | StartDecision | None:
    """Return None if the DNs match the rows; otherwise the new and renamed DNs, or a refusal (TOPOLOGY CHANGED).

    `nodes` are the cluster's DNs; a DN exists if it is among them or has a status. `adopts`: need_redistribution.
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
        return _refused(sentence, "need_redistribution = false does not adopt DNs")
    if gone:
        return _refused(sentence, "unread changes on a removed DN are unknown")
    if come and any(row.state is LaneState.COPYING for row in rows):
        return _refused(sentence, "the copy was in progress and is discarded")
    for shard in come:
        status = seen.get(shard.node_id)
        if status is None or not status.kept.settled:
            stands = "none" if status is None else status.kept.shown
            return _refused(sentence, f"the start of recording on {shard.name} is unknown (its points: {stands})")
    return NodeChange(tuple(renamed), tuple(seen[shard.node_id] for shard in come), sentence)


def left_unread(change: NodeChange, shards: Iterable[Shard]) -> StartDecision:
    """Return TOPOLOGY CHANGED for `shards` with unread changes from before the start of the new DNs."""
    names = ", ".join(sorted(shard.name for shard in shards))
    begins = change.begins.shown if change.begins else "them"
    return _refused(change.sentence, f"changes before {begins} are unread on {names}")


def _refused(sentence: str, why: str) -> StartDecision:
    return StartDecision(StartAction.REFUSE, TroubleName.TOPOLOGY_CHANGED, f"{sentence}; {why}")
