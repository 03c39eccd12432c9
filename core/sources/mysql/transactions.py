"""Group the events of a stream into transactions: determine which rows take effect, and where each transaction ends.

Reading can resume only at the end of a transaction: if it resumed after a TABLE_MAP, the rows of that statement would
be lost without an error. Rows before a rollback in the same transaction are rejected with an error, because the stream
does not show which of them take effect. A change written as a statement has no rows.

XA (MySQL, "XA Transactions" and "XA_prepare_event"; MariaDB, "XA Transactions", in the binlog since 10.5): the stream
contains the rows where the transaction is prepared; they take effect where it commits, possibly several files later.
`PreparedRows` holds a limited number of these rows in memory. All others are read again at the commit, from the start
of their event group: positions contain these starts (`MysqlPosition.pending`), so a restart loses no rows. A
transaction that was prepared before the stream started, and that the position does not contain, is searched for in the
binlog, newest file first.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql import events, starts
from slotkeeper.core.sources.mysql.events import (
    NO_TABLE,
    Commit,
    Event,
    FormatDescription,
    Header,
    Heartbeat,
    Incident,
    Mapped,
    MariaGtid,
    MariaGtidList,
    MysqlGtid,
    Parser,
    Payload,
    PreviousGtids,
    Query,
    Rotate,
    Rows,
    XaPrepared,
    xid_text,
)
from slotkeeper.core.sources.mysql.faults import Damaged, GoneBack, Unsupported
from slotkeeper.core.sources.mysql.position import (
    FIRST_OFFSET,
    Birth,
    Gtids,
    MariaState,
    Mark,
    MysqlPosition,
    MysqlSet,
    PendingXa,
)
from slotkeeper.core.sources.mysql.statements import Effect, Said, Statement, Unread, judge, read
from slotkeeper.core.sources.mysql.table_map import TableMap

Table = tuple[str, str]
"""A table's schema and name."""
_LOW = 0xFFFFFFFF
_LARGEST_STEP = 1 << 31
"""A step in the offset that is larger than this value is a step backwards."""
MOST_PENDING = 256
"""Maximum number of prepared transactions in a position; `PreparedRows` searches the binlog for all others."""
_XA_END = re.compile(r"XA\s+(?:COMMIT|ROLLBACK)\s+X'([0-9A-Fa-f]*)',X'([0-9A-Fa-f]*)',(\d+)")
"""Statement that ends an XA transaction, as both servers write it (MySQL, `XID::serialize`; MariaDB, `get_xid`)."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a wanted table, which take effect once their transaction has ended. Their event: offset `at` of file
    `number`.

    `first` is the number of the first image among those with the same position: the offset of their event in the
    compressed transaction that starts at `at`, 0 outside a compressed transaction. `prepared` means that the rows
    belong to an XA transaction.
    """

    table: TableMap
    rows: Rows
    number: int = 0
    at: int = 0
    first: int = 0
    prepared: bool = False


class Fate(Enum):
    """The state of an XA transaction."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class XaEnd:
    """The state of an XA transaction, set by the event that prepares or ends it.

    `xid` is empty if the transaction is prepared and committed in one phase. `place` is the start of the transaction's
    event group, None if it was prepared before the stream started and the position does not contain it. `at` is the
    offset at which the event starts.
    """

    fate: Fate
    xid: str
    place: PendingXa | None
    at: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction: `position` can be stored. `time` is in seconds since 1970, by the source's clock.

    `rows` is the number of the transaction's events with rows of wanted tables. `xa` is set for an XA transaction.
    """

    position: MysqlPosition
    time: int
    rows: int
    xa: XaEnd | None = None


@dataclass(frozen=True, slots=True)
class Alive:
    """A heartbeat: the server reports that nothing has happened; `position` is the last transaction's end.

    `sent` is the position up to which the server has sent everything, with the low 32 bits of its offset; None if the
    server does not report it.
    """

    position: MysqlPosition
    sent: MysqlPosition | None = None


Item = TableRows | Statement | End | Alive


class Transactions:
    """Processes the events of one stream in order, from `start` on, and returns the rows of the `wanted` tables.

    `by_gtid` means that the server chooses where in its files the stream starts, and skips transactions that are
    already executed. `key_index` is the name of the index that is the key of the wanted tables. `cascades_known` means
    that foreign keys that change rows without row events are allowed, and `every` that every statement is returned.
    """

    def __init__(
        self,
        start: MysqlPosition,
        wanted: Collection[Table],
        by_gtid: bool = False,
        *,
        key_index: str = "PRIMARY",
        cascades_known: bool = False,
        every: bool = False,
    ) -> None:
        self._wanted = frozenset(wanted)
        self._key_index, self._cascades_known, self._every = key_index, cascades_known, every
        self._by_gtid = by_gtid
        self._file, self._offset, self._gtids = start.file, start.offset, start.gtids
        self._born: Birth | None = None if by_gtid else start.born
        self._last = start
        self._pending: MariaGtid | MysqlGtid | None = None
        self._mark, self._marking = start.mark, 0
        """The last transaction with a known time, and the time of the open one's first event; 0 if not seen yet."""
        self._prepared = {one.xid: one for one in start.pending}
        self._named = start.pending
        self._xa = False
        self._begins = start.offset
        self._tables: dict[int, TableMap] = {}
        self._open = False
        self._rows = 0
        self._payload_at = 0
        self.server_version = ""

    @property
    def last(self) -> MysqlPosition:
        return self._last

    @property
    def inside(self) -> bool:
        return self._open or self._pending is not None

    @property
    def here(self) -> MysqlPosition:
        """The position after the last accepted event: a valid start unless a transaction is open (`inside`)."""
        return MysqlPosition(
            self._file, self._offset, self._gtids, born=self._born, pending=self._named, mark=self._mark
        )

    def know(self, gtids: Gtids | None) -> None:
        """Set the GTIDs executed before the start, if the position does not contain them."""
        if self._gtids is None and gtids is not None:
            self._gtids = gtids
            self._last = replace(self._last, gtids=gtids)

    def take(self, event: Event, inside: int | None = None) -> Item | None:
        """Process an event and return the resulting item; None if the event has no effect by itself.

        `inside` is the event's offset in the last compressed transaction, whose events follow it. Raises Damaged if the
        stream has a gap, and Unsupported if the rows, or whether they take effect, cannot be determined.
        """
        if inside is None:
            self._move(event)
        if isinstance(event, Rows):
            return self._table_rows(event, inside)
        if isinstance(event, Mapped):
            self._map(event.table)
            self._marking = self._marking or event.header.time
        elif isinstance(event, Commit):
            return self._end(event.header)
        elif isinstance(event, Query):
            return self._query(event)
        elif isinstance(event, MariaGtid | MysqlGtid):
            self._begin(event)
        elif isinstance(event, MariaGtidList):
            # a MariaDB file starts with the GTIDs executed before it, so they are known from its start on
            gtids = self._gtids
            if not (isinstance(gtids, MariaState) and gtids.whole) and not event.header.is_artificial:
                self._gtids = MariaState.of_list(event.last)
                self._last = replace(self._last, gtids=self._gtids)
        elif isinstance(event, PreviousGtids):
            if self._gtids is None and not event.header.is_artificial:
                self.know(event.executed)
        elif isinstance(event, XaPrepared):
            place = PendingXa(event.xid, self._number, self._begins)
            self._prepared[event.xid] = place
            self._name_prepared()
            return self._end(event.header, XaEnd(Fate.PREPARED, event.xid, place, self._offset - event.header.size))
        elif isinstance(event, Heartbeat):
            known = event.file and event.header.end >= FIRST_OFFSET
            return Alive(self._last, MysqlPosition(event.file, event.header.end, None) if known else None)
        elif isinstance(event, Payload):
            self._open, self._payload_at = True, self._offset - event.header.size
        elif isinstance(event, FormatDescription):
            self.server_version = event.server_version
            self._check_born(event.born)
        elif isinstance(event, Incident):
            raise Unsupported(f"the source lost events: {event.message}", "take a new snapshot")
        return None

    def _map(self, table: TableMap) -> None:
        """Add a table map. Equal maps share one object, so that rows that are pickled together contain the map once."""
        known = self._tables.get(table.number)
        same = known is not None and (known.schema, known.table, known.layout) == (
            table.schema,
            table.table,
            table.layout,
        )
        if not same:
            self._tables[table.number] = table

    def _check_born(self, born: Birth | None) -> None:
        """Reject a different file with the same name: after RESET MASTER, file numbers start over."""
        known = self._born
        if known is not None and born is not None and known != born:
            raise GoneBack(
                f"{self._file} was created {_created(born)}, but the file of the position {_created(known)}",
                "the binlog was reset, or the server restored: take a new snapshot",
            )
        self._born = born or known
        if self._born != self._last.born and self._last.file == self._file:
            self._last = replace(self._last, born=self._born)

    def _move(self, event: Event) -> None:
        """Advance the offset; the low 32 bits have to match the end offset in the event's header."""
        header = event.header
        if isinstance(event, Rotate):
            if event.file != self._file:
                self._born = None
            self._file, self._offset = event.file, event.offset
            if not self.inside and not self._by_gtid:
                self._last = self.here
            return
        if header.is_artificial or isinstance(event, Heartbeat) or not header.end:
            return  # the event is not in a file, or is a copy of a file's first event
        reached = self._offset + header.size
        if reached & _LOW != header.end:
            # by GTID, a server omits transactions that are already executed; MariaDB omits annotations, which it sends
            # only on request
            leaves_out = self._by_gtid or "MariaDB" in self.server_version
            if not leaves_out or (header.end - reached) & _LOW > _LARGEST_STEP:
                raise Damaged(
                    f"{self._file} has an event that ends at {header.end}, expected {reached}",
                    "retry from the last position; if the error persists, take a new snapshot",
                )
            reached += (header.end - reached) & _LOW
        self._offset = reached

    def _begin(self, event: MariaGtid | MysqlGtid) -> None:
        if self._open:
            raise Damaged("a transaction starts before the previous one has ended", "retry")
        if isinstance(event, MariaGtid) and isinstance(self._gtids, MariaState):
            self._refuse_again(event, self._gtids)
        self._pending = event
        self._rows = 0
        self._marking = event.committed if isinstance(event, MysqlGtid) else 0
        self._begins = self._offset - event.header.size
        # MySQL writes BEGIN after a GTID; a standalone group of MariaDB consists of a single statement
        self._open = isinstance(event, MariaGtid) and not event.standalone
        self._xa = isinstance(event, MariaGtid) and event.prepared_xa

    def _refuse_again(self, event: MariaGtid, done: MariaState) -> None:
        """Raise GoneBack for an executed GTID: numbers only increase, so the binlog was reset or restored."""
        server, sequence = done.last.get(event.domain, (0, 0))
        if not self._by_gtid and server == event.server and event.sequence <= sequence:
            raise GoneBack(
                f"GTID {event.domain}-{event.server}-{event.sequence} repeats: sequence {sequence} is already applied",
                "the binlog was reset, or the server restored: take a new snapshot",
            )

    def _table_rows(self, event: Rows, inside: int | None) -> TableRows | None:
        if event.table_id == NO_TABLE:
            return None
        table = self._tables.get(event.table_id)
        if table is None:
            raise Damaged(
                f"rows of table number {event.table_id} without a preceding table map",
                "the stream started inside a transaction: start at a transaction's end",
            )
        if (table.schema, table.table) not in self._wanted:
            return None
        self._rows += 1
        begin = self._offset - event.header.size if inside is None else self._payload_at
        return TableRows(table, event, self._number, begin, inside or 0, prepared=self._xa)

    def _query(self, event: Query) -> Item | None:
        words = event.text.split(None, 2)[:2]
        first = words[0].rstrip(";").upper() if words else ""
        second = words[1].rstrip(";").upper() if len(words) > 1 else ""
        if first in ("BEGIN", "XA") and second in ("", "START", "BEGIN"):
            self._open, self._xa = True, first == "XA"
        elif first == "XA" and second in ("COMMIT", "ROLLBACK"):
            return self._decided(event, second == "COMMIT")
        elif first == "COMMIT":
            return self._end(event.header)
        elif first == "ROLLBACK":
            self._refuse_rollback()
            return None if second == "TO" else self._end(event.header)
        elif first in ("SAVEPOINT", "XA"):
            return None
        else:
            return self._statement(event)
        return None

    def _refuse_rollback(self) -> None:
        if self._rows:
            raise Unsupported(
                "a transaction has rows of a followed table and a rollback: unclear which rows were committed",
                "it also changed a non-transactional table: take a new snapshot",
            )

    def _statement(self, event: Query) -> Item | None:
        said, effect = self._judged(event)
        self._marking = self._marking or event.header.time
        if event.text.rstrip().upper().endswith("START TRANSACTION"):
            self._open = True  # MySQL 8: CREATE TABLE ... SELECT, whose rows follow
        ends = None if self._open else self._end(event.header)
        if effect is Effect.NONE and not self._every:
            return ends
        return Statement(event.schema, event.text, effect, event.header.time, self._last, ends is not None, said)

    def _judged(self, event: Query) -> tuple[Said, Effect]:
        try:
            if not event.decoded:
                return Said(), Effect.UNREAD
            said = read(event.text, event.sql_mode, "MariaDB" in self.server_version or not self.server_version)
        except Unread:
            return Said(), Effect.UNREAD
        return said, judge(said, event.schema, self._wanted, self._key_index, self._cascades_known)

    def _decided(self, event: Query, commits: bool) -> End:
        """Return the item for the end of a transaction that was prepared earlier.

        MariaDB before 10.5 writes no XA PREPARE: there the transaction's rows come first, in the same event group.
        """
        if self._tables:
            if not commits:
                self._refuse_rollback()
            return self._end(event.header)
        found = _XA_END.match(event.text.strip())
        if found is None:
            raise Unsupported(f"cannot parse an XA identifier: {event.text[:200]!r}", "take a new snapshot")
        xid = xid_text(int(found[3]), found[1].lower(), found[2].lower())
        place = self._prepared.pop(xid, None)
        self._name_prepared()
        fate = Fate.COMMITTED if commits else Fate.ROLLED_BACK
        return self._end(event.header, XaEnd(fate, xid, place, self._offset - event.header.size))

    def _name_prepared(self) -> None:
        oldest = sorted(self._prepared.values(), key=lambda one: (one.number, one.offset))
        self._named = tuple(oldest[:MOST_PENDING])

    @property
    def _number(self) -> int:
        return int(self._file.rpartition(".")[2])

    def _end(self, header: Header, xa: XaEnd | None = None) -> End:
        if self._xa and xa is None:  # prepared and committed in one phase
            place = PendingXa("", self._number, self._begins)
            xa = XaEnd(Fate.COMMITTED, "", place, self._offset - header.size)
        pending, self._pending = self._pending, None
        if isinstance(pending, MariaGtid) and isinstance(self._gtids, MariaState):
            self._gtids = self._gtids.after(pending.domain, pending.server, pending.sequence)
        elif isinstance(pending, MysqlGtid) and isinstance(self._gtids, MysqlSet):
            # no set of GTIDs describes a position after a transaction without one
            self._gtids = self._gtids.after(pending.source, pending.number, pending.tag) if pending.source else None
        if pending is not None and self._gtids is not None and self._marking and (gtid := gtid_text(pending)):
            self._mark = Mark(gtid, self._marking)
        rows, self._rows, self._open, self._xa = self._rows, 0, False, False
        self._tables.clear()
        self._last = self.here
        return End(self._last, header.time, rows, xa)


def gtid_text(event: MariaGtid | MysqlGtid) -> str:
    """Return a transaction's GTID as the server writes it; "" for an anonymous transaction."""
    if isinstance(event, MariaGtid):
        return f"{event.domain}-{event.server}-{event.sequence}"
    tag = f":{event.tag}" if event.tag else ""
    return f"{event.source}{tag}:{event.number}" if event.source is not None else ""


def _created(born: Birth) -> str:
    """
    >>> _created((1700000000, 77))
    '2023-11-14 22:13:20 UTC by server_id 77'
    """
    return f"{datetime.fromtimestamp(born[0], timezone.utc):%Y-%m-%d %H:%M:%S} UTC by server_id {born[1]}"


KEPT_BYTES = 8 << 20
"""Maximum size in bytes of the rows of prepared transactions in memory; other rows are read again from the binlog."""
STRIDE = 32
"""Low bits of an image's number, which count the images of an event; the high bits count the transaction's events."""

Read = Callable[[MysqlPosition], Iterator[Transactions | Item | None]]


class PreparedRows:
    """Processes the items of XA transactions and returns their rows when the transactions commit.

    `read` reads the binlog from a position to its end over a separate connection: it first returns the `Transactions`
    object that holds the reading position, then an item or None for each event. `files` lists the binlog's files.
    `place` is the name of the source in messages.
    """

    def __init__(self, read: Read, files: Callable[[], list[starts.BinlogFile]], place: str) -> None:
        self._read, self._files, self._place = read, files, place
        self._kept: dict[str, list[TableRows]] = {}
        self._bytes = 0
        self._group: list[TableRows] | None = []
        self._found: dict[str, PendingXa] = {}
        self._unsearched: list[str] | None = None

    def take(self, item: TableRows | End) -> Iterator[TableRows | End | None]:
        """Yield an item after the rows that take effect with it, in the order in which these take effect."""
        if isinstance(item, TableRows):
            self.pass_over(item)
            yield None
            return
        xa = item.xa
        if xa is None or xa.fate is not Fate.COMMITTED:
            self.pass_over(item)
        else:
            yield from self._committed(item, xa, self._kept.get(xa.xid) if xa.xid else self._group)
            self.pass_over(item)
        yield item

    def pass_over(self, item: TableRows | End) -> None:
        """Process an item that has already taken effect; no rows are returned."""
        if isinstance(item, TableRows):
            self._add(item)
        elif item.xa is not None:
            group, self._group = self._group, []
            if item.xa.fate is Fate.PREPARED:
                self._release(self._kept.pop(item.xa.xid, None))
                if group is not None:
                    self._kept[item.xa.xid] = group
            else:
                self._release(group if not item.xa.xid else self._kept.pop(item.xa.xid, None))

    def _add(self, item: TableRows) -> None:
        if self._group is None:
            return
        self._group.append(item)
        self._bytes += len(item.rows.body)
        if self._bytes > KEPT_BYTES:
            self._release(self._group)
            self._group = None

    def _release(self, rows: list[TableRows] | None) -> None:
        self._bytes -= sum(len(one.rows.body) for one in rows or ())

    def _committed(self, end: End, xa: XaEnd, kept: list[TableRows] | None) -> Iterator[TableRows]:
        """Return the rows with the position and time of the commit, because rows are ordered by these."""
        rows = iter(kept) if kept is not None else self._again(end, xa)
        counts = Counter[Table]()  # for each table, so that a stream of many tables gives its rows the same numbers
        for one in rows:
            header = replace(one.rows.header, time=end.time)
            table = one.table.schema, one.table.table
            moved = replace(one.rows, header=header)
            yield TableRows(one.table, moved, end.position.number, xa.at, counts[table] << STRIDE)
            counts[table] += 1

    def _again(self, end: End, xa: XaEnd) -> Iterator[TableRows]:
        place = xa.place or self._search(end, xa.xid)
        base = end.position.file.rpartition(".")[0]
        begin = MysqlPosition(f"{base}.{place.number:06d}", place.offset)
        for item in self._read(begin):
            if isinstance(item, TableRows):
                yield item
            elif isinstance(item, End):
                if item.xa is None or item.xa.xid != xa.xid:
                    break
                return
        raise Damaged(
            f"XA transaction {xa.xid} was not prepared at {begin.text}",
            "the binlog was reset, or this is another server: take a new snapshot",
        )

    def _search(self, end: End, xid: str) -> PendingXa:
        """Return where transaction `xid` was prepared, which neither this stream nor its start position contains."""
        if self._unsearched is None:
            number = end.position.number
            names = [one.name for one in self._files()]
            self._unsearched = [name for name in names if int(name.rpartition(".")[2]) <= number]
        while xid not in self._found and self._unsearched:
            for found in self._prepared_in(self._unsearched.pop(), end.position):
                self._found.setdefault(found.xid, found)
        if xid not in self._found:
            what = f"source {self._place}: XA transaction {xid} commits at {end.position.plain}"
            what += " but was prepared in a purged binlog file: cannot read its rows"
            raise Trouble(what, "take a new snapshot of the table", where="source", name=TroubleName.SLOT_LOST)
        return self._found[xid]

    def _prepared_in(self, file: str, before: MysqlPosition) -> list[PendingXa]:
        """Return the XA transactions that were prepared in a file, in reverse order."""
        found: list[PendingXa] = []
        reading = self._read(MysqlPosition(file, FIRST_OFFSET))
        transactions = next(reading)
        assert isinstance(transactions, Transactions)
        for item in reading:
            here = transactions.here
            if here.file != file or (here.file == before.file and here.offset >= before.offset):
                break
            if isinstance(item, End) and item.xa is not None and item.xa.fate is Fate.PREPARED and item.xa.place:
                found.insert(0, item.xa.place)
        return found


def read_from(
    connect: Callable[[], my.Session], replica: my.Replica, transactions: Transactions, begin: MysqlPosition
) -> Iterator[Transactions | Item | None]:
    """Read the binlog from a position on; this is the `read` of `PreparedRows`. Raises DriverError, BinlogError."""
    yield transactions
    session = connect()
    try:
        my.register(session, replica)
        dump, parser = my.dump_file(session, replica, begin.file, begin.offset, blocking=False), Parser()
        while (packet := dump.packet(session.seconds)) is not None:
            for event, inside in events.parts(parser.parse(packet, 1)):
                yield transactions.take(event, inside)
    finally:
        session.close()


def aside(replica: my.Replica) -> my.Replica:
    """Return a second replica identity for a lane, because a server ends an earlier reader with the same server_id.

    >>> aside(my.Replica(1 << 30, "", 1.0)).server_id != 1 << 30
    True
    """
    number = (1 << 30) + zlib.crc32(f"xa{replica.server_id}".encode()) % (1 << 30)
    return my.Replica(number, f"{number:08x}-5107-4bee-9e55-{number:012x}", replica.heartbeat)
