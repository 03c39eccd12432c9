"""What resets have left in a target: the range that a lane must read before the target equals the source. Pure.

After a step back, each change that is applied puts an older value in the place of a newer one. The target is equal
again once the lane has read on without a gap. A reset that passes a part of that range leaves the older values there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.position import Position, further
from slotkeeper.core.domain.progress import STREAMING, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Check, Move

OLDER_STAY = "older values stay in the target in place of the changes that are not replayed"
STARTED = "the replay has started: start the job to finish it, or reset to a snapshot"
PASSED = "a later reset passed a part of the replay: undo that reset first, or reset to a snapshot"
COPIED = "the copy that the backup was taken in has ended: reset to a snapshot"
HALF = "some DNs would need a copy and others would not: leave --dn out"


@dataclass(frozen=True, slots=True)
class ToRead:
    """Reading from `since` or before, through `until`, makes a lane's target equal; it is, where they are the same."""

    since: Position
    until: Position


@dataclass(frozen=True, slots=True)
class LanePast:
    """A lane after some resets: what is to be read, and its row as the last of them left it; None before the first.

    `copies` counts the copies that were made between them.
    """

    to_read: ToRead | None = None
    left: ProgressRow | None = None
    copies: int = 0

    def at(self, row: ProgressRow) -> ToRead | None:
        """What is to be read now that the lane's row is this; None where nothing was ever copied."""
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
        """How many copies were made until the lane's row was this."""
        began = self.left is not None and self.left.state is LaneState.CREATING
        return self.copies + (began and row.state is not LaneState.CREATING)

    def after(self, move: Move) -> LanePast:
        """The lane after a reset."""
        to_read = self.at(move.seen.row)
        return LanePast(_passed(to_read, move) if to_read else None, move.to, self.copied(move.seen.row))


Pasts = Mapping[str, LanePast]


def touched(now: ProgressRow, then: ProgressRow) -> bool:
    """Whether something was applied to the lane's target between two moments, or may have been (a sink beside)."""
    return (now.changes, now.repeats) != (then.changes, then.repeats) or now.decided is not None


def _end(row: ProgressRow) -> Position:
    end = further(row.noted_end, row.position) if row.state is LaneState.CATCHING_UP else row.position
    assert end is not None
    return end


def _of_row(row: ProgressRow) -> ToRead:
    """A lane that has read without a gap since its copy, as far as is known."""
    assert row.position is not None
    return ToRead(row.position, _end(row))


def _read_on(was: ToRead, start: Position, at: Position, applied: bool) -> ToRead:
    """What is left, once the lane has read from `start` to `at` without a gap."""
    if start > was.since:
        return ToRead(was.since, max(was.until, at)) if applied else was
    if at >= was.until:
        return ToRead(at, at)
    return ToRead(at if applied else max(was.since, at), was.until)


def _passed(to_read: ToRead, move: Move) -> ToRead:
    """The same, where a reset passes a range that is known to hold no change."""
    at, to = move.before, move.to.position
    if at is None or to is None or move.skips or move.seen.lost or not at <= to_read.since < to:
        return to_read
    return ToRead(to, max(to, to_read.until))


def past(resets: Iterable[Sequence[Move]]) -> Pasts:
    """Each lane by its DN after the resets that were carried out, the oldest first."""
    found: dict[str, LanePast] = {}
    for moves in resets:
        for move in moves:
            name = move.seen.row.key.shard
            found[name] = found.get(name, LanePast()).after(move)
    return found


def leaves_older(past: LanePast, move: Move) -> bool:
    """Whether older values stay in the target for good: the lane will not read all that it must."""
    now, to = move.before, move.to.position
    to_read = past.at(move.seen.row)
    if now is None or to is None or to_read is None:
        return False
    older = to_read.since < to_read.until or to_read.since < now
    return older and _passed(to_read, move).since < to


def through(now: LanePast, then: LanePast, row: ProgressRow, saved: ProgressRow) -> Position | None:
    """The position that a lane must pass after an undo; None where its target is as it was at the backup."""
    to_read = now.at(row)
    if to_read is None or (not touched(row, saved) and now.copied(row) == then.copied(saved)):
        return None
    return to_read.until


def undo_check(moves: Iterable[Move], saved: Mapping[str, ProgressRow], now: Pasts, then: Pasts) -> Check:
    """No lane went back since the backup and has applied something: an undo would leave older values as equal."""
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
    return Check(name, not words, words or "no lane has replayed anything that it would not read again")


def _wrong(row: ProgressRow, saved: ProgressRow, now: LanePast, then: LanePast) -> str:
    """Why a lane's row cannot become again what a backup says, "" where it can."""
    if row.state in STREAMING and saved.state is LaneState.COPYING:
        return COPIED
    to_read, had = now.at(row), then.at(saved)
    if saved.state not in STREAMING or through(now, then, row, saved) is None:
        return ""
    assert to_read is not None and had is not None and saved.position is not None
    if to_read.since >= min(had.since, saved.position):
        return ""
    return STARTED if row.position is not None and to_read.since >= row.position else PASSED
