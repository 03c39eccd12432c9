"""SQLite as a kind of source, for tests: its sessions with their faces, and what it says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import pytest

from slotkeeper.core.config import keys, values
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Level, Objection
from slotkeeper.core.domain.inspection import Answer, Left, ProbePlan
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import SourceAsked, SourceKind
from slotkeeper.core.sources import registry
from tests.support.sqlite_pair import traits
from tests.support.sqlite_pair.binlog import Origin
from tests.support.sqlite_pair.kept import KeptSource
from tests.support.sqlite_pair.position import POSITIONS
from tests.support.sqlite_pair.source import SqliteSession, SqliteSource
from tests.support.sqlite_pair.tables import SourceTables
from tests.support.sqlite_pair.viewer import SqliteReader, SqliteViewer

NAME, KEEPS = "sqlite", "sqlite_keeps"
"""Without and with one position kept for the stream."""


class SqliteConnection:
    """One session; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login, keeps: bool = False) -> None:
        self.name = login.name
        self._keeps = keeps
        self.session = SqliteSession(login.endpoint.database)

    def source(self, job: JobSpec, points_proven: bool = False) -> SqliteSource:
        channel = job.channel
        narrowed = bool(channel.columns or channel.where)
        if self._keeps:
            return KeptSource(self.session, channel.source_table, job.binlog, narrowed, job.slot)
        return SqliteSource(self.session, channel.source_table, job.binlog, narrowed)

    def admin(self, job: JobSpec) -> SqliteSource:
        return self.source(job)

    def retention(self, job: JobSpec) -> SqliteSource:
        return self.source(job)

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> SqliteSource:
        return KeptSource(self.session, table, options, slot=slot) if self._keeps else self._plain(table, options)

    def _plain(self, table: str, options: BinlogOptions) -> SqliteSource:
        return SqliteSource(self.session, table, options)

    def viewer(self) -> SqliteViewer:
        return SqliteViewer(self.session)

    def reader(self, options: BinlogOptions) -> SqliteReader:
        return SqliteReader(self.session)

    def hidden(self, table: str) -> Sequence[Objection]:
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """The file can be opened, and each table can be followed."""
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

    def ping(self) -> None:
        """A file answers at once."""

    def sever(self) -> None:
        """A file has no line that could be cut."""

    def close(self) -> None:
        self.session.close()


class NothingToType:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`."""

    def status(self, table: str) -> str:
        return "-- there is no slot: nothing to type"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- nothing is registered: nothing to type"


class NoProbe:
    """Implements `slotkeeper.core.ports.kinds.Probe`: nothing here is undocumented."""

    asked = 0

    def plan(self, login: Login, source: str, schema: str, prod: bool) -> ProbePlan:
        raise Refused("a SQLite source has no probe", where="source")

    def ask(
        self,
        login: Login,
        plan: ProbePlan,
        jobs: Sequence[JobSpec],
        left: list[Left],
        progress: Callable[[str], None],
        ending: Callable[[], None],
    ) -> list[Answer]:
        raise Refused("a SQLite source has no probe", where="source")

    def switches(self, answers: Iterable[Answer]) -> Mapping[str, bool | None]:
        return {}


class SqliteSourceKind:
    """Implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual = NothingToType()
    positions: Positions = POSITIONS
    probe = NoProbe()
    traits = traits.TRAITS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login) -> SqliteConnection:
        return SqliteConnection(login)

    def poller(self, login: Login) -> SqliteViewer:
        return SqliteViewer(SqliteSession(login.endpoint.database))

    def tables(self, login: Login, limit_ms: int) -> SourceTables:
        return SourceTables(login.endpoint.database)

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """A file knows no rights."""
        return []


KIND: SourceKind = SqliteSourceKind()


def endpoint(origin: Origin) -> Endpoint:
    """Where it is, as a job names it."""
    return Endpoint("origin", "localhost", 1, str(origin.path), "nobody")


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the kind into the registry, and its key into the configuration, for a test."""
    monkeypatch.setitem(registry.KINDS, NAME, __name__)
    monkeypatch.setitem(registry.KINDS, KEEPS, __name__.replace(".kind", ".keeping.kind"))
    monkeypatch.setitem(keys.SERVERS, traits.FILE, FILE)


FILE = keys.KindKeys(
    keys.section(keys.Key("file", "the SQLite file", values.text(4096), keys.REQUIRED)),
    lambda given: {"host": "localhost", "port": 1, "database": given["file"], "user": "nobody"},
)
