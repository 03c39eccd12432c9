"""The source kind Hologres, read by SQL or by stream: its sessions with their interfaces, and its properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Objection
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.ports.kinds import SourceAsked, SourceKind
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.base import NoProbe
from slotkeeper.core.sources.hologres import doctor
from slotkeeper.core.sources.hologres.inspector import HoloInspector
from slotkeeper.core.sources.hologres.position import POSITIONS
from slotkeeper.core.sources.hologres.retention import HoloRetention
from slotkeeper.core.sources.hologres.session import HOLOGRES, HoloSession
from slotkeeper.core.sources.hologres.source import HoloSource
from slotkeeper.core.sources.hologres.stream.records import IDLE_SECONDS, Streams
from slotkeeper.core.sources.hologres.traits import TRAITS
from slotkeeper.core.sources.hologres.waits import HoloWaits
from slotkeeper.core.sources.hologres.words import WORDS, HoloManualSql


class HoloConnection:
    """A session to Hologres, with its streams; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    idle_seconds = IDLE_SECONDS
    """Seconds without a read after which the source ends its streams."""

    def __init__(self, login: Login) -> None:
        self.session = HoloSession(login.endpoint, login.password, login.name)
        self.streams = Streams(login, self.idle_seconds)

    @property
    def name(self) -> str:
        return self.session.application_name

    def source(self, job: JobSpec, points_proven: bool = False) -> HoloSource:
        return HoloSource(self.session, job.channel.source_table, job.binlog, job.channel, self.streams)

    def admin(self, job: JobSpec) -> HoloSource:
        return self.source(job)

    def retention(self, job: JobSpec) -> HoloRetention:
        return HoloRetention(self.session, job.channel.source_table, job.binlog, job.channel)

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> HoloSource:
        return HoloSource(self.session, table, options, None)

    def inspector(self, options: BinlogOptions) -> HoloInspector:
        return HoloInspector(self.session)

    def hidden(self, table: str) -> Sequence[Objection]:
        """Return nothing: no documented catalog shows data masking, so it cannot be detected."""
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(self.session, asked, utc)

    def waits(self, asked: WaitsAsked) -> HoloWaits:
        return HoloWaits(self.session, asked)

    def ping(self) -> None:
        self.session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def sever(self) -> None:
        self.streams.sever()
        self.session.sever()

    def close(self) -> None:
        self.streams.close()
        self.session.close()


class HoloKind:
    """Hologres; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = HoloManualSql()
    positions: Positions = POSITIONS
    probe = NoProbe("a hologres source has no probe yet", "run doctor without --probe")
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login, polls: bool = False) -> HoloConnection:
        return HoloConnection(login)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, HOLOGRES, limit_ms)

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        return pg_base.grants(endpoint, tables)


KIND: SourceKind = HoloKind()
