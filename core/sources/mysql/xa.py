"""Rows of transactions that XA prepares: kept until their transaction commits, dropped where it rolls back.

The stream has the rows where the transaction is prepared; they take effect where it commits, maybe files later. A few
are kept in memory. All others are read again at the commit, from where their event group begins: positions name these
places (`MysqlPosition.pending`), so a restart loses nothing. A transaction that was prepared before the stream began,
and that the position does not name, is searched for in the binlog, newest file first.
MySQL, "XA Transactions" and "XA_prepare_event"; MariaDB, "XA Transactions" (since 10.5 in the binlog).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql import payload, starts
from slotkeeper.core.sources.mysql.errors import Damaged
from slotkeeper.core.sources.mysql.events import Parser
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition, PendingXa
from slotkeeper.core.sources.mysql.transactions import End, Fate, Item, TableRows, Transactions, XaEnd

KEPT_BYTES = 8 << 20
"""Rows of prepared transactions in memory, of all of them; the binlog has what goes beyond."""
STRIDE = 32
"""Bits of a number for the images of one event; the event's own number in its transaction is above."""

Read = Callable[[MysqlPosition], Iterator[Transactions | Item | None]]


class PreparedRows:
    """Takes the items of prepared transactions and gives their rows where they commit.

    `read` reads the binlog from a position to its end, by a connection of its own: first the `Transactions` that tells
    where it is, then an item or None for each event. `files` lists the binlog's files. `place` is the source in words.
    """

    def __init__(self, read: Read, files: Callable[[], list[starts.BinlogFile]], place: str) -> None:
        self._read, self._files, self._place = read, files, place
        self._kept: dict[str, list[TableRows]] = {}
        self._bytes = 0
        self._group: list[TableRows] | None = []
        self._found: dict[str, PendingXa] = {}
        self._unsearched: list[str] | None = None

    def take(self, item: TableRows | End) -> Iterator[TableRows | End | None]:
        """What an item comes to, in the order in which it takes effect."""
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
        """The same of an item that has taken effect before: its rows are not given."""
        if isinstance(item, TableRows):
            self._add(item)
        elif item.xa is not None:
            group, self._group = self._group, []
            if item.xa.fate is Fate.PREPARED:
                self._keep(item.xa.xid, group)
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

    def _keep(self, xid: str, group: list[TableRows] | None) -> None:
        self._release(self._kept.pop(xid, None))
        if group is not None:
            self._kept[xid] = group

    def _release(self, rows: list[TableRows] | None) -> None:
        self._bytes -= sum(len(one.rows.body) for one in rows or ())

    def _committed(self, end: End, xa: XaEnd, kept: list[TableRows] | None) -> Iterator[TableRows]:
        """The rows with the place and the time of the commit, which orders them among all others."""
        rows = iter(kept) if kept is not None else self._again(end, xa)
        for number, one in enumerate(rows):
            header = replace(one.rows.header, time=end.time)
            moved = replace(one.rows, header=header)
            yield TableRows(one.table, moved, end.position.number, xa.at, number << STRIDE)

    def _again(self, end: End, xa: XaEnd) -> Iterator[TableRows]:
        """The rows of an event group, read once more."""
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
            f"{begin.text} is not where XA prepared transaction {xa.xid}",
            "the binlog was reset, or this is another server: take a new snapshot",
        )

    def _search(self, end: End, xid: str) -> PendingXa:
        """Where a transaction was prepared of which neither this stream nor its position knows."""
        if self._unsearched is None:
            number = end.position.number
            names = [one.name for one in self._files()]
            self._unsearched = [name for name in names if int(name.rpartition(".")[2]) <= number]
        while xid not in self._found and self._unsearched:
            for found in self._prepared_in(self._unsearched.pop(), end.position):
                self._found.setdefault(found.xid, found)
        if xid not in self._found:
            what = f"source {self._place}: XA transaction {xid} commits at {end.position.plain}"
            what += " and was prepared in a binlog file that was purged: its rows cannot be read"
            raise Trouble(what, "take a new snapshot of the table", where="source", name=TroubleName.SLOT_LOST)
        return self._found[xid]

    def _prepared_in(self, file: str, before: MysqlPosition) -> list[PendingXa]:
        """The transactions that XA prepared in a file, the last one first."""
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
    """What the binlog has from a position on, as `PreparedRows` asks for it. Raises DriverError, BinlogError."""
    yield transactions
    session = connect()
    try:
        my.register(session, replica)
        dump, parser = my.dump_file(session, replica, begin.file, begin.offset, blocking=False), Parser()
        while (packet := dump.packet(session.seconds)) is not None:
            for event, inside in payload.parts(parser.parse(packet, 1)):
                yield transactions.take(event, inside)
    finally:
        session.close()


def aside(replica: my.Replica) -> my.Replica:
    """Another reader for the same lane: a server ends an earlier reader with the same number.

    >>> aside(my.Replica(1 << 30, "", 1.0)).server_id != 1 << 30
    True
    """
    number = (1 << 30) + zlib.crc32(f"xa{replica.server_id}".encode()) % (1 << 30)
    return my.Replica(number, f"{number:08x}-5107-4bee-9e55-{number:012x}", replica.heartbeat)
