"""The state that the console knows at one time, as plain values with the times at which they were observed.

None means unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from slotkeeper.core.domain.job import JobState

if TYPE_CHECKING:
    from slotkeeper.console.monitor.rates import Busy
    from slotkeeper.core.domain.audit import Armed, AuditLine
    from slotkeeper.core.domain.fault import Ack, Fault
    from slotkeeper.core.domain.host import HostReport
    from slotkeeper.core.domain.quarantine import QuarantineCount
    from slotkeeper.core.domain.query_report import QuerySeen
    from slotkeeper.core.domain.remedy import ManualSql
    from slotkeeper.core.domain.report import JobReport
    from slotkeeper.core.domain.reset import OpenReset
    from slotkeeper.core.domain.row_counts import Verified
    from slotkeeper.core.domain.spec import JobSpec
    from slotkeeper.core.slots.status import TableRetained, TableSlots
    from slotkeeper.core.state.rows import ErrorRow, EventRow

REFUSED = "refused: "
"""The prefix of the error of a rejected job."""
UNSEEN = "never started here; possibly started on another host"


class Level(Enum):
    """The severity of a row. The value is the glyph that shows it without color."""

    CRITICAL = "x"
    WARNING = "!"
    UNKNOWN = "?"
    BUSY = "~"
    FINE = " "
    REST = "-"


@dataclass(frozen=True, slots=True)
class LanePace:
    """The throughput of one DN: lag and estimated time to catch up in seconds, rate in events per second."""

    lag: float | None = None
    rate: float | None = None
    spark: tuple[float | None, ...] = ()
    eta: float | None = None
    applied: float | None = None
    """The applied share of all changes since the lane was last caught up."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as displayed on screens."""

    name: str
    level: Level
    state: JobState | None
    """None for a configured job that was never started on this host."""
    wrong: str = ""
    """The problem, or the current activity of a job without a problem."""
    safe: str = ""
    """The next safe action to resolve the problem."""
    wanted: str = ""
    """The desired state."""
    trouble: str = ""
    """The name of the problem; "" if there is none."""
    alive: bool | None = None
    """Whether any of its processes is running; None if only another host can determine this."""
    holder: str = ""
    """The process that holds it, such as "pid 4711"."""
    behind: int | None = None
    """The backlog of the lane that is furthest behind, in the unit of the report."""
    report: JobReport | None = None
    reported_at: datetime | None = None
    current: bool = False
    """Whether the report is from this run."""
    last_known: bool = False
    """Whether state, lanes and figures are the last known values, because none of its processes runs on this host."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    changed_at: datetime | None = None
    exit_code: int | None = None
    tables: tuple[str, str] = ("", "")
    """The source table and target of its first channel."""
    slot: str = ""
    lag_seconds: float | None = None
    """The highest lag of any DN."""
    rate: float | None = None
    """Rows per second during a copy, otherwise events per second."""
    spark: tuple[float | None, ...] = ()
    """Its rate over the last ten minutes, oldest first."""
    busy: Busy | None = None
    throughput: Mapping[str, LanePace] = field(default_factory=dict)
    """The throughput by DN."""
    verified: Verified | None = None
    """The last comparison of source and target."""
    elsewhere: bool = False
    """Whether it was started on another host."""
    follows_on: bool = False
    """Whether the target is unaffected by the fault, for example because the job has recovered from a crash."""
    only_quarantined: bool = False
    """Whether quarantined rows are the only problem."""
    only_tables: bool = False
    """Whether the only problem is that some tables have stopped while the others continue."""
    quarantine_limit: int | None = None
    """The number of quarantined rows of one table above which the job stops."""
    others: tuple[tuple[str, str], ...] = ()
    """The source table and target of each further channel."""
    faults: tuple[Fault, ...] = ()
    """The faults, worst first."""
    queries: Mapping[str, QuerySeen] = field(default_factory=dict)
    """The DataFrame queries that read its slots, by source table, as observed at `queries_at`."""
    queries_at: datetime | None = None
    host: HostReport | None = None
    """The supervisor's measurements of this host."""

    @property
    def since(self) -> datetime | None:
        """The time when the job entered its state; after an unrecorded kill, not earlier than its last report."""
        seen = [at for at in (self.changed_at, self.reported_at if self.state is JobState.DEAD else None) if at]
        return max(seen, default=None)

    @property
    def state_text(self) -> str:
        """Its state as displayed."""
        from slotkeeper.core.domain.last_known import state_text  # not needed for the first frame

        return "-" if self.state is None else state_text(self.state, self.last_known)

    @property
    def side(self) -> str:
        """The cause of the job's lag: this host if a fault names it, otherwise the side that takes most of the time."""
        if any(one.rule == "host_starved" for one in self.faults):
            return "this host"
        from slotkeeper.console.monitor.rates import bottleneck  # not needed for the first frame

        return bottleneck(self.report if self.current else None, self.busy, self.lag_seconds)

    @property
    def unread(self) -> str:
        """A text about its unread changes while it does not read them."""
        from slotkeeper.core.judgement.of_job import unread_meanwhile  # not needed for the first frame

        return unread_meanwhile(self.report)

    @property
    def refused(self) -> bool:
        """Whether it never ran on this host and the configuration rejects it."""
        return self.state is None and self.wrong.startswith(REFUSED)

    @property
    def unseen(self) -> bool:
        """Whether this state folder has no record of the job, so that only the job's host can report its state."""
        never = self.state is JobState.STOPPED and self.started_at is None
        return (self.state is None or never) and not self.queries and not self.faults and not self.trouble

    @property
    def judged(self) -> Level:
        """Its level in a verdict on all jobs. The level of a job without a record on this host is unknown."""
        return Level.UNKNOWN if self.unseen else self.level

    def table_in(self, text: str) -> str:
        """Return the source table named in an error text if the job has several tables; otherwise the first table."""
        return next((table for table, _ in self.others if table in text), self.tables[0])

    @property
    def quarantined(self) -> int | None:
        """The number of quarantined rows in its last report; None if the report has none."""
        return self.report.quarantined if self.report else None


def aged(read: Mapping[str, QuerySeen], seconds: float) -> dict[str, QuerySeen]:
    """Return the queries by table, with that number of seconds added to the age of their reports."""
    return {table: replace(one, age=None if one.age is None else one.age + seconds) for table, one in read.items()}


@dataclass(frozen=True, slots=True)
class JobDetail:
    """The details that are read for a single job: its last errors and the end of its log.

    `driver_starts` counts the last 24 hours; `rss` is the driver's memory in bytes, without Spark's own processes.
    """

    job: str
    errors: tuple[ErrorRow, ...] = ()
    log: tuple[str, ...] = ()
    driver_starts: int | None = None
    rss: int | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """The contents of the state store on this host; `fault` is set if it could not be read.

    `at` is None before the first read; `locked` contains the jobs that a command is currently starting or resetting.
    """

    at: datetime | None = None
    jobs: tuple[JobFacts, ...] = ()
    events: tuple[EventRow, ...] = ()
    audit: tuple[AuditLine, ...] = ()
    damaged: int = 0
    errors: tuple[ErrorRow, ...] = ()
    open_resets: tuple[OpenReset, ...] = ()
    acks: Mapping[str, Ack] = field(default_factory=dict)
    detail: JobDetail | None = None
    locked: tuple[str, ...] = ()
    fault: str = ""
    armed: tuple[Armed, ...] = ()
    """Other consoles in which changes are currently allowed."""
    faults: tuple[Fault, ...] = ()
    """All faults found by `slotkeeper.core.judgement`, worst first."""


NOT_READ = Local()


@dataclass(frozen=True, slots=True)
class TableSeen:
    """The slots of one source table. After a failed poll, the values are from `at`, and `fault` is the error.

    Unread rows are counted less often; the counts are from `counted_at`, which is None before the first count.
    """

    source: str
    table: str
    at: datetime | None = None
    slots: TableSlots | None = None
    retained: TableRetained | None = None
    fault: str = ""
    counted_at: datetime | None = None
    manual: ManualSql | None = None
    """The SQL that a user can run in this source; None for recorded history."""
    took: float | None = None
    """The duration in seconds of the last query over an already open session; None for recorded history."""


Tables = Mapping[tuple[str, str], TableSeen]
"""The observed slots, by source and table."""


@dataclass(frozen=True, slots=True)
class SinkSeen:
    """The quarantine of one sink. After a failed query, the counts are from `at`, and `fault` is the error."""

    sink: str
    at: datetime | None = None
    counts: tuple[QuarantineCount, ...] = ()
    fault: str = ""


def sink_of(job: JobSpec) -> str:
    """Return the key of a job's quarantine: server and schema. Jobs with the same sink share its quarantine."""
    return f"{job.store_at[0].place} {job.progress_schema}"


@dataclass(frozen=True, slots=True)
class MonitorState:
    """The complete state that the console knows. `sinks` are those that have answered or failed at least once."""

    local: Local = NOT_READ
    tables: Tables = field(default_factory=dict)
    sinks: Mapping[str, SinkSeen] = field(default_factory=dict)

    def job(self, name: str) -> JobFacts | None:
        """Return the job with that name; None if there is none."""
        return next((one for one in self.local.jobs if one.name == name), None)
