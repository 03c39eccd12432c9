"""A sink over one SQLite file, in two parts with a separate store: repeats accumulate, change nothing, or are prevented
by tokens.

Every variant counts how often it has each event (`events`): lost are those that it has not, repeats are those beyond
the first. Rows are stored by key with the place of their last event (`rows`), so that an older row never replaces a
newer one. It writes in pieces, each visible at once: a killed worker leaves part of a range behind.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config import keys, values
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.logged_change import Loss
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape, changes
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding, SinkTraits
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Defect, Refused, Unreachable
from slotkeeper.core.ports.driver import NO_DEFAULTS, CopyStore, Followed, StartStore
from slotkeeper.core.ports.kinds import SinkAsked, SinkKind, StoreSession, TableSession
from slotkeeper.core.ports.sink import Batch, Fields, LabelSink, QueryTarget
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks import registry
from tests.support.sqlite_pair import traits
from tests.support.sqlite_pair.binlog import KeyColumn, Row, RowsRead

ADDS_UP, BY_KEY, TOKENS = "sqlite_adds_up", "sqlite_by_key", "sqlite_tokens"
PIECE = 5
"""Rows of one transaction."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS events (event TEXT PRIMARY KEY, applied INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS targets (target TEXT PRIMARY KEY, columns TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (target TEXT NOT NULL, key TEXT NOT NULL, point INTEGER NOT NULL,
 sequence INTEGER NOT NULL, value TEXT, PRIMARY KEY (target, key));
CREATE TABLE IF NOT EXISTS prepared (token TEXT PRIMARY KEY, committed INTEGER NOT NULL, batch TEXT NOT NULL);
"""
COUNT = "INSERT INTO events VALUES (?, 1) ON CONFLICT (event) DO UPDATE SET applied = applied + 1"
PUT = """
INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT (target, key) DO UPDATE
SET point = excluded.point, sequence = excluded.sequence, value = excluded.value
WHERE (excluded.point, excluded.sequence) >= (rows.point, rows.sequence)
"""
_GONE = frozenset({"d", "B", "x"})


def _nothing(point: str) -> None:
    """A probe that kills no worker."""


hook: Callable[[str], None] = _nothing
"""Called at named points of a write, on the worker."""


@dataclass
class Unwritten:
    """Rows of writes that were started and cut off: the counted repeats may exceed the real ones."""

    ranges: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, rows: int) -> None:
        with self.lock:
            self.ranges += rows


unwritten = Unwritten()


def connect(file: str) -> sqlite3.Connection:
    """Open a session; tasks of one job use it from several threads, one after another."""
    connection = sqlite3.connect(file, timeout=60, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


@dataclass
class SqliteSink:
    """Ranges and chunks of one channel; implements `slotkeeper.core.ports.sink.BatchSink`."""

    session: SqliteSession
    identity: TableIdentity
    target: str
    keeps: bool

    def prepare(self, batch: Batch) -> str:
        hook("before_prepare")
        token = ""
        if self.keeps:
            token = uuid.uuid4().hex
            rows = json.dumps([batch.key.shard, list(batch.rows())])
            with self.session.writing() as cursor:
                cursor.execute("INSERT INTO prepared VALUES (?, 0, ?)", (token, rows))
        hook("after_prepare")
        return token

    def commit(self, token: str) -> bool:
        """Write everything in one transaction, once."""
        hook("before_commit")
        with self.session.writing() as cursor:
            found = cursor.execute("SELECT committed, batch FROM prepared WHERE token = ?", (token,)).fetchone()
            if found is None:
                return False
            if not found[0]:
                shard, rows = json.loads(found[1])
                for row in rows:
                    self._event(cursor, shard, row)
                cursor.execute("UPDATE prepared SET committed = 1, batch = '' WHERE token = ?", (token,))
            hook("in_commit")
        hook("after_commit_at_sink")
        return True

    def discard(self, token: str) -> None:
        with self.session.writing() as cursor:
            cursor.execute("DELETE FROM prepared WHERE token = ? AND committed = 0", (token,))

    def write(self, batch: Batch) -> None:
        """Write in pieces; the rows that a kill leaves out are recorded."""
        left = batch.count
        try:
            hook("before_write")
            for rows in _pieces(batch.rows()):
                with self.session.writing() as cursor:
                    for row in rows:
                        self._event(cursor, batch.key.shard, row)
                left -= len(rows)
                hook("in_write")
        finally:
            unwritten.add(left)
        hook("after_write")

    def write_chunk(self, batch: Batch) -> None:
        hook("before_chunk")
        for rows in _pieces(batch.rows()):
            with self.session.writing() as cursor:
                for row in rows:
                    key = self._key(row)
                    cursor.execute(COUNT, (f"copy/{self.target}/{key}",))
                    cursor.execute(PUT, (self.target, key, -1, -1, json.dumps(row)))
            hook("in_chunk")
        hook("after_chunk")

    def _event(self, cursor: sqlite3.Cursor, shard: str, row: Fields) -> None:
        point, sequence, kind, *values = row
        key = self._key(values)
        value = None if kind in _GONE else json.dumps(values)
        cursor.execute(COUNT, (f"{shard}/{point}/{sequence}",))
        cursor.execute(PUT, (self.target, key, int(point or 0), int(sequence or 0), value))

    def _key(self, values: Sequence[str | None]) -> str:
        names = [column.name for column in self.identity.columns]
        return json.dumps([values[names.index(name)] for name in self.identity.key])

    def rest(self) -> None:
        self.session.rollback()

    def abandon(self) -> None:
        self.session.rollback()

    def close(self) -> None:
        self.session.close()


def _pieces(rows: Iterator[Fields]) -> Iterator[list[Fields]]:
    while piece := list(itertools.islice(rows, PIECE)):
        yield piece


class SqliteTarget:
    """The file as a start sees it; implements `slotkeeper.core.ports.driver.Target`."""

    def __init__(self, session: SqliteSession, target: str) -> None:
        self._session = session
        self._target = target

    def admit(self, identity: TableIdentity) -> bool:
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        with closing(connect(self._session.file)) as connection:
            connection.executescript(SCHEMA)
            names = json.dumps([column.name for column in identity.columns])
            connection.execute("INSERT OR REPLACE INTO targets VALUES (?, ?)", (self._target, names))
        return False

    def takes_copy(self, identity: TableIdentity) -> bool:
        return not self._session.query("SELECT 1 FROM rows WHERE target = ? LIMIT 1", self._target)

    def size(self, identity: TableIdentity) -> int | None:
        return None

    def readers(self) -> str | None:
        return None

    def count_rows(self, identity: TableIdentity) -> RowCount:
        return RowCount(self._session.query("SELECT count(*) FROM rows WHERE target = ?", self._target)[0][0])

    def copying(self, on_existing: str = "") -> str:
        return "merge"

    def half_done(self, way: str) -> Refused | None:
        return None

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        store.begin_copy(turn, chunks, copying)

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        store.end_copy(turn, noted)

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        return Reshape(changes(old or (), identity.columns))

    def follow(self, store: StartStore, followed: Followed, probe: Callable[[str], None]) -> None:
        raise Defect("this kind of source logs no change of columns")

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        raise Defect("this kind of source logs no change of columns")

    def alterable(self, shape: Reshape) -> None:
        """Return true, because the target has no other writer."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        return ()  # a row is stored by its columns' names, with any names


class SqliteSession:
    """One session at the file; implements `slotkeeper.core.ports.kinds.BatchSession`."""

    def __init__(self, file: str, keeps: bool) -> None:
        self.file = file
        self._keeps = keeps
        self._connection: sqlite3.Connection | None = None

    def writing(self) -> Transaction:
        """A transaction that takes the file's lock at its start."""
        if self._connection is None:
            self._connection = connect(self.file)
        return Transaction(self._connection)

    def query(self, statement: str, *values: str) -> list[Any]:
        with closing(connect(self.file)) as connection:
            return connection.execute(statement, values).fetchall()

    def rollback(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> SqliteSink:
        return SqliteSink(self, identity, job.channel.target, self._keeps)

    def target(self, job: JobSpec, store: CopyStore | None = None) -> SqliteTarget:
        return SqliteTarget(self, job.channel.target)

    def labelled(self, target: QueryTarget) -> LabelSink:
        raise NotImplementedError

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        yield Finding(f"sink {asked.name}", Level.OK, f"{self.file} can be opened")

    def targets(self) -> None:
        """It reports only the name of a table."""
        return

    def ping(self) -> None:
        connect(self.file).close()

    def locks(self, prefix: str) -> None:
        return None

    def sever(self) -> None:
        pass

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Transaction:
    """One transaction for a block; an error of SQLite is temporary."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sqlite3.Cursor:
        try:
            return self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise Unreachable(f"sqlite: {error}", where="sink") from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        if error is None:
            self._connection.commit()
        else:
            self._connection.rollback()


@dataclass
class TargetTables:
    """The rows by key, of any variant; implements `slotkeeper.core.ports.kinds.TableSession`."""

    file: str

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> RowsRead:
        with closing(connect(self.file)) as connection:
            found = connection.execute("SELECT columns FROM targets WHERE target = ?", (name,)).fetchone()
        if found is None:
            raise Refused(f"there is no target {name}", where="sink")

        def read() -> list[Row]:
            statement = "SELECT value FROM rows WHERE target = ? AND value IS NOT NULL"
            with closing(connect(self.file)) as connection:
                return [json.loads(value) for (value,) in connection.execute(statement, (name,))]

        names = json.loads(found[0])
        return RowsRead(name, names, [KeyColumn(one) for one in key], columns or names, read)

    def close(self) -> None:
        """Each question uses a separate session."""


class SqliteKind:
    """A kind of sink; implements `slotkeeper.core.ports.kinds.SinkKind`."""

    no_reset = ""
    probe = None
    takes: tuple[Encoding, ...] = (Encoding.ROWS,)

    def __init__(self, traits: SinkTraits) -> None:
        self.traits = traits

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> StoreSession:
        raise Defect("a SQLite file is not a store")

    def connect_beside(self, login: Login) -> SqliteSession:
        return SqliteSession(login.endpoint.database, self.traits.keeps_prepared)

    def condition(self, channel: ChannelSpec) -> str:
        raise NotImplementedError

    def tables(self, login: Login, limit_ms: int) -> TableSession:
        return TargetTables(login.endpoint.database)

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        return []


KINDS: dict[str, SinkKind] = {
    ADDS_UP: SqliteKind(traits.SQLITE_ADDS_UP),
    BY_KEY: SqliteKind(traits.SQLITE_BY_KEY),
    TOKENS: SqliteKind(traits.SQLITE_TOKENS),
}
SQLITE_ADDS_UP, SQLITE_BY_KEY, SQLITE_TOKENS = KINDS.values()


class _File:
    file = keys.Key(values.text(4096), keys.REQUIRED)


FILE = keys.KindKeys(
    keys.section(_File),
    lambda given: {"host": "localhost", "port": 1, "database": given["file"], "user": "nobody"},
)


@dataclass(frozen=True)
class Contents:
    events: dict[str, int]
    rows: dict[str, list[str | None]]

    @property
    def read(self) -> dict[str, int]:
        """The events of ranges, without the rows of the copy."""
        return {event: count for event, count in self.events.items() if not event.startswith("copy/")}

    @property
    def copied(self) -> dict[str, int]:
        return {event: count for event, count in self.events.items() if event.startswith("copy/")}


def repeats(counts: dict[str, int]) -> int:
    """The number of repeats of events beyond the first time."""
    return sum(count - 1 for count in counts.values())


def contents(file: Path) -> Contents:
    with closing(connect(str(file))) as connection:
        events = dict(connection.execute("SELECT event, applied FROM events"))
        found = connection.execute("SELECT target || key, value FROM rows WHERE value IS NOT NULL")
        return Contents(events, {key: json.loads(value) for key, value in found})


def endpoint(file: Path) -> Endpoint:
    return Endpoint("lite", "localhost", 1, str(file), "nobody")


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the kinds to the registry for a test; no kind is left out yet."""
    for name, place in ((ADDS_UP, "SQLITE_ADDS_UP"), (BY_KEY, "SQLITE_BY_KEY"), (TOKENS, "SQLITE_TOKENS")):
        monkeypatch.setitem(registry.KINDS, name, (__name__, place))
    monkeypatch.setitem(keys.SERVERS, traits.FILE, FILE)
    unwritten.ranges = 0
