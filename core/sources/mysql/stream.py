"""Read a binlog stream as a replica does, in ranges that end at the end of a transaction.

This module does not repair a broken stream: the reader opens a new stream at the last transaction end that it has
stored, and reads later events again. Opening a stream takes a login and a dump request, so a stream stays open across
ranges; a new stream is opened if another position is requested, or if the stream broke. The end of a range is known
only after the range has been read, so its rows are buffered without being decoded, and above a size limit they are
written to a file: memory does not grow with the size of a transaction.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeGuard

from slotkeeper.core.domain.spec import SyncOptions
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.mysql import faults, starts
from slotkeeper.core.sources.mysql.events import Parser, parts
from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.position import (
    FIRST_OFFSET,
    Gtids,
    MariaState,
    MysqlPosition,
    MysqlSet,
    parse_gtids,
)
from slotkeeper.core.sources.mysql.statements import Effect, Statement, judge
from slotkeeper.core.sources.mysql.transactions import (
    Alive,
    End,
    Item,
    PreparedRows,
    Table,
    TableRows,
    Transactions,
    aside,
    read_from,
)

SILENT_SECONDS = SyncOptions().stream_read_timeout / 1000
"""Default maximum time in seconds for which a stream can send nothing, not even a heartbeat."""
_LARGEST_OFFSET = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of a stream: the replica that reads, the tables whose rows are returned, whether the stream starts by
    GTID, how long it can be silent, and the index that identifies the tables' rows.

    `cascades_known` means that foreign keys that change rows without row events are allowed, and `every` that every
    statement is returned. `doubt` is called for DML as text that names no followed table, and returns the reason why it
    must not be skipped; "" if it can be skipped.
    """

    replica: my.Replica
    tables: Collection[Table]
    by_gtid: bool = False
    silent_seconds: float = SILENT_SECONDS
    key_index: str = "PRIMARY"
    cascades_known: bool = False
    every: bool = False
    doubt: Callable[[Statement], str] | None = None


class Stream:
    """A running stream; every call raises errors of `slotkeeper.core.errors`."""

    def __init__(
        self, connect: Callable[[], my.Session], place: str, user: str, start: MysqlPosition, reading: Reading
    ) -> None:
        self._place = place
        self._user = user
        self._reading = reading
        self._start = start
        self._transactions = Transactions(
            _dumped_from(start),
            reading.tables,
            by_gtid=reading.by_gtid,
            key_index=reading.key_index,
            cascades_known=reading.cascades_known,
            every=reading.every,
        )
        self._connect = connect
        self._dump: my.Dump | None = None
        self._parser = Parser()
        self._prepared = PreparedRows(
            lambda begin: read_from(connect, aside(reading.replica), Transactions(begin, reading.tables), begin),
            self._files,
            place,
        )
        self._releases = False

    @property
    def last(self) -> MysqlPosition:
        return self._transactions.last

    @property
    def here(self) -> MysqlPosition:
        """The position after the last event read; `inside` shows whether a transaction is open there."""
        return self._transactions.here

    @property
    def inside(self) -> bool:
        """Whether a transaction is open, or rows of a prepared XA transaction are still to be returned."""
        return self._transactions.inside or self._releases

    def items(self, blocking: bool) -> Iterator[Item]:
        """Yield the items up to the binlog's end; if `blocking`, never end, and yield heartbeats as `Alive`."""
        return (item for item in self.events(blocking) if item is not None)

    def events(self, blocking: bool) -> Generator[Item | None]:
        """Yield the same items as `items`, and None for each event that has no effect except that `here` advances."""
        try:
            dump = self._dump = self._begin(blocking)
            while (packet := dump.packet(self._reading.silent_seconds)) is not None:
                for event, inside in parts(self._parser.parse(packet, 1)):
                    item = self._transactions.take(event, inside)
                    if isinstance(item, Statement) and item.effect is Effect.INDIRECT:
                        item = examined(item, self._reading)
                    if _is_of_xa(item):
                        yield from self._given(item)
                    else:
                        yield None if item is not None and self._is_before(item) else item
        except my.DriverError as error:
            raise faults.of_stream(error, self._place, self._user, self._reading.replica.server_id) from error
        except BinlogError as error:
            raise faults.of_binlog(error, self._place, self.last.text) from error
        finally:
            self.close()

    def _given(self, item: TableRows | End) -> Iterator[Item | None]:
        """Return an item of an XA transaction, together with all rows that take effect with this item."""
        if self._is_before(item):
            self._prepared.pass_over(item)
            yield None
            return
        for one in self._prepared.take(item):
            self._releases = one is not item
            yield one

    def _files(self) -> list[starts.BinlogFile]:
        session = self._connect()
        try:
            return starts.binlog_files(session)
        finally:
            session.close()

    def read(self, up_to: MysqlPosition) -> Iterator[TableRows | Statement | End]:
        """Read exactly (start, up_to], both ends of transactions. Raise Refused if no transaction ends at `up_to`."""
        if not self._start < up_to:
            return
        for item in self.items(blocking=False):
            if isinstance(item, Alive):
                continue
            yield item
            if not is_end(item) or self.last < up_to:
                continue
            if up_to < self.last:
                raise self._refused(f"{up_to.text} is not the end of a transaction")
            return
        if self.last < up_to:
            raise self._refused(f"the binlog ends at {self.last.text}, before {up_to.text}")

    def sever(self) -> None:
        """Shut the connection down, from any thread: a thread that waits for an event fails."""
        dump = self._dump
        if dump is not None:
            dump.sever()

    def close(self) -> None:
        dump, self._dump = self._dump, None
        if dump is not None:
            dump.close()

    def _refused(self, what: str) -> SlotkeeperError:
        hint = "a stored position is the end of a transaction: this position was typed, or is from another server"
        return Refused(f"source {self._place}: {what}", hint, "", "source")

    def _begin(self, blocking: bool) -> my.Dump:
        session = self._connect()
        try:
            my.register(session, self._reading.replica)
            return self._dump_on(session, blocking)
        except my.DriverError as error:
            session.close()
            raise faults.as_replica(error, self._place, self._user) from error
        except BaseException:
            session.close()
            raise

    def _dump_on(self, session: my.Session, blocking: bool) -> my.Dump:
        start, replica = self._start, self._reading.replica
        if not self._reading.by_gtid:
            self._transactions.know(check_life(session, start, self._place))
            dumped = _dumped_from(start)
            return my.dump_file(session, replica, dumped.file, dumped.offset, blocking)
        if isinstance(start.gtids, MariaState):
            return my.dump_maria_gtid(session, replica, start.gtids.text, blocking)
        if isinstance(start.gtids, MysqlSet):
            return my.dump_mysql_gtid(session, replica, start.gtids.encoded, blocking)
        raise self._refused(f"{start.text} has no GTIDs to start from")

    def _is_before(self, item: Item) -> bool:
        """Whether the item is before the start, in a file that can only be read from its beginning."""
        if self._start.offset <= _LARGEST_OFFSET or self._reading.by_gtid:
            return False
        return not self._start < self.last if is_end(item) else self.last < self._start


def examined(statement: Statement, reading: Reading) -> Statement | End | None:
    """Check DML as text that names no followed table. If it is harmless, return the end of its transaction (or None),
    else the statement with `why`.
    """
    if reading.doubt is None:
        return statement
    why = reading.doubt(statement)
    return replace(statement, why=why) if why else _without_effect(statement)


def of_tables(statement: Statement, reading: Reading) -> Statement | End | None:
    """Return a statement of a stream that returns every statement, as the stream of these tables returns it."""
    effect = statement.effect
    if effect is not Effect.UNREAD:  # which does not depend on the tables
        known = reading.cascades_known
        effect = judge(statement.said, statement.schema, reading.tables, reading.key_index, known)
    if effect is Effect.NONE:
        return _without_effect(statement)
    judged = replace(statement, effect=effect)
    return examined(judged, reading) if effect is Effect.INDIRECT else judged


def _without_effect(statement: Statement) -> End | None:
    return End(statement.position, statement.time, 0) if statement.ends else None


def _is_of_xa(item: Item | None) -> TypeGuard[TableRows | End]:
    return (type(item) is TableRows and item.prepared) or (type(item) is End and item.xa is not None)


def is_end(item: Item) -> bool:
    return isinstance(item, End) or (isinstance(item, Statement) and item.ends)


def _dumped_from(start: MysqlPosition) -> MysqlPosition:
    """Return the position at which a dump starts. For an offset beyond 4 GiB, this is the start of the file, because
    offsets in the protocol have 32 bits.
    """
    if start.offset <= _LARGEST_OFFSET:
        return start
    return MysqlPosition(start.file, FIRST_OFFSET, born=start.born, pending=start.pending)


def check_life(session: my.Session, start: MysqlPosition, place: str) -> Gtids | None:
    """Return the server's GTIDs at this position, None if unknown. Raise Trouble (SOURCE OLDER) if the position has
    others: the server was reset, or is another server.

    MariaDB reports the GTIDs at a position (BINLOG_GTID_POS). MySQL does not, so nothing is checked for MySQL.
    """
    if start.offset > _LARGEST_OFFSET or "MARIADB" not in session.server_version.upper():
        return None
    row = session.row("SELECT BINLOG_GTID_POS(%s, %s)", (start.file, start.offset))
    if row is None or row[0] is None:
        return None  # the file does not exist or was purged: the dump reports which of the two
    there = parse_gtids(str(row[0])) or MariaState({})
    if start.gtids is not None and there != start.gtids:
        message = (
            f"source {place}: {start.file}/{start.offset} has GTIDs {row[0] or 'none'} now, not {start.gtids.text}"
        )
        hint = "the binlog was reset, or this is another server: start by GTID, or take a new snapshot"
        raise Trouble(message, hint, "", "source", name=TroubleName.SOURCE_OLDER)
    return there


Ranged = TableRows | Statement | End
"""An item of a range."""
IN_MEMORY = 8 << 20
"""Maximum number of bytes of events that are buffered in memory."""
FIRST_EVENTS = 2
"""Number of events that a server sends immediately: ROTATE and FORMAT_DESCRIPTION (MySQL, "COM_BINLOG_DUMP")."""
MOST_BYTES = 15 << 20
"""Number of bytes of rows after which a range ends, at the end of the current transaction (min_bytes_sync_commit)."""


def there(one: MysqlPosition, other: MysqlPosition) -> bool:
    """Whether the first position is at or after the second in the files of one server; GTIDs are ignored."""
    return (one.number, one.offset) >= (other.number, other.offset)


def same(one: MysqlPosition, other: MysqlPosition) -> bool:
    """Whether both positions are the same in the files of one server."""
    return (one.number, one.offset) == (other.number, other.offset)


class Follower:
    """Reads consecutive ranges of a stream; the function `begin` opens a stream at a position."""

    def __init__(self, begin: Callable[[MysqlPosition], Stream]) -> None:
        self._begin = begin
        self._stream: Stream | None = None
        self._events: Iterator[Item | None] = iter(())
        self.here: MysqlPosition | None = None
        """The position up to which the last range was read; None if it was interrupted."""

    def read(self, after: MysqlPosition, up_to: MysqlPosition) -> Iterator[Ranged]:
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
                fresh = self._open(after)  # the connection of an earlier range broke meanwhile: retry once
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
        sent = item.sent if isinstance(item, Alive) else None
        # a heartbeat reports the position up to which everything was sent, with 32 bits of its offset
        if sent is None or (sent.number, sent.offset) < (up_to.number, up_to.offset & _LARGEST_OFFSET):
            return False
        self.here = stream.here.moved(up_to.file, up_to.offset)
        return True

    def check(self, after: MysqlPosition) -> None:
        """Open a stream at `after`, unless the stream is already at that position. The first events show whether the
        server's file is the same file as in the position. Raises Trouble (SOURCE OLDER) if not.
        """
        if not self._stand_at(after):
            return
        for _ in range(FIRST_EVENTS):
            self._next()
        self.here = after

    def stop(self) -> MysqlPosition:
        assert self._stream is not None
        self.here = self._stream.here
        return self.here

    @property
    def inside(self) -> bool:
        return self._stream is not None and self._stream.inside

    def _stand_at(self, after: MysqlPosition) -> bool:
        """Make the stream continue at `after`; return whether a new stream was opened."""
        if self._stream is not None and self.here is not None and same(self.here, after):
            return False
        return self._open(after)

    def _open(self, after: MysqlPosition) -> bool:
        self.close()
        self._stream = self._begin(after)
        self._events = self._stream.events(blocking=True)
        return True

    def close(self) -> None:
        stream, self._stream, self.here = self._stream, None, None
        self._events = iter(())
        if stream is not None:
            stream.close()


class Spool:
    """The undecoded rows of a range (after, end]; `statement`: one in it that prevents following the table."""

    def __init__(self, after: MysqlPosition, width: int = 0) -> None:
        self.after = after
        self.width = width
        self.end = after
        self.statement: Statement | None = None
        self.time = after.time
        self.bytes = 0
        """Number of bytes of all added rows; `counted` is the number of bytes of the rows up to `end`."""
        self.counted = 0
        self._count = self._added = self._blocks = 0
        self._waiting: list[TableRows] = []
        self._size = 0
        self._file: BinaryIO | None = None

    @property
    def any(self) -> bool:
        return bool(self._count) or self.statement is not None

    def add(self, item: TableRows) -> None:
        """Add the rows of an event; they belong to the range once `ended` is called after them."""
        self._added += 1
        self._waiting.append(item)
        size = len(item.rows.body)
        self.bytes += size
        self._size += size
        if self._size >= IN_MEMORY:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - `close` ends it
            self._file.seek(0, 2)
            pickle.dump(self._waiting, self._file, pickle.HIGHEST_PROTOCOL)
            self._blocks += 1
            self._waiting, self._size = [], 0

    def ended(self, end: MysqlPosition, time: int = 0) -> None:
        self.time = time or self.time
        self.end, self._count, self.counted = replace(end, time=self.time), self._added, self.bytes

    def rows(self) -> Iterator[TableRows]:
        """Return the rows up to `end`, from the first row on; can be called again."""
        left = self._count
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._blocks):
                block = pickle.load(self._file)  # noqa: S301 - a file without a name that this process wrote
                yield from block[:left]
                left = max(0, left - len(block))
        yield from self._waiting[:left]

    def close(self) -> None:
        self._waiting = []
        if self._file is not None:
            self._file.close()
