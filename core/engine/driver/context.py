"""Everything that a job's driver is given: its job, sessions, runner, narrator, what is wanted of it, clock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.consent import Consents
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import JobEvent, TableReport, TableWanted, WantedState
from slotkeeper.core.domain.lane import Curve, Lane, RecordTtls
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.tries import Requests, Tries
from slotkeeper.core.engine.messages import CopyOutcome, CopyTask, StreamOutcome, StreamTask
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.driver import ChunkCounts, DriverSessions, TaskRunner
from slotkeeper.core.ports.sink import Targets


class Narrator(Protocol):
    """Hears what the job does and tells the state store."""

    def event(self, event: JobEvent, reason: str = "") -> None:
        """Something happened to the job's state."""

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        """How the lanes stand."""

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        """Report the copy's progress."""

    def quarantined(self, rows: int, newest: str = "") -> None:
        """How many rows the job holds in quarantine, and the newest: its entry, key and SQLSTATE."""

    def table(self, report: TableReport) -> None:
        """How one table of a job of several stands from now on."""

    def stored(self, states: Mapping[str, LaneState]) -> None:
        """Report the stored facts of these tables, by source table: after the rows, never before."""

    def waits(self, tables: Collection[str], text: str) -> None:
        """Report what these tables wait for before their start."""

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        """A passing trouble outside the lanes: "retrying n, next in s: why", or nothing when it is over.

        `by` is the error that is tried again, or whom it waits for.
        """


class JobAudit(Protocol):
    """Writes down what a job does by itself, before and after; its own process is the actor."""

    def intent(self, action: str, what: str, reason: str, result: Mapping[str, str]) -> AuditLine:
        """Write the audit line before an action; on a SlotkeeperError it is not written, and nothing is done."""

    def outcome(self, line: AuditLine, said: str, result: Mapping[str, str]) -> None:
        """The line after it."""


KEEPALIVE = 30.0
"""Seconds after which an idle lane registers the same point again: well below a quarter of the default TTL (6 h)."""


@dataclass(frozen=True, slots=True)
class WorkerEntries:
    """The functions that a worker calls: each takes a message and returns its outcome; picklable, so no lambda."""

    stream: Callable[[StreamTask], StreamOutcome]
    copy: Callable[[CopyTask], CopyOutcome]


def none_wanted() -> Mapping[str, TableWanted]:
    """Desired states of a job without any for single tables."""
    return {}


@dataclass
class JobContext:
    """The inputs of a job's driver, or of one group of its tables.

    `pause` waits for at most the given seconds, less if the desired state changes. `curves`: each lane's newest points
    by time, which survive a pause. Without an `audit` the driver alters no target automatically.
    """

    job: JobSpec
    sessions: DriverSessions
    runner: TaskRunner
    work: WorkerEntries
    narrator: Narrator
    wanted: Callable[[], WantedState]
    pause: Callable[[float], None]
    clock: Clock = field(default_factory=SystemClock)
    probe: Probe = nothing
    keepalive: float = KEEPALIVE
    take_over: bool = False
    passed_by: str = ""
    """How a user takes the lease over; empty: by the job's command."""
    until_caught_up: bool = False
    established: bool = False
    """Whether the job has completed a start: from then on a rejected password makes it wait instead of end."""
    failed_before: bool = False
    """Whether the previous run has FAILED: this run is RUNNING only after its first steps succeed."""
    curves: dict[str, Curve] = field(default_factory=dict)
    audit: JobAudit | None = None
    consents: Consents | None = None
    """Without them a copy after a reset replaces no rows."""
    recorded: Mapping[str, Position] = field(default_factory=dict)
    """Each lane's position in the last report of an earlier run on this host; it decides only a problem's name."""
    whole: JobSpec | None = None
    """The job with all its channels if `job` has only one of them."""
    desk: Desk | None = None
    """Takes tables that end on their own; None if the job has one table."""
    group: str = ""
    """The table that runs on its own here; "" for the tables that started together."""
    asked: Callable[[], Mapping[str, TableWanted]] = none_wanted
    """Desired states of single tables, by source table; a table without one follows the job."""
    tries: Tries | None = None
    """Retries that users request early; None without a way to request them."""
    requests: Requests = field(default_factory=Requests)
    """Requested retries of one group of tables, since it started."""

    @property
    def alone(self) -> bool:
        """Whether nothing but this runs by the job's name: it has one table."""
        return self.whole is None or len(self.whole.channels) == 1

    def of(self, table: str) -> JobContext:
        """The same for one channel of the job, by its source table."""
        whole = self.whole or self.job
        return replace(self, job=self.job.of(table), sessions=self.sessions.of(table), whole=whole)

    def lanes_beside(self, shard: Shard) -> tuple[LaneKey, ...]:
        """The lanes of the job's other channels on a DN."""
        tables = [channel.source_table for channel in (self.whole or self.job).channels]
        mine = self.job.channel.source_table
        return tuple(replace(self.job.lane_key(shard.name), source_table=table) for table in tables if table != mine)

    @property
    def parts(self) -> tuple[JobContext, ...]:
        """The same once per channel."""
        return tuple(self.of(channel.source_table) for channel in self.job.channels)


@contextmanager
def about(ctx: JobContext, part: JobContext) -> Iterator[None]:
    """Add the channel's source table to the block's errors if the job has several."""
    try:
        yield
    except SlotkeeperError as error:
        placed(ctx.whole or ctx.job, part.job.channel.source_table, error)
        raise


def placed(job: JobSpec, table: str, error: SlotkeeperError) -> SlotkeeperError:
    """Return the error with its source table, which its message names if the job has several."""
    error.table = table
    if len(job.channels) > 1 and table not in error.message:
        error.message = f"{table}: {error.message}"
    return error


def record_ttls(*parts: JobContext) -> RecordTtls:
    """The TTLs of the records of these channels; one statement for each."""
    ttls = {part.job.channel.source_table: part.sessions.starter().record_ttl() for part in parts}
    return RecordTtls({table: ttl for table, ttl in ttls.items() if ttl is not None}, parts[0].curves)


def ignored(*_: object) -> None:
    """For a loop that holds no lease, has no narrator, or whose tasks have no sessions that could be ended."""


class Desk(Protocol):
    """The job's tables that stream together, and the receiver of those that end alone."""

    def wanted_away(self, tables: Collection[str]) -> Collection[str]:
        """Return the tables that have to stop here while the job continues; cheap: every turn asks it."""

    def still(self, tables: Collection[str]) -> Collection[str]:
        """Return the tables that have not left: a joint restart starts these."""

    def left(self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane], again: bool = False) -> None:
        """Receive a table that ended alone, by that error or on request; its lease is released.

        `lanes`: its last lanes, none if it had none yet. `again`: start it alone, because a start can overcome the
        error.
        """


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The inputs of a loop; `keepalive`: seconds between an idle lane's registrations of the same point.

    `keep_lease` raises if the job's lease, or the lock on a target, is not held; `sever_lease` ends it. `whole` is the
    job with all its tables, which names lanes. `wanted_away` returns the tables that have to stop alone, `let_go` gets
    each that has stopped; without it none stops alone.
    """

    job: JobSpec
    epoch: int
    keepalive: float
    until_caught_up: bool = False
    task_seconds: float = 3.0
    group: str = ""
    keep_lease: Callable[[], None] = ignored
    sever_lease: Callable[[], None] = ignored
    wanted_away: Callable[[Collection[str]], Collection[str]] | None = None
    let_go: Callable[[str, SlotkeeperError | None, Mapping[str, Lane]], None] | None = None
    whole: JobSpec | None = None
    record_ttls: RecordTtls = field(default_factory=lambda: RecordTtls({}, {}))
    requests: Requests = field(default_factory=Requests)
    targets: Targets = field(default_factory=Targets)
    task_prefix: str = ""
    """Prefix of the names of tasks' sessions at the store; "" if none can be ended."""
    end_task: Callable[..., None] = ignored
    """`slotkeeper.core.engine.driver.copy.TaskSessions.end`, for the sessions of an abandoned task."""
    retrying: Callable[[str, SlotkeeperError | Party | None], None] = ignored
    """`Narrator.retrying`."""
