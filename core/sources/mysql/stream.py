"""One stream of a binlog as a replica reads it: from a transaction's end on, as rows, statements and ends.

A stream that breaks is not mended here: whoever reads begins another at the last end that it has stored, and what it
has not stored comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

from slotkeeper.core.domain.spec import SyncOptions
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.sources.mysql import faults, payload, starts, xa
from slotkeeper.core.sources.mysql.errors import BinlogError
from slotkeeper.core.sources.mysql.events import Parser
from slotkeeper.core.sources.mysql.gtid import MariaState, MysqlSet, parse_gtids
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from slotkeeper.core.sources.mysql.transactions import Alive, End, Item, Table, TableRows, Transactions

SILENT_SECONDS = SyncOptions().stream_read_timeout / 1000
"""How long a stream may stay silent, heartbeats included, where no job says otherwise."""
_LARGEST_OFFSET = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Reading:
    """How a stream is read: who reads, which tables' rows are given, by what its begin is named, for how long it may
    stay silent, and by which index the tables' rows are known.

    `cascades_known`: foreign keys that change rows without row events are allowed. `every`: each statement is given.
    `doubt` says what stands against passing over DML as text that names no followed table; "" for nothing.
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
    """A stream under way; every call raises an error of `slotkeeper.core.errors`."""

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
        self._prepared = xa.PreparedRows(self._read_aside, self._files, place)
        self._releases = False

    @property
    def last(self) -> MysqlPosition:
        """The end of the last transaction that was read."""
        return self._transactions.last

    @property
    def here(self) -> MysqlPosition:
        """The place behind the last event that was read; `inside` tells whether a transaction is open there."""
        return self._transactions.here

    @property
    def inside(self) -> bool:
        """Whether a transaction has begun and not ended, or rows of one that XA prepared are still to come."""
        return self._transactions.inside or self._releases

    def items(self, blocking: bool) -> Iterator[Item]:
        """What comes; ends where the binlog ends unless it is `blocking`: then heartbeats come as `Alive`."""
        return (item for item in self.events(blocking) if item is not None)

    def events(self, blocking: bool) -> Iterator[Item | None]:
        """The same, with None for each event of no consequence: it has moved `here` all the same."""
        try:
            dump = self._dump = self._begin(blocking)
            while (packet := dump.packet(self._reading.silent_seconds)) is not None:
                for event, inside in payload.parts(self._parser.parse(packet, 1)):
                    item = self._transactions.take(event, inside)
                    if isinstance(item, Statement) and item.effect is Effect.INDIRECT:
                        item = self._examined(item)
                    if _is_of_xa(item):
                        yield from self._given(item)
                    else:
                        yield None if item is not None and self._is_before(item) else item
        except my.DriverError as error:
            raise faults.classify(error, self._place, self._user) from error
        except BinlogError as error:
            raise faults.of_binlog(error, self._place, self.last.text) from error
        finally:
            self.close()

    def _given(self, item: TableRows | End) -> Iterator[Item | None]:
        """An item of a transaction that XA prepares, with all rows that take effect with it."""
        if self._is_before(item):
            self._prepared.pass_over(item)
            yield None
            return
        for one in self._prepared.take(item):
            self._releases = one is not item
            yield one

    def _read_aside(self, begin: MysqlPosition) -> Iterator[Transactions | Item | None]:
        transactions = Transactions(begin, self._reading.tables)
        return xa.read_from(self._connect, xa.aside(self._reading.replica), transactions, begin)

    def _files(self) -> list[starts.BinlogFile]:
        session = self._connect()
        try:
            return starts.binlog_files(session)
        finally:
            session.close()

    def _examined(self, statement: Statement) -> Item | None:
        """DML as text that names no followed table: its end where it is proven to change none, else why it is not."""
        doubt = self._reading.doubt
        if doubt is None:
            return statement
        why = doubt(statement)
        if why:
            return replace(statement, why=why)
        return End(statement.position, statement.time, 0) if statement.ends else None

    def read(self, up_to: MysqlPosition) -> Iterator[TableRows | Statement | End]:
        """Exactly (start, up_to], both ends of transactions. Refused where there is no such end, or the binlog ends
        before it."""
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

    def close(self) -> None:
        """End the stream; safe to call twice."""
        dump, self._dump = self._dump, None
        if dump is not None:
            dump.close()

    def _refused(self, what: str) -> SlotkeeperError:
        hint = "positions are stored at ends of transactions only: this one is of another server, or was typed"
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
            check_life(session, start, self._place)
            dumped = _dumped_from(start)
            return my.dump_file(session, replica, dumped.file, dumped.offset, blocking)
        if isinstance(start.gtids, MariaState):
            return my.dump_maria_gtid(session, replica, start.gtids.text, blocking)
        if isinstance(start.gtids, MysqlSet):
            return my.dump_mysql_gtid(session, replica, start.gtids.encoded, blocking)
        raise self._refused(f"{start.text} has no GTIDs to begin at")

    def _is_before(self, item: Item) -> bool:
        """Whether it lies before the start: of a file that could only be read from its begin."""
        if self._start.offset <= _LARGEST_OFFSET or self._reading.by_gtid:
            return False
        return not self._start < self.last if is_end(item) else self.last < self._start


def _is_of_xa(item: Item | None) -> TypeGuard[TableRows | End]:
    return (type(item) is TableRows and item.prepared) or (type(item) is End and item.xa is not None)


def is_end(item: Item) -> bool:
    """Whether a transaction ended with it."""
    return isinstance(item, End) or (isinstance(item, Statement) and item.ends)


def _dumped_from(start: MysqlPosition) -> MysqlPosition:
    """Where a dump begins for a position: offsets in the protocol have 32 bits, so beyond 4 GiB at the file's begin."""
    if start.offset <= _LARGEST_OFFSET:
        return start
    return MysqlPosition(start.file, FIRST_OFFSET, born=start.born, pending=start.pending)


def check_life(session: my.Session, start: MysqlPosition, place: str) -> None:
    """Raise Trouble (SOURCE OLDER) where the server's file has other GTIDs there: it was reset, or is another server.

    MariaDB tells the GTIDs of a place (BINLOG_GTID_POS); MySQL does not, and nothing is checked.
    """
    if not isinstance(start.gtids, MariaState) or start.offset > _LARGEST_OFFSET:
        return
    row = session.row("SELECT BINLOG_GTID_POS(%s, %s)", (start.file, start.offset))
    if row is None or row[0] is None:
        return  # no such file, or purged: the dump says which
    there = parse_gtids(str(row[0])) or MariaState({})
    if there != start.gtids:
        message = (
            f"source {place}: {start.file}/{start.offset} has GTIDs {row[0] or 'none'} now, not {start.gtids.text}"
        )
        hint = "the binlog was reset, or this is another server: go on by GTID, or take a new snapshot"
        raise Trouble(message, hint, "", "source", name=TroubleName.SOURCE_OLDER)
