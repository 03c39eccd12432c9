"""One binlog stream for all tables of a job: it is read and parsed once, and its rows are buffered for each table.

A lane reads ranges of its own table from here instead of opening a stream (`joined`). The feed guarantees nothing: a
range that it cannot supply completely is read by the lane itself, from its own position. This applies to a lane whose
position is before the buffered rows, to a table that was discarded because its lane is too slow, and to every table
while the stream is broken. The lane's fence decides what takes effect, regardless of where the rows come from.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.errors import SlotkeeperError, classed
from slotkeeper.core.sources.mysql.backlog import Backlog, Piece
from slotkeeper.core.sources.mysql.faults import is_used_twice
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.statements import Statement
from slotkeeper.core.sources.mysql.stream import FIRST_EVENTS, is_end, same, there
from slotkeeper.core.sources.mysql.transactions import Alive, End, Item, Table, TableRows

MOST_BYTES = 256 << 20
"""Maximum number of bytes that are buffered for all tables. If no lane waits for later rows, the stream then waits;
otherwise, the table with the most bytes is discarded."""
ANSWER_BYTES = 2 << 20
"""Number of bytes of blocks in one answer."""
MARKS = 8192
"""Number of the last positions without an open transaction that can end a range."""
WAIT_SECONDS = 2.0
"""Maximum time for which a lane waits for the stream: longer than the interval of the server's heartbeats, which report
that nothing was written."""
APART_SECONDS = 5.0
"""Time for which lanes read for themselves after the stream broke or was silent, or did not reach a lane's position."""
STEADY_SECONDS = 60.0
"""Time after which a stream counts as working again."""
FEW_FAILURES = 3
"""Number of consecutive streams that end early before the error is reported; at once if another replica ended one."""
MOST_RIVALS, RIVALS_SECONDS = 5, 600.0
"""Number of streams in a row that other replicas ended, each with another server_id, from which lanes read for
themselves for the second value in seconds: further tries would also end the other replica's streams."""
QUIET_SECONDS = 4.0
"""Time without an event, not even a heartbeat, after which the stream counts as silent. A server sends heartbeats every
second (`slotkeeper.core.sources.mysql.session.HEARTBEAT_SECONDS`)."""


NEAR_BYTES = 64 << 20
"""Maximum bytes by which the lane whose position the first stream starts at is behind the furthest lane of its file."""


def first_of(positions: Collection[MysqlPosition]) -> MysqlPosition:
    """Return the lowest of the positions that are near the highest one; lanes before it read for themselves first.

    A position with GTIDs is preferred: a stream that starts without them gives none to its lanes.

    >>> def at(number, offset): return MysqlPosition(f"b.{number:06d}", offset)
    >>> first_of([at(3, 900), at(3, 4), at(2, 4)]).shown, first_of([at(3, 4), at(3, 100 << 20)]).shown
    ('3:4', '3:104857600')
    """
    newest = max(positions, key=_key)
    near = [one for one in positions if one.number == newest.number and newest.offset - one.offset <= NEAR_BYTES]
    return min([one for one in near if one.gtids is not None] or near, key=_key)


def _key(position: MysqlPosition) -> tuple[int, int]:
    return position.number, position.offset


class Events(Protocol):
    """A stream, as `slotkeeper.core.sources.mysql.stream.Stream` implements it."""

    @property
    def here(self) -> MysqlPosition: ...
    @property
    def inside(self) -> bool: ...
    def events(self, blocking: bool) -> Generator[Item | None]: ...
    def sever(self) -> None: ...


Server = tuple[str, ...]
"""What identifies a server: `ServerFacts.identity`."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a table's items in (after, up_to], from block `number` on; the lane has reached `after`.

    `server` is the server of the session that read the lane's status: file names and offsets are valid only there.
    """

    server: Server
    table: Table
    after: MysqlPosition
    up_to: MysqlPosition
    number: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """A query for the tables that have items between their position in `places` and `up_to`."""

    server: Server
    up_to: MysqlPosition
    places: Mapping[Table, MysqlPosition]


@dataclass(frozen=True, slots=True)
class Answer:
    """Blocks of a range; `number` is the next one, None if there is none. `end` is the end of the whole range.

    `waits`: the stream is reading a long transaction, and the lane asks again.
    """

    pieces: Sequence[Piece]
    number: int | None
    end: MysqlPosition
    waits: bool = False


class Feed:
    """Reads the stream in a thread and answers requests; thread-safe.

    `begin` opens a stream at a position with one of many server_ids, which are numbered from 0, and returns it with its
    server. `at` is the position from which the first stream reads.
    """

    def __init__(
        self,
        begin: Callable[[MysqlPosition, int], tuple[Events, Server]],
        tables: Collection[Table],
        at: MysqlPosition,
        clock: Clock | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._begin, self._tables, self._most_bytes = begin, frozenset(tables), most_bytes
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._stream: Events | None = None
        self._server: Server = ()
        self._at: MysqlPosition | None = at
        """Where the next stream starts; None while one is read, and after a failure until a lane asks."""
        self._furthest: MysqlPosition | None = None
        """The last position that a lane has reached since the stream started or broke."""
        self._here: MysqlPosition | None = None
        """The last position without an open transaction; None while no stream is being read."""
        self._inside = False
        """Whether a transaction was open after the last item that was taken; the stream itself may be past it."""
        self._backlogs: dict[Table, Backlog] = {}
        """The buffered rows of each table that was not discarded."""
        self._bytes = 0
        self._open: set[Table] = set()
        """The tables with items in the open transaction."""
        self._marks: deque[MysqlPosition] = deque(maxlen=MARKS)
        self._waiting = 0
        """The number of lanes that wait for the stream to advance."""
        self._apart_until = 0.0
        self._apart: dict[Table, float] = {}
        """The time until which the lanes of single tables read for themselves, in monotonic seconds."""
        self._taken = 0
        """The number of the stream's items, without heartbeats."""
        self._taken_at = 0.0
        """When the stream was last ready for the next item, in monotonic seconds."""
        self._full = False
        """Whether the stream waits for free buffer space, and is therefore not silent."""
        self._began_at = 0.0
        self._failures = self._rivals = self._id = 0
        """Numbers of consecutive streams that ended early, and that other replicas ended; the server_id's number."""
        self._error: SlotkeeperError | None = None
        """The error that ended the last stream."""
        self._reported: SlotkeeperError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="slotkeeper-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the stream and discard all rows."""
        with self._changed:
            self._closed = True
            stream = self._stream
            self._changed.notify_all()
        if stream is not None:
            stream.sever()
        self._thread.join(WAIT_SECONDS)
        with self._changed:
            self._discard_all()

    # -- the stream ---------------------------------------------------------------------------------------------------

    @property
    def error(self) -> SlotkeeperError | None:
        """The error because of which streams end; None once a stream has been read for `STEADY_SECONDS`."""
        return self._reported

    def _run(self) -> None:
        while (at := self._next_start()) is not None:
            error: Exception | None = None
            try:
                self._read(at)
            except Exception as raised:
                error = raised
            with self._changed:
                self._apart_until = self._clock.monotonic() + self._seconds_apart(error)
                self._stream = self._here = None
                self._discard_all()
                self._changed.notify_all()

    def _seconds_apart(self, error: Exception | None) -> float:
        """Record why the stream ended; return for how long lanes read for themselves.

        A stream that another replica ended is reported when the next one starts: a driver whose job another driver has
        taken over, with the same server_id, does not start one.
        """
        early = self._clock.monotonic() - self._began_at < STEADY_SECONDS
        self._error = None if error is None else classed(error)
        self._failures = self._failures + 1 if early else 1
        if self._error is None or not is_used_twice(self._error):
            if self._failures >= FEW_FAILURES:
                self._reported = self._error
            return APART_SECONDS
        self._rivals = self._rivals + 1 if early else 1
        self._id += 1
        return RIVALS_SECONDS if self._rivals % MOST_RIVALS == 0 else APART_SECONDS

    def _next_start(self) -> MysqlPosition | None:
        with self._changed:
            while self._at is None and not self._closed:
                self._changed.wait()
            at, self._at, self._furthest = self._at, None, None
            self._apart.clear()
            self._taken_at = self._began_at = self._clock.monotonic()
            if self._closed or at is None:
                return None
            if self._error is not None and is_used_twice(self._error):
                self._reported = self._error
            self._backlogs = {table: Backlog(at) for table in self._tables}
            return at

    def _read(self, at: MysqlPosition) -> None:
        stream, server = self._begin(at, self._id)
        with self._changed:
            self._stream, self._server = stream, server
        with closing(stream.events(blocking=True)) as events:
            for number, item in enumerate(events, 1):
                with self._changed:
                    if self._closed:
                        return
                    self._take(item)
                    self._inside = stream.inside
                    # the first events prove that the position's file is the server's file of that name
                    if not self._inside and number >= FIRST_EVENTS:
                        self._mark(stream.here, item)
                    self._make_room()

    def _take(self, item: Item | None) -> None:
        self._taken += not isinstance(item, Alive)
        if isinstance(item, TableRows):
            self._add((item.table.schema, item.table.table), item)
        elif isinstance(item, Statement):
            for table in self._backlogs:
                self._add(table, item)
        elif isinstance(item, End):
            for table in tuple(self._open):
                self._add(table, item)
        if isinstance(item, Statement | End) and is_end(item):
            self._open.clear()

    def _add(self, table: Table, item: TableRows | Statement | End) -> None:
        backlog = self._backlogs.get(table)
        if backlog is not None:
            before = backlog.bytes
            backlog.add(item)
            self._bytes += backlog.bytes - before
            self._open.add(table)

    def _mark(self, here: MysqlPosition, item: Item | None) -> None:
        sent = item.sent if isinstance(item, Alive) else None
        if sent is not None and sent.file == here.file and sent.offset > here.offset:
            here = here.moved(here.file, sent.offset)  # a heartbeat: the server sends nothing before this position
        if self._here is None or not same(self._here, here):
            self._marks.append(here)
        self._here = here
        if self._reported is not None and self._clock.monotonic() - self._began_at >= STEADY_SECONDS:
            self._reported, self._failures, self._rivals = None, 0, 0
        if self._waiting:
            self._changed.notify_all()

    def _make_room(self) -> None:
        """Wait until lanes have applied rows; if a lane waits for later rows, discard the table with the most rows."""
        self._full = self._bytes > self._most_bytes
        while self._bytes > self._most_bytes and not self._closed:
            if self._waiting:
                self._discard(max(self._backlogs, key=lambda table: self._backlogs[table].bytes))
            else:
                self._changed.wait()
        self._full, self._taken_at = False, self._clock.monotonic()

    def _discard(self, table: Table) -> None:
        backlog = self._backlogs.pop(table)
        self._bytes -= backlog.bytes
        backlog.close()
        self._open.discard(table)

    def _discard_all(self) -> None:
        for table in list(self._backlogs):
            self._discard(table)
        self._bytes = 0
        self._marks.clear()

    # -- requests -----------------------------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Answer | None:
        """Return the items of a range, or of its first part; None if the lane has to read the range for itself.

        Waits until the stream has reached the end of the range, for at most `WAIT_SECONDS`; after that, the lane asks
        again if the stream has read a part of the next transaction meanwhile.
        """
        with self._changed:
            now = self._clock.monotonic()
            apart = max(self._apart_until, self._apart.get(asked.table, 0.0))
            if self._closed or asked.table not in self._tables or now < apart:
                return None
            if (
                self._at is None and self._stream is None and not self._backlogs
            ):  # after a failure: start again at the furthest lane
                self._at = self._furthest = self._furthest or asked.after
                self._changed.notify_all()
            if not self._reaches(asked.after, now + WAIT_SECONDS):
                self._apart[asked.table] = self._clock.monotonic() + APART_SECONDS
                return None
            if self._furthest is None or there(asked.after, self._furthest):
                self._furthest = asked.after
            if asked.server != self._server or not self._joined(asked):
                return None
            taken = self._taken
            if not self._backlogs[asked.table].has_after(asked.after):
                self._reaches(asked.up_to, now + WAIT_SECONDS)
            stands = self._here is not None and same(self._here, asked.after) and not same(asked.after, asked.up_to)
            if stands and self._taken != taken and asked.table in self._backlogs:
                return Answer((), None, asked.after, waits=True)
            return self._found(asked)

    def find_news(self, asked: News) -> set[Table] | None:
        """Return the tables with items after their position, and those for which that is unknown.

        None if the stream has not read up to `up_to`; waits for that, for at most `WAIT_SECONDS`.
        """
        with self._changed:
            now = self._clock.monotonic()
            if self._closed or now < self._apart_until or not self._reaches(asked.up_to, now + WAIT_SECONDS):
                return None
            if asked.server != self._server:
                return None
            return {table for table, after in asked.places.items() if not self._has_none(table, after)}

    def _has_none(self, table: Table, after: MysqlPosition) -> bool:
        backlog = self._backlogs.get(table)
        return backlog is not None and there(after, backlog.since) and not backlog.has_after(after)

    def _found(self, asked: Asked) -> Answer | None:
        """Return the buffered items of a range; rechecks everything, because it may have changed during a wait."""
        backlog, end = self._backlogs.get(asked.table), self._end(asked)
        if not self._full and self._clock.monotonic() - self._taken_at > QUIET_SECONDS:
            self._apart_until = self._clock.monotonic() + APART_SECONDS
        if backlog is None or end is None or asked.server != self._server:
            return None
        if not there(asked.after, backlog.since) or not there(end, asked.after):
            return None
        before = backlog.bytes
        try:
            backlog.drop(asked.after)
            found = backlog.read(asked.after, end, asked.number, ANSWER_BYTES)
        finally:
            self._bytes += backlog.bytes - before
            self._changed.notify_all()
        return None if found is None else Answer(*found, end)

    def _joined(self, asked: Asked) -> bool:
        """Whether all items after the lane's position are buffered. A discarded table is buffered again from here on,
        so that its lane joins once it has read up to here for itself.
        """
        backlog = self._backlogs.get(asked.table)
        if backlog is None and self._here is not None and not self._inside:
            backlog = self._backlogs[asked.table] = Backlog(self._here)
        return backlog is not None and there(asked.after, backlog.since)

    def _reaches(self, place: MysqlPosition, until: float) -> bool:
        """Wait until the stream has reached a position; False if it does not within the time limit, or ends."""
        self._waiting += 1
        self._changed.notify_all()
        try:
            while not self._closed and (self._at is not None or self._stream is not None or self._backlogs):
                if self._here is not None and there(self._here, place):
                    return True
                if (left := until - self._clock.monotonic()) <= 0:
                    return False
                self._changed.wait(left)
            return False
        finally:
            self._waiting -= 1

    def _end(self, asked: Asked) -> MysqlPosition | None:
        """Return the end of the range: `up_to`, or the stream's position if that is before `up_to`.

        If `up_to` is not known to be a position without an open transaction, it is the end of the last block before
        `up_to`. None if there is no stream, or no such block.
        """
        if self._here is None or not there(self._here, asked.up_to):
            return self._here
        mark = self._marks[bisect_left(self._marks, _key(asked.up_to), key=_key)]
        if same(mark, asked.up_to):
            return mark
        backlog = self._backlogs.get(asked.table)
        last = backlog.last_end(asked.up_to) if backlog is not None else None
        return last if last is not None and not there(asked.after, last) else None
