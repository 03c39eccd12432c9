"""A step that writes rows and the progress row in separate transactions (ADR 23).

The store's compare-and-swap decides the next range, and no other range is written until it is settled. A task that
finds a decided range finishes it first. `TwoPartSink` prepares, decides, commits and settles: if the sink stored a
token, the task uses the token; otherwise it counts the rows as repeats and writes them again.

`PlannedSink` writes with labels and two-phase commit: plan, send, arm, commit, settle (ADR 41). The store records the
planned range and its label before any row is sent, then the load that can be committed. No task commits another load.
Rows that the sink rejects are found before the plan and quarantined with it (ADR 50); a plan with such rows is
withdrawn, not sent again.
"""

from __future__ import annotations

import logging
import marshal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import BinaryIO

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import COPIED, LeftOut, Refusal, RowLeftOut
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import explain_miss, stands_free, trouble
from slotkeeper.core.drivers.pipe import rows_in, size_of
from slotkeeper.core.errors import Busy, Defect, ErrorKind, Refused, SlotkeeperError, TooLarge, Trouble, TroubleName
from slotkeeper.core.ports.driver import NOTHING_OUT, Decisions
from slotkeeper.core.ports.sink import Batch, BatchSink, Fields, LabelSink, Outcome, Top

IN_MEMORY = 8 << 20
"""Number of bytes above which the rows of a step or chunk are buffered in a file instead of in memory, because the end
of a range is known only after the range has been read."""
_WITHOUT_REFERENCES = 2
"""The version of marshal's format in which equal strings are repeated, which takes half of the time."""
FIELD_BYTES = 60
"""Bytes that Python needs per field of a row in addition to its characters."""
_REPORT = "inspect it with `slotkeeper slots peek`, and report it; a new snapshot avoids it"


class StagedRows:
    """Rows that were read from a source and are buffered until they are written; can be iterated repeatedly.

    The buffer contains the rows as they were read; rows beyond IN_MEMORY are stored in a file, in blocks. The rows stay
    tuples there, because COPY text would have to be parsed each time that the rows are read.
    """

    def __init__(self, reader: BinaryIO) -> None:
        self._waiting: list[Fields] = []
        self._file: BinaryIO | None = None
        self._blocks: list[int] = []
        self.count = self._size = 0
        try:
            for row in rows_in(reader):
                self._keep(row)
        except BaseException:
            self.close()
            raise

    def rows(self) -> Iterator[Fields]:
        if self._file is not None:
            self._file.seek(0)
            for size in self._blocks:
                yield from marshal.loads(self._file.read(size))  # noqa: S302 - this process wrote it to a nameless file
        yield from self._waiting

    def close(self) -> None:
        self._waiting = []
        if self._file is not None:
            self._file.close()

    def _keep(self, row: Fields) -> None:
        self.count += 1
        self._waiting.append(row)
        self._size += size_of(row) + len(row) * FIELD_BYTES
        if self._size < IN_MEMORY:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` ends it
        self._blocks.append(self._file.write(marshal.dumps(self._waiting, _WITHOUT_REFERENCES)))
        self._waiting, self._size = [], 0


def pair_of(row: Fields) -> tuple[int, int]:
    """Return the two numbers that order an event, as in `Position.pair`."""
    return int(row[0] or 0), int(row[1] or 0)


class StagedSink:
    """The common part of sinks with a separate store: staged rows, chunks, and the completion of a decided range."""

    encoding = Encoding.ROWS
    names_rows = False
    sweeps = None
    withdraws = False
    """Whether a planned range can be withdrawn, which frees the row at the same position."""

    def __init__(self, sink: BatchSink | LabelSink, store: Decisions) -> None:
        self._beside, self.store = sink, store
        self._staged: StagedRows | None = None
        self._chunk: tuple[LaneKey, int, int] | None = None
        """The chunk that has been written but not yet recorded: its key, epoch and number."""
        self._left_out_of_chunk = NOTHING_OUT

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        return self.store.read_row(key)

    def stage(self, reader: BinaryIO) -> int:
        self.forget()
        self._staged = StagedRows(reader)
        return self._staged.count

    def stage_isolating(self, reader: BinaryIO) -> int:
        raise _no_quarantine()

    def top(self, up_to: Position) -> Top:
        """Return the highest staged point and the highest sequence at `up_to`; raises Defect for an unknown event."""
        point = sequence = None
        last, _ = up_to.pair
        for row in self.kept().rows():
            at, number = pair_of(row)
            point = at if point is None else max(point, at)
            if at == last:
                sequence = number if sequence is None else max(sequence, number)
            if row[2] == "?":
                what = "the source sent an event of unknown type (not I, d, B or U); nothing applied"
                raise Defect(what, _REPORT, where="source")
        return Top(point, sequence)

    def decided_batch(self, key: LaneKey, after: Position, decided: Decided) -> Batch:
        """Return the rows of a decided range after a second read, exactly up to its end.

        Raises SLOT LOST if the source does not have all these rows.
        """
        staged, end = self.kept(), decided.end

        def rows() -> Iterator[Fields]:
            return (one for one in staged.rows() if pair_of(one) <= end.pair)

        count = sum(1 for _ in rows())
        if count != decided.rows:
            what = f"{key.shard}: the source returned {count} of the {decided.rows} rows planned up to {end.text}"
            raise trouble(TroubleName.SLOT_LOST, what)
        return Batch(key, label_of(after, end), count, rows)

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> None:
        self.forget()
        if self.store.settle(key, epoch, after, decided):
            return
        row = self.store.read_row(key)
        if row is None or row.epoch != epoch or row.position is None or row.position < decided.end:
            raise self.missed(key, epoch, after)

    def missed(self, key: LaneKey, epoch: int, after: Position) -> SlotkeeperError:
        """Return the error for a decided range that can no longer be finished."""
        row = self.store.read_row(key)
        if self.withdraws and stands_free(row, epoch, after):
            what = f"{key.shard}: another task has withdrawn the range planned at {after.text}"
            return Busy(f"{what}; reading it again", where="sink")
        reason = explain_miss(row, epoch, after)
        if isinstance(reason, Position):
            return Busy(f"{key.shard}: another task has completed the range at {after.text}", where="sink")
        return reason

    # -- chunks of a copy -------------------------------------------------------------------------------------------

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        self.forget()
        with closing(StagedRows(reader)) as staged:
            if not self.store.begin_chunk(key, epoch, number, staged.count):
                return None
            if staged.count:
                self._beside.write_chunk(Batch(key, f"chunk {number}", staged.count, staged.rows))
        self._chunk, self._left_out_of_chunk = (key, epoch, number), NOTHING_OUT
        return staged.count

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        raise _no_quarantine()

    def finish_chunk(self) -> None:
        assert self._chunk is not None, "copy_chunk() comes first"
        key, epoch, number = self._chunk
        self._chunk = None
        # another task may have recorded the same chunk; the next chunk, and the copy's end, detect a superseded task
        self.store.end_chunk(key, epoch, number, self._left_out_of_chunk)

    # -- the session ------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        self.forget()
        self._chunk = None
        self._beside.abandon()
        self.store.rest()

    def rest(self, session: str = "") -> None:
        self.forget()
        self._beside.rest()
        self.store.rest(session)

    def close(self) -> None:
        self.forget()
        self._beside.close()
        self.store.close()

    def kept(self) -> StagedRows:
        assert self._staged is not None, "stage() comes first"
        return self._staged

    def forget(self) -> None:
        if self._staged is not None:
            self._staged.close()
            self._staged = None


class TwoPartSink(StagedSink):
    """Implements `slotkeeper.core.ports.sink.StepSink` with a sink and a separate store; not thread-safe."""

    def __init__(self, sink: BatchSink, store: Decisions) -> None:
        super().__init__(sink, store)
        self._sink = sink

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Prepare, decide, commit and settle; return False if another task has the range."""
        if not rows:
            self.forget()
            return self.store.advance_empty(key, epoch, after, new)
        staged = self.kept()
        batch = Batch(key, label_of(after, new), rows, staged.rows)
        decided = Decided(new, self._sink.prepare(batch), rows)
        if not self.store.decide(key, epoch, after, decided):
            if decided.token:
                self._sink.discard(decided.token)
            self.forget()
            return False
        if not decided.token:
            self._sink.write(batch)
        elif not self._sink.commit(decided.token):
            self._write_again(key, epoch, after, decided, batch)
        self.settle(key, epoch, after, decided)
        return True

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        """Finish the row's decided range exactly up to its end, and no other range."""
        decided, after = row.decided, row.position
        assert decided is not None
        assert after is not None
        if not decided.token or not self._sink.commit(decided.token):
            read_again()
            self._write_again(key, epoch, after, decided, self.decided_batch(key, after, decided))
        self.settle(key, epoch, after, decided)

    def _write_again(self, key: LaneKey, epoch: int, after: Position, decided: Decided, batch: Batch) -> None:
        """Count the repeats, then write: a task killed in between has counted too many rows, never too few."""
        if not self.store.repeat(key, epoch, after, decided):
            raise self.missed(key, epoch, after)
        self._sink.write(batch)


def label_of(after: Position, end: Position) -> str:
    return f"after {after.text} up to {end.text}"


def _no_quarantine() -> SlotkeeperError:
    """Return the error for quarantining rows in a sink without trials, which the configuration also rejects."""
    return Refused("this sink cannot quarantine rows", 'set on_bad_row = "stop"', where="sink")


_LOG = logging.getLogger(__name__)
_SENT_AGAIN = 3
"""Maximum number of attempts of a task to send a range whose loads are aborted from outside the task."""
_ASKED_AGAIN = 5
"""Maximum number of compare-and-swap attempts if a miss leaves the row free because its plan was withdrawn."""
_REFUSALS = frozenset({ErrorKind.DATA, ErrorKind.OPERATOR, ErrorKind.OVERSIZE})
"""Errors that recur if the same rows are sent again: the task withdraws the plan and can plan the range differently."""


class PlannedSink(StagedSink):
    """Implements `slotkeeper.core.ports.sink.StepSink` with a label sink and the store; not thread-safe."""

    withdraws = True

    def __init__(
        self, sink: LabelSink, store: Decisions, options: SinkOptions | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(sink, store)
        self._labelled = sink
        self._options = options or SinkOptions()
        self._clock = clock or SystemClock()
        self._isolating = False

    def stage_isolating(self, reader: BinaryIO) -> int:
        rows = self.stage(reader)
        self._isolating = True
        return rows

    def forget(self) -> None:
        super().forget()
        self._isolating = False

    def _isolated(self, staged: StagedRows, chunk: bool = False) -> Isolated:
        limit = self._options.quarantine_limit
        return Isolation(self._labelled, staged.rows, limit, chunk, self._clock.monotonic).isolated()

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Plan, send, arm, commit and settle; return False if another task has the range."""
        if not rows:
            self.forget()
            return self._swapped(key, epoch, after, lambda: self.store.advance_empty(key, epoch, after, new))
        staged = self.kept()
        batch, left_out = Batch(key, label_of(after, new), rows, staged.rows), NOTHING_OUT
        if self._isolating:
            isolated = self._isolated(staged)
            batch = replace(batch, count=len(isolated.keep), rows=lambda: isolated.rows(staged.rows))
            left_out = isolated.left_out
        elif self._options.quarantines and self.store.quarantined_any(key):  # the step can end existing entries
            keys = touched(staged.rows, self._labelled.key)
            left_out = LeftOut(self._labelled.columns, touched=keys, limit=self._options.quarantine_limit)
        planned = Decided(new, "", rows, self._labelled.label(batch))
        if not self._swapped(key, epoch, after, lambda: self.store.decide(key, epoch, after, planned, left_out)):
            self.forget()
            return False
        if batch.count:
            self._through(epoch, after, planned, batch)
        else:
            self.settle(key, epoch, after, planned)
        return True

    def _swapped(self, key: LaneKey, epoch: int, after: Position, swap: Callable[[], bool]) -> bool:
        """Compare-and-swap a free row; after a miss, retry if the row is free again, because its plan was withdrawn.

        A task of the same start, or a replay, can plan and withdraw at any time. If the row is free but no swap matches
        it, the caller reads the row again, finds it free, and reports a defect.
        """
        for _ in range(_ASKED_AGAIN):
            if swap():
                return True
            row = self.store.read_row(key)
            if stands_free(row, epoch, after):
                continue
            reason = explain_miss(row, epoch, after)
            if isinstance(reason, Busy):
                raise reason  # raise here, because the caller could read the row again and find it free
            return False
        return False

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        """Resolve the row's plan; calls `read_again` to send its rows again."""
        decided, after = row.decided, row.position
        assert decided is not None
        assert after is not None
        if decided.token and (decided := self._committed(key, epoch, after, decided)) is None:
            return
        if self._options.quarantines or decided.end == after:
            self._given_up(key, epoch, after, decided)
            return
        read_again()
        self._through(epoch, after, decided, self.decided_batch(key, after, decided))

    def _given_up(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> None:
        """Withdraw a plan whose rows certainly stay invisible; this removes its quarantine entries for omitted rows.

        A plan of width zero is a replay that was never committed: its entry stays in quarantine.
        """
        self._labelled.clear(decided.label)
        if not self.store.withdraw(key, epoch, after, decided):
            raise self.missed(key, epoch, after)

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        self.forget()
        with closing(StagedRows(reader)) as staged:
            isolated = self._isolated(staged, chunk=True)
            if not self.store.begin_chunk(key, epoch, number, staged.count):
                return None
            if isolated.keep:
                rows = Batch(key, f"chunk {number}", len(isolated.keep), lambda: isolated.rows(staged.rows))
                self._labelled.write_chunk(rows)
        self._chunk, self._left_out_of_chunk = (key, epoch, number), isolated.left_out
        return staged.count

    def _through(self, epoch: int, after: Position, decided: Decided, batch: Batch) -> None:
        """Take a plan, or a load that is certain to be aborted, through all phases until the position has advanced."""
        there: Decided | None = decided
        for _ in range(_SENT_AGAIN):
            if there is None:
                return
            load = self._sent(epoch, after, there, batch)
            if not load:
                self.settle(batch.key, epoch, after, there)
                return
            armed = replace(there, token=load)
            if not self.store.arm(batch.key, epoch, after, there, armed):
                self._labelled.abort(load)
                self.forget()
                raise self.missed(batch.key, epoch, after)
            there = self._committed(batch.key, epoch, after, armed)
        if there is not None:
            raise Busy(
                f"{batch.key.shard}: load {there.token} was aborted, as were all earlier loads of this step",
                where="sink",
            )

    def _sent(self, epoch: int, after: Position, planned: Decided, batch: Batch) -> str:
        """Send the load; withdraw a plan whose rows are rejected, because it would block every other range."""
        try:
            return self._labelled.send(batch, planned.label)
        except SlotkeeperError as error:
            if error.kind in _REFUSALS and not planned.token:
                self.store.withdraw(batch.key, epoch, after, planned)
            raise

    def _committed(self, key: LaneKey, epoch: int, after: Position, armed: Decided) -> Decided | None:
        """Commit and settle the load; return None, or the range in the row if its rows must be sent again."""
        outcome = self._labelled.commit(armed.label, armed.token)
        if outcome is Outcome.COMMITTED:
            self.settle(key, epoch, after, armed)
            return None
        if outcome is Outcome.ABORTED:
            return armed
        planned = replace(armed, token="")
        _LOG.warning(
            "%s: the sink no longer knows load %s or its label: sending %d rows up to %s again, as repeats",
            *(key.shard, armed.token, armed.rows, armed.end.text),
        )
        if not self.store.send_again(key, epoch, after, armed, planned):
            raise self.missed(key, epoch, after)
        return planned


LONGEST = 60.0
"""Maximum seconds for all trials of a step; a step that exceeds them is retried at half its width."""
_WRITES = frozenset({"I", "U"})
_EVENT = 3
"""The number of fields before the columns of an event."""

Rows = Callable[[], Iterator[Fields]]
Found = tuple[int, Refusal]
"""The number of a row in its step, and the reason for its rejection."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """The result for a step or chunk: the numbers of the rows to send, one per key, and the omitted rows."""

    keep: frozenset[int]
    left_out: LeftOut

    def rows(self, of: Rows) -> Iterator[Fields]:
        return (row for number, row in enumerate(of()) if number in self.keep)


class Isolation:
    """Finds the rows of a step or chunk that `sink` rejects, by trials, before the range is planned.

    A trial sends rows that never become visible, and counts the rejected rows. A set with rejected rows is halved until
    one row is left, for which the reason is queried. So about log2(rows) trials find a bad row, and the planned rows
    are certain to be accepted, even if a later driver finds the plan: the plan's own transaction quarantines the
    omitted rows (ADR 50). `limit`: the limit of the quarantine. `seconds`: the caller's clock.
    """

    def __init__(self, sink: LabelSink, rows: Rows, limit: int, chunk: bool, seconds: Callable[[], float]) -> None:
        self._sink, self._rows, self._limit, self._chunk = sink, rows, limit, chunk
        self._seconds = seconds
        self._end = seconds() + LONGEST
        self._skip = 0 if chunk else _EVENT

    def isolated(self) -> Isolated:
        """Try the last event of each key; if it is rejected, omit it and try the event before it."""
        stacks = self._stacks()
        left_out: list[RowLeftOut] = []
        last = {stack[-1]: key for key, stack in stacks.items()}
        first = True
        while last:
            found = dict(self._refused(sorted(last), self._limit if first else None))
            if first:
                left_out = list(self._left_out(found))
            for number in found:
                stacks[last[number]].pop()
            last = {stack[-1]: key for number in found if (stack := stacks[key := last[number]])}
            first = False
        keep = frozenset(stack[-1] for stack in stacks.values() if stack)
        touched = () if self._chunk else tuple(stacks)
        return Isolated(keep, LeftOut(self._sink.columns, tuple(left_out), touched, self._limit))

    def _stacks(self) -> dict[tuple[str, ...], list[int]]:
        """Return the numbers of each key's events, by point and sequence, without before-images of unchanged keys.

        DWS: an update is B, then U, at one sync point with consecutive sequences; the rows of a range are unordered.
        """
        events: dict[tuple[str, ...], list[tuple[int, int, int, str]]] = {}
        for number, row in enumerate(self._rows()):
            key = key_of(row, self._sink.key, self._skip)
            at = (0, number, number, COPIED) if self._chunk else (*pair_of(row), number, row[2] or "")
            events.setdefault(key, []).append(at)
        return {key: _those_that_count(sorted(some)) for key, some in events.items()}

    def _refused(self, numbers: Sequence[int], limit: int | None, known: int | None = None) -> Iterator[Found]:
        """Yield the rejected rows among `numbers`; `known` is the number of rejected rows, if it is known."""
        if not numbers or known == 0:
            return
        if self._seconds() > self._end:
            what = f"finding the rows that the sink rejects took longer than {LONGEST:.0f} s: too many rows"
            raise TooLarge(what, where="sink")
        if len(numbers) == 1:
            refused = self._sink.refusal(next(self._some(numbers)), self._chunk)
            if refused is not None:
                yield numbers[0], refused
            return
        count = self._sink.trial(lambda: self._some(numbers), len(numbers), self._chunk) if known is None else known
        if limit is not None and count > limit:
            raise self._full(numbers, count)
        if count <= 0:
            return
        middle = len(numbers) // 2
        left = 0
        for one in self._refused(numbers[:middle], None, middle if count == len(numbers) else None):
            left += 1
            yield one
        yield from self._refused(numbers[middle:], None, count - left)

    def _some(self, numbers: Iterable[int]) -> Iterator[Fields]:
        wanted = frozenset(numbers)
        return (row for number, row in enumerate(self._rows()) if number in wanted)

    def _left_out(self, found: dict[int, Refusal]) -> Iterator[RowLeftOut]:
        """Yield rejected writes to quarantine; other events have no effect, as the target has no row with that key."""
        for number, row in enumerate(self._rows()):
            refusal = found.get(number)
            if refusal is None or not (self._chunk or row[2] in _WRITES):
                continue
            key, texts = key_of(row, self._sink.key, self._skip), tuple(row[self._skip :])
            event = (0, -1, COPIED) if self._chunk else (*pair_of(row), row[2] or "")
            yield RowLeftOut(*event, key, texts, refusal)

    def _full(self, numbers: Sequence[int], count: int) -> Trouble:
        """Return QUARANTINE FULL for too many rejected rows at once; look for only one of them, to name its error."""
        what = f"the target rejects {count} rows at once, more than quarantine_limit = {self._limit}"
        one = next(iter(self._refused(numbers, None, count)), None)
        because = f"; one of them: {one[1].message}" if one else ""
        hint = SAFE[TroubleName.QUARANTINE_FULL]
        return Trouble(f"{what}{because}", hint, where="sink", name=TroubleName.QUARANTINE_FULL)


def key_of(row: Fields, places: Sequence[int], skip: int = _EVENT) -> tuple[str, ...]:
    """Return a row's key values as strings.

    >>> key_of(("1", "0", "I", "7", "x"), (0,))
    ('7',)
    """
    return tuple(row[skip + place] or "" for place in places)


def touched(rows: Rows, places: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return the distinct keys of a step's events."""
    return tuple(dict.fromkeys(key_of(row, places) for row in rows()))


def _those_that_count(events: Sequence[tuple[int, int, int, str]]) -> list[int]:
    """Return the numbers of one key's ordered events (point, sequence, number, kind), without updates' before-images.

    >>> _those_that_count([(7, 0, 4, "I"), (9, 0, 2, "B"), (9, 1, 3, "U"), (9, 5, 8, "B"), (9, 7, 1, "U")])
    [4, 3, 8, 1]
    """
    found: list[int] = []
    before: tuple[int, int, int, str] | None = None
    for one in events:
        if before is not None and (before[3], one[3]) == ("B", "U") and one[:2] == (before[0], before[1] + 1):
            found.pop()
        found.append(one[2])
        before = one
    return found
