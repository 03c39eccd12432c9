"""The decisions of a reset: the new position of each lane, the preconditions, and the effect of moving back. Pure.

After a lane moves back, each applied change replaces a newer value with an older value. The target equals the source
again once the lane has read the same range again without a gap. A reset that skips a part of it leaves older values in
the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.domain.position import Kept, Position, further
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.reset import (
    EVERY,
    TTL_NEEDED,
    Check,
    Goal,
    LaneSeen,
    Move,
    ResetPlan,
    TargetKind,
)
from slotkeeper.core.domain.row_counts import CopyRows, Fate
from slotkeeper.core.domain.slot import Shard


def wanted(goal: Goal, seen: LaneSeen, read: Callable[[str], Position], resolved: Position | None = None) -> Position:
    """Return a lane's new position for a goal other than backup and snapshot; `resolved` is the position for a time.

    Events at the new position are read again; with `latest`, the position is never before changes that were already
    applied. `read` parses a position typed by the user.
    """
    old = seen.row.position
    assert old is not None, "rejected before: the copy has not started"
    if not goal.covers(seen.row.key.shard):
        return old
    if goal.kind is TargetKind.EARLIEST:
        return old if seen.first is None else min(old, seen.first.from_here)
    if goal.kind is TargetKind.LATEST:
        return old if seen.latest is None else max(old, seen.latest.from_here)
    if goal.kind is TargetKind.TIME:
        return old if resolved is None else resolved.from_here
    by_dn = dict(goal.points)
    point = by_dn.get(seen.row.key.shard, by_dn.get(EVERY))
    return old if point is None else read(point).from_here


def moved_rows(lanes: Iterable[LaneSeen], positions: Mapping[str, Position]) -> list[ProgressRow]:
    """Return the rows at their new positions; if one lane moves back, all are CATCHING UP up to their old positions.

    The state belongs to the job, so it is the same in all rows.
    """
    lanes = list(lanes)
    back = any(positions[seen.row.key.shard] < seen.row.position for seen in lanes if seen.row.position is not None)
    rows = []
    for seen in lanes:
        row, new = seen.row, positions[seen.row.key.shard]
        if back and row.state in (LaneState.RUNNING, LaneState.CATCHING_UP):
            row = _catching_up(row, row.position)
        rows.append(replace(row, position=new))
    return rows


def _catching_up(row: ProgressRow, was: Position | None) -> ProgressRow:
    noted = further(row.noted_end, was.place if was else None)
    return replace(row, state=LaneState.CATCHING_UP, noted_end=noted)


def emptied(row: ProgressRow, blank: Kept) -> ProgressRow:
    """Return the row that makes the next start register and copy again; `registered` retains the job's points.

    `blank` is the value for a slot without registered points.
    """
    ours = row.registered or blank
    return replace(row, position=None, state=LaneState.CREATING, noted_start=None, noted_end=None, registered=ours)


def restored(now: ProgressRow, then: ProgressRow, through: Position | None) -> ProgressRow:
    """Return the row of a backup with the counters of the current row.

    `through` is the position up to which the target has received the source's changes: target and source can be equal
    only after the lane has passed it. It is None if the target has not changed since the backup.
    """
    row = replace(then, epoch=now.epoch, changes=now.changes, repeats=now.repeats)
    behind = through is not None and then.position is not None and then.position < through
    return _catching_up(row, through) if behind and then.state in STREAMING else row


def same_state(rows: list[ProgressRow]) -> list[ProgressRow]:
    """Return all rows as CATCHING UP if one of them is, because the state belongs to the job."""
    states = {row.state for row in rows}
    if states != {LaneState.RUNNING, LaneState.CATCHING_UP}:
        return rows
    return [_catching_up(row, row.position) if row.state is LaneState.RUNNING and row.position else row for row in rows]


def slot_check(goal: Goal, lanes: Iterable[LaneSeen], there: str, part: str = "DN") -> Check:
    """Check that the slot exists on every DN; the dropped changes of a lost slot can be restored only by a copy."""
    name, lanes = "slot exists", list(lanes)
    if not any(seen.kept.marks for seen in lanes):
        return Check(name, True, "the source stores no positions, so none is missing")
    lost = [seen.row.key.shard for seen in lanes if seen.lost]
    if not lost:
        return Check(name, True, there)
    words = f"the slot is lost on {len(lost)} of {len(lanes)} {part}s ({', '.join(lost)})"
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"{words}; a snapshot creates it again")
    if goal.kind is TargetKind.BACKUP:
        return Check(name, None, f"{words}; the points can be restored only where another slot holds them")
    return Check(name, False, f"{words}: changes may be lost; only --to snapshot is safe")


def retained_check(goal: Goal, moves: Iterable[Move], kept_by_time: bool | None = None, part: str = "DN") -> Check:
    """Check that each lane's new position is certainly retained, and not after the newest point."""
    name = "position retained"
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, "not needed: the copy reads no old position")
    unsure: list[str] = []
    for move in moves:
        verdict = _retained(goal, move, kept_by_time)
        if verdict and verdict.startswith("?"):
            unsure.append(verdict[1:])
        elif verdict:
            return Check(name, False, verdict)
    if unsure:
        return Check(name, None, "; ".join(unsure))
    return Check(name, True, f"within the retained range of every {part}, and not beyond its newest point")


def _retained(goal: Goal, move: Move, kept_by_time: bool | None) -> str:
    """Return the reason why a lane's new position is not retained, with a leading "?" if that is unknown; else ""."""
    seen, new, place = move.seen, move.to.position, move.seen.row.key.shard
    if new is None:
        return ""
    if seen.lost and goal.kind is TargetKind.BACKUP and (seen.retained is None or seen.retained > new):
        return f"{place}: the slot is lost and no other slot holds {new.shown}; use --to snapshot"
    if new == move.before:
        return ""
    if seen.latest is None:
        return f"?{place}: its newest point is unknown"
    if new > seen.latest:
        return f"{place}: {new.shown} is beyond the newest point {seen.latest.shown}"
    if move.before is not None and new > move.before:
        return ""
    if seen.kept_from is None:
        return f"?{place}: its retained range is unknown"
    if new >= seen.kept_from:
        return ""
    kept = seen.kept_from.shown
    if goal.kind is TargetKind.TIME:
        return "" if kept_by_time else f"?{place}: changes before {kept} may have been purged"
    return f"{place}: {new.shown} is before {kept}, the oldest retained change; use earliest or a snapshot"


def nodes_check(goal: Goal, rows: Iterable[ProgressRow], shards: Iterable[Shard], part: str = "DN") -> Check:
    """Check that the source has the same DNs as the rows; `part` is the source's term for them."""
    name = f"same {part}s"
    ours = {(row.key.shard, row.node_id) for row in rows}
    theirs = {(shard.name, shard.node_id) for shard in shards}
    if ours == theirs:
        return Check(name, True, f"{len(ours)}, as in the progress rows")
    names = ", ".join(sorted(name for name, _ in ours ^ theirs))
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"changed ({names}); a snapshot adopts them")
    return Check(name, False, f"the {part} set changed: {names}; only --to snapshot is possible")


def table_check(goal: Goal, fingerprint: str, known: Iterable[str], compared: str) -> Check:
    """Check that the table matches the progress rows and the backup; `compared` names what was compared."""
    if set(known) == {fingerprint}:
        return Check("same table", True, f"{compared} match the progress rows")
    if goal.kind is TargetKind.SNAPSHOT:
        return Check("same table", True, "the table changed; a snapshot adopts it")
    return Check("same table", False, f"{compared}: some have changed; only --to snapshot is possible")


def columns_check(moves: Iterable[Move]) -> list[Check]:
    """Return a failed check if a lane would move across a statement that can have changed the table's columns.

    A lane reads all rows with the columns that its last position has.
    """
    for move in moves:
        again, skipped = move.read_again.reshaped or move.read_again.stopping, move.skipped.reshaped
        if again or skipped:
            why = f"the position is before `{again}`, whose rows can have other columns"
            if not again:
                why = f"the reset skips `{skipped}`, so later rows can have other columns"
            return [Check("same columns", False, f"{why}; only --to snapshot is possible")]
    return []


def changed_check(goal: Goal, target: str, why: str) -> Check:
    """Check that the reset does not discard a recorded TARGET CHANGED; after an undo, that error is reported again."""
    name = "same target"
    if not why:
        return Check(name, True, "no change to the target is recorded")
    said = f"target {target} {why}"
    if goal.kind is TargetKind.SNAPSHOT:
        return Check(name, True, f"{said}; a snapshot fixes it")
    if goal.kind is TargetKind.BACKUP:
        return Check(name, True, f"{said}; the next start reports it again")
    return Check(name, False, f"{said}; only --to snapshot is possible")


def time_check(left: float | None) -> Check:
    """Check that the slot does not expire before the job can start again."""
    if left is None:
        return Check("time to TTL", None, "unknown: the server does not report registration time or TTL")
    enough = left >= TTL_NEEDED
    return Check("time to TTL", enough, f"{left / 60:.0f} min left; at least {TTL_NEEDED / 60:.0f} min are needed")


def untouched_check(moves: Sequence[Move], epoch: int, ended: Iterable[tuple[ResetPlan, int]]) -> Check:
    """Check that the job has not been started since its rows were cleared, which might have rebuilt the target.

    The check applies if an undo restores cleared rows to a streaming state. `ended` contains the completed resets, the
    newest first, each with the epoch that it raised; any other later epoch belongs to a start. Epochs are compared, not
    times, because a sink's clock may have been set back.
    """
    name = "target unchanged"
    if not any(move.seen.row.state not in STREAMING and move.to.state in STREAMING for move in moves):
        return Check(name, True, "the restored rows belong to a copy, or have always belonged to a stream")
    for plan, raised in ended:
        if epoch != raised:
            break
        if all(move.seen.row.state in STREAMING for move in plan.moves):
            return Check(name, True, "the job has not been started since the rows belonged to a stream")
        epoch = plan.epoch
    said = "a job start since the rows were emptied may have rebuilt the target; for a new snapshot, start the job"
    return Check(name, False, said)


def rows_check(rows: CopyRows) -> Check:
    """Check that the rows of a target to be replaced were counted; the user must type the number of lost rows."""
    if rows.fate is Fate.UNSEEN:
        return Check("rows counted", False, f"{rows.sentence}; fix this, or use --on-existing merge")
    known = rows.fate is not Fate.UNTOLD and rows.source.number is not None
    return Check("rows counted", True if known else None, f"source {rows.source.text}, target {rows.target.text}")


def what_moved(plan: ResetPlan, fingerprint: str, lanes: Iterable[LaneSeen], shards: Iterable[Shard]) -> list[str]:
    """Return the differences from the plan, except for `latest`, which can advance."""
    before = {move.seen.row.key.shard: move for move in plan.moves}
    now = {seen.row.key.shard: seen for seen in lanes}
    found = [] if fingerprint == plan.fingerprint else ["the table (fingerprint)"]
    there = {shard.name for shard in shards} if plan.goal.kind is not TargetKind.SNAPSHOT else set(now)
    if before.keys() != now.keys() or there != set(before):
        return [*found, "the DN set"]
    for name, move in sorted(before.items()):
        found += [f"{name}: {words}" for words in _moved(move, now[name], plan.epoch)]
    return found


def moved_from(then: ProgressRow, now: ProgressRow) -> str:
    """Describe the differences between two versions of a row; "" if there are none."""
    if (now.position, now.state) != (then.position, then.state):
        return f"position {_said(then)} -> {_said(now)}"
    old, new = then.registered, now.registered
    return f"registered {_kept(old)} -> {_kept(new)}" if old != new else ""


def _kept(kept: Kept | None) -> str:
    return kept.shown if kept else "nothing"


def _moved(move: Move, now: LaneSeen, epoch: int) -> list[str]:
    then = move.seen
    found = []
    if now.row.epoch != epoch:
        found.append(f"epoch {epoch} -> {now.row.epoch}")
    if (now.row.position, now.row.state) != (then.row.position, then.row.state):
        found.append(f"position {_said(then.row)} -> {_said(now.row)}")
    if now.kept != then.kept:
        found.append(f"points {then.kept.shown} -> {now.kept.shown}")
    if move.back and now.first != then.first:
        found.append(f"first retained {_place(then.first)} -> {_place(now.first)}")
    return found


def _place(position: Position | None) -> str:
    return position.shown if position else "unknown"


def _said(row: ProgressRow) -> str:
    return f"{row.position.text if row.position else 'none'} {row.state.value}"


OLDER_STAY = "the target retains older values for the changes that are not replayed"
STARTED = "the replay has started: start the job to finish it, or reset to a snapshot"
PASSED = "a later reset skipped a part of the replay: undo that reset first, or reset to a snapshot"
COPIED = "the copy during which the backup was made has ended: reset to a snapshot"
HALF = "some DNs would need a copy and others would not: remove --dn"


@dataclass(frozen=True, slots=True)
class ToRead:
    """The range that a lane must read, from `since` or earlier through `until`, to make its target equal the source.

    If both positions are the same, the target already equals the source.
    """

    since: Position
    until: Position


@dataclass(frozen=True, slots=True)
class LanePast:
    """A lane after a series of resets: the range to read, and its row after the last reset; None before the first.

    `copies` counts the copies made between the resets.
    """

    to_read: ToRead | None = None
    left: ProgressRow | None = None
    copies: int = 0

    def at(self, row: ProgressRow) -> ToRead | None:
        """Return the range that the lane has to read, given this row; None if nothing was ever copied."""
        if row.position is None or row.state is LaneState.CREATING:
            return self.to_read
        left, was = self.left, self.to_read
        if left is None or was is None or left.position is None:
            return _of_row(row)
        if left.state is LaneState.COPYING:
            gap = left.position > was.since and row.state in STREAMING
            return ToRead(was.since, _end(row)) if gap else _of_row(row)
        return _read_on(was, left.position, row.position, touched(row, left))

    def copied(self, row: ProgressRow) -> int:
        """Return the number of copies made before the lane had this row."""
        began = self.left is not None and self.left.state is LaneState.CREATING
        return self.copies + (began and row.state is not LaneState.CREATING)

    def after(self, move: Move) -> LanePast:
        """Return the state of the lane after a further reset."""
        to_read = self.at(move.seen.row)
        return LanePast(_passed(to_read, move) if to_read else None, move.to, self.copied(move.seen.row))


Pasts = Mapping[str, LanePast]


def touched(now: ProgressRow, then: ProgressRow) -> bool:
    """Return whether the target received changes between two rows, or may have done so if the store is separate."""
    return (now.changes, now.repeats) != (then.changes, then.repeats) or now.decided is not None


def _end(row: ProgressRow) -> Position:
    end = further(row.noted_end, row.position) if row.state is LaneState.CATCHING_UP else row.position
    assert end is not None
    return end


def _of_row(row: ProgressRow) -> ToRead:
    """Return the range to read for a lane that has read without a known gap since its copy."""
    assert row.position is not None
    return ToRead(row.position, _end(row))


def _read_on(was: ToRead, start: Position, at: Position, applied: bool) -> ToRead:
    """Return the remaining range after the lane has read from `start` to `at` without a gap."""
    if start > was.since:
        return ToRead(was.since, max(was.until, at)) if applied else was
    if at >= was.until:
        return ToRead(at, at)
    return ToRead(at if applied else max(was.since, at), was.until)


def _passed(to_read: ToRead, move: Move) -> ToRead:
    """Return the range to read after a reset, which is shorter if the reset skips only positions without changes."""
    at, to = move.before, move.to.position
    if at is None or to is None or move.skips or move.seen.lost or not at <= to_read.since < to:
        return to_read
    return ToRead(to, max(to, to_read.until))


def past(resets: Iterable[Sequence[Move]]) -> Pasts:
    """Return the state of each lane, by DN, after the executed resets, which are ordered from oldest to newest."""
    found: dict[str, LanePast] = {}
    for moves in resets:
        for move in moves:
            name = move.seen.row.key.shard
            found[name] = found.get(name, LanePast()).after(move)
    return found


def leaves_older(past: LanePast, move: Move) -> bool:
    """Return whether older values remain in the target because the lane will not read the whole range."""
    now, to = move.before, move.to.position
    to_read = past.at(move.seen.row)
    if now is None or to is None or to_read is None:
        return False
    older = to_read.since < to_read.until or to_read.since < now
    return older and _passed(to_read, move).since < to


def through(now: LanePast, then: LanePast, row: ProgressRow, saved: ProgressRow) -> Position | None:
    """Return the position that a lane must pass after an undo; None if its target has not changed since the backup."""
    to_read = now.at(row)
    if to_read is None or (not touched(row, saved) and now.copied(row) == then.copied(saved)):
        return None
    return to_read.until


def undo_check(moves: Iterable[Move], saved: Mapping[str, ProgressRow], now: Pasts, then: Pasts) -> Check:
    """Check that no lane has been moved back and has applied changes since the backup.

    An undo would leave older values in the target, although the job would report source and target as equal.
    """
    name, moves, why = "replay not started", list(moves), dict[str, list[str]]()
    streams = {move.to.state in STREAMING for move in moves}
    if len(streams) > 1:
        return Check(name, False, HALF)
    for move in moves:
        shard = move.seen.row.key.shard
        if shard in saved and move.to != move.seen.row:
            wrong = _wrong(move.seen.row, saved[shard], now.get(shard, LanePast()), then.get(shard, LanePast()))
            why.setdefault(wrong, []).append(shard)
    why.pop("", None)
    words = "; ".join(f"{', '.join(sorted(shards))}: {wrong}" for wrong, shards in why.items())
    return Check(name, not words, words or "each lane would read again every change that it has replayed")


def _wrong(row: ProgressRow, saved: ProgressRow, now: LanePast, then: LanePast) -> str:
    """Return the reason why a lane's row cannot be restored from a backup; "" if it can."""
    if row.state in STREAMING and saved.state is LaneState.COPYING:
        return COPIED
    to_read, had = now.at(row), then.at(saved)
    if saved.state not in STREAMING or through(now, then, row, saved) is None:
        return ""
    assert to_read is not None and had is not None and saved.position is not None
    if to_read.since >= min(had.since, saved.position):
        return ""
    return STARTED if row.position is not None and to_read.since >= row.position else PASSED
