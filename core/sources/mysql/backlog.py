"""The rows of one table that the shared reader has read and the table's lane has not applied yet.

Items are stored in blocks, each of which is pickled once and passed on as bytes. The oldest blocks are in memory, all
others in files without a name: memory does not grow with a slow lane or with a large transaction.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import BinaryIO

from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.stream import Ranged, is_end, there
from slotkeeper.core.sources.mysql.transactions import TableRows

BLOCK_BYTES = 256 << 10
"""Number of bytes of row events after which a block is complete."""
IN_MEMORY = 2 << 20
"""Number of bytes of a table's blocks above which further blocks are stored in a file."""
STATEMENT_FACTOR = 32
"""Bytes in memory for each character of a statement, whose tokens are stored."""
FILE_BYTES = 32 << 20
"""Size in bytes from which a file gets no more blocks; it is closed once its blocks have been applied."""
_numbers = count(1)
"""Numbers of blocks, which are unique in this process."""


@dataclass(slots=True)
class _File:
    """A file of blocks; `blocks` is the number of its blocks that are still needed."""

    file: BinaryIO
    end: int = 0
    blocks: int = 0


@dataclass(slots=True)
class _Block:
    """Items after `begin`, the end of the table's last transaction before the first item.

    `end` is the end of the transaction of the last item, None while that transaction has not ended. The pickled items
    are `data` or, if they are in a file, `size` bytes from `at` on.
    """

    number: int
    begin: MysqlPosition
    end: MysqlPosition | None
    size: int
    data: bytes
    file: _File | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a range. `early`: it starts with items of earlier ranges; `late`: it ends with items of later ones."""

    data: bytes
    early: bool
    late: bool

    def items(self, after: MysqlPosition, up_to: MysqlPosition) -> Sequence[Ranged]:
        """Return the items of (after, up_to] in this block."""
        found: list[Ranged] = pickle.loads(self.data)  # noqa: S301 - from this job's own driver
        first, last = 0, len(found)
        if self.early:
            first = max((n + 1 for n, item in enumerate(found) if _ends_by(item, after)), default=0)
        if self.late:
            last = max((n + 1 for n, item in enumerate(found) if _ends_by(item, up_to)), default=0)
        return found[first:last]


def _ends_by(item: Ranged, place: MysqlPosition) -> bool:
    return not isinstance(item, TableRows) and is_end(item) and there(place, item.position)


class Backlog:
    """A table's items after `since`. Not thread-safe."""

    def __init__(self, since: MysqlPosition) -> None:
        self.since = since
        self.bytes = 0
        """Number of bytes of all blocks and of the items that are not in a block yet."""
        self._ended = self._begin = since
        """The end of the last transaction, and of the last one before the first item that is not in a block."""
        self._blocks: deque[_Block] = deque()
        self._items: list[Ranged] = []
        self._size = 0
        self._whole = self._whole_size = 0
        """Number of items that are not in a block and whose transaction has ended, and their bytes."""
        self._in_memory = 0
        self._file: _File | None = None

    def add(self, item: Ranged) -> None:
        """Add an item; the end of a transaction makes the items before it readable."""
        size = len(item.rows.body) if isinstance(item, TableRows) else 0
        if isinstance(item, Statement):
            size = STATEMENT_FACTOR * len(item.text)
        if self._whole and self._size + size >= BLOCK_BYTES:
            # an ended transaction is readable, so it shares no block with an open one
            self._pack(self._whole, self._whole_size)
        self._items.append(item)
        self._size += size
        self.bytes += size
        if not isinstance(item, TableRows) and is_end(item):
            self._ended = item.position
            self._whole, self._whole_size = len(self._items), self._size
            for block in reversed(self._blocks):
                if block.end is not None:
                    break
                block.end = self._ended
        if self._size >= BLOCK_BYTES:
            self._pack(len(self._items), self._size)

    def _pack(self, count: int, size: int) -> None:
        data = pickle.dumps(self._items[:count], pickle.HIGHEST_PROTOCOL)
        end = self._ended if count == self._whole else None
        block = _Block(next(_numbers), self._begin, end, len(data), data)
        self._blocks.append(block)
        self._items, self._size = self._items[count:], self._size - size
        self._whole = self._whole_size = 0
        self._begin = self._ended
        self.bytes += len(data) - size
        self._in_memory += len(data)
        if self._in_memory > IN_MEMORY:
            self._store(block)

    def _store(self, block: _Block) -> None:
        if self._file is None or self._file.end >= FILE_BYTES:
            self._file = _File(tempfile.TemporaryFile())  # noqa: SIM115 - closed with its last block
        file = self._file
        file.file.seek(file.end)
        file.file.write(block.data)
        file.file.flush()
        block.file, block.at, block.data = file, file.end, b""
        file.end += block.size
        file.blocks += 1
        self._in_memory -= block.size

    def read(
        self, after: MysqlPosition, up_to: MysqlPosition, number: int, most: int
    ) -> tuple[list[Piece], int | None] | None:
        """Return blocks of (after, up_to] from block `number` on (0: from the first), of about `most` bytes.

        The second value is the number of the next block of the range, None if there is none. The result is None if
        there is no block of that number: it belonged to an earlier backlog, whose blocks were cut at other places.
        """
        if self._whole:
            self._pack(self._whole, self._whole_size)
        if number and all(block.number != number for block in self._blocks):
            return None
        found: list[Piece] = []
        size = 0
        for block in self._blocks:
            if block.end is None or there(block.begin, up_to):
                break
            if block.number < number or there(after, block.end):
                continue
            if size >= most:
                return found, block.number
            early, late = not there(block.begin, after), not there(up_to, block.end)
            data = block.data
            if block.file is not None:
                block.file.file.seek(block.at)
                data = block.file.file.read(block.size)
            found.append(Piece(data, early, late))
            size += block.size
        return found, None

    def last_end(self, up_to: MysqlPosition) -> MysqlPosition:
        """Return the last position at or before `up_to` at which a block ends; `since` if there is none."""
        ends = [block.end for block in self._blocks if block.end is not None and there(up_to, block.end)]
        return ends[-1] if ends else self.since

    def has_after(self, after: MysqlPosition) -> bool:
        """Whether an ended transaction after a position is buffered."""
        return self._ended != after and there(self._ended, after)

    def drop(self, after: MysqlPosition) -> None:
        """Remove the blocks whose transactions all end at or before a position that the lane has reached."""
        while self._blocks and (end := self._blocks[0].end) is not None and there(after, end):
            self._remove(self._blocks.popleft())
            self.since = end

    def _remove(self, block: _Block) -> None:
        self.bytes -= block.size
        file = block.file
        if file is None:
            self._in_memory -= block.size
            return
        file.blocks -= 1
        if file.blocks == 0:
            with suppress(OSError):  # a full disk
                file.file.close()
            if file is self._file:
                self._file = None

    def close(self) -> None:
        while self._blocks:
            self._remove(self._blocks.popleft())
        self._items.clear()
        self.bytes = self._size = self._whole = self._whole_size = 0
