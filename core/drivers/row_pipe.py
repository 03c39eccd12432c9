"""Moves rows from a source to a sink through a bounded queue: neither encoded nor decoded where both have rows.

The one home of conversions between encodings: a source of COPY text is read as rows here once, and a row that goes
into COPY text is spelled here (`put`).
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from slotkeeper.core.drivers.copy_text import copy_line, rows_of

BLOCK, CHARACTERS = 256, 1 << 18
"""Rows that are handed over at once, fewer where they have as many characters."""
BLOCKS = 8
"""So many blocks wait at most."""

Fields = tuple[str | None, ...]


def put(out: BinaryIO, row: tuple[str | None, ...]) -> None:
    """One row into a batch: as it is where rows are wanted, else as a line of COPY text."""
    if isinstance(out, RowOut):
        out.put(row)
    else:
        out.write(copy_line(row))


def put_all(out: BinaryIO, rows: Iterable[tuple[str | None, ...]]) -> int:
    """Rows of one event into a batch, as `put` does; returns how many."""
    count = 0
    if isinstance(out, RowOut):
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last one is the number of rows
            out.put(row)
        return count
    lines = [copy_line(row) for row in rows]
    out.write(b"".join(lines))
    return len(lines)


def rows_in(reader: BinaryIO) -> Iterator[Fields]:
    """The rows of a batch, once: as they are where rows came, else read from COPY text."""
    return iter(reader) if isinstance(reader, RowIn) else rows_of(reader)


def size_of(row: Fields) -> int:
    """Characters of a row."""
    return sum(len(value) for value in row if value)


class _Queue:
    """Blocks of rows on their way; whoever puts waits while too many are."""

    def __init__(self) -> None:
        self._blocks: deque[list[Fields]] = deque()
        self._changed = threading.Condition()
        self._ended = self._left = False

    def put(self, block: list[Fields]) -> None:
        """Hand a block over; BrokenPipeError where nobody reads any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._left or len(self._blocks) < BLOCKS)
            if self._left:
                raise BrokenPipeError("nobody reads these rows any more")
            self._blocks.append(block)
            self._changed.notify_all()

    def end(self) -> None:
        """No more will come."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def leave(self) -> None:
        """No more will be read."""
        with self._changed:
            self._left = True
            self._blocks.clear()
            self._changed.notify_all()

    def blocks(self) -> Iterator[list[Fields]]:
        """What was handed over, until the end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._blocks or self._ended)
                if not self._blocks:
                    return
                block = self._blocks.popleft()
                self._changed.notify_all()
            yield block


class RowOut(io.RawIOBase, BinaryIO):
    """The source's end: rows by `put`, or COPY text by `write`, in pieces of any length."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__()
        self._queue = queue
        self._block: list[Fields] = []
        self._size = 0
        self._text = b""

    def put(self, row: Fields) -> None:
        """One row more."""
        self._block.append(row)
        self._size += size_of(row)
        if len(self._block) >= BLOCK or self._size >= CHARACTERS:
            self._hand_over()

    def write(self, text: Any) -> int:
        """COPY text, which is read as rows here and nowhere else."""
        *lines, self._text = (self._text + bytes(text)).split(b"\n")
        for row in rows_of(lines):
            self.put(row)
        return len(text)

    def writable(self) -> bool:
        """As a file that is written."""
        return True

    def close(self) -> None:
        """Hand over what is left, and end; safe to call twice."""
        if self.closed:
            return
        try:
            for row in rows_of([self._text] if self._text else []):
                self.put(row)
            self._hand_over()
        finally:
            self._queue.end()
            super().close()

    def _hand_over(self) -> None:
        block, self._block, self._size = self._block, [], 0
        if block:
            self._queue.put(block)


class RowIn(io.RawIOBase, BinaryIO):
    """The sink's end: an iterator over rows, once."""

    def __init__(self, queue: _Queue) -> None:
        super().__init__()
        self._queue = queue

    def __iter__(self) -> Any:
        """The rows in the order in which they were put."""
        for block in self._queue.blocks():
            yield from block

    def close(self) -> None:
        """Read no more; safe to call twice."""
        self._queue.leave()
        super().close()


def row_ends() -> tuple[RowIn, RowOut]:
    """Both ends of a queue of rows: the sink's, the source's."""
    queue = _Queue()
    return RowIn(queue), RowOut(queue)


def texts(row: Iterable[object]) -> Fields:
    """A row of values that the server already spelled, or counted, as fields."""
    return tuple(None if value is None else str(value) for value in row)
