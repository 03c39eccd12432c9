"""MySQL and MariaDB as a kind of source: sessions, and the queries of `doctor`, which move or create nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Level, Objection, clock_finding
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import ALLOW, BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.ttl import hours
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked, SourceKind
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources.base import NoProbe
from slotkeeper.core.sources.mysql import retention, side_effects
from slotkeeper.core.sources.mysql.chunks import MysqlTables
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.inspector import MysqlInspector
from slotkeeper.core.sources.mysql.position import POSITIONS, WORDS
from slotkeeper.core.sources.mysql.retention import MysqlRetention
from slotkeeper.core.sources.mysql.session import MysqlSession, newest, objections
from slotkeeper.core.sources.mysql.source import MysqlSource
from slotkeeper.core.sources.mysql.tables import shown
from slotkeeper.core.sources.mysql.traits import TRAITS
from slotkeeper.core.sources.mysql.waits import MysqlWaits

_DAY = 86_400


def findings(session: MysqlSession, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """Return the findings, with the findings about the server first."""
    place = f"source {asked.name}"
    before = utc().timestamp()
    clock = float(session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
    after = utc().timestamp()
    facts = session.facts
    yield Finding(place, Level.OK, f"connected to {asked.endpoint.place}: {facts.variables.get('version', 'unknown')}")
    yield clock_finding(place, clock, before, after)
    found = [Finding(place, Level.FAIL, f"{what}; fix: {cure}") for what, cure in objections(facts)]
    yield from found
    if not found:
        yield Finding(place, Level.OK, "the binlog is on, with full, uncompressed rows")
    if not facts.names_columns:
        text = "binlog_row_metadata is not FULL: column names and signedness come from information_schema if it matches"
        yield Finding(place, Level.WARN, f"{text}; fix: SET GLOBAL binlog_row_metadata = 'FULL'")
    yield _expiry(place, *retention.age_of(retention.variables_of(session)))
    try:
        session.asking(newest)
    except SlotkeeperError as error:
        yield Finding(place, Level.FAIL, f"{error.message}" + (f"; fix: {error.hint}" if error.hint else ""))
    else:
        yield Finding(place, Level.OK, "this login can read the end position of the binlog")
    for one in asked.tables:
        yield from _table(f"{place} {one.name}", session, one)


def _expiry(place: str, seconds: int | None, setting: str) -> Finding:
    """Return the finding on how long a stopped job can still be resumed."""
    if seconds is None:
        return Finding(place, Level.UNKNOWN, "cannot determine after how many hours the server purges binlogs")
    if not seconds:
        return Finding(place, Level.OK, f"only PURGE BINARY LOGS purges binlogs ({setting})")
    level = Level.WARN if seconds < _DAY else Level.OK
    return Finding(place, level, f"the server purges binlogs after {hours(seconds)}, read or not ({setting})")


def _table(place: str, session: MysqlSession, table: FollowedTable) -> Iterator[Finding]:
    source = MysqlRetention(session, table.name, "doctor", BinlogOptions(binlog=bool(table.followers)))
    known = all(job.channel.cascades == ALLOW for job in table.followers)
    try:
        source.identify()
        found = list(side_effects.objections(session, source.seen, known)) if table.followers else []
    except SlotkeeperError as error:
        yield Finding(place, Level.FAIL, f"{error.message}" + (f"; fix: {error.hint}" if error.hint else ""))
        return
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if table.followers and not side_effects.is_transactional(source.seen.engine):
        text = f"engine {source.seen.engine} is not transactional: after a server crash, take a new snapshot"
        yield Finding(place, Level.WARN, text)
    if not found:
        yield Finding(place, Level.OK, "readable, with a key; all tables share one binlog")


def grants(endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
    """Return the minimum privileges to follow and compare these tables, as GRANT statements."""
    name = endpoint.user.replace("'", "''")
    to = f"'{name}'@'HOST'"
    return [
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {to}; -- HOST: see SELECT CURRENT_USER()",
        *(f"GRANT SELECT ON {shown(table)} TO {to};" for table in tables),
        f"GRANT PROCESS ON *.* TO {to}; -- MySQL only: a copy waits for open transactions",
    ]


PING_SECONDS = 5.0
Made = TypeVar("Made", bound=MysqlSource)


class MysqlConnection:
    """One session to a server; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login) -> None:
        self.session = MysqlSession(login)
        self._user = login.endpoint.user
        self._sources: list[MysqlSource] = []

    @property
    def name(self) -> str:
        return self.session.name

    def source(self, job: JobSpec, points_proven: bool = False) -> MysqlSource:
        channel, sync = job.channel, job.sync
        limits = (sync.min_bytes_sync_commit, sync.max_bytes_sync_commit, sync.stream_read_timeout / 1000)
        selection = Selection.of(channel)
        return self._kept(MysqlSource(self.session, channel.source_table, job.slot, job.binlog, selection, *limits))

    def admin(self, job: JobSpec) -> MysqlSource:
        return self.source(job)

    def retention(self, job: JobSpec) -> MysqlRetention:
        channel, silent = job.channel, job.sync.stream_read_timeout / 1000
        asked = channel.source_table, job.slot, job.binlog, Selection.of(channel)
        return self._kept(MysqlRetention(self.session, *asked, silent_seconds=silent))

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> MysqlSource:
        return self._kept(MysqlSource(self.session, table, slot, options))

    def _kept(self, source: Made) -> Made:
        self._sources.append(source)
        return source

    def inspector(self, options: BinlogOptions) -> MysqlInspector:
        return MysqlInspector(self.session)

    def hidden(self, table: str) -> Sequence[Objection]:
        """Return nothing, because MySQL does not hide rows of a readable table."""
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return findings(self.session, asked, utc)

    def waits(self, asked: WaitsAsked) -> MysqlWaits:
        return MysqlWaits(self.session, self._user, asked)

    def ping(self) -> None:
        self.session.rows("SELECT 1", (), PING_SECONDS)

    def sever(self) -> None:
        self.session.sever()

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self.session.close()


class NothingByHand:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`; the server stores no position that SQL could move."""

    def status(self, table: str) -> str:
        """Return SQL that shows the end of the binlog."""
        return "SHOW MASTER STATUS; -- the server stores no position: see `slotkeeper slots show`"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        return "-- a MySQL server stores no position: no statement to run"


class MysqlKind:
    """MySQL and MariaDB; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = NothingByHand()
    positions: Positions = POSITIONS
    probe = NoProbe("a MySQL source has no probe: its binlog is documented", "`slotkeeper doctor` checks it")
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)
    grants = staticmethod(grants)

    def connect(self, login: Login, polls: bool = False) -> MysqlConnection:
        return MysqlConnection(login)

    def tables(self, login: Login, limit_ms: int) -> MysqlTables:
        return MysqlTables(login, limit_ms)


KIND: SourceKind = MysqlKind()
