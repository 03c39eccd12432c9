"""The source kind GaussDB(DWS): its sessions with their interfaces, and its properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Finding, Objection
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.ports.kinds import Probe, SourceAsked, SourceKind
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.dws import doctor, eligibility, words
from slotkeeper.core.sources.dws.changelog import DwsChangelog
from slotkeeper.core.sources.dws.inspector import DwsInspector, refuse_names
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.sources.dws.session import DWS, QUIET, DwsSession
from slotkeeper.core.sources.dws.slot import DwsRetention, DwsSlotVerbs
from slotkeeper.core.sources.dws.source import DwsSlotAdmin, DwsSource, Selection
from slotkeeper.core.sources.dws.traits import TRAITS
from slotkeeper.core.sources.dws.viewer import COUNT_LIMIT_MS, DwsViewer
from slotkeeper.core.sources.dws.waits import DwsWaits
from slotkeeper.core.sources.dws.words import WORDS

Made = TypeVar("Made", bound=DwsSource)


class _Source(DwsSource):
    """A channel whose admission also reads the binlog, as far as that is possible before the slot exists."""

    def admit(self) -> None:
        """Raise Refused for a table that a job cannot follow, and for a wrong `new_system_value`."""
        super().admit()
        if self.options.binlog:
            refuse_names(self.session, self.table, self.options.new_system_value)


class DwsConnection:
    """One session to DWS; implements `slotkeeper.core.ports.kinds.ChangelogSession`."""

    def __init__(self, login: Login, polls: bool = False) -> None:
        self.session = DwsSession(login.endpoint, login.password, login.name, QUIET if polls else DWS)
        self._polls = polls
        self._user = login.endpoint.user

    @property
    def name(self) -> str:
        return self.session.application_name

    def _made(self, kind: type[Made], job: JobSpec) -> Made:
        channel = job.channel
        return kind(self.session, channel.source_table, job.slot, job.binlog, Selection.of(channel))

    def source(self, job: JobSpec, points_proven: bool = False) -> DwsSource:
        made = self._made(_Source, job)
        made.points_proven = points_proven
        return made

    def admin(self, job: JobSpec) -> DwsSlotAdmin:
        return self._made(DwsSlotAdmin, job)

    def changelog(self, job: JobSpec) -> DwsChangelog:
        return DwsChangelog(self.session, job.channel.source_table, job.slot, job.binlog)

    def retention(self, job: JobSpec) -> DwsRetention:
        return self._made(DwsRetention, job)

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> DwsSlotVerbs:
        return DwsSlotVerbs(self.session, table, slot, options)

    def inspector(self, options: BinlogOptions) -> DwsInspector:
        return DwsInspector(self.session, options.new_system_value, None if self._polls else COUNT_LIMIT_MS)

    def hidden(self, table: str) -> Sequence[Objection]:
        facts = DwsViewer(self.session).table_facts(table)
        return list(eligibility.hidden_objections(table, facts)) if facts else []

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(DwsViewer(self.session), asked, utc)

    def waits(self, asked: WaitsAsked) -> DwsWaits:
        return DwsWaits(self.session, self._user, asked)

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
    grants = staticmethod(pg_base.grants)

    @property
    def probe(self) -> Probe:
        from slotkeeper.core.sources.dws.probe.run import DwsProbe  # only the probe needs these ten files

        return DwsProbe()

    def connect(self, login: Login, polls: bool = False) -> DwsConnection:
        return DwsConnection(login, polls)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, DWS, limit_ms)


KIND: SourceKind = DwsKind()
