"""Queries of commands and screens for MySQL and MariaDB: the end of the binlog, its purges, and rows for display.

The server has no slots to list. No query moves or creates anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard, TableAnswer, TableIdentity
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours
from slotkeeper.core.sources.mysql.retention import MysqlTable, Purges
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.tables import speller
from slotkeeper.core.sources.mysql.transactions import TableRows


class MysqlInspector(MysqlTable):
    """A table, with the answers for commands and screens; implements `slotkeeper.core.ports.source.Inspector`.

    There are no slots to list.
    """

    unread = consumed = may_drop = None
    purges: Purges
    """The purges of the server, which all tables of a session share."""

    def read(self) -> TableAnswer:
        now = datetime.fromtimestamp(self.clock()[0], timezone.utc)
        try:
            self.identify()
        except Refused:
            return TableAnswer(now, None, None, None)
        return TableAnswer(now, Ttl(None), None, None)  # a MySQL table has no TTL

    def purge(self, position: Position | None) -> Purge:
        return self.purges.at(None if position is None else ours(position))

    def latest(self, shard: Shard | None = None) -> dict[str, Position | None]:
        return {SHARD.name: self.newest()}

    def describe(self) -> TableIdentity:
        return self.identify()

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        """Return whole transactions: the last one can exceed the range's number of rows."""
        newest = self.newest()
        up_to = newest if what.up_to is None else self.resolved(ours(what.up_to))
        if what.after is None:
            return self._last_rows(identity, what, self.begin(newest), up_to, only)
        found: list[ChangeRow] = []
        after = self.resolved(ours(what.after))
        reached: Position = after
        for rows, end in self._transactions(identity, after, up_to, only):
            found += rows
            reached = end
            if len(found) >= what.most or what.late():
                whole = not self.has_changes(SHARD, end, up_to)
                return Searched(tuple(found), end, whole, "" if len(found) >= what.most else end.shown)
        return Searched(tuple(found), up_to if not found else reached, True)

    def _last_rows(
        self,
        identity: TableIdentity,
        what: Range,
        after: MysqlPosition,
        up_to: MysqlPosition,
        only: Filter,
    ) -> Searched:
        kept: list[list[ChangeRow]] = []
        whole = True
        for rows, _ in self._transactions(identity, after, up_to, only):
            kept.append(rows)
            while sum(map(len, kept[1:])) >= what.most:
                kept.pop(0)
                whole = False
            if what.late():
                break
        return Searched(tuple(row for rows in kept for row in rows), up_to, whole)

    def _transactions(
        self, identity: TableIdentity, after: MysqlPosition, up_to: MysqlPosition, only: Filter
    ) -> Iterator[tuple[list[ChangeRow], MysqlPosition]]:
        """Return the matching rows of each transaction that has matching rows, and the end of that transaction."""
        waiting: list[TableRows] = []
        for item, end in self.ended_items(after, up_to):
            if isinstance(item, TableRows):
                waiting.append(item)
            elif end is not None and waiting:
                seen = [row for one in waiting for row in self._rows(identity, one, end, only)]
                rows = [replace(row, position=replace(end, row=number)) for number, row in enumerate(seen, 1)]
                waiting = []
                if rows:
                    yield rows, end

    def _rows(self, identity: TableIdentity, item: TableRows, end: MysqlPosition, only: Filter) -> Iterator[ChangeRow]:
        spell, names = speller(self.seen.images), [column.name for column in identity.columns]
        for kind, values in self.images_of(item):
            if only.kinds and kind not in only.kinds:
                continue
            texts = spell(values)
            by_name = dict(zip(names, texts, strict=True))
            if all(by_name.get(name) == text for name, text in only.key.items()):
                yield ChangeRow(end, kind, item.rows.header.time * 1_000_000, texts)
