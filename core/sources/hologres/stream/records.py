"""The changes of a table's binlog out of the streams of its shards: what `pages.py` reads by SQL, over another way.

Where a range ends is asked by SQL on either way: a stream says what comes next, not what there is. One stream for each
shard that this session has read last; none is kept for long (`ranges.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.sources.hologres.catalog import number_of
from slotkeeper.core.sources.hologres.changes import BEFORE, Change, Event, Left, changes
from slotkeeper.core.sources.hologres.faults import classify
from slotkeeper.core.sources.hologres.pages import Stretch
from slotkeeper.core.sources.hologres.stream.binary_row import LoggedRow
from slotkeeper.core.sources.hologres.stream.ranges import IDLE_SECONDS, WAIT_SECONDS, ShardRanges
from slotkeeper.core.sources.hologres.stream.session import ShardReader, StreamAsked
from slotkeeper.core.sources.hologres.stream.shard import START, ShardStream

MOST_STREAMS = 4
"""Streams that one session keeps open, for the lanes that have their turns over it: each is a walsender, of which a
server has few (its client knows "too many wal senders already")."""
Known = Callable[[], tuple[int, Sequence[Column]]]
"""The table's version and its columns as they are now."""


class Streams:
    """The streams of one session, by table and shard; one thread at a time reads, any may sever.

    One that nobody reads for `idle_seconds` is ended by a thread of its own, which lives while any is open: a worker
    whose lanes are quiet is asked for nothing.
    """

    def __init__(self, login: Login, idle_seconds: float = IDLE_SECONDS) -> None:
        self.login = login
        self._idle_seconds = idle_seconds
        self._open: dict[tuple[str, int], ShardRanges] = {}
        self._lock = threading.Lock()
        self._sweeping: threading.Timer | None = None

    def of(self, table: str, shard: int, options: BinlogOptions, known: Known, slot: str = "") -> ShardRanges:
        """The stream of a shard, which connects when it is read; the one that was read longest ago makes way.

        It is kept open until `done` is told of it.
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
        """A stream is not read any more for now."""
        with self._lock:
            read.busy = False
            self._sweep_later()

    def _sweep_later(self) -> None:
        if self._sweeping is None and self._open:
            self._sweeping = threading.Timer(self._idle_seconds / 2, self._sweep)
            self._sweeping.daemon = True
            self._sweeping.start()

    def _sweep(self) -> None:
        """End what nobody has read for long."""
        with self._lock:
            self._sweeping = None
            for key, one in list(self._open.items()):
                if one.idle_seconds >= self._idle_seconds:
                    one.sever()
                    del self._open[key]
                    one.close()
            self._sweep_later()

    def sever(self) -> None:
        """Cut all lines off, from any thread, without waiting."""
        for one in list(self._open.values()):
            one.sever()

    def close(self) -> None:
        """End all lines; safe to call twice."""
        with self._lock:
            if self._sweeping is not None:
                self._sweeping.cancel()
                self._sweeping = None
            while self._open:
                self._open.popitem()[1].close()


class StreamRecords:
    """The changes of one table over the streams of a session."""

    def __init__(self, streams: Streams, table: str, options: BinlogOptions, known: Known, slot: str = "") -> None:
        self._streams, self._table, self._options, self._slot = streams, table, options, slot
        self._ask = known
        self._columns: Sequence[Column] | None = None

    def changes(self, stretch: Stretch, columns: Sequence[Column], left: Left) -> Iterator[Change]:
        """What the stretch, which ends at a record's LSN, does to rows, in its order.

        Where its stream goes on from an earlier one, the row before an update with which that ended is at hand. A new
        one begins a record earlier, as a page does: where that is a row before an update, its other half comes now.
        After an error all streams of the session are ended: one of them may be what another is refused for.
        """
        if stretch.up_to <= stretch.after:
            return
        try:
            yield from self._changes(stretch, columns, left)
        except SlotkeeperError:
            self._streams.close()
            raise

    def _changes(self, stretch: Stretch, columns: Sequence[Column], left: Left) -> Iterator[Change]:
        ranges = self._streams.of(self._table, number_of(stretch.shard), self._options, self._known, self._slot)
        try:
            yield from self._of(ranges, stretch, columns, left)
        finally:
            self._streams.done(ranges)

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
        """The table's version and columns; SCHEMA CHANGED where they are others than when this began."""
        version, columns = self._ask()
        if self._columns is not None and shapes(columns) != shapes(self._columns):
            raise self._changed(f"version {version} of it has other columns")
        self._columns = columns
        return version, columns

    def _changed(self, what: str) -> Trouble:
        return trouble(TroubleName.SCHEMA_CHANGED, f"{self._table}: {what}")

    def _events(self, rows: Iterable[LoggedRow], columns: Sequence[Column]) -> Iterator[Event]:
        """Rows as a page has them: the columns that are asked for, in their order."""
        places: list[int] = []
        for row in rows:
            if not places:  # known once the first row has come
                known = [name for name, _ in shapes(self._columns or ())]
                if not {one.name for one in columns} <= set(known):
                    raise self._changed("it has columns that its stream has not")
                places = [known.index(one.name) for one in columns]
            yield Event(row.lsn, row.event, row.at_us, tuple(row.columns[place] for place in places))


def shapes(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Names and types, which a row's layout follows from."""
    return [(column.name, column.type) for column in columns]
