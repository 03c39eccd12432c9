"""What commands and screens ask of a SQLite binlog: places and rows; there are no slots to list."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import FirstRecord, RegisteredPoint, Shard, TableAnswer, TableIdentity, UnreadRows
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import SlotCalls
from tests.support.sqlite_pair.binlog import now_us
from tests.support.sqlite_pair.source import (
    SHARD,
    SqliteSession,
    end_of,
    events,
    first_at,
    first_record,
    identity,
    latest,
    oldest,
)
from tests.support.sqlite_pair.words import WORDS


def now() -> datetime:
    """The server's clock."""
    return datetime.fromtimestamp(now_us() / 1_000_000, timezone.utc)


class SqliteViewer:
    """Implements `slotkeeper.core.ports.source.SlotViewer` and `SlotPoller`."""

    calls = SlotCalls((), "", "", "")
    words = WORDS

    def __init__(self, session: SqliteSession) -> None:
        self.session = session

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        return None

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        return None

    def latest(self, table: str) -> dict[str, Position | None] | None:
        with self.session.reading() as connection:
            return {SHARD.name: latest(connection)}

    def nodes(self, table: str) -> dict[str, int]:
        return {SHARD.name: SHARD.node_id}

    def consumed(self, table: str, node: int = 0) -> bool | None:
        return None

    def ttl(self, table: str) -> Ttl | None:
        try:
            with self.session.reading() as connection:
                identity(connection, table)
        except Refused:
            return None
        return Ttl(None)

    def consume_timeout(self) -> int | None:
        return None

    def may_drop(self) -> bool | None:
        return None

    def now(self) -> datetime:
        return now()

    def read_table(self, table: str) -> TableAnswer | None:
        return TableAnswer(now(), self.ttl(table), None, None)

    def close(self) -> None:
        self.session.close()


class SqliteReader:
    """Reads rows for people, in whole transactions; implements `slotkeeper.core.ports.source.BinlogReader`."""

    def __init__(self, session: SqliteSession) -> None:
        self.session = session

    def identity(self, table: str) -> TableIdentity:
        with self.session.reading() as connection:
            return identity(connection, table)

    def nodes(self, table: str) -> dict[str, int]:
        return {SHARD.name: SHARD.node_id}

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        return None

    def newest(self, table: str, shard: Shard) -> Position | None:
        with self.session.reading() as connection:
            return latest(connection)

    def firsts(self, table: str, place: Position | None) -> dict[str, FirstRecord]:
        with self.session.reading() as connection:
            return {SHARD.name: first_record(connection, table, place)}

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        with self.session.reading() as connection:
            return first_at(connection, table, moment)

    def forward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        with self.session.reading() as connection:
            found: list[ChangeRow] = []
            for row in self._rows(connection, identity, table, what, only):
                if len(found) >= what.most and row.position != found[-1].position:
                    return Searched(tuple(found), found[-1].position, False)
                found.append(row)
            return Searched(tuple(found), what.up_to, True)

    def backward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        with self.session.reading() as connection:
            found = list(self._rows(connection, identity, table, what, only))
            first = max(0, len(found) - what.most)
            while first and found[first - 1].position == found[first].position:
                first -= 1
            return Searched(tuple(found[first:]), what.up_to, first == 0)

    def _rows(
        self, connection: sqlite3.Connection, identity: TableIdentity, table: str, what: Range, only: Filter
    ) -> Iterator[ChangeRow]:
        names = [column.name for column in identity.columns]
        after, up_to = what.after or oldest(connection), what.up_to or latest(connection)
        for event in events(connection, table, after, up_to):
            row = _change(connection, event)
            values = dict(zip(names, row.values, strict=True))
            if only.kinds and row.kind not in only.kinds:
                continue
            if all(values[name] == text for name, text in only.key.items()):
                yield row


def _change(connection: sqlite3.Connection, event: tuple[Any, ...]) -> ChangeRow:
    file, offset, _, number, kind, image, time_us = event
    return ChangeRow(replace(end_of(connection, file, offset), row=number), kind, time_us, tuple(json.loads(image)))
