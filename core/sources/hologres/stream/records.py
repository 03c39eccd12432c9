"""Read the changes to a table's binlog from its shards' streams; the alternative to `changes.Pages`, which uses SQL.

The end of a range is always determined with SQL: a stream delivers the next rows, but does not report which rows exist.
A session has one stream for each shard that it read recently, and closes idle streams. `ShardRanges` returns ranges
(after, up_to] although the server pushes rows: rows after a range's end are buffered for the next range. A new stream
is opened for a range that starts at another position, or after a pause in which the server received no reply.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Busy, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.hologres.catalog import number_of
from slotkeeper.core.sources.hologres.changes import BEFORE, Change, Event, Left, Stretch, changes
from slotkeeper.core.sources.hologres.session import classify
from slotkeeper.core.sources.hologres.stream.shard import START, ShardReader, ShardStream, StreamAsked

Opened = Callable[[int], ShardReader]
"""Function that opens a reader of the shard; the reader starts after the given LSN."""
WAIT_SECONDS = 60.0
"""Seconds to wait for a row that the server has reported."""
BEHIND_SECONDS = 2.0
"""Seconds for which a stream can report no further row although SQL has shown one: the server's sender can lag."""
IDLE_SECONDS = 20.0
"""Seconds without a read after which a stream is closed; the next read reopens it. A stream occupies a walsender that
other clients may need, and the server disconnects a silent client (PostgreSQL, wal_sender_timeout: 60 s)."""


class ShardRanges:
    """Reads consecutive ranges of a shard. Not thread-safe, except that any thread can call `sever`."""

    def __init__(
        self,
        opened: Opened,
        wait_seconds: float = WAIT_SECONDS,
        clock: Clock | None = None,
        behind_seconds: float = BEHIND_SECONDS,
    ) -> None:
        self._opened, self._wait, self._clock = opened, wait_seconds, clock or SystemClock()
        self._behind = behind_seconds
        self._reader: ShardReader | None = None
        self._waiting: deque[Event] = deque()
        self._beats: set[int] = set()
        """LSNs of received heartbeats; a range can end at a heartbeat."""
        self._at = 0
        """LSN after which the next row follows, whether that row is buffered or not yet received."""
        self._last: Event | None = None
        """The last row that any range of this stream returned."""
        self._used = 0.0
        self.busy = False
        """Whether a reader uses this stream; set and cleared by the owner of the pool."""

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self.busy else self._clock.monotonic() - self._used

    def goes_on(self, after: int) -> bool:
        """Whether a range that starts after this LSN can be read from the open stream."""
        fresh = self._clock.monotonic() - self._used < IDLE_SECONDS
        return self._reader is not None and self._at == after and fresh

    def ended_with(self, lsn: int) -> Event | None:
        """Return the row at this LSN if the last range ended with it, else None."""
        return self._last if self._last is not None and self._last.lsn == lsn else None

    def rows(self, after: int, up_to: int) -> Generator[Event, None, None]:
        """Return the rows of (after, up_to] in order; `up_to` is the LSN of a record that exists on the server.

        Raises Busy if the server reports no more rows before that record, or skips that record, and Unreachable if
        nothing arrives. A range that ends between the before-row and the after-row of an update includes the
        before-row.
        """
        if not self.goes_on(after):
            self.close()
            self._reader = self._opened(after)
            self._at = after
        reader = self._reader
        assert reader is not None
        try:
            while self._at < up_to:
                while self._waiting and self._waiting[0].lsn <= up_to:
                    row = self._last = self._waiting.popleft()
                    self._at = row.lsn
                    yield row
                if self._at < up_to and up_to in self._beats:
                    self._at = up_to
                elif self._at < up_to and self._waiting:
                    what = f"continued at LSN {self._waiting[0].lsn} without the row at {up_to}"
                    raise self._again(reader, what)
                elif self._at < up_to:
                    self._more(reader, up_to)
        except BaseException:
            self.close()
            raise
        self._beats = {lsn for lsn in self._beats if lsn > up_to}
        self._used = self._clock.monotonic()

    def _more(self, reader: ShardReader, up_to: int) -> None:
        began = self._clock.monotonic()
        empty = False
        while True:
            limit = min(self._wait, self._behind) if empty else self._wait
            left = began + limit - self._clock.monotonic()
            delivered = reader.read(max(0.0, left))
            if delivered is not None:
                empty = empty or delivered.caught_up
                self._waiting.extend(delivered.rows)
                self._beats.update(lsn for lsn in delivered.beats if lsn > self._at)
                if delivered.rows or up_to in self._beats:
                    return
            if left <= 0 and empty:
                raise self._again(reader, f"reports no row after LSN {self._at}, but has a row at {up_to}")
            if left <= 0:  # heartbeats and repeated rows do not extend the limit
                what = f"sent nothing new within {self._wait:g} s, but has a row at LSN {up_to}"
                raise Unreachable(f"shard {reader.stream.shard} {what}", where="source")

    def _again(self, reader: ShardReader, what: str) -> Busy:
        said = f"shard {reader.stream.shard} {what}"
        return Busy(said, "retrying the same range; nothing skipped", where="source")

    def sever(self) -> None:
        reader = self._reader
        if reader is not None:
            reader.sever()

    def close(self) -> None:
        reader, self._reader = self._reader, None
        self._waiting.clear()
        self._beats.clear()
        self._last = None
        if reader is not None:
            reader.close()


MOST_STREAMS = 4
"""Maximum number of streams that one session keeps open for its lanes. Each occupies a walsender, and a server has few
of them (error: "too many wal senders already")."""
Known = Callable[[], tuple[int, Sequence[Column]]]
"""Function that returns the table's current version and columns."""


class Streams:
    """The streams of one session, by table and shard. Only one thread reads at a time; any thread can call `sever`.

    While a stream is open, a separate thread closes streams that have not been read for `idle_seconds`: a worker with
    idle lanes makes no call that could close them.
    """

    def __init__(self, login: Login, idle_seconds: float = IDLE_SECONDS) -> None:
        self.login = login
        self._idle_seconds = idle_seconds
        self._open: dict[tuple[str, int], ShardRanges] = {}
        self._lock = threading.Lock()
        self._sweeping: threading.Timer | None = None

    def of(self, table: str, shard: int, options: BinlogOptions, known: Known, slot: str = "") -> ShardRanges:
        """Return a shard's stream, which connects on its first read; may close the least recently read stream.

        The stream is not closed as idle until `done` is called.
        """
        with self._lock:
            found = self._found((table, shard), options, known, slot)
            found.busy = True
            return found

    def _found(self, key: tuple[str, int], options: BinlogOptions, known: Known, slot: str) -> ShardRanges:
        table, shard = key
        found = self._open.pop(key, None)
        if found is None:
            asked = StreamAsked(table, options.binlog_read_batch_size, options.enable_compression, slot=slot)

            def opened(after: int) -> ShardReader:
                stream = ShardStream(shard, known, max(START, after), options.enable_compression)
                return ShardReader(self.login, classify, asked, stream)

            wait = min(WAIT_SECONDS, options.binlog_read_timeout / 1_000) if options.binlog_read_timeout else None
            found = ShardRanges(opened, wait or WAIT_SECONDS)
        while len(self._open) >= MOST_STREAMS:
            self._open.pop(next(iter(self._open))).close()
        self._open[key] = found
        return found

    def done(self, read: ShardRanges) -> None:
        """Release a stream after a read."""
        with self._lock:
            read.busy = False
            self._sweep_later()

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._open:
            self._sweeping = threading.Timer(self._idle_seconds / 2, self._sweep)
            self._sweeping.daemon = True
            self._sweeping.start()

    def _sweep(self) -> None:
        with self._lock:
            self._sweeping = None
            for key, one in list(self._open.items()):
                if one.idle_seconds >= self._idle_seconds:
                    one.sever()
                    del self._open[key]
                    one.close()
            self._sweep_later()

    def sever(self) -> None:
        for one in list(self._open.values()):
            one.sever()

    def close(self) -> None:
        with self._lock:
            if self._sweeping is not None:
                self._sweeping.cancel()
                self._sweeping = None
            while self._open:
                self._open.popitem()[1].close()


class StreamRecords:
    """The changes to one table, read from the streams of a session."""

    def __init__(self, streams: Streams, table: str, options: BinlogOptions, known: Known, slot: str = "") -> None:
        self._streams, self._table, self._options, self._slot = streams, table, options, slot
        self._ask = known
        self._columns: Sequence[Column] | None = None

    def changes(self, stretch: Stretch, columns: Sequence[Column], left: Left) -> Iterator[Change]:
        """Return the changes of the stretch in order; the stretch ends at the LSN of a record.

        If the previous stretch ended at the before-row of an update, a stream that continues still has that row. A new
        stream starts one record earlier, as a page does: if that record is a before-row, its after-row is in this
        stretch. An error closes all streams of the session, because an open stream can be the reason why the server
        rejects another one.
        """
        if stretch.up_to <= stretch.after:
            return
        try:
            ranges = self._streams.of(self._table, number_of(stretch.shard), self._options, self._known, self._slot)
            try:
                yield from self._of(ranges, stretch, columns, left)
            finally:
                self._streams.done(ranges)
        except SlotkeeperError:
            self._streams.close()
            raise

    def _of(self, ranges: ShardRanges, stretch: Stretch, columns: Sequence[Column], left: Left) -> Iterator[Change]:
        going_on = ranges.goes_on(stretch.after)
        last = ranges.ended_with(stretch.after) if going_on else None
        rows = ranges.rows(stretch.after if going_on else stretch.after - 1, stretch.up_to)
        with closing(rows):
            events = self._events(chain((last,) if last else (), rows), columns)
            first = next(events, None)
            if first is not None and first.lsn > stretch.after:
                events, first = chain([first], events), None
            yield from changes(events, first if first is not None and first.type == BEFORE else None, left)

    def _known(self) -> tuple[int, Sequence[Column]]:
        version, columns = self._ask()
        if self._columns is not None and shapes(columns) != shapes(self._columns):
            raise self._changed(f"table version {version} has other columns")
        self._columns = columns
        return version, columns

    def _changed(self, what: str) -> Trouble:
        return trouble(TroubleName.SCHEMA_CHANGED, f"{self._table}: {what}")

    def _events(self, rows: Iterable[Event], columns: Sequence[Column]) -> Iterator[Event]:
        places: list[int] = []
        for row in rows:
            if not places:  # the columns are known only after the first row
                known = [name for name, _ in shapes(self._columns or ())]
                if not {one.name for one in columns} <= set(known):
                    raise self._changed("the binlog stream lacks columns of the table")
                places = [known.index(one.name) for one in columns]
            yield Event(row.lsn, row.type, row.us, tuple(row.values[place] for place in places))


def shapes(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return the names and types of the columns, which determine a row's layout."""
    return [(column.name, column.type) for column in columns]
