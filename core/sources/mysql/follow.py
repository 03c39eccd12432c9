"""A range of the stream: read on from where the last one ended, cut at a transaction's end, kept until it is decoded.

A stream costs a login and a dump, so one is read on and on; it is begun anew where another place is asked for, or
where it broke. Where a range ends is known only once it is read, so its rows wait undecoded, beyond a size in a file:
memory does not grow with a transaction.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO

from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.stream import Stream
from slotkeeper.core.sources.mysql.transactions import Alive, End, Item, TableRows

Ranged = TableRows | Statement | End
"""What a range has."""
IN_MEMORY = 8 << 20
"""Bytes of events that wait in memory."""
_FIRST_EVENTS = 2
"""ROTATE and FORMAT_DESCRIPTION, which a server sends at once (MySQL, "COM_BINLOG_DUMP")."""
MOST_BYTES = 15 << 20
"""A range ends with the transaction with which it has so many bytes of rows (min_bytes_sync_commit)."""


def there(one: MysqlPosition, other: MysqlPosition) -> bool:
    """Whether the first place is at or beyond the second in the files of one server, whatever GTIDs they name."""
    return (one.number, one.offset) >= (other.number, other.offset)


def same(one: MysqlPosition, other: MysqlPosition) -> bool:
    """Whether both name one place in the files of one server."""
    return (one.number, one.offset) == (other.number, other.offset)


class Follower:
    """Reads ranges of one stream after another; `begin` opens one at a place."""

    def __init__(self, begin: Callable[[MysqlPosition], Stream]) -> None:
        self._begin = begin
        self._stream: Stream | None = None
        self._events: Iterator[Item | None] = iter(())
        self.here: MysqlPosition | None = None
        """The place up to which the last range was read; None where it was left in the middle."""

    def read(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Ranged]:
        """What lies in (after, up_to], to the first place at or beyond `up_to` where no transaction is open.

        Whoever ends it before that, at an end of a transaction, calls `stop`; else the next range begins a stream anew.
        """
        if there(after, up_to):
            self.here = after
            return
        fresh = self._stand_at(after)
        while True:
            self.here = None
            try:
                item = self._next()
            except SlotkeeperError:
                self.close()
                if fresh:
                    raise
                fresh = self._open(after)  # the line of an earlier range broke meanwhile: once more before it counts
                continue
            fresh = True
            if item is not None and not isinstance(item, Alive):
                yield item
            if self._passed(item, up_to):
                return

    def _next(self) -> Item | None:
        for item in self._events:
            return item
        raise Unreachable("the server ended the stream", where="source")

    def _passed(self, item: Item | None, up_to: MysqlPosition) -> bool:
        stream = self._stream
        if stream is None or stream.inside:
            return False
        if there(stream.here, up_to):
            self.here = stream.here
            return True
        if isinstance(item, Alive) and item.sent is not None and _sent(item.sent, up_to):
            self.here = stream.here.moved(up_to.file, up_to.offset)
            return True
        return False

    def check(self, after: MysqlPosition) -> None:
        """Begin a stream there, unless one is there already: what the server says first tells whether its file is the
        one of the position. Raises Trouble (SOURCE OLDER) where it is another."""
        if not self._stand_at(after):
            return
        for _ in range(_FIRST_EVENTS):
            self._next()
        self.here = after

    def stop(self) -> MysqlPosition:
        """Stand where the stream is now, at an end of a transaction; that place."""
        assert self._stream is not None
        self.here = self._stream.here
        return self.here

    @property
    def inside(self) -> bool:
        """Whether a transaction is open where the stream is now."""
        return self._stream is not None and self._stream.inside

    def _stand_at(self, after: MysqlPosition) -> bool:
        """Whether another stream was begun for it."""
        if self._stream is not None and self.here is not None and same(self.here, after):
            return False
        return self._open(after)

    def _open(self, after: MysqlPosition) -> bool:
        self.close()
        self._stream = self._begin(after)
        self._events = self._stream.events(blocking=True)
        return True

    def close(self) -> None:
        """End the stream; safe to call twice."""
        stream, self._stream, self.here = self._stream, None, None
        self._events = iter(())
        if stream is not None:
            stream.close()


def _sent(sent: MysqlPosition, up_to: MysqlPosition) -> bool:
    """Whether a server has sent everything up to a place; a heartbeat knows 32 bits of its offset."""
    return sent.number > up_to.number or (sent.number == up_to.number and sent.offset >= up_to.offset & 0xFFFFFFFF)


class Spool:
    """The rows of a range (after, end], undecoded; `statement` is what stands in it that is no row."""

    def __init__(self, after: MysqlPosition, width: int = 0) -> None:
        self.after = after
        self.width = width
        self.end = after
        self.statement: Statement | None = None
        self.time = after.time
        self.bytes = 0
        """Of all rows that were added; `counted` of those that count."""
        self.counted = 0
        self._count = self._added = self._blocks = 0
        self._waiting: list[TableRows] = []
        self._size = 0
        self._file: BinaryIO | None = None

    @property
    def any(self) -> bool:
        """Whether the range has anything of a followed table."""
        return bool(self._count) or self.statement is not None

    def add(self, item: TableRows) -> None:
        """Rows of an event, which count once `ended` is called behind them."""
        self._added += 1
        self._waiting.append(item)
        size = len(item.rows.body)
        self.bytes += size
        self._size += size
        if self._size >= IN_MEMORY:
            self._put_away()

    def ended(self, end: MysqlPosition, time: int = 0) -> None:
        """A transaction has ended at `end`."""
        self.time = time or self.time
        self.end, self._count, self.counted = replace(end, time=self.time), self._added, self.bytes

    def rows(self) -> Iterator[TableRows]:
        """The rows that count, from the first on; may be gone through again."""
        left = self._count
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._blocks):
                block = pickle.load(self._file)  # noqa: S301 - a file without a name that this process wrote
                yield from block[:left]
                left = max(0, left - len(block))
        yield from self._waiting[:left]

    def close(self) -> None:
        """Forget them."""
        self._waiting = []
        if self._file is not None:
            self._file.close()

    def _put_away(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` ends it
        self._file.seek(0, 2)
        pickle.dump(self._waiting, self._file, pickle.HIGHEST_PROTOCOL)
        self._blocks += 1
        self._waiting, self._size = [], 0
