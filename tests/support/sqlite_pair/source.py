"""Reads one table of a SQLite file out of the one binlog of all its tables; nothing is registered anywhere.

A range ends at a transaction's end, and can be read again until its file is purged: then SLOT LOST, by the binlog's own
beginning. Each question is one read transaction. `KeptSource` is the binlog under a switch: its server keeps one
position for each slot, that of the stream of all tables. It stores the last position that it received, and accepts any
position, back or ahead. A question creates nothing.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, BinaryIO

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import NOTHING_KEPT, Kept, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import (
    Column,
    FirstRecord,
    RegisteredPoint,
    Shard,
    SlotStatus,
    TableAnswer,
    TableIdentity,
)
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.drivers.pipe import put, texts
from slotkeeper.core.errors import Refused, TroubleName, Unreachable
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Chunk, Confirmation, FindNews, ReadBeside, SlotWords
from tests.support.sqlite_pair.binlog import (
    BEGIN,
    KEPT_POSITIONS,
    POSITIONS,
    OneKept,
    SqlitePosition,
    connect,
    now_us,
    ours,
    pair_of,
    quoted,
    table_columns,
)

WORDS = SlotWords(
    no_list="there are no slots: shown is where our own progress rows stand",
    no_count="Slotkeeper does not count unread events",
    head="files are purged manually, even if a reader still needs them",
)


SHARD = Shard("binlog", 1)
"""The server's only lane: its binlog."""
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
EVENTS = """
SELECT file, offset, tx, number, kind, image, time_us FROM binlog_events
WHERE name = ? AND (file, offset) >= (?, ?) AND (file, offset) < (?, ?) ORDER BY file, offset
"""


class SqliteSession:
    """One session at a file. `close` waits for other threads: SQLite crashes if it is closed during a statement."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.RLock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction on the file; an error of SQLite is temporary."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = connect(self.file)
                self._connection.execute("BEGIN")
            except sqlite3.Error as error:
                raise Unreachable(f"sqlite: {error}", where="source") from error
            connection = self._connection
            try:
                yield connection
            except sqlite3.Error as error:
                raise Unreachable(f"sqlite: {error}", where="source") from error
            finally:
                if connection.in_transaction:
                    connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(connect(self.file)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
        except sqlite3.Error as error:
            raise Unreachable(f"sqlite: {error}", where="source") from error

    def close(self) -> None:
        """End it; safe to call twice."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


def identity(connection: sqlite3.Connection, table: str) -> TableIdentity:
    """The description of a table; Refused if it does not exist or has no key."""
    columns = table_columns(connection, table)
    number = connection.execute("SELECT number FROM binlog_tables WHERE name = ?", (table,)).fetchone()
    if not columns or number is None:
        raise Refused(f"unknown table {table}", "check its name", where="source")
    key = tuple(name for _, name in sorted((place, name) for name, _, _, place in columns if place))
    if not key:
        raise Refused(f"{table} has no primary key", "give it one", where="source")
    return TableIdentity(number[0], tuple(Column(name, kind, req) for name, kind, req, _ in columns), key, "sqlite")


def latest(connection: sqlite3.Connection) -> SqlitePosition:
    return SqlitePosition(*connection.execute("SELECT life, file, offset, tx FROM binlog_head").fetchone())


def oldest(connection: sqlite3.Connection) -> SqlitePosition:
    """The offset of the first remaining event, or else of the next one."""
    life, file, tx = connection.execute(
        "SELECT life, f.file, f.tx FROM binlog_head, binlog_files f ORDER BY f.file LIMIT 1"
    ).fetchone()
    return SqlitePosition(life, file, BEGIN, tx)


def refuse_purged(connection: sqlite3.Connection, after: Position) -> None:
    """SLOT LOST if events after a position are missing; POSITIONS DIFFER if it belongs to another life."""
    first = oldest(connection)
    if after < first:
        what = f"{SHARD.name}: the job's position is {after.text}, but the binlog starts at {first.text}"
        raise trouble(TroubleName.SLOT_LOST, what)


def end_of(connection: sqlite3.Connection, file: int, offset: int) -> SqlitePosition:
    """The end of the transaction that has an event there."""
    life, end, tx = connection.execute(
        "SELECT life, e.offset, e.tx FROM binlog_head, binlog_ends e"
        " WHERE e.file = ? AND e.offset > ? ORDER BY e.offset LIMIT 1",
        (file, offset),
    ).fetchone()
    return SqlitePosition(life, file, end, tx)


def begin_of(connection: sqlite3.Connection, file: int, offset: int) -> SqlitePosition:
    """The end of the transaction before the one that has an event there."""
    life, tx = connection.execute(
        "SELECT life, b.tx FROM binlog_head, binlog_events b WHERE b.file = ? AND b.offset = ?", (file, offset)
    ).fetchone()
    before = connection.execute(
        "SELECT offset FROM binlog_ends WHERE file = ? AND offset <= ? ORDER BY offset DESC LIMIT 1", (file, offset)
    ).fetchone()
    return SqlitePosition(life, file, before[0] if before else BEGIN, tx - 1)


def events(connection: sqlite3.Connection, table: str, after: Position, up_to: Position) -> Iterator[tuple[Any, ...]]:
    """The events of a table in (after, up_to]: file, offset, transaction, number, kind, image, time."""
    refuse_purged(connection, after)
    low, high = ours(after), ours(up_to)
    if low < high:
        yield from connection.execute(EVENTS, (table, low.file, low.offset, high.file, high.offset))


class SqliteSource:
    """One table; implements `slotkeeper.core.ports.source.Source` and `Inspector`."""

    joint_status = True
    read_beside: ReadBeside = None
    find_news: FindNews = None

    unread = consumed = may_drop = purge = None

    def __init__(self, session: SqliteSession, table: str, options: BinlogOptions, narrowed: bool = False) -> None:
        self.session = session
        self.table = table
        self.options = options
        self._narrowed = narrowed

    # -- reading ----------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Check that the table exists and has a key."""
        self.identify()

    def identify(self, filters: bool = False) -> TableIdentity:
        with self.session.reading() as connection:
            found = identity(connection, self.table)
        if self._narrowed:
            raise Refused("a SQLite source gives whole tables", "leave columns and where out", where="source")
        return found

    def nodes(self) -> list[Shard]:
        return [SHARD]

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        with self.session.reading() as connection:
            fingerprint = identity(connection, self.table).text
            return [SlotStatus(SHARD, NOTHING_KEPT, latest(connection), fingerprint, oldest(connection))]

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        with self.session.reading() as connection:
            return next(events(connection, self.table, after, up_to), None) is not None

    def next_range(self, after: Position, status: SlotStatus, width: int, begins: bool = False) -> SqlitePosition:
        """The end of the `width`th transaction after `after`, for any table."""
        low, high = ours(after), ours(status.latest)
        with self.session.reading() as connection:
            refuse_purged(connection, low)
            ends = connection.execute(
                "SELECT file, offset, tx FROM binlog_ends WHERE (file, offset) > (?, ?) AND (file, offset) <= (?, ?)"
                " ORDER BY file, offset LIMIT 1 OFFSET ?",
                (low.file, low.offset, high.file, high.offset, max(1, width) - 1),
            ).fetchone()
        return SqlitePosition(low.life, *ends) if ends else high

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        count = 0
        with self.session.reading() as connection:
            its = identity(connection, self.table)
            keys = [column.name in its.key for column in its.columns]
            for file, offset, _, number, kind, image, _ in events(connection, self.table, after, up_to):
                if kind == "B" and self.options.binlog_ignore_update_before:
                    continue
                values = json.loads(image)
                if kind in ("B", "d"):
                    values = [value if key else None for value, key in zip(values, keys, strict=True)]
                put(out, texts((*pair_of(file, offset, number), kind, *values)))
                count += 1
        return count

    def reached(self, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus) -> Position:
        return up_to or status.latest

    def open_now(self) -> None:
        """Return None, because SQLite has one writer at a time.

        Its commits are after the newest position that was read before; the copy sees its earlier commits.
        """

    def plan_chunks(self, rows: int) -> list[Chunk]:
        with self.session.reading() as connection:
            key = identity(connection, self.table).key
            names = ", ".join(f"CAST({quoted(name)} AS TEXT)" for name in key)
            order = ", ".join(map(quoted, key))
            found = connection.execute(f"SELECT {names} FROM {quoted(self.table)} ORDER BY {order}").fetchall()
        bounds = [tuple(row) for row in found[rows - 1 : -1 : rows]] + [tuple(row) for row in found[-1:]]
        lows: list[tuple[str, ...]] = [(), *bounds]
        return [Chunk(number, low, high) for number, (low, high) in enumerate(zip(lows, bounds, strict=False))]

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        count = 0
        with self.session.reading() as connection:
            its = identity(connection, self.table)
            texts = ", ".join(f"CAST({quoted(column.name)} AS TEXT)" for column in its.columns)
            key, marks = ", ".join(map(quoted, its.key)), ", ".join("?" * len(its.key))
            where = f"({key}) <= ({marks})" + (f" AND ({key}) > ({marks})" if chunk.lo else "")
            statement = f"SELECT {texts} FROM {quoted(self.table)} WHERE {where}"
            for row in connection.execute(statement, (*chunk.hi, *chunk.lo)):
                put(out, row)
                count += 1
        return count

    # -- how far back -------------------------------------------------------------------------------------------------

    def open_lanes(self) -> list[SlotStatus]:
        return self.read_status(None)

    def place(self, text: str) -> SqlitePosition:
        return POSITIONS.position(text)

    def records(self, place: Position | None = None) -> dict[str, FirstRecord]:
        with self.session.reading() as connection:
            return {SHARD.name: first_record(connection, self.table, place)}

    def since(self, at: str, lowest: bool = True, shard: Shard | None = None) -> dict[str, Position | None]:
        with self.session.reading() as connection:
            return {SHARD.name: first_at(connection, self.table, at)}

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        with self.session.reading() as connection:
            found = list(events(connection, self.table, low, high))
        kinds = sorted({kind for _, _, _, _, kind, _, _ in found})
        counts = tuple((kind, sum(1 for row in found if row[4] == kind)) for kind in kinds)
        begin = f"{found[0][0]}:{found[0][1]}" if found else None
        return Count(counts, True, begin, min((row[6] for row in found), default=None))

    def count_rows(self) -> RowCount:
        with self.session.reading() as connection:
            return RowCount(connection.execute(f"SELECT count(*) FROM {quoted(self.table)}").fetchone()[0])

    def clock(self) -> tuple[float, None]:
        return now_us() / 1_000_000, None

    def read(self) -> TableAnswer:
        now = datetime.fromtimestamp(now_us() / 1_000_000, timezone.utc)
        try:
            self.describe()
        except Refused:
            return TableAnswer(now, None, None, None)
        return TableAnswer(now, Ttl(None), None, None)

    def latest(self, shard: Shard | None = None) -> dict[str, Position | None]:
        with self.session.reading() as connection:
            return {SHARD.name: latest(connection)}

    def describe(self) -> TableIdentity:
        with self.session.reading() as connection:
            return identity(connection, self.table)

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        """Whole transactions."""
        with self.session.reading() as connection:
            found = list[ChangeRow]()
            for row in self._rows(connection, identity, what, only):
                if what.after and len(found) >= what.most and row.position != found[-1].position:
                    return Searched(tuple(found), found[-1].position, False)
                found.append(row)
            first = 0 if what.after else max(0, len(found) - what.most)
            while first and found[first - 1].position == found[first].position:
                first -= 1
            return Searched(tuple(found[first:]), what.up_to, first == 0)

    def _rows(
        self, connection: sqlite3.Connection, identity: TableIdentity, what: Range, only: Filter
    ) -> Iterator[ChangeRow]:
        names = [column.name for column in identity.columns]
        after, up_to = what.after or oldest(connection), what.up_to or latest(connection)
        for event in events(connection, self.table, after, up_to):
            row = change_of(connection, event)
            values = dict(zip(names, row.values, strict=True))
            if only.kinds and row.kind not in only.kinds:
                continue
            if all(values[name] == text for name, text in only.key.items()):
                yield row


def change_of(connection: sqlite3.Connection, event: tuple[Any, ...]) -> ChangeRow:
    file, offset, _, number, kind, image, time_us = event
    return ChangeRow(replace(end_of(connection, file, offset), row=number), kind, time_us, tuple(json.loads(image)))


def first_record(connection: sqlite3.Connection, table: str, place: Position | None) -> FirstRecord:
    """The offset of a table's first event at or after an offset; if there is none, the start of the binlog."""
    newest = latest(connection)
    if place is None:
        return FirstRecord(newest, oldest(connection))
    begin = max(place, oldest(connection))
    found = next(events(connection, table, begin, newest), None)
    if found is None:
        return FirstRecord(newest, None)
    return FirstRecord(newest, begin_of(connection, *found[:2]), found[6])


def first_at(connection: sqlite3.Connection, table: str, at: str) -> Position | None:
    """The offset of a table's first event at or after a time."""
    us = (datetime.fromisoformat(at) - EPOCH) // timedelta(microseconds=1)
    found = (one for one in events(connection, table, oldest(connection), latest(connection)) if one[6] >= us)
    first = next(found, None)
    return None if first is None else begin_of(connection, *first[:2])


PUT = """
INSERT INTO binlog_slots VALUES (?, ?, ?, ?, ?) ON CONFLICT (slot) DO UPDATE
SET life = excluded.life, file = excluded.file, offset = excluded.offset, tx = excluded.tx
"""


class KeptSource(SqliteSource):
    """One table of a job's slot; implements `slotkeeper.core.ports.source.Slot`. No other session registers."""

    shown_as = ""
    cleared_for = 1

    def __init__(
        self, session: SqliteSession, table: str, options: BinlogOptions, narrowed: bool = False, slot: str = ""
    ) -> None:
        super().__init__(session, table, options, narrowed)
        self._slot = slot

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        with self.session.reading() as connection:
            statement = "SELECT life, file, offset, tx FROM binlog_slots WHERE slot = ?"
            found = connection.execute(statement, (self._slot,)).fetchone()
            kept = OneKept(SqlitePosition(*found) if found else None)
            fingerprint = identity(connection, self.table).text
            return [SlotStatus(SHARD, kept, latest(connection), fingerprint, oldest(connection))]

    def _put(self, place: Position | None) -> OneKept:
        with self.session.writing() as connection:
            if place is None:
                connection.execute("DELETE FROM binlog_slots WHERE slot = ?", (self._slot,))
            else:
                here = ours(place)
                connection.execute(PUT, (self._slot, here.life, here.file, here.offset, here.tx))
        return OneKept(None if place is None else ours(place))

    def confirm(self, first: SlotStatus, asked: Confirmation) -> OneKept:
        asked.probe("before_confirm")
        asked.check()
        kept = self._put(asked.position)
        asked.probe("after_confirm")
        return kept

    def put(
        self,
        shard: Shard,
        kept: Kept,
        probe: Callable[[str], None],
        first: SlotStatus | None = None,
        lost: bool = False,
    ) -> None:
        self._put(kept.furthest)
        if first is None:
            probe("after_first_confirm")

    def full_sync(self) -> str:
        with self.session.reading() as connection:
            newest = latest(connection)
        return self._put(newest).shown

    def clear(self) -> int:
        self._put(None)
        return 1

    def place(self, text: str) -> SqlitePosition:
        return KEPT_POSITIONS.position(text)

    def kept_by(self, points: Sequence[RegisteredPoint]) -> OneKept:
        return OneKept(None)

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> OneKept:
        return OneKept(ours(place))

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> OneKept:
        return OneKept(ours(place))

    def points(self) -> Sequence[RegisteredPoint] | None:
        return None

    def end_sessions(self, pattern: str = "") -> bool:
        return True
