"""GaussDB(DWS) as a kind of source: its sessions with their faces, and what it says about itself."""

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
from slotkeeper.core.drivers.pg_table.reader import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS
from slotkeeper.core.ports.kinds import Probe, SourceAsked, SourceKind
from slotkeeper.core.sources.dws import doctor, eligibility, manual_sql
from slotkeeper.core.sources.dws.changelog import DwsChangelog
from slotkeeper.core.sources.dws.peek import DwsPeek, refuse_names
from slotkeeper.core.sources.dws.poll import DwsStatusPoller
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.sources.dws.retention import DwsRetention
from slotkeeper.core.sources.dws.session import DWS, DwsSession
from slotkeeper.core.sources.dws.source import DwsSlotAdmin, DwsSource, Selection
from slotkeeper.core.sources.dws.traits import TRAITS
from slotkeeper.core.sources.dws.verbs import DwsSlotVerbs
from slotkeeper.core.sources.dws.viewer import DwsViewer


class _Source(DwsSource):
    """A channel whose admission also reads, as far as a binlog can be read before its slot is there."""

    def admit(self) -> None:
        """Refuse by name what cannot be followed, a wrong `new_system_value` included."""
        super().admit()
        if self.options.binlog:
            refuse_names(self.session, self.table, self.options.new_system_value)


class DwsConnection:
    """One session at a DWS; implements `slotkeeper.core.ports.kinds.ChangelogSession`."""

    def __init__(self, login: Login) -> None:
        self.session = DwsSession(login.endpoint, login.password, login.name)

    @property
    def name(self) -> str:
        """The session's own name at the server."""
        return self.session.application_name

    def source(self, job: JobSpec, points_proven: bool = False) -> DwsSource:
        """The channel of a job."""
        channel = job.channel
        made = _Source(self.session, channel.source_table, job.slot, job.binlog, Selection.of(channel))
        made.points_proven = points_proven
        return made

    def admin(self, job: JobSpec) -> DwsSlotAdmin:
        """Registers the slot of a job's channel."""
        channel = job.channel
        return DwsSlotAdmin(self.session, channel.source_table, job.slot, job.binlog, Selection.of(channel))

    def changelog(self, job: JobSpec) -> DwsChangelog:
        """The table of a job's channel, for readers that hand rows on."""
        return DwsChangelog(self.session, job.channel.source_table, job.slot, job.binlog)

    def retention(self, job: JobSpec) -> DwsRetention:
        """What a start without a copy and a reset ask."""
        channel = job.channel
        return DwsRetention(self.session, channel.source_table, job.slot, job.binlog, Selection.of(channel))

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> DwsSlotVerbs:
        """What commands ask that create, move or drop a slot."""
        return DwsSlotVerbs(self.session, table, slot, options)

    def viewer(self) -> DwsViewer:
        """What commands ask that only look."""
        return DwsViewer(self.session)

    def reader(self, options: BinlogOptions) -> DwsPeek:
        """Reads rows of a binlog for people."""
        return DwsPeek(self.session, options.new_system_value)

    def hidden(self, table: str) -> Sequence[Objection]:
        """Why rows of a table may be hidden or masked from this login."""
        facts = self.viewer().table_facts(table)
        return list(eligibility.hidden_objections(table, facts)) if facts else []

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """What `doctor` says about the server and the tables that jobs read there."""
        return doctor.findings(self.viewer(), asked, utc)

    def ping(self) -> None:
        """Return once the server has answered something; raises an error of ours."""
        self.session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""
        self.session.sever()

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()


class DwsKind:
    """GaussDB(DWS); implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = manual_sql
    positions: Positions = POSITIONS
    traits = TRAITS
    gives: tuple[Encoding, ...] = (Encoding.COPY_TEXT, Encoding.ROWS)

    @property
    def probe(self) -> Probe:
        """What `doctor --probe` may do there."""
        from slotkeeper.core.sources.dws.probe.run import DwsProbe  # ten files that nobody else needs

        return DwsProbe()

    def connect(self, login: Login) -> DwsConnection:
        """A session, opened at its first call."""
        return DwsConnection(login)

    def poller(self, login: Login) -> DwsStatusPoller:
        """A quiet session that is asked for slots while they are shown."""
        return DwsStatusPoller(login.endpoint, login.password, login.name)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        """A session that reads whole tables for a comparison."""
        return PgTables(login, DWS, limit_ms)

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """The least rights that following and comparing these tables needs."""
        return doctor.grants(endpoint, tables)


KIND: SourceKind = DwsKind()
