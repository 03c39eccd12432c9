"""MySQL and MariaDB as a kind of source: sessions, and the queries of commands and screens.

The server has no slots to list: the viewer shows the end of the binlog and the rows in the binlog. No call of the
viewer moves or creates anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, TableAnswer, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import SourceKind
from slotkeeper.core.ports.source import SourceTable, TableAsked
from slotkeeper.core.sources.base import NoSlotViewer
from slotkeeper.core.sources.mysql.chunks import MysqlTables
from slotkeeper.core.sources.mysql.doctor import MysqlDoctor
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.position import POSITIONS, WORDS, MysqlPosition, ours
from slotkeeper.core.sources.mysql.retention import MysqlTable, Purges
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.tables import speller
from slotkeeper.core.sources.mysql.traits import TRAITS
from slotkeeper.core.sources.mysql.transactions import TableRows


class MysqlViewer(NoSlotViewer):
    """Implements `slotkeeper.core.ports.source.SlotViewer`, `SlotPoller` and `PurgesByAge`."""

    words = WORDS

    def __init__(self, session: MysqlSession) -> None:
        self.session = session
        self._purges = Purges(session)

    def purge(self, position: Position | None) -> Purge:
        return self._purges.at(None if position is None else ours(position))

    def latest(self, table: str) -> Mapping[str, Position | None] | None:
        return {SHARD.name: self._source(table).newest()}

    def nodes(self, table: str) -> dict[str, int]:
        return {SHARD.name: SHARD.node_id}

    def ttl(self, table: str) -> Ttl | None:
        """Return `Ttl(None)`, because a MySQL table has no TTL; return None if the table is rejected."""
        try:
            self._source(table).identify()
        except Refused:
            return None
        return Ttl(None)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._source("").seconds(), timezone.utc)

    def read_table(self, table: str) -> TableAnswer | None:
        return TableAnswer(self.now(), self.ttl(table), None, None)

    def _source(self, table: str) -> MysqlTable:
        return MysqlTable(self.session, table, "viewer", BinlogOptions(binlog=True))

    def close(self) -> None:
        self.session.close()


class MysqlReader:
    """Reads rows for display, in whole transactions; implements `slotkeeper.core.ports.source.BinlogReader`."""

    def __init__(self, session: MysqlSession) -> None:
        self.session = session

    def _source(self, table: str) -> MysqlTable:
        return MysqlTable(self.session, table, f"peek of {self.session.name}", BinlogOptions(binlog=True))

    def identity(self, table: str) -> TableIdentity:
        return self._source(table).identify()

    def nodes(self, table: str) -> dict[str, int]:
        return {SHARD.name: SHARD.node_id}

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        return None

    def newest(self, table: str, shard: Shard) -> Position | None:
        return self._source(table).newest()

    def firsts(self, table: str, place: Position | None) -> dict[str, FirstRecord]:
        return dict(self._source(table).records(place))

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        return self._source(table).at_time(moment)[SHARD.name]

    def forward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        found: list[ChangeRow] = []
        after, up_to, source = self._ends(table, what)
        reached: Position = after
        for rows, end in self._transactions(source, identity, after, up_to, only):
            found += rows
            reached = end
            if len(found) >= what.most or what.late():
                whole = not source.has_changes(SHARD, end, up_to)
                return Searched(tuple(found), end, whole, "" if len(found) >= what.most else end.shown)
        return Searched(tuple(found), up_to if not found else reached, True)

    def backward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        after, up_to, source = self._ends(table, what)
        kept: list[list[ChangeRow]] = []
        whole = True
        for rows, _ in self._transactions(source, identity, after, up_to, only):
            kept.append(rows)
            while sum(map(len, kept[1:])) >= what.most:
                kept.pop(0)
                whole = False
            if what.late():
                break
        return Searched(tuple(row for rows in kept for row in rows), up_to, whole)

    def _ends(self, table: str, what: Range) -> tuple[MysqlPosition, MysqlPosition, MysqlTable]:
        source = self._source(table)
        newest = source.newest()
        after = source.begin(newest) if what.after is None else source.resolved(ours(what.after))
        up_to = newest if what.up_to is None else source.resolved(ours(what.up_to))
        return after, up_to, source

    def _transactions(
        self, source: MysqlTable, identity: TableIdentity, after: MysqlPosition, up_to: MysqlPosition, only: Filter
    ) -> Iterator[tuple[list[ChangeRow], MysqlPosition]]:
        """Return the matching rows of each transaction that has matching rows, and the end of that transaction."""
        waiting: list[TableRows] = []
        for item, end in source.ended_items(after, up_to):
            if isinstance(item, TableRows):
                waiting.append(item)
            elif end is not None and waiting:
                seen = [row for one in waiting for row in self._rows(source, identity, one, end, only)]
                rows = [replace(row, position=replace(end, row=number)) for number, row in enumerate(seen, 1)]
                waiting = []
                if rows:
                    yield rows, end

    def _rows(
        self, source: MysqlTable, identity: TableIdentity, item: TableRows, end: MysqlPosition, only: Filter
    ) -> Iterator[ChangeRow]:
        spell, names = speller(source.seen.images), [column.name for column in identity.columns]
        for kind, values in source.images_of(item):
            if only.kinds and kind not in only.kinds:
                continue
            texts = spell(values)
            by_name = dict(zip(names, texts, strict=True))
            if all(by_name.get(name) == text for name, text in only.key.items()):
                yield ChangeRow(end, kind, item.rows.header.time * 1_000_000, texts)


PING_SECONDS = 5.0


class MysqlConnection:
    """One session to a server; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login) -> None:
        self.session = MysqlSession(login)
        self.doctor = MysqlDoctor(self.session, login)
        self._tables: list[MysqlTable] = []

    @property
    def name(self) -> str:
        return self.session.name

    def table(self, asked: TableAsked) -> SourceTable:
        sync, selection = asked.sync, Selection.of(asked.channel) if asked.channel else None
        limits = sync.min_bytes_sync_commit, sync.max_bytes_sync_commit, sync.stream_read_timeout / 1000
        made = MysqlTable(self.session, asked.table, asked.slot, asked.binlog, selection, *limits)
        self._tables.append(made)
        return SourceTable(made, None, made)

    def viewer(self) -> MysqlViewer:
        return MysqlViewer(self.session)

    def reader(self, options: BinlogOptions) -> MysqlReader:
        return MysqlReader(self.session)

    def ping(self) -> None:
        self.session.rows("SELECT 1", (), PING_SECONDS)

    def sever(self) -> None:
        self.session.sever()

    def close(self) -> None:
        for table in self._tables:
            table.close()
        self.session.close()


class NothingByHand:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`; the server stores no position that SQL could move."""

    def status(self, table: str) -> str:
        """Return SQL that shows the end of the binlog."""
        return "SHOW MASTER STATUS; -- the server stores no position: see `slotkeeper slots show`"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- a MySQL server stores no position: no statement to run"


class MysqlKind:
    """MySQL and MariaDB; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = NothingByHand()
    positions: Positions = POSITIONS
    traits = TRAITS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login) -> MysqlConnection:
        return MysqlConnection(login)

    def poller(self, login: Login) -> MysqlViewer:
        return MysqlViewer(MysqlSession(login))

    def tables(self, login: Login, limit_ms: int) -> MysqlTables:
        return MysqlTables(login, limit_ms)


KIND: SourceKind = MysqlKind()
