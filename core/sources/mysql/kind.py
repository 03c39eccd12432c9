"""MySQL and MariaDB as a kind of source: its sessions with their faces, and what it says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Objection
from slotkeeper.core.domain.inspection import Answer, Left, ProbePlan
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import SourceAsked, SourceKind
from slotkeeper.core.sources.mysql import doctor
from slotkeeper.core.sources.mysql.compared import MysqlTables
from slotkeeper.core.sources.mysql.kept import POSITIONS
from slotkeeper.core.sources.mysql.retention import MysqlRetention
from slotkeeper.core.sources.mysql.selection import Selection
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import MysqlSource
from slotkeeper.core.sources.mysql.traits import TRAITS
from slotkeeper.core.sources.mysql.viewer import MysqlReader, MysqlViewer

PING_SECONDS = 5.0


class MysqlConnection:
    """One session at a server; implements `slotkeeper.core.ports.kinds.SourceSession`."""

    def __init__(self, login: Login) -> None:
        self.session = MysqlSession(login)
        self._sources: list[MysqlSource] = []

    @property
    def name(self) -> str:
        """The session's own name."""
        return self.session.name

    def source(self, job: JobSpec, points_proven: bool = False) -> MysqlSource:
        """The channel of a job."""
        channel, sync = job.channel, job.sync
        limits = (sync.min_bytes_sync_commit, sync.max_bytes_sync_commit, sync.stream_read_timeout / 1000)
        selection = Selection.of(channel)
        return self._kept(MysqlSource(self.session, channel.source_table, job.slot, job.binlog, selection, *limits))

    def admin(self, job: JobSpec) -> MysqlSource:
        """The same: nothing is registered."""
        return self.source(job)

    def retention(self, job: JobSpec) -> MysqlRetention:
        """What a start without a copy and a reset ask."""
        channel, silent = job.channel, job.sync.stream_read_timeout / 1000
        selection = Selection.of(channel)
        made = MysqlRetention(
            self.session, channel.source_table, job.slot, job.binlog, selection, silent_seconds=silent
        )
        self._sources.append(made)
        return made

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> MysqlSource:
        """What commands ask that make or move a slot, of which there is none."""
        return self._kept(MysqlSource(self.session, table, slot, options))

    def _kept(self, source: MysqlSource) -> MysqlSource:
        self._sources.append(source)
        return source

    def viewer(self) -> MysqlViewer:
        """What commands ask that only look."""
        return MysqlViewer(self.session)

    def reader(self, options: BinlogOptions) -> MysqlReader:
        """Reads rows of the binlog for people."""
        return MysqlReader(self.session)

    def hidden(self, table: str) -> Sequence[Objection]:
        """Nothing: a MySQL hides no rows of a table that may be read."""
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """What `doctor` says about the server and the tables that jobs read there."""
        return doctor.findings(self.session, asked, utc)

    def ping(self) -> None:
        """Return once the server has answered something."""
        self.session.rows("SELECT 1", (), PING_SECONDS)

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""
        self.session.sever()

    def close(self) -> None:
        """End the session and its streams; safe to call twice."""
        for source in self._sources:
            source.close()
        self.session.close()


class NothingByHand:
    """Implements `slotkeeper.core.domain.remedy.ManualSql`: nothing is kept at the server."""

    def status(self, table: str) -> str:
        """Where the binlog ends."""
        return "SHOW MASTER STATUS; -- the server keeps no position of ours: `slotkeeper slots show` has it"

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        """Nothing."""
        return "-- nothing is registered at a MySQL server: there is nothing to type"


class NothingToProbe:
    """Implements `slotkeeper.core.ports.kinds.Probe`: what is not documented is refused by name where it is met."""

    asked = 0

    def plan(self, login: Login, source: str, schema: str, prod: bool) -> ProbePlan:
        """Raises Refused."""
        raise _no_probe()

    def ask(
        self,
        login: Login,
        plan: ProbePlan,
        jobs: Sequence[JobSpec],
        left: list[Left],
        progress: Callable[[str], None],
        ending: Callable[[], None],
    ) -> list[Answer]:
        """Raises Refused."""
        raise _no_probe()

    def switches(self, answers: Iterable[Answer]) -> Mapping[str, bool | None]:
        """None."""
        return {}


def _no_probe() -> Refused:
    what = "a MySQL source has no probe: its binlog is documented"
    return Refused(what, "`slotkeeper doctor` looks at it", where="source")


class MysqlKind:
    """MySQL and MariaDB; implements `slotkeeper.core.ports.kinds.SourceKind`."""

    manual: ManualSql = NothingByHand()
    positions: Positions = POSITIONS
    probe = NothingToProbe()
    traits = TRAITS
    gives: tuple[Encoding, ...] = (Encoding.ROWS,)

    def connect(self, login: Login) -> MysqlConnection:
        """A session, opened at its first call."""
        return MysqlConnection(login)

    def poller(self, login: Login) -> MysqlViewer:
        """A quiet session that is asked for places while they are shown."""
        return MysqlViewer(MysqlSession(login))

    def tables(self, login: Login, limit_ms: int) -> MysqlTables:
        """A session that reads whole tables for a comparison."""
        return MysqlTables(login, limit_ms)

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """The least rights that following and comparing these tables needs."""
        return doctor.grants(endpoint, tables)


KIND: SourceKind = MysqlKind()
