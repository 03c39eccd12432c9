"""A step that writes rows and the progress row in separate transactions: prepare, decide, commit, settle (ADR 23).

The store's compare-and-swap decides the next range, and no other range is written until it is settled. A task that
finds a decided range finishes it first. If the sink stored a token, the task uses the token; otherwise it counts the
rows as repeats and writes them again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import BinaryIO

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.watch import explain_miss, stands_free, trouble
from slotkeeper.core.drivers.pipe import copy_line, rows_in, rows_of, size_of
from slotkeeper.core.errors import Busy, Defect, Refused, SlotkeeperError, TroubleName
from slotkeeper.core.ports.driver import NOTHING_OUT, Decisions
from slotkeeper.core.ports.sink import Batch, BatchSink, Fields, LabelSink, Top

IN_MEMORY = 8 << 20
"""Number of characters above which the rows of a step or chunk are buffered in a file instead of in memory, because the
end of a range is known only after the range has been read."""
_REPORT = "inspect it with `slotkeeper slots peek`, and report it; a new snapshot avoids it"


class StagedRows:
    """Rows that were read from a source and are buffered until they are written; can be iterated repeatedly.

    The buffer contains the rows as they were read; rows beyond IN_MEMORY are stored as COPY text in a file.
    """

    def __init__(self, reader: BinaryIO) -> None:
        self._waiting: list[Fields] = []
        self._file: BinaryIO | None = None
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
            yield from rows_of(self._file)
        yield from self._waiting

    def close(self) -> None:
        self._waiting = []
        if self._file is not None:
            self._file.close()

    def _keep(self, row: Fields) -> None:
        self.count += 1
        self._waiting.append(row)
        self._size += size_of(row)
        if self._size < IN_MEMORY:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` ends it
        self._file.write(b"".join(map(copy_line, self._waiting)))
        self._waiting, self._size = [], 0


def pair_of(row: Fields) -> tuple[int, int]:
    """Return the two numbers that order an event, as in `Position.pair`."""
    return int(row[0] or 0), int(row[1] or 0)


class StagedSink:
    """The common part of sinks with a separate store: staged rows, chunks, and the completion of a decided range."""

    encoding = Encoding.ROWS
    names_rows = False
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
        """Buffer the rows of a step; return their number."""
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
        """Discard the staged rows, and roll back an open transaction; a decided range stays decided."""
        self.forget()
        self._chunk = None
        self._beside.abandon()
        self.store.rest()

    def rest(self, session: str = "") -> None:
        """Prepare for the next task; `session` becomes the name of the store session."""
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
    """Implements `slotkeeper.core.ports.sink.StepSink` with a sink and a separate store; not shared between
    threads."""

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
