"""Queries of commands and screens for MySQL and MariaDB: the end of the binlog, its purges, and rows for display.

The server has no slots to list. No query moves or creates anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import FirstRecord, Shard, TableAnswer, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours
from slotkeeper.core.sources.mysql.retention import MysqlTable, Purges
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.tables import speller
from slotkeeper.core.sources.mysql.transactions import TableRows


class MysqlInspector:
    """Answers over one session; implements `slotkeeper.core.ports.source.Inspector`. There are no slots to list."""

    unread = consumed = may_drop = None

    def __init__(self, session: MysqlSession) -> None:
        self.session = session
        self._purges = Purges(session)

    def _source(self, table: str) -> MysqlTable:
        return MysqlTable(self.session, table, f"peek of {self.session.name}", BinlogOptions(binlog=True))

    def read_table(self, table: str) -> TableAnswer:
        source = self._source(table)
        now = datetime.fromtimestamp(source.seconds(), timezone.utc)
        try:
            source.identify()
        except Refused:
            return TableAnswer(now, None, None, None)
        return TableAnswer(now, Ttl(None), None, None)  # a MySQL table has no TTL

    def purge(self, position: Position | None) -> Purge:
        return self._purges.at(None if position is None else ours(position))

    def latest(self, table: str, shard: Shard | None = None) -> dict[str, Position | None]:
        return {SHARD.name: self._source(table).newest()}

    def nodes(self, table: str) -> dict[str, int]:
        return {SHARD.name: SHARD.node_id}

    def identity(self, table: str) -> TableIdentity:
        return self._source(table).identify()

    def records(self, table: str, place: Position | None) -> Mapping[str, FirstRecord]:
        return self._source(table).records(place)

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        return self._source(table).at_time(moment)[SHARD.name]

    def rows(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        """Return whole transactions: the last one can exceed the range's number of rows."""
        source = self._source(table)
        newest = source.newest()
        up_to = newest if what.up_to is None else source.resolved(ours(what.up_to))
        if what.after is None:
            return self._last_rows(source, identity, what, source.begin(newest), up_to, only)
        found: list[ChangeRow] = []
        after = source.resolved(ours(what.after))
        reached: Position = after
        for rows, end in self._transactions(source, identity, after, up_to, only):
            found += rows
            reached = end
            if len(found) >= what.most or what.late():
                whole = not source.has_changes(SHARD, end, up_to)
                return Searched(tuple(found), end, whole, "" if len(found) >= what.most else end.shown)
        return Searched(tuple(found), up_to if not found else reached, True)

    def _last_rows(
        self,
        source: MysqlTable,
        identity: TableIdentity,
        what: Range,
        after: MysqlPosition,
        up_to: MysqlPosition,
        only: Filter,
    ) -> Searched:
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
