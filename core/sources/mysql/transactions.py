"""Events of a stream grouped as transactions: which rows count, where each transaction ends. Pure.

Only a transaction's end is a place to go on from: behind a TABLE_MAP the rows of its statement would be lost without a
word. Rows whose fate the stream does not tell are refused by name: prepared by XA, or behind a rollback. A change
written as a statement has no rows at all. Next door: `events.py` reads bytes, `statements.py` judges statements.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from core.sources.mysql.errors import Damaged, GoneBack, Unsupported
from core.sources.mysql.events import (
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
    Query,
    Rotate,
    Rows,
    XaPrepared,
)
from core.sources.mysql.gtid import MariaState, MysqlSet
from core.sources.mysql.position import FIRST_OFFSET, MysqlPosition
from core.sources.mysql.statements import Effect, Statement, judge
from core.sources.mysql.table_map import TableMap
from core.sources.mysql.tokens import Said, Unread, read

Table = tuple[str, str]
"""Schema and name."""
_LOW = 0xFFFFFFFF
_LARGEST_STEP = 1 << 31
"""A step beyond it is one back."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a wanted table; they count once their transaction has ended. Their event begins `at` of file `number`."""

    table: TableMap
    rows: Rows
    number: int = 0
    at: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """A transaction has ended: `position` may be stored. `time` in seconds since 1970, by the source's clock.

    `rows` is how many events of wanted rows it had.
    """

    position: MysqlPosition
    time: int
    rows: int


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
    `cascades_known`: foreign keys that change rows without row events are allowed. `every`: each statement is given.
    """

    def __init__(
        self,
        start: MysqlPosition,
        wanted: Collection[Table],
        by_gtid: bool = False,
        cascades_known: bool = False,
        every: bool = False,
    ) -> None:
        self._wanted = frozenset(wanted)
        self._cascades_known, self._every = cascades_known, every
        self._by_gtid = by_gtid
        self._file, self._offset, self._gtids = start.file, start.offset, start.gtids
        self._last = start
        self._pending: MariaGtid | MysqlGtid | None = None
        self._tables: dict[int, TableMap] = {}
        self._open = False
        self._rows = 0
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
        return MysqlPosition(self._file, self._offset, self._gtids)

    def take(self, event: Event) -> Item | None:
        """What an event comes to; None for one that is of no consequence alone.

        Raises Damaged where the stream has a gap, Unsupported where rows or their fate cannot be known.
        """
        self._move(event)
        if isinstance(event, Rows):
            return self._table_rows(event)
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
            return self._prepared(event.header)
        elif isinstance(event, Heartbeat):
            return Alive(self._last, self._heard(event))
        elif isinstance(event, FormatDescription):
            self.server_version = event.server_version
        elif isinstance(event, Incident):
            raise Unsupported(f"the source lost events: {event.message}", "take a new snapshot")
        return None

    def _heard(self, event: Heartbeat) -> MysqlPosition | None:
        if not event.file or event.header.end < FIRST_OFFSET:
            return None
        return MysqlPosition(event.file, event.header.end, None)

    def _move(self, event: Event) -> None:
        """Count the offset on; the low 32 bits that an event knows of its end have to agree."""
        header = event.header
        if isinstance(event, Rotate):
            self._file, self._offset = event.file, event.offset
            if not self.inside and not self._by_gtid:
                self._last = MysqlPosition(self._file, self._offset, self._gtids)
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
        # MySQL writes BEGIN behind it; a standalone group of MariaDB is one statement, which begins and ends it
        self._open = isinstance(event, MariaGtid) and not event.standalone

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
            self._last = MysqlPosition(self._last.file, self._last.offset, self._gtids)

    def _table_rows(self, event: Rows) -> TableRows | None:
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
        if isinstance(self._pending, MariaGtid) and self._pending.prepared_xa:
            raise _prepared_rows(table)
        self._rows += 1
        return TableRows(table, event, self.here.number, self._offset - event.header.size)

    def _query(self, event: Query) -> Item | None:
        words = event.text.split(None, 2)[:2]
        first = words[0].rstrip(";").upper() if words else ""
        second = words[1].rstrip(";").upper() if len(words) > 1 else ""
        if first in ("BEGIN", "XA") and second in ("", "START", "BEGIN"):
            self._open = True
        elif first == "COMMIT" or (first == "XA" and second in ("COMMIT", "ROLLBACK")):
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
        return said, judge(said, event.schema, self._wanted, self._cascades_known)

    def _prepared(self, header: Header) -> End:
        if self._rows:
            raise Unsupported(
                "a transaction prepared by XA has rows of a followed table: whether they count is told later, or never",
                "commit followed tables without XA; then take a new snapshot of the table",
            )
        return self._end(header)

    def _end(self, header: Header) -> End:
        pending, self._pending = self._pending, None
        if isinstance(pending, MariaGtid) and isinstance(self._gtids, MariaState):
            self._gtids = self._gtids.after(pending.domain, pending.server, pending.sequence)
        elif isinstance(pending, MysqlGtid) and pending.source is not None and isinstance(self._gtids, MysqlSet):
            self._gtids = self._gtids.after(pending.source, pending.number)
        rows, self._rows, self._open = self._rows, 0, False
        self._tables.clear()
        self._last = MysqlPosition(self._file, self._offset, self._gtids)
        return End(self._last, header.time, rows)


def _prepared_rows(table: TableMap) -> Unsupported:
    return Unsupported(
        f"a transaction prepared by XA has rows of {table.schema}.{table.table}: whether they count is told later",
        "commit followed tables without XA; then take a new snapshot of the table",
    )
