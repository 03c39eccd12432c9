"""Tables of one SQLite file and its binlog: one stream for all tables, in files that are rotated and purged.

Whoever writes does so here, in whole transactions: an event has an offset and a length as in a server's binlog, and a
transaction ends where its last event does.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.sqlite_pair.position import BEGIN, SqlitePosition

SCHEMA = """
CREATE TABLE IF NOT EXISTS binlog_head (life TEXT, file INTEGER, offset INTEGER, tx INTEGER);
CREATE TABLE IF NOT EXISTS binlog_tables (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS binlog_files (file INTEGER PRIMARY KEY, tx INTEGER);
CREATE TABLE IF NOT EXISTS binlog_ends (file INTEGER, offset INTEGER, tx INTEGER, PRIMARY KEY (file, offset));
CREATE TABLE IF NOT EXISTS binlog_events (file INTEGER, offset INTEGER, tx INTEGER, number INTEGER, name TEXT,
 kind TEXT, image TEXT, time_us INTEGER, PRIMARY KEY (file, offset));
CREATE TABLE IF NOT EXISTS binlog_slots (slot TEXT PRIMARY KEY, life TEXT, file INTEGER, offset INTEGER, tx INTEGER);
"""
Row = Mapping[str, object]


def connect(file: str) -> sqlite3.Connection:
    """A session, which waits for the one writer that SQLite has."""
    connection = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def quoted(name: str) -> str:
    """A name as SQL; a table's is `schema.table` as it is written, because one file has no schemas."""
    return '"' + name.replace('"', '""') + '"'


def now_us() -> int:
    """The clock of this machine in microseconds, which is the server's too."""
    return time.time_ns() // 1_000


@dataclass
class Origin:
    """One file with tables that are followed; `clock` gives the events' times in microseconds."""

    path: Path
    clock: Callable[[], int] = now_us
    events: dict[str, int] = field(default_factory=dict)
    """How many events each table has had, by our own account."""

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

    def drop_table(self, name: str) -> None:
        """Drop a table; another one under its name is another table."""
        with closing(connect(str(self.path))) as connection:
            connection.execute(f"DROP TABLE {quoted(name)}")
            connection.execute("DELETE FROM binlog_tables WHERE name = ?", (name,))

    @contextmanager
    def transaction(self) -> Iterator[Writing]:
        """One transaction; its events are in the binlog once it has ended, and none of them where it raises."""
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
        """Begin the next file."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("UPDATE binlog_head SET file = file + 1, offset = ?", (BEGIN,))
            connection.execute("INSERT INTO binlog_files SELECT file, tx FROM binlog_head")

    def purge(self) -> None:
        """Drop every file but the newest, whoever still needs them."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (newest,) = connection.execute("SELECT file FROM binlog_head").fetchone()
            for table in ("binlog_files", "binlog_ends", "binlog_events"):
                connection.execute(f"DELETE FROM {table} WHERE file < ?", (newest,))
            connection.commit()

    def purge_read(self) -> None:
        """Drop every file that lies before the position of each slot, as a server does that keeps them."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (least,) = connection.execute("SELECT min(file) FROM binlog_slots WHERE file IS NOT NULL").fetchone()
            for table in ("binlog_files", "binlog_ends", "binlog_events"):
                connection.execute(f"DELETE FROM {table} WHERE file < ?", (least or 0,))
            connection.commit()

    def rebuild(self) -> None:
        """The same tables under another life of the binlog, which begins empty."""
        with closing(connect(str(self.path))) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (life,) = connection.execute("SELECT life FROM binlog_head").fetchone()
            _begin_life(connection, str(int(life) + 1))
            connection.commit()

    def latest(self) -> SqlitePosition:
        """Where the next event will lie."""
        with closing(connect(str(self.path))) as connection:
            return SqlitePosition(*connection.execute("SELECT life, file, offset, tx FROM binlog_head").fetchone())


def _begin_life(connection: sqlite3.Connection, life: str) -> None:
    for table in ("binlog_head", "binlog_files", "binlog_ends", "binlog_events"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO binlog_head VALUES (?, 1, ?, 0)", (life, BEGIN))
    connection.execute("INSERT INTO binlog_files VALUES (1, 0)")


class Writing:
    """One transaction under way: changes to tables, and their events."""

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
        """Delete a row by its key; nothing where there is none."""
        before = self._find(table, key)
        if before is not None:
            where = " AND ".join(f"{quoted(name)} = ?" for name in key)
            self._connection.execute(f"DELETE FROM {quoted(table)} WHERE {where}", tuple(key.values()))
            self._event(table, "d", before)

    def end(self) -> None:
        """The transaction's end, where the next one begins."""
        if self._number:
            self._connection.execute("INSERT INTO binlog_ends VALUES (?, ?, ?)", (self._file, self._offset, self._tx))
            self._connection.execute("UPDATE binlog_head SET offset = ?, tx = ?", (self._offset, self._tx))

    def _find(self, table: str, row: Row) -> Sequence[str | None] | None:
        """The row of this key, its values as text."""
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
    """(name, type, whether it holds no NULL, place in the key or 0) of each column; nothing where there is no table."""
    rows = connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)).fetchall()
    return [(str(name), str(kind).lower(), bool(required or pk), int(pk)) for name, kind, required, pk in rows]
