"""SQLite as a kind of source, for tests: its sessions, and its description of itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

import pytest

from slotkeeper.core.config import keys, values
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Level, Objection
from slotkeeper.core.domain.inventory import TableListed
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import Doctor, OpenFeed, SourceAsked, SourceKind
from slotkeeper.core.ports.source import SlotsOfTables, SourceTable
from slotkeeper.core.sources import registry
from tests.support.sqlite_pair import traits
from tests.support.sqlite_pair.binlog import KEPT_POSITIONS, POSITIONS, Origin, SourceTables
from tests.support.sqlite_pair.source import (
    WORDS,
    KeptSource,
    SqliteSession,
    SqliteSource,
)

NAME, KEEPS = "sqlite", "sqlite_keeps"
"""Without and with one stored position for the stream."""


class SqliteDoctor:
    """Implements `slotkeeper.core.ports.kinds.Doctor`."""

    def __init__(self, session: SqliteSession) -> None:
        self.session = session

    def hidden(self, table: str) -> Sequence[Objection]:
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """Check that the file can be opened and each table can be replicated."""
        place = f"source {asked.name}"
        with self.session.reading():
            yield Finding(place, Level.OK, "the file can be opened")
        for table in asked.tables:
            try:
                SqliteSource(self.session, table.name, BinlogOptions()).admit()
            except Refused as error:
                yield Finding(f"{place} {table.name}", Level.FAIL, str(error))
            else:
                yield Finding(f"{place} {table.name}", Level.OK, "has a key; all tables share one binlog")

    def list_tables(self, schemas: Collection[str], binlog: bool) -> Sequence[TableListed]:
        return ()

    def waits(self, tables: SlotsOfTables) -> None:
        return None


class SqliteConnection:
    """One session; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login, keeps: bool = False) -> None:
        self._keeps = keeps
        self.session = SqliteSession(login.endpoint.database)
        self.doctor: Doctor = SqliteDoctor(self.session)

    def table(self, asked: TableAsked) -> SourceTable:
        channel = asked.channel
        narrowed = channel is not None and bool(channel.columns or channel.where)
        if self._keeps:
            kept = KeptSource(self.session, asked.table, asked.binlog, narrowed, asked.slot)
            return SourceTable(kept, kept, kept, WORDS)
        made = SqliteSource(self.session, asked.table, asked.binlog, narrowed)
        return SourceTable(made, None, made, WORDS)

    def ping(self) -> None:
        """Do nothing: a file answers at once."""

    def sever(self) -> None:
        """Do nothing: a file has no connection."""

    def close(self) -> None:
        self.session.close()


class NothingToType:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`."""

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        return []

    def status(self, table: str) -> str:
        return "-- there is no slot: nothing to type"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- nothing is registered: nothing to type"


class SqliteSourceKind:
    """Implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = NothingToType()
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)
    probe = None
    feed: OpenFeed | None = None

    def __init__(self, keeps: bool = False) -> None:
        self._keeps = keeps
        self.positions: Positions = KEPT_POSITIONS if keeps else POSITIONS
        self.traits = traits.KEEPS_TRAITS if keeps else traits.TRAITS

    def connect(self, login: Login, polls: bool = False) -> SqliteConnection:
        return SqliteConnection(login, self._keeps)

    def tables(self, login: Login, limit_ms: int) -> SourceTables:
        return SourceTables(login.endpoint.database)


KIND: SourceKind = SqliteSourceKind()
KEEPS_KIND: SourceKind = SqliteSourceKind(keeps=True)


def endpoint(origin: Origin) -> Endpoint:
    return Endpoint("origin", "localhost", 1, str(origin.path), "nobody")


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the kind into the registry, and its key into the configuration, for a test."""
    monkeypatch.setitem(registry.KINDS, NAME, (__name__, ""))
    monkeypatch.setitem(registry.KINDS, KEEPS, (__name__, "KEEPS_"))
    monkeypatch.setitem(keys.SERVERS, traits.FILE, FILE)


class _File:
    file = keys.Key(values.text(4096), keys.REQUIRED)


FILE = keys.KindKeys(
    keys.section(_File),
    lambda given: {"host": "localhost", "port": 1, "database": given["file"], "user": "nobody"},
)
