"""What commands and screens ask of a MySQL source: where its binlog ends, and rows of it; there are no slots to list.

No call of it moves anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, TableAnswer, TableIdentity, UnreadRows
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SlotCalls
from slotkeeper.core.sources.mysql.image import speller
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours
from slotkeeper.core.sources.mysql.purging import Purges
from slotkeeper.core.sources.mysql.retention import MysqlRetention
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.transactions import TableRows
from slotkeeper.core.sources.mysql.words import WORDS


class MysqlViewer:
    """Implements `slotkeeper.core.ports.source.SlotViewer`, `SlotPoller` and `PurgesByAge`."""

    calls = SlotCalls((), "", "", "")
    words = WORDS

    def __init__(self, session: MysqlSession) -> None:
        self.session = session
        self._purges = Purges(session)

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """None: the server lists no slots."""
        return None

    def purge(self, position: Position | None) -> Purge:
        """The server's setting, and what becomes of the file of a position."""
        return self._purges.at(None if position is None else ours(position))

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """None: it counts no unread rows."""
        return None

    def latest(self, table: str) -> Mapping[str, Position | None] | None:
        """Where the binlog ends."""
        return {SHARD.name: self._source(table).newest()}

    def nodes(self, table: str) -> dict[str, int]:
        """The one stream."""
        return {SHARD.name: SHARD.node_id}

    def consumed(self, table: str, node: int = 0) -> bool | None:
        """None: it does not tell."""
        return None

    def ttl(self, table: str) -> Ttl | None:
        """None where there is no such table."""
        try:
            self._source(table).identify()
        except Refused:
            return None
        return Ttl(None)

    def consume_timeout(self) -> int | None:
        """None: no maintenance waits for readers."""
        return None

    def may_drop(self) -> bool | None:
        """None: there is nothing to drop."""
        return None

    def now(self) -> datetime:
        """The server's clock."""
        return datetime.fromtimestamp(self._source("").seconds(), timezone.utc)

    def read_table(self, table: str) -> TableAnswer | None:
        """Its clock, and whether there is such a table."""
        return TableAnswer(self.now(), self.ttl(table), None, None)

    def _source(self, table: str) -> MysqlRetention:
        return MysqlRetention(self.session, table, "viewer", BinlogOptions(binlog=True))

    def close(self) -> None:
        """End the session."""
        self.session.close()


class MysqlReader:
    """Reads rows for people, in whole transactions; implements `slotkeeper.core.ports.source.BinlogReader`."""

    def __init__(self, session: MysqlSession) -> None:
        self.session = session

    def _source(self, table: str) -> MysqlRetention:
        return MysqlRetention(self.session, table, f"peek of {self.session.name}", BinlogOptions(binlog=True))

    def identity(self, table: str) -> TableIdentity:
        """The table's columns and key."""
        return self._source(table).identify()

    def nodes(self, table: str) -> dict[str, int]:
        """The one stream."""
        return {SHARD.name: SHARD.node_id}

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """None: the server lists no slots."""
        return None

    def newest(self, table: str, shard: Shard) -> Position | None:
        """Where the binlog ends."""
        return self._source(table).newest()

    def firsts(self, table: str, place: Position | None) -> dict[str, FirstRecord]:
        """The table's first event at or behind a place."""
        return dict(self._source(table).records(place))

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        """The place of the first event at or after a time."""
        return self._source(table).at_time(moment)[SHARD.name]

    def forward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        """The first rows after a position, in whole transactions."""
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
        """The last rows up to a place, in whole transactions."""
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

    def _ends(self, table: str, what: Range) -> tuple[MysqlPosition, MysqlPosition, MysqlRetention]:
        source = self._source(table)
        newest = source.newest()
        after = source.begin(newest) if what.after is None else source.resolved(ours(what.after))
        up_to = newest if what.up_to is None else source.resolved(ours(what.up_to))
        return after, up_to, source

    def _transactions(
        self, source: MysqlRetention, identity: TableIdentity, after: MysqlPosition, up_to: MysqlPosition, only: Filter
    ) -> Iterator[tuple[list[ChangeRow], MysqlPosition]]:
        """The wanted rows of each transaction that has any, and its end."""
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
        self, source: MysqlRetention, identity: TableIdentity, item: TableRows, end: MysqlPosition, only: Filter
    ) -> Iterator[ChangeRow]:
        spell, names = speller(source.seen.images), [column.name for column in identity.columns]
        for kind, values in source.images_of(item):
            if only.kinds and kind not in only.kinds:
                continue
            texts = spell(values)
            by_name = dict(zip(names, texts, strict=True))
            if all(by_name.get(name) == text for name, text in only.key.items()):
                yield ChangeRow(end, kind, item.rows.header.time * 1_000_000, texts)
