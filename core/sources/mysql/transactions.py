"""Events of a stream grouped as transactions: which rows count, where each transaction ends. Pure.

Only a transaction's end is a place to go on from: behind a TABLE_MAP the rows of its statement would be lost without a
word. Rows before a rollback in one transaction are refused by name, because the stream does not tell which of them
count. Rows that XA prepares are marked; `xa.py` keeps them until their transaction ends. A change written as a
statement has no rows at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum

from slotkeeper.core.sources.mysql.errors import Damaged, GoneBack, Unsupported
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
    Payload,
    Query,
    Rotate,
    Rows,
    XaPrepared,
    xid_text,
)
from slotkeeper.core.sources.mysql.gtid import MariaState, MysqlSet
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, Birth, MysqlPosition, PendingXa
from slotkeeper.core.sources.mysql.statements import Effect, Statement, judge
from slotkeeper.core.sources.mysql.table_map import TableMap
from slotkeeper.core.sources.mysql.tokens import Said, Unread, read

Table = tuple[str, str]
"""Schema and name."""
_LOW = 0xFFFFFFFF
_LARGEST_STEP = 1 << 31
"""A step beyond it is one back."""
MOST_PENDING = 256
"""How many prepared transactions a position names; `xa.py` searches the binlog for the others."""
_XA_END = re.compile(r"XA\s+(?:COMMIT|ROLLBACK)\s+X'([0-9A-Fa-f]*)',X'([0-9A-Fa-f]*)',(\d+)")
"""As both servers write it (MySQL, `XID::serialize`; MariaDB, `get_xid`)."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a wanted table; they count once their transaction has ended. Their event begins `at` of file `number`.

    `first` is the number of the first image among those with the same place: where their event begins in the compressed
    transaction that starts `at`, 0 for rows in none. `prepared`: they belong to a transaction that XA prepares.
    """

    table: TableMap
    rows: Rows
    number: int = 0
    at: int = 0
    first: int = 0
    prepared: bool = False


class Fate(Enum):
    """What became of a transaction that XA prepares."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class XaEnd:
    """What a transaction's end says about one that XA prepares.

    `xid` is empty where it is prepared and committed in one phase. `place` is where its event group begins, None where
    it was prepared before the stream began and the position does not name it. The event that says this begins `at`.
    """

    fate: Fate
    xid: str
    place: PendingXa | None
    at: int


@dataclass(frozen=True, slots=True)
class End:
    """A transaction has ended: `position` may be stored. `time` in seconds since 1970, by the source's clock.

    `rows` is how many events of wanted rows it had. `xa` is set where it is about a transaction that XA prepares.
    """

    position: MysqlPosition
    time: int
    rows: int
    xa: XaEnd | None = None


@dataclass(frozen=True, slots=True)
class Alive:
    """Nothing has happened, as the server says itself; `position` is the last transaction's end.

    `sent` is the place up to which the server has sent everything, with the low 32 bits of its offset; None where it
    does not say.
    """

    position: MysqlPosition
    sent: MysqlPosition | None = None


Item = TableRows | Statement | End | Alive


class Transactions:
    """Takes the events of one stream in their order, from `start` on; `wanted` are the tables whose rows are given.

    `by_gtid`: the server chooses where in its files the stream begins, and passes over transactions that are done.
    `key_index` is the name of the index that is the wanted tables' key. `cascades_known`: foreign keys that change
    rows without row events are allowed. `every`: each statement is given.
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
        """The end of the last transaction that was taken."""
        return self._last

    @property
    def inside(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._open or self._pending is not None

    @property
    def here(self) -> MysqlPosition:
        """The place behind the last event that was taken: one to go on from where no transaction is `inside` it."""
        return MysqlPosition(self._file, self._offset, self._gtids, born=self._born, pending=self._named)

    def take(self, event: Event, inside: int | None = None) -> Item | None:
        """What an event comes to; None for one that is of no consequence alone.

        `inside` is where it starts in the compressed transaction that was taken last, whose events follow it.
        Raises Damaged where the stream has a gap, Unsupported where rows or their fate cannot be known.
        """
        if inside is None:
            self._move(event)
        if isinstance(event, Rows):
            return self._table_rows(event, inside)
        if isinstance(event, Mapped):
            self._tables[event.table.number] = event.table
        elif isinstance(event, Commit):
            return self._end(event.header)
        elif isinstance(event, Query):
            return self._query(event)
        elif isinstance(event, MariaGtid | MysqlGtid):
            self._begin(event)
        elif isinstance(event, MariaGtidList):
            self._listed(event)
        elif isinstance(event, XaPrepared):
            return self._prepare(event)
        elif isinstance(event, Heartbeat):
            return Alive(self._last, self._heard(event))
        elif isinstance(event, Payload):
            self._open, self._payload_at = True, self._offset - event.header.size
        elif isinstance(event, FormatDescription):
            self.server_version = event.server_version
            self._check_born(event.born)
        elif isinstance(event, Incident):
            raise Unsupported(f"the source lost events: {event.message}", "take a new snapshot")
        return None

    def _heard(self, event: Heartbeat) -> MysqlPosition | None:
        if not event.file or event.header.end < FIRST_OFFSET:
            return None
        return MysqlPosition(event.file, event.header.end, None)

    def _check_born(self, born: Birth | None) -> None:
        """Refuse another file of the same name: a RESET MASTER starts over with the first number."""
        known = self._born
        if known is not None and born is not None and known != born:
            raise GoneBack(
                f"{self._file} was created {_created(born)}, the position is of one created {_created(known)}",
                "the binlog was reset, or the server restored: take a new snapshot",
            )
        self._born = born or known
        if self._born != self._last.born and self._last.file == self._file:
            self._last = replace(self._last, born=self._born)

    def _move(self, event: Event) -> None:
        """Count the offset on; the low 32 bits that an event knows of its end have to agree."""
        header = event.header
        if isinstance(event, Rotate):
            if event.file != self._file:
                self._born = None
            self._file, self._offset = event.file, event.offset
            if not self.inside and not self._by_gtid:
                self._last = self.here
            return
        if header.is_artificial or isinstance(event, Heartbeat) or not header.end:
            return  # it is in no file, or a copy of a file's first event
        reached = self._offset + header.size
        if reached & _LOW != header.end:
            if not self._may_pass_over() or (header.end - reached) & _LOW > _LARGEST_STEP:
                raise Damaged(
                    f"{self._file} has an event that ends at {header.end}, where {reached} was to come",
                    "read the binlog again from the last position; if it stays, take a new snapshot",
                )
            reached += (header.end - reached) & _LOW
        self._offset = reached

    def _may_pass_over(self) -> bool:
        """Whether the server leaves events out of the stream: what is done by GTID, and MariaDB's annotations, which
        are only sent where they are asked for."""
        return self._by_gtid or "MariaDB" in self.server_version

    def _begin(self, event: MariaGtid | MysqlGtid) -> None:
        if self._open:
            raise Damaged("a transaction begins before the one before it has ended", "read the binlog again")
        if isinstance(event, MariaGtid) and isinstance(self._gtids, MariaState):
            self._refuse_again(event, self._gtids)
        self._pending = event
        self._rows = 0
        self._begins = self._offset - event.header.size
        # MySQL writes BEGIN behind it; a standalone group of MariaDB is one statement, which begins and ends it
        self._open = isinstance(event, MariaGtid) and not event.standalone
        self._xa = isinstance(event, MariaGtid) and event.prepared_xa

    def _refuse_again(self, event: MariaGtid, done: MariaState) -> None:
        """A server numbers what it writes upwards: a number that is done already is of another life of its binlog."""
        server, sequence = done.last.get(event.domain, (0, 0))
        if not self._by_gtid and server == event.server and event.sequence <= sequence:
            raise GoneBack(
                f"GTID {event.domain}-{event.server}-{event.sequence} comes again, {sequence} is done",
                "the binlog was reset, or the server restored: take a new snapshot",
            )

    def _listed(self, event: MariaGtidList) -> None:
        """What a MariaDB file says that was done before it: known from its begin on."""
        if self._gtids is None and not event.header.is_artificial:
            self._gtids = MariaState({domain: (server, sequence) for domain, server, sequence in event.last})
            self._last = replace(self._last, gtids=self._gtids)

    def _table_rows(self, event: Rows, inside: int | None) -> TableRows | None:
        if event.table_id == NO_TABLE:
            return None
        table = self._tables.get(event.table_id)
        if table is None:
            raise Damaged(
                f"rows of table number {event.table_id}, which was not described before",
                "the stream began inside of a transaction: go on from a transaction's end",
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
                "a transaction has rows of a followed table and a rollback: which of them count is not told",
                "it changed a table that knows no transactions beside: take a new snapshot",
            )

    def _statement(self, event: Query) -> Item | None:
        said, effect = self._judged(event)
        if event.text.rstrip().upper().endswith("START TRANSACTION"):
            self._open = True  # MySQL 8: CREATE TABLE ... SELECT, whose rows follow
        ends = None if self._open else self._end(event.header)
        if effect is Effect.NONE and not self._every:
            return ends
        return Statement(event.schema, event.text, effect, event.header.time, self._last, ends is not None, said)

    def _judged(self, event: Query) -> tuple[Said, Effect]:
        """A statement's tokens, and what it may have done to the wanted tables."""
        try:
            if not event.decoded:
                return Said(), Effect.UNREAD
            said = read(event.text, event.sql_mode, "MariaDB" in self.server_version or not self.server_version)
        except Unread:
            return Said(), Effect.UNREAD
        return said, judge(said, event.schema, self._wanted, self._key_index, self._cascades_known)

    def _prepare(self, event: XaPrepared) -> End:
        place = PendingXa(event.xid, self._number, self._begins)
        self._prepared[event.xid] = place
        self._name_prepared()
        return self._end(event.header, XaEnd(Fate.PREPARED, event.xid, place, self._offset - event.header.size))

    def _decided(self, event: Query, commits: bool) -> End:
        """The end of a transaction that was prepared before.

        A MariaDB before 10.5 writes no XA PREPARE: there the transaction's rows come first, in the same event group.
        """
        if self._tables:
            if not commits:
                self._refuse_rollback()
            return self._end(event.header)
        found = _XA_END.match(event.text.strip())
        if found is None:
            raise Unsupported(f"an XA identifier cannot be read: {event.text[:200]!r}", "take a new snapshot")
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
        elif isinstance(pending, MysqlGtid) and pending.source is not None and isinstance(self._gtids, MysqlSet):
            self._gtids = self._gtids.after(pending.source, pending.number)
        rows, self._rows, self._open, self._xa = self._rows, 0, False, False
        self._tables.clear()
        self._last = self.here
        return End(self._last, header.time, rows, xa)


def _created(born: Birth) -> str:
    """
    >>> _created((1700000000, 77))
    '2023-11-14 22:13:20 UTC by server_id 77'
    """
    return f"{datetime.fromtimestamp(born[0], timezone.utc):%Y-%m-%d %H:%M:%S} UTC by server_id {born[1]}"
