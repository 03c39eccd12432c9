"""The source kind GaussDB(DWS): its sessions with their interfaces, and its properties."""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.kinds import Doctor, OpenFeed, Probe, SourceKind
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.sources.dws import words
from slotkeeper.core.sources.dws.changelog import DwsChangelog
from slotkeeper.core.sources.dws.doctor import DwsDoctor
from slotkeeper.core.sources.dws.inspector import DwsInspector
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.sources.dws.session import DWS, QUIET, DwsSession
from slotkeeper.core.sources.dws.source import Selection
from slotkeeper.core.sources.dws.traits import TRAITS
from slotkeeper.core.sources.dws.words import WORDS


class _Table(DwsInspector):
    """A table whose admission also reads the binlog, as far as that is possible before the slot exists."""

    def admit(self) -> None:
        """Raise Refused for a table that a job cannot follow, and for a wrong `new_system_value`."""
        super().admit()
        if self.options.binlog:
            try:
                self.read_nothing()
            except Refused:
                raise
            except SlotkeeperError:
                return


class DwsConnection:
    """One session to DWS; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login, polls: bool = False) -> None:
        self.session = DwsSession(login.endpoint, login.password, login.name, QUIET if polls else DWS)
        self.doctor: Doctor = DwsDoctor(self.session, login)
        self._polls = polls

    def table(self, asked: TableAsked) -> SourceTable:
        selection = Selection.of(asked.channel) if asked.channel else None
        made = _Table(self.session, asked.table, asked.slot, asked.binlog, selection)
        made.points_proven = asked.points_proven
        if self._polls:
            made.count_ms = None
        if asked.images is None:
            return SourceTable(made, made, made, WORDS, made.pinned)
        log = DwsChangelog(self.session, asked.table, asked.slot, asked.binlog, asked.images)
        return SourceTable(log, made, made, WORDS, made.pinned)

    def ping(self) -> None:
        self.session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def sever(self) -> None:
        self.session.sever()

    def close(self) -> None:
        self.session.close()


def _probe(login: Login) -> Probe:
    from slotkeeper.core.sources.dws.probe.run import probe  # only the probe needs these ten files

    return probe(login)


class DwsKind:
    """GaussDB(DWS); implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = words
    positions: Positions = POSITIONS
    traits = TRAITS
    words = WORDS
    gives: tuple[Encoding, ...] = (Encoding.COPY_TEXT, Encoding.ROWS)
    probe = staticmethod(_probe)
    feed: OpenFeed | None = None

    def connect(self, login: Login, polls: bool = False) -> DwsConnection:
        return DwsConnection(login, polls)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, DWS, limit_ms)


KIND: SourceKind = DwsKind()
