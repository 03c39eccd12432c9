"""Checks of a running lane: its status, and the reason why a progress row update did not match the fence. Pure.

Design 4.1 and 4.2. Lanes change state by compare-and-swap: from creating to copying, from copying to catching up, and
from catching up to running once the lane's own row has reached the point recorded for it. A lane without a copy changes
from creating to running; a lane without a stream changes from copying to running.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import LAPSED, SAFE, cause
from slotkeeper.core.errors import Busy, Defect, SlotkeeperError, Superseded, Trouble, TroubleName


@dataclass(frozen=True, slots=True)
class Expected:
    """The points that a status can show: the last registered points, and others while a registration is unanswered."""

    kept: frozenset[Kept]
    fingerprint: str

    def widened(self, to: Kept) -> Expected:
        """Return the points that are possible while it is unknown how much of a registration of `to` took effect."""
        return replace(self, kept=self.kept.union(*(one.on_the_way(to) for one in self.kept)))

    @property
    def shown(self) -> str:
        """The points as a string."""
        return " or ".join(sorted(one.shown for one in self.kept))


def exactly(registered: Kept, fingerprint: str) -> Expected:
    """Return the points that a status must show once a registration has been answered."""
    return Expected(frozenset({registered}), fingerprint)


OTHER_SERVER = "other server"
"""The code of an error about a status from another server than that of the progress row."""


def judge(status: SlotStatus, expected: Expected) -> Trouble | None:
    """Return the failure shown by a status, or None. SLOT LOST takes precedence, with SCHEMA CHANGED as its cause."""
    place, there = status.shard.name, status.kept
    changed = status.fingerprint != expected.fingerprint
    if there.missing:
        cause = "; cause: the table was changed or recreated" if changed else LAPSED
        sentence = f"{place}: the slot holds {there.shown}, but the job registered {expected.shown}{cause}"
        return trouble(TroubleName.SLOT_LOST, sentence)
    if changed and status.fingerprint.partition(":")[0] != expected.fingerprint.partition(":")[0]:
        found = trouble(TroubleName.SCHEMA_CHANGED, f"{place}: another server answers at the source's address")
        found.code = OTHER_SERVER
        return found
    if changed:
        return trouble(TroubleName.SCHEMA_CHANGED, f"{place}: the table was changed or recreated")
    # other channels' lanes can have moved the slot forward; `ahead_of_row` checks the limit
    moved_on = there.shared and not all(there.behind(one) for one in expected.kept)
    if there not in expected.kept and not moved_on:
        sentence = (
            f"{place}: the slot holds {there.shown}, but the job registered {expected.shown}: another program uses"
        )
        sentence += " it"
        return trouble(TroubleName.SLOT_MOVED, sentence)
    return None


def ahead_of_row(status: SlotStatus, row: Position) -> Trouble | None:
    """Return SINK OLDER if the slot is ahead of the progress row while a job is running, otherwise None.

    A job moves the slot only after it has updated the row, so the sink must have been restored to an older copy. The
    changes in between may be purged, and an empty read would look as if there were no changes (without this rule, the
    model has a counterexample of 17 steps that loses changes).
    """
    reached = status.kept.furthest
    if reached is None or reached <= row:
        return None
    there = f"{status.shard.name}: the slot is registered at {reached.shown}"
    sentence = f"{there}, but the sink's progress row is back at {row.text}"
    return trouble(TroubleName.SINK_OLDER, sentence)


def purged(status: SlotStatus, row: Position) -> Trouble | None:
    """Return SLOT LOST if the binlog starts after a lane's position; None if not, or if its start is unknown."""
    if status.oldest is None or not status.oldest > row:
        return None
    sentence = f"{status.shard.name}: the job's position is {row.text}, but the binlog starts at {status.oldest.shown}"
    return trouble(TroubleName.SLOT_LOST, sentence)


def no_point(shards: Iterable[Shard], then: str, now: str) -> Trouble:
    """Return SLOT LOST for existing DNs that return no row for the slot, on servers where queries create no slot.

    `then` and `now` are the table's fingerprints; if they differ, that is the cause.
    """
    names = ", ".join(shard.name for shard in sorted(shards))
    return trouble(TroubleName.SLOT_LOST, f"{names}: the source no longer holds a point of this slot{cause(then, now)}")


def trouble(name: TroubleName, sentence: str) -> Trouble:
    """Return the error for a `TroubleName`, with the safe action as its hint."""
    return Trouble(sentence, SAFE[name], name=name)


def stands_free(row: ProgressRow | None, epoch: int, after: Position | None) -> bool:
    """Return whether a row matches a step's compare-and-swap: same epoch and position, streaming, no decided range."""
    if row is None or row.epoch != epoch or row.decided is not None:
        return False
    return row.position is not None and row.position == after and row.state in STREAMING


def explain_miss(row: ProgressRow | None, epoch: int, after: Position | None = None) -> Position | SlotkeeperError:
    """Explain why the fenced UPDATE matched no row: the position to continue from, or the error to end with.

    `after` is None for a lane that is just starting.

    Positions are compared by value, because their strings do not sort in order. The row is read after the swap. If the
    sink can withdraw plans, a blocking plan may have ended by then, so callers with such a sink check `stands_free`
    first.
    """
    if row is None:
        return trouble(TroubleName.PROGRESS_LOST, "the progress row no longer exists in the sink")
    if row.epoch > epoch:
        return Superseded(
            f"another run has taken over (epoch {row.epoch}; this run has epoch {epoch})", "this run of the job ends"
        )
    older = after is not None and row.position is not None and row.position < after
    if row.epoch < epoch or row.position is None or older:
        was = row.position.text if row.position else "none"
        here = after.text if after else "no position"
        sentence = f"the sink's row is at {was} (epoch {row.epoch}), but the job was at {here}"
        return trouble(TroubleName.SINK_OLDER, sentence)
    if row.state not in STREAMING:
        sentence = f"the sink's row is back in state {row.state.value} (epoch {row.epoch}), in which no step commits"
        return trouble(TroubleName.SINK_OLDER, sentence)
    if row.position == after and row.decided is not None:
        what = f"the decided range from {after.text} to {row.decided.end.text} must finish first"
        return Busy(what, where="sink")
    if row.position == after:
        return Defect(f"the fence at {after.text} matched no row, although the row exists")
    return row.position


@dataclass(frozen=True, slots=True)
class Turn:
    """An all-or-nothing state change of a slot's `lanes` lanes from states in `came_from` to `to`, under the epoch."""

    epoch: int
    lanes: int
    came_from: tuple[LaneState, ...]
    to: LaneState


def explain_turn(rows: Sequence[ProgressRow], turn: Turn) -> SlotkeeperError:
    """Return the error for a state change that did not update every lane, based on the current rows."""
    newest = max((row.epoch for row in rows), default=0)
    if newest > turn.epoch:
        return Superseded(
            f"another run has taken over (epoch {newest}; this run has epoch {turn.epoch})",
            "this run of the job ends",
        )
    if len(rows) < turn.lanes:
        return trouble(TroubleName.PROGRESS_LOST, f"{len(rows)} of {turn.lanes} progress rows exist in the sink")
    behind = not_passed(rows, turn)
    if behind:
        row = behind[0]
        where = row.position.text if row.position else "none"
        noted = row.noted_end.shown if row.noted_end else "nothing"
        sentence = f"{row.key.shard}: the sink's progress row is back at {where}, but was already beyond {noted}"
        return trouble(TroubleName.SINK_OLDER, sentence)
    found = ", ".join(sorted({f"{row.state.value} (epoch {row.epoch})" for row in rows}))
    wanted = " or ".join(state.value for state in turn.came_from)
    sentence = f"the sink's rows are {found}, but the job left them {wanted} (epoch {turn.epoch})"
    return trouble(TroubleName.SINK_OLDER, sentence)


def not_passed(rows: Sequence[ProgressRow], turn: Turn) -> list[ProgressRow]:
    """Return the rows that block a change to running because they have not reached the position recorded for them."""
    if turn.to is not LaneState.RUNNING:
        return []
    return [
        row
        for row in rows
        if row.state in turn.came_from
        and row.noted_end is not None
        and (row.position is None or not row.position >= row.noted_end)
    ]


def explain_chunks(done: int, there: int, planned: int | None) -> SlotkeeperError:
    """Return the error for a copy that has not ended although the job copied all chunks, based on the sink's chunks.

    `planned` is the number of chunks recorded with the plan; None if the rows do not agree on it.
    """
    said = "the number of planned chunks is unknown" if planned is None else f"{planned} were planned"
    sentence = f"the sink holds {there} chunks, {done} of them done, and {said}: copied rows are missing"
    return trouble(TroubleName.SINK_OLDER, sentence)
