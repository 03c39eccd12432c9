"""The source kind Hologres, read by SQL or by stream: its sessions with their interfaces, and its properties."""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.ports.kinds import SourceKind
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources.hologres.doctor import HoloDoctor
from slotkeeper.core.sources.hologres.inspector import HoloInspector
from slotkeeper.core.sources.hologres.position import POSITIONS
from slotkeeper.core.sources.hologres.retention import HoloTable
from slotkeeper.core.sources.hologres.session import HOLOGRES, HoloSession
from slotkeeper.core.sources.hologres.stream.records import IDLE_SECONDS, Streams
from slotkeeper.core.sources.hologres.traits import TRAITS
from slotkeeper.core.sources.hologres.words import WORDS, HoloManualSql


class HoloConnection:
    """A session to Hologres, with its streams; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    idle_seconds = IDLE_SECONDS
    """Seconds without a read after which the source ends its streams."""

    def __init__(self, login: Login) -> None:
        self.session = HoloSession(login.endpoint, login.password, login.name)
        self.doctor = HoloDoctor(self.session, login)
        self.streams = Streams(login, self.idle_seconds)

    @property
    def name(self) -> str:
        return self.session.application_name

    def table(self, asked: TableAsked) -> SourceTable:
        made = HoloTable(self.session, asked.table, asked.binlog, asked.channel, self.streams)
        return SourceTable(made, None, made, WORDS)

    def inspector(self, options: BinlogOptions) -> HoloInspector:
        return HoloInspector(self.session)

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
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login, polls: bool = False) -> HoloConnection:
        return HoloConnection(login)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, HOLOGRES, limit_ms)


KIND: SourceKind = HoloKind()
