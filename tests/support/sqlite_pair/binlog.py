"""Tables of one SQLite file and its binlog: one stream for all tables, in files that are rotated and purged.

All writers write here, in whole transactions: an event has an offset and a length as in a server's binlog, and a
transaction ends where its last event does.

Positions are (life, file, offset, transaction), always at a transaction's end. Two lives of a binlog have nothing in
common: their positions have no order. `RowsRead` has a table's rows as a comparison reads them: in memory, with keys in
the order of their texts.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from slotkeeper.core.domain.position import Kept, OnePlace, Order, Position, nothing_of
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import COUNTED, Checksum, ComparedKey, Digest, Key, KeyRange, Rewrite

SCHEMA = """
CREATE TABLE IF NOT EXISTS binlog_head (life TEXT, file INTEGER, offset INTEGER, tx INTEGER);
CREATE TABLE IF NOT EXISTS binlog_tables (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS binlog_files (file INTEGER PRIMARY KEY, tx INTEGER);
CREATE TABLE IF NOT EXISTS binlog_ends (file INTEGER, offset INTEGER, tx INTEGER, PRIMARY KEY (file, offset));
CREATE TABLE IF NOT EXISTS binlog_events (file INTEGER, offset INTEGER, tx INTEGER, number INTEGER, name TEXT,
 kind TEXT, image TEXT, time_us INTEGER, PRIMARY KEY (file, offset));
CREATE TABLE IF NOT EXISTS binlog_slots (slot TEXT PRIMARY KEY, life TEXT, file INTEGER, offset INTEGER, tx INTEGER);
"""
Values = Mapping[str, object]


def connect(file: str) -> sqlite3.Connection:
    """Open a session, which waits while another session writes, as SQLite allows only one writer."""
    connection = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def quoted(name: str) -> str:
    """A name as SQL; a table's name is `schema.table` as written, because a file has no schemas."""
    return '"' + name.replace('"', '""') + '"'


def now_us() -> int:
    """The time in microseconds: host and server share one clock."""
    return time.time_ns() // 1_000


@dataclass
class Origin:
    """One file with tables that are followed; `clock` gives the events' times in microseconds."""

    path: Path
    clock: Callable[[], int] = now_us
    events: dict[str, int] = field(default_factory=dict)
    """The number of events of each table, counted here."""

    def __post_init__(self) -> None:
        with closing(connect(str(self.path))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA)
            if connection.execute("SELECT 1 FROM binlog_head").fetchone() is None:
                _begin_life(connection, "1")

    def create_table(self, name: str, columns: str) -> None:
        """Make a table; `columns` is SQL with a PRIMARY KEY."""
        with closing(connect(str(self.path))) as connection:
            connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")
            connection.execute("INSERT INTO binlog_tables (name) VALUES (?)", (name,))

    @contextmanager
    def transaction(self) -> Iterator[Writing]:
        """One transaction; its events are in the binlog after it has ended, or none of them if it raises an error."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            writing = Writing(connection, self.clock())
            try:
                yield writing
                writing.end()
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            for name, count in writing.events.items():
                self.events[name] = self.events.get(name, 0) + count

    def rotate(self) -> None:
        with closing(connect(str(self.path))) as connection:
            connection.execute("UPDATE binlog_head SET file = file + 1, offset = ?", (BEGIN,))
            connection.execute("INSERT INTO binlog_files SELECT file, tx FROM binlog_head")

    def purge(self) -> None:
        """Drop every file but the newest, even if a reader still needs one."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (newest,) = connection.execute("SELECT file FROM binlog_head").fetchone()
            for table in ("binlog_files", "binlog_ends", "binlog_events"):
                connection.execute(f"DELETE FROM {table} WHERE file < ?", (newest,))
            connection.commit()

    def purge_read(self) -> None:
        """Drop every file before the position of each slot, as a server with slots does."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (least,) = connection.execute("SELECT min(file) FROM binlog_slots WHERE file IS NOT NULL").fetchone()
            for table in ("binlog_files", "binlog_ends", "binlog_events"):
                connection.execute(f"DELETE FROM {table} WHERE file < ?", (least or 0,))
            connection.commit()

    def rebuild(self) -> None:
        """Replace the binlog by one with another life, which starts empty; the tables stay."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (life,) = connection.execute("SELECT life FROM binlog_head").fetchone()
            _begin_life(connection, str(int(life) + 1))
            connection.commit()

    def latest(self) -> SqlitePosition:
        with closing(connect(str(self.path))) as connection:
            return SqlitePosition(*connection.execute("SELECT life, file, offset, tx FROM binlog_head").fetchone())


def _begin_life(connection: sqlite3.Connection, life: str) -> None:
    for table in ("binlog_head", "binlog_files", "binlog_ends", "binlog_events"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO binlog_head VALUES (?, 1, ?, 0)", (life, BEGIN))
    connection.execute("INSERT INTO binlog_files VALUES (1, 0)")


class Writing:
    """A transaction in progress: changes to tables, and their events."""

    def __init__(self, connection: sqlite3.Connection, time_us: int) -> None:
        self.events: dict[str, int] = {}
        self._connection = connection
        self._time = time_us
        head = connection.execute("SELECT file, offset, tx FROM binlog_head").fetchone()
        self._file, self._offset, self._tx = head[0], head[1], head[2] + 1
        self._number = 0

    def put(self, table: str, **row: object) -> None:
        """Insert a row, or change the one of its key."""
        before = self._find(table, row)
        names = ", ".join(map(quoted, row))
        marks = ", ".join("?" * len(row))
        self._connection.execute(
            f"INSERT OR REPLACE INTO {quoted(table)} ({names}) VALUES ({marks})", tuple(row.values())
        )
        after = self._find(table, row)
        assert after is not None
        if before is not None:
            self._event(table, "B", before)
        self._event(table, "I" if before is None else "U", after)

    def delete(self, table: str, **key: object) -> None:
        """Delete a row by its key; do nothing if there is none."""
        before = self._find(table, key)
        if before is not None:
            where = " AND ".join(f"{quoted(name)} = ?" for name in key)
            self._connection.execute(f"DELETE FROM {quoted(table)} WHERE {where}", tuple(key.values()))
            self._event(table, "d", before)

    def end(self) -> None:
        if self._number:
            self._connection.execute("INSERT INTO binlog_ends VALUES (?, ?, ?)", (self._file, self._offset, self._tx))
            self._connection.execute("UPDATE binlog_head SET offset = ?, tx = ?", (self._offset, self._tx))

    def _find(self, table: str, row: Values) -> Sequence[str | None] | None:
        columns = table_columns(self._connection, table)
        key = [name for name, _, _, place in columns if place]
        texts = ", ".join(f"CAST({quoted(name)} AS TEXT)" for name, _, _, _ in columns)
        where = " AND ".join(f"{quoted(name)} = ?" for name in key)
        found: Sequence[str | None] | None = self._connection.execute(
            f"SELECT {texts} FROM {quoted(table)} WHERE {where}", tuple(row[name] for name in key)
        ).fetchone()
        return found

    def _event(self, table: str, kind: str, values: Sequence[str | None]) -> None:
        image = json.dumps(values)
        self._connection.execute(
            "INSERT INTO binlog_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._file, self._offset, self._tx, self._number, table, kind, image, self._time),
        )
        self._offset += 19 + len(image)
        self._number += 1
        self.events[table] = self.events.get(table, 0) + 1


def table_columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, bool, int]]:
    """(name, type, whether it holds no NULL, place in the key or 0) of each column; empty if there is no table."""
    rows = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)).fetchall()
    return [(str(name), str(kind).lower(), bool(required or pk), int(pk)) for name, kind, required, pk in rows]


BEGIN = 4
"""The offset of the first event of a file."""
HIGHEST = 1 << 32
"""Upper bound of offsets."""


@dataclass(frozen=True, slots=True)
class SqlitePosition(Position):
    """Every event before `offset` of `file` has been applied; `tx` is the last transaction among them, 0 for none."""

    life: str
    file: int
    offset: int
    tx: int
    row: int = field(default=0, compare=False)
    """The number of the row in the transaction that ends there, for display; 0 for the transaction."""

    @property
    def text(self) -> str:
        """`life:file:offset:tx`.

        >>> SqlitePosition("a", 3, 104, 17).text
        'a:3:104:17'
        """
        return f"{self.life}:{self.file}:{self.offset}:{self.tx}"

    @property
    def shown(self) -> str:
        return self.text

    @property
    def pair(self) -> tuple[int, int]:
        """File and offset in one number, and 0 or the row: a read range has its own offsets below."""
        return pair_of(self.file, self.offset, self.row)

    @property
    def from_here(self) -> SqlitePosition:
        return self

    @property
    def place(self) -> SqlitePosition:
        return self

    def order(self, other: Position) -> Order:
        """By file, then by offset, as numbers; unknown across lives.

        >>> SqlitePosition("a", 9, 4, 7) < SqlitePosition("a", 10, 4, 7)
        True
        >>> SqlitePosition("a", 9, 4, 7).order(SqlitePosition("b", 9, 4, 7))
        <Order.UNKNOWN: None>
        """
        there = ours(other)
        if self.life != there.life:
            return Order.UNKNOWN
        one, two = (self.file, self.offset), (there.file, there.offset)
        return Order.SAME if one == two else Order.BEFORE if one < two else Order.AFTER

    def ahead_of(self, other: Position) -> int | None:
        there = ours(other)
        return max(0, self.tx - there.tx) if self.life == there.life else None


@dataclass(frozen=True, slots=True)
class OneKept(OnePlace):
    """The stored state of a server that keeps one position for the stream of all tables; None if there is no slot."""

    position: SqlitePosition | None

    @property
    def text(self) -> str:
        return f"kept {self.position.text}" if self.position else "kept -"

    @property
    def shown(self) -> str:
        return self.position.shown if self.position else "none"

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.position.shown if self.position else "",)

    @property
    def missing(self) -> bool:
        return self.position is None

    @property
    def shared(self) -> bool:
        return True

    @property
    def furthest(self) -> SqlitePosition | None:
        return self.position

    @property
    def oldest(self) -> SqlitePosition | None:
        return self.position

    @property
    def blank(self) -> OneKept:
        return OneKept(None)

    @property
    def known(self) -> OneKept:
        return self

    def at(self, position: Position) -> OneKept:
        return OneKept(ours(position))

    def behind(self, other: Kept) -> bool:
        return other.furthest is not None and (self.position is None or self.position < other.furthest)

    def found(self, there: Kept) -> Kept:
        return there

    @property
    def again(self) -> Position:
        assert self.position is not None
        return self.position


class SqlitePositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "transactions"
    name = "position"
    part = "file"
    marks: tuple[str, ...] = ()

    def position(self, text: str) -> SqlitePosition:
        """Read `life:file:offset:tx`; raises ValueError for anything else.

        >>> POSITIONS.position("a:3:104:17")
        SqlitePosition(life='a', file=3, offset=104, tx=17, row=0)
        """
        parts = text.split(":")
        numbers = [int(part) for part in parts[1:] if part.isascii() and part.isdigit()]
        if len(parts) != 4 or len(numbers) != 3 or not parts[0]:
            raise ValueError(f"not life:file:offset:transaction: {text!r}")
        position = SqlitePosition(parts[0], *numbers)
        if position.text != text or position.file < 1 or not BEGIN <= position.offset < HIGHEST:
            raise ValueError(f"not life:file:offset:transaction: {text!r}")
        return position

    def place(self, text: str) -> SqlitePosition:
        """The same: every position of this dialect names a transaction's end exactly."""
        return self.position(text)

    def kept(self, text: str) -> Kept:
        """Read the stored text of an empty position; raises ValueError for anything else."""
        return nothing_of(text)


POSITIONS = SqlitePositions()


class KeptPositions(SqlitePositions):
    """The same for a single stored position."""

    marks: tuple[str, ...] = ("confirmed",)

    def kept(self, text: str) -> OneKept:
        """Read the stored text of the single position; raises ValueError for anything else."""
        word, _, place = text.partition(" ")
        if word != "kept" or not place:
            raise ValueError(f"not what is kept here: {text!r}")
        return OneKept(None if place == "-" else self.position(place))


KEPT_POSITIONS = KeptPositions()


def pair_of(file: int, offset: int, number: int = 0) -> tuple[int, int]:
    """The two numbers that order an event: its location, and its index in the transaction."""
    return file << 32 | offset, number


def ours(position: Position) -> SqlitePosition:
    """Return a position of this dialect; any other would fail at its first use."""
    return cast("SqlitePosition", position)


Row = Sequence[str | None]


@dataclass(frozen=True)
class KeyColumn:
    """Implements `slotkeeper.core.ports.kinds.ComparedKey`."""

    name: str

    def of_copy(self, text: str) -> str:
        return text


@dataclass
class RowsRead:
    """Implements `ports.table.ComparedTable`; `read` returns all rows, each with the values of `names`."""

    label: str
    names: Sequence[str]
    key: Sequence[ComparedKey]
    columns: Sequence[str]
    read: Callable[[], list[Row]]
    signature: Sequence[str] = ("text",)
    forms: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        lacks = [name for name in (*self.columns, *(one.name for one in self.key)) if name not in self.names]
        if lacks:
            raise Refused(f"{self.label} has no column {lacks[0]!r}", f"it has {', '.join(self.names)}")
        self.forms = [COUNTED] * len(self.columns)

    def hashes_by(self, forms: Sequence[str]) -> None:
        """There is one form."""

    def rewrite(self, columns: Sequence[str], values: Rewrite) -> None:
        raise NotImplementedError

    def count(self, bounds: KeyRange) -> int:
        return len(self._found(bounds))

    def checksum(self, bounds: KeyRange) -> Checksum:
        found = self._found(bounds)
        return Checksum(len(found), sum(int(_hash(list(one)), 16) for one in found.values()))

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        return sorted(self._found(bounds))[rows::rows]

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        return [(key, _hash(list(one))) for key, one in self._found(bounds).items()][:limit]

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        found = self._found(KeyRange())
        return {
            key: tuple(None if text is None else _hash(text) for text in found[key]) for key in keys if key in found
        }

    def _found(self, bounds: KeyRange) -> dict[Key, Row]:
        keys = [self.names.index(one.name) for one in self.key]
        places = [self.names.index(name) for name in self.columns]
        found = {tuple(row[at] or "" for at in keys): [row[at] for at in places] for row in self.read()}
        low, high = bounds.low, bounds.high
        return {key: row for key, row in found.items() if (low is None or key >= low) and (high is None or key < high)}


def _hash(value: object) -> str:
    return hashlib.md5(json.dumps(value).encode()).hexdigest()


@dataclass
class SourceTables:
    """Implements `slotkeeper.core.ports.kinds.TableSession` over the file of a source."""

    file: str

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> RowsRead:
        with closing(connect(self.file)) as connection:
            there = table_columns(connection, name)
        if not there or where:
            raise Refused(f"{name} cannot be compared: there is no such table, or it has a filter", where="source")
        names = [one for one, _, _, _ in there]
        texts = ", ".join(f"CAST({quoted(one)} AS TEXT)" for one in names)

        def read() -> list[Row]:
            with closing(connect(self.file)) as connection:
                return connection.execute(f"SELECT {texts} FROM {quoted(name)}").fetchall()

        keys = key or [one for _, one in sorted((place, one) for one, _, _, place in there if place)]
        return RowsRead(name, names, [KeyColumn(one) for one in keys], columns or names, read)

    def close(self) -> None:
        """Each question uses a separate session."""
