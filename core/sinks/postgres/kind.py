"""The sink kinds PostgreSQL and DWS (over PostgreSQL's protocol): their sessions and interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Finding
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.quarantine import Replayed
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding, SinkTraits
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.errors import Defect, Refused
from slotkeeper.core.ports.driver import LaneSeen, Runner
from slotkeeper.core.ports.kinds import BatchSession, SinkAsked, SinkKind, TablesVersion
from slotkeeper.core.ports.sink import QueryTarget, Views
from slotkeeper.core.sinks.postgres import doctor, own_tables, session, traits
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.seen import PostgresRecords, PostgresTargets
from slotkeeper.core.sinks.postgres.check.viewer import DwsLockWaits, PostgresLockWaits, PostgresViewer
from slotkeeper.core.sinks.postgres.progress.beside import BesideReplays, PostgresDecisions
from slotkeeper.core.sinks.postgres.progress.placement import PostgresPlacements
from slotkeeper.core.sinks.postgres.progress.reports import PostgresAccounts, SinkAudit
from slotkeeper.core.sinks.postgres.progress.resets import PostgresResets
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.quarantine.entries import QuarantineRows
from slotkeeper.core.sinks.postgres.quarantine.replay import Replays
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.target import PostgresTarget
from slotkeeper.core.sinks.postgres.write.planned_query import PlannedQuerySink
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink
from slotkeeper.core.sinks.postgres.write.sink import PostgresBatches, PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sqltext import quoted


class PostgresQuarantine(QuarantineRows):
    """The quarantine of one sink, accessed through a session; implements `slotkeeper.core.ports.sink.Quarantine`."""

    def __init__(self, session: SinkSession) -> None:
        super().__init__(session)
        self._tables: dict[str, TargetTable] = {}

    def ids(self, key: LaneKey) -> list[int]:
        return Replays(self.session, key).quarantined()

    def replay(self, id: int, job: JobSpec, key: LaneKey, identity: TableIdentity, by: str, reason: str) -> Replayed:
        name = f"{job.channel.source_table} {job.channel.place}"
        if name not in self._tables:
            self._tables[name] = targets.seen(self.session, targets.target_of(job.channel, identity))
        return Replays(self.session, key).replay(id, self._tables[name], job.sink_options, by, reason)

    def discard(self, id: int, key: LaneKey, by: str, reason: str) -> Replayed:
        return Replays(self.session, key).discard(id, by, reason)


class PostgresConnection:
    """One session with a sink; implements `slotkeeper.core.ports.kinds.StoreSession`."""

    def __init__(self, login: Login, progress_schema: str, kind: str, positions: Positions | None) -> None:
        self.session = SinkSession(login.endpoint, login.password, login.name, progress_schema, kind)
        self._schema = progress_schema
        self._positions = positions
        self.at_work = self.session.at_work
        self.end_sessions = self.session.end_sessions
        self.sever, self.close = self.session.sever, self.session.close

    @property
    def _texts(self) -> Positions:
        if self._positions is None:
            raise Defect("this session was opened for the server's state, not for progress rows")
        return self._positions

    def step_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> PostgresSink:
        target = targets.seen(self.session, targets.target_of(job.channel, identity))
        timeout = job.binlog.full_sync_binlog_read_timeout
        return PostgresSink(self.session, self._texts, target, job.sink_options, copying, timeout)

    def batches(self, job: JobSpec, identity: TableIdentity) -> PostgresBatches:
        return PostgresBatches(self.session, job, identity)

    def query_sink(self, target: QueryTarget) -> PostgresQuerySink:
        return PostgresQuerySink(self.session, target)

    def planned_query_sink(self, target: QueryTarget, place: str, beside: BatchSession) -> PlannedQuerySink:
        return PlannedQuerySink(self.session, target, place, beside)

    def progress(self, job: JobSpec, runner: Runner) -> PostgresProgress:
        return PostgresProgress(self.session, self._texts, job.lane_key(), runner, job.sink_options.quarantines)

    def resets(self, job: JobSpec, runner: Runner) -> PostgresResets:
        return PostgresResets(self.session, self._texts, job.lane_key(), runner)

    def decisions(self, quarantines: bool = False) -> PostgresDecisions:
        return PostgresDecisions(self.session, self._texts, quarantines)

    def replays(self, key: LaneKey) -> BesideReplays:
        return BesideReplays(self.session, key)

    def target(self, job: JobSpec) -> PostgresTarget:
        return PostgresTarget(job, self.session)

    def targets(self) -> PostgresTargets:
        return PostgresTargets(self.session)

    def target_records(self) -> PostgresRecords:
        return PostgresRecords(self.session)

    def quarantine(self) -> PostgresQuarantine:
        return PostgresQuarantine(self.session)

    def lanes(self, job: JobSpec) -> list[LaneSeen]:
        return PostgresViewer(self.session).lanes(self._schema, job.source.name, job.channel.source_table, job.slot)

    def followed(self) -> list[tuple[str, str, str, str]]:
        return PostgresViewer(self.session).followed(self._schema)

    def queried(self) -> list[tuple[str, str, str]]:
        return PostgresViewer(self.session).queried(self._schema)

    def accounts(self, key: LaneKey) -> PostgresAccounts:
        return PostgresAccounts(self.session, key)

    def own_tables(self) -> list[TablesVersion]:
        with self.session.transaction() as cursor:
            return own_tables.versions(self.session, cursor)

    def audit(self) -> SinkAudit:
        return SinkAudit(self.session)

    def placements(self, limit_ms: int) -> PostgresPlacements:
        return PostgresPlacements(self.session, limit_ms)

    def views(self, job: JobSpec) -> Views:
        from slotkeeper.core.sinks.postgres.views.compare import (
            PostgresViews,  # its parser's import takes half a second
        )

        if self.session.dialect.plain:
            raise Refused("a sink of this kind cannot maintain views", "remove [[views]] from the job", where="sink")
        return PostgresViews(self.session, job)

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(PostgresViewer(self.session), asked, utc)

    def locks(self, prefix: str) -> PostgresLockWaits | DwsLockWaits:
        kind = DwsLockWaits if self.session.dialect.spreads else PostgresLockWaits
        return kind(self.session, prefix)

    def ping(self) -> None:
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, PING_LIMIT_MS)
            cursor.execute("SELECT 1")


class PostgresKind:
    """A kind of sink; implements `slotkeeper.core.ports.kinds.SinkKind`."""

    grants = staticmethod(doctor.grants)
    probe = None

    def __init__(self, name: str, its: SinkTraits, no_reset: str = "") -> None:
        self._name = name
        self.no_reset = no_reset
        self.traits = its
        self.takes: tuple[Encoding, ...] = (Encoding.COPY_TEXT,)

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> PostgresConnection:
        return PostgresConnection(login, progress_schema, self._name, positions)

    def connect_beside(self, login: Login) -> BatchSession:
        """Raise Defect, because a sink of this kind stores its own progress."""
        raise Defect(f"a sink of kind {self._name} has no separate store")

    def condition(self, channel: ChannelSpec) -> str:
        if channel.soft_delete is not None:
            return f"{quoted(channel.soft_delete.deleted_at)} IS NULL"
        assert channel.constant is not None
        # untyped: a column of text compares text
        return f"{quoted(channel.constant.column)} = '{channel.constant.text}'"

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, session.dialect_of(self._name), limit_ms)


POSTGRES: SinkKind = PostgresKind("postgres", traits.POSTGRES)
DWS: SinkKind = PostgresKind("dws", traits.DWS, "is a GaussDB(DWS): only PostgreSQL can store a reset's steps")
