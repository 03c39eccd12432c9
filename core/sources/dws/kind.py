"""The source kind GaussDB(DWS): its sessions with their interfaces, and its properties."""

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
from slotkeeper.core.sources.dws import words
from slotkeeper.core.sources.dws.changelog import DwsChangelog
from slotkeeper.core.sources.dws.doctor import DwsDoctor
from slotkeeper.core.sources.dws.inspector import DwsInspector, refuse_names
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.sources.dws.session import DWS, QUIET, DwsSession
from slotkeeper.core.sources.dws.slot import DwsTable
from slotkeeper.core.sources.dws.source import Selection
from slotkeeper.core.sources.dws.traits import TRAITS
from slotkeeper.core.sources.dws.viewer import COUNT_LIMIT_MS
from slotkeeper.core.sources.dws.words import WORDS


class _Table(DwsTable):
    """A table whose admission also reads the binlog, as far as that is possible before the slot exists."""

    def admit(self) -> None:
        """Raise Refused for a table that a job cannot follow, and for a wrong `new_system_value`."""
        super().admit()
        if self.options.binlog:
            refuse_names(self.session, self.table, self.options.new_system_value)


class DwsConnection:
    """One session to DWS; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login, polls: bool = False) -> None:
        self.session = DwsSession(login.endpoint, login.password, login.name, QUIET if polls else DWS)
        self._login, self._polls = login, polls

    @property
    def name(self) -> str:
        return self.session.application_name

    def table(self, asked: TableAsked) -> SourceTable:
        selection = Selection.of(asked.channel) if asked.channel else None
        made = _Table(self.session, asked.table, asked.slot, asked.binlog, selection)
        made.points_proven = asked.points_proven
        if asked.images is None:
            return SourceTable(made, made, made, WORDS)
        log = DwsChangelog(self.session, asked.table, asked.slot, asked.binlog, asked.images)
        return SourceTable(log, made, made, WORDS)

    def inspector(self, options: BinlogOptions) -> DwsInspector:
        return DwsInspector(self.session, options.new_system_value, None if self._polls else COUNT_LIMIT_MS)

    @property
    def doctor(self) -> DwsDoctor:
        return DwsDoctor(self.session, self._login)

    def ping(self) -> None:
        self.session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def sever(self) -> None:
        self.session.sever()

    def close(self) -> None:
        self.session.close()


class DwsKind:
    """GaussDB(DWS); implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = words
    positions: Positions = POSITIONS
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.COPY_TEXT, Encoding.ROWS)

    def connect(self, login: Login, polls: bool = False) -> DwsConnection:
        return DwsConnection(login, polls)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, DWS, limit_ms)


KIND: SourceKind = DwsKind()
