"""The inputs of a job's driver (job, sessions, task runner, narrator, desired state, clock), and its waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.consent import Consents
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.elapsed import Curve
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped, TablesFound
from slotkeeper.core.domain.job import JobEvent, TableReport, TableWanted, WantedState
from slotkeeper.core.domain.lane import Lane, RecordTtls
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.domain.tries import Requests, Tries
from slotkeeper.core.domain.ttl import Ttl
from slotkeeper.core.domain.views import ViewReport
from slotkeeper.core.engine.driver.threads import beside
from slotkeeper.core.engine.tasks import CopyOutcome, CopyTask, StreamOutcome, StreamTask, ViewsOutcome, ViewsTask
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.again import AgainRequests
from slotkeeper.core.ports.driver import ChunkCounts, DriverSessions, StartStore, TaskRunner
from slotkeeper.core.ports.sink import Targets
from slotkeeper.core.ports.source import Source


class Narrator(Protocol):
    """Receives the job's events and progress, and reports them to the state store."""

    def event(self, event: JobEvent, reason: str = "") -> None:
        """Record an event that changes the job's state."""

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        """Report the state of the lanes."""

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        """Report the copy's progress."""

    def quarantined(self, rows: int, newest: str = "") -> None:
        """Report the number of quarantined rows of the job; `newest`: the entry, key and SQLSTATE of the newest row."""

    def table(self, report: TableReport) -> None:
        """Report the new state of one table of a job with several tables."""

    def stored(self, states: Mapping[str, LaneState]) -> None:
        """Report the stored states of these source tables; called only after the progress rows are written."""

    def waits(self, tables: Collection[str], text: str) -> None:
        """Report why these tables are waiting to start."""

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        """Report why the shared reader of the source does not work; None if it works. Called often."""

    def joined(self, channel: ChannelSpec) -> None:
        """Report a table that the running job adds."""

    def skipped(self, one: Skipped) -> None:
        """Report a table that matches a pattern of the job, but is not mirrored."""

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        """Report a temporary failure outside the lanes as "retrying n, next in s: why"; "" reports its end.

        `by`: the error that caused the retry, or the party that the driver waits for.
        """


class Discovery(Protocol):
    """Lists the tables of the source for a job with patterns; each call blocks for a few seconds at most."""

    def find(self) -> TablesFound:
        """Return the source's current tables, and store the list for commands and screens. Raises a SlotkeeperError."""

    def close(self) -> None:
        """End the session; safe to call twice, and from any thread."""


class JobAudit(Protocol):
    """Writes audit lines before and after a job's automatic actions; their actor is the job's process."""

    def intent(self, action: str, what: str, reason: str, result: Mapping[str, str]) -> AuditLine:
        """Write the audit line before an action; if writing raises a SlotkeeperError, do not perform the action."""

    def outcome(self, line: AuditLine, said: str, result: Mapping[str, str]) -> None:
        """Write the audit line after the action."""


KEEPALIVE = 30.0
"""Seconds after which a lane registers its point again if its slot's TTL is short or unknown."""
OF_TTL, LONGEST_KEEPALIVE = 20, 10
"""An idle lane registers its point again after a twentieth of its slot's TTL, at most ten times the shortest interval:
the TTL can be reduced while the job runs."""


def keepalive_of(shortest: float, ttl: Ttl | None) -> float:
    """Return the seconds after which an idle lane registers its point again.

    >>> keepalive_of(30.0, Ttl(86_400)), keepalive_of(30.0, Ttl(1_200)), keepalive_of(30.0, None)
    (300.0, 60.0, 30.0)
    """
    if ttl is None or ttl.seconds is None:
        return shortest
    return min(max(shortest, ttl.seconds / OF_TTL), LONGEST_KEEPALIVE * shortest)


@dataclass(frozen=True, slots=True)
class WorkerEntries:
    """The functions that a worker calls: each takes a message and returns its outcome; picklable, so not lambdas."""

    stream: Callable[[StreamTask], StreamOutcome]
    copy: Callable[[CopyTask], CopyOutcome]
    views: Callable[[ViewsTask], ViewsOutcome] | None = None


@dataclass
class SwitchState:
    """What a group of tables has seen of another server; its starts share it (`switch.py`)."""

    suspected: bool = False
    """Whether another server can explain the last problem; if so, the start compares positions."""
    lacking_since: float | None = None
    """When a server first lacked the job's transactions, in monotonic seconds; None since a start without that."""


@dataclass
class CopyBudget:
    """The rate limit that the copies of a job share; groups of tables copy at the same time."""

    asked: Callable[[], CopyLimit | None] = lambda: None
    """Returns the limit that a user has set for the running job; None: the configured limit applies."""
    running: set[str] = field(default_factory=set)
    """The groups of tables that copy now."""

    def limit(self, job: JobSpec) -> CopyLimit:
        asked = self.asked()
        return job.copy_limit if asked is None else asked


@dataclass
class JobContext:
    """The inputs of a job's driver, or of one group of its tables.

    `pause` waits for at most the given seconds, and returns early if the desired state changes. `curves`: each lane's
    latest positions over time, retained across pauses. Without an `audit`, the driver does not alter targets
    automatically.
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
    """How to take over the lease, as shown to users; if empty, the job's start command is shown."""
    until_caught_up: bool = False
    established: bool = False
    """Whether the job has completed a start; after that, a rejected password makes it wait instead of ending."""
    failed_before: bool = False
    """Whether the previous run FAILED; if so, this run reports RUNNING only after its first steps succeed."""
    curves: dict[str, Curve] = field(default_factory=dict)
    audit: JobAudit | None = None
    consents: Consents | None = None
    """The users' stored consent to replace a target's rows; without it, a copy after a reset replaces no rows."""
    recorded: Mapping[str, Position] = field(default_factory=dict)
    """Each lane's position in an earlier run's last report on this host; affects only which problem is reported."""
    whole: JobSpec | None = None
    """The job with all its channels if `job` has only some of them."""
    desk: Desk | None = None
    """Receives tables that end separately; None if the job has one table."""
    group: str = ""
    """The table that runs separately in this context; "" for the tables that started together."""
    asked: Callable[[], Mapping[str, TableWanted]] = dict
    """Desired states of single tables, by source table; a table without an entry follows the job."""
    tries: Tries | None = None
    """Early retries that users request; None if users cannot request them."""
    discovery: Discovery | None = None
    """Lists the source's tables; None for a job without patterns."""
    tell_views: Callable[[str], object] = str
    """Reports why the job's views are not maintained at the moment, as text; "" once they are."""
    report_views: Callable[[tuple[ViewReport, ...]], object] = tuple
    """Receives the current states of the job's views, about once a second."""
    again: AgainRequests | None = None
    """The tables that users want to be copied again; None if users cannot request it."""
    switch: SwitchState = field(default_factory=SwitchState)
    """What a group of tables knows about a switch of its source's server."""
    requests: Requests = field(default_factory=Requests)
    """The retries requested for one group of tables since the group started."""
    copies: CopyBudget = field(default_factory=CopyBudget)
    """The rate limit of the job's copies, which all groups of tables share."""

    @property
    def alone(self) -> bool:
        """Whether the job has only one table, so that no other group runs under its name."""
        return self.whole is None or not self.whole.several

    def of(self, table: str) -> JobContext:
        """Return this context, narrowed to the channel of a source table."""
        whole = self.whole or self.job
        return replace(self, job=self.job.of(table), sessions=self.sessions.of(table), whole=whole)

    def lanes_beside(self, shard: Shard) -> tuple[LaneKey, ...]:
        """Return the lanes of the job's other channels on a DN."""
        tables = [channel.source_table for channel in (self.whole or self.job).channels]
        mine = self.job.channel.source_table
        return tuple(replace(self.job.lane_key(shard.name), source_table=table) for table in tables if table != mine)

    @property
    def parts(self) -> tuple[JobContext, ...]:
        """Copies of this context, each narrowed to one channel."""
        return tuple(self.of(channel.source_table) for channel in self.job.channels)


@contextmanager
def about(ctx: JobContext, part: JobContext) -> Iterator[None]:
    """Add the source table to errors raised in the block; if the job has several tables, also to their messages."""
    try:
        yield
    except SlotkeeperError as error:
        name_table(ctx.whole or ctx.job, part.job.channel.source_table, error)
        raise


def name_table(job: JobSpec, table: str, error: SlotkeeperError) -> SlotkeeperError:
    """Set the error's source table, also in its message if the job has several tables, and return the error."""
    error.table = table
    if job.several and table not in error.message:
        error.message = f"{table}: {error.message}"
    return error


def slot_ttls(*parts: JobContext) -> dict[str, Ttl | None]:
    """Return the TTLs of these channels' slots by source table; runs at most two statements per channel."""
    return {part.job.channel.source_table: part.sessions.starter().slot_ttl() for part in parts}


def record_ttls(ttls: Mapping[str, Ttl | None], curves: dict[str, Curve]) -> RecordTtls:
    """Return the TTLs of the tables whose records are deleted by age."""
    by_record = {table: ttl.seconds for table, ttl in ttls.items() if ttl is not None and ttl.by_record}
    return RecordTtls({table: seconds for table, seconds in by_record.items() if seconds is not None}, curves)


def do_nothing(*_: object) -> None:
    """Do nothing; used by a loop without a lease, a narrator or task sessions, and by a wait without slots."""


class Desk(Protocol):
    """Tracks which of the job's tables stream together, and receives the tables that end separately."""

    def find_leaving(self, tables: Collection[str]) -> Collection[str]:
        """Return the tables that must leave the group while the job continues. Called in every turn: must be cheap."""

    def find_channels(self) -> tuple[JobSpec, tuple[ChannelSpec, ...]]:
        """Return the job with all its tables, and the channels with which the group starts next.

        These are the tables that have not left, and those that ran separately and have ended to run with the others.
        """

    def regroups(self) -> bool:
        """Whether the group must start again to add tables. Called in every turn: must be cheap."""

    def receive_table(
        self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane], again: bool = False
    ) -> None:
        """Receive a table that ended separately, because of `error` or on request; its lease is released.

        `lanes`: the table's last lanes, empty if it had none yet. `again`: start the table separately, because a new
        start can resolve the error.
        """


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """The inputs of a loop; `keepalive`: the shortest interval in seconds of an idle lane's registrations of one point.

    `keep_lease` raises if the job's lease or the lock on a target is not held; `sever_lease` closes the session that
    holds them. `whole` is the job with all its tables, which determines the lane names. `find_leaving` returns the
    tables that must stop separately; `release_table` receives each table that has stopped. Without `release_table`, no
    table stops separately.
    """

    job: JobSpec
    epoch: int
    keepalive: float
    until_caught_up: bool = False
    task_seconds: float = 3.0
    group: str = ""
    keep_lease: Callable[[], None] = do_nothing
    sever_lease: Callable[[], None] = do_nothing
    find_leaving: Callable[[Collection[str]], Collection[str]] | None = None
    release_table: Callable[[str, SlotkeeperError | None, Mapping[str, Lane]], None] | None = None
    regroups: Callable[[], bool] = bool
    """Whether the tables must start again, together with others."""
    whole: JobSpec | None = None
    record_ttls: RecordTtls = field(default_factory=lambda: RecordTtls({}, {}))
    requests: Requests = field(default_factory=Requests)
    targets: Targets = field(default_factory=Targets)
    task_prefix: str = ""
    """Prefix of the names of the tasks' store sessions; "" if these sessions cannot be ended."""
    end_task: Callable[..., None] = do_nothing
    """Ends the sessions of an abandoned task: `slotkeeper.core.engine.driver.copy.TaskSessions.end`."""
    follows_servers: bool = False
    """Whether the tables can continue at another server of the source, which concerns all of them at once."""
    retrying: Callable[[str, SlotkeeperError | Party | None], None] = do_nothing
    """Reports retries: `Narrator.retrying`."""
    altered: Callable[[str], None] = do_nothing
    """Reports that another session altered a target that still fits."""
    feed: str = ""
    """The address of the source's shared reader; "" if each lane reads for itself."""
    keepalives: Mapping[str, float] = field(default_factory=dict)
    """Longer intervals of source tables whose slots have a long TTL."""
    newest: Newest = Newest.OWN
    """Whether a poll of one table can show commits on others."""
    copied_again: Callable[[], Collection[str]] = tuple
    """Returns the tables whose planned chunks the tasks copy again."""
    delayed: Callable[[str, str], None] = do_nothing
    """Reports why a task has not copied a planned chunk of a table; "" if it has."""


SHORTEST, LONGEST = 0.02, 0.2
"""Seconds between two queries, doubled after each query: on an idle source, only another query shows progress."""


class Interrupted(Exception):
    """Raised during a start if the job has to pause or stop."""


def wait_for_open_transactions(ctx: JobContext, source: Source, between: Callable[[], None] = do_nothing) -> None:
    """Wait until all currently open transactions have ended (design 4.4 step 3); raises Refused after the job's `wait`.

    Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. The source decides
    which transactions count, and whether they have certainly ended (`Source.open_now`). `between` runs before each
    pause of the wait.
    """
    were_open, seconds = source.open_now(), SHORTEST
    end = ctx.clock.monotonic() + ctx.job.wait_ms / 1000
    while True:
        still = were_open.left() if were_open is not None else ""
        if were_open is None or not still:
            ctx.narrator.retrying("")
            return
        if ctx.clock.monotonic() >= end:
            raise Refused(still, were_open.advice.format(job=ctx.job.name), where="source")
        ctx.narrator.retrying(still, Party.SOURCE)
        between()
        pause(ctx, seconds)
        seconds = min(LONGEST, 2 * seconds)


def stay_paused(ctx: JobContext, between: Callable[[], None] = do_nothing) -> bool:
    """Stay paused while the desired state is PAUSE; call `between` twice a second. Return whether there was a pause."""
    paused = False
    while ctx.wanted() is WantedState.PAUSE:
        if not paused:
            ctx.narrator.event(JobEvent.PAUSED)
            paused = True
        between()
        ctx.pause(0.5)
    if paused and ctx.wanted() is WantedState.RUN:
        ctx.narrator.event(JobEvent.RESUMED)
    return paused


def pause(ctx: JobContext, seconds: float) -> None:
    """Wait briefly; raises Interrupted if the job has to pause or stop."""
    if ctx.wanted() is not WantedState.RUN:
        raise Interrupted
    ctx.pause(seconds)


ASK_EVERY = 0.25
"""Seconds between two checks of the job's desired state while a long call runs."""


def run_beside(
    ctx: JobContext, call: Callable[[], None], session: StartStore, between: Callable[[], None] = do_nothing
) -> None:
    """Run a long call on `session` in its own thread, with `between` repeatedly in this thread.

    Raises the call's error, and Interrupted if the job has to pause or stop: the call is then cancelled, or abandoned
    if it does not end.
    """
    with beside(call, session.cancel, session.sever) as going:
        while not going.ended(ASK_EVERY):
            if ctx.wanted() is not WantedState.RUN:
                going.end()
                raise Interrupted
            between()
