"""What the console knows at one moment, as plain values, each with the time at which it was seen.

Unknown is None, never 0.
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
"""How what is wrong with a refused job begins."""
UNSEEN = "never started here; whether another host runs it is unknown here"


class Level(Enum):
    """How a row stands; the value is the glyph that says so without colour."""

    CRITICAL = "x"
    WARNING = "!"
    UNKNOWN = "?"
    BUSY = "~"
    FINE = " "
    REST = "-"


@dataclass(frozen=True, slots=True)
class LanePace:
    """How one DN moves: its lag and its estimated arrival in seconds, its rate in events a second."""

    lag: float | None = None
    rate: float | None = None
    spark: tuple[float | None, ...] = ()
    eta: float | None = None
    applied: float | None = None
    """The share of what has waited since it was level last that is applied."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as the screens show it."""

    name: str
    level: Level
    state: JobState | None
    """None for a configured job that was never started here."""
    wrong: str = ""
    """The problem, or what a job without one is doing."""
    safe: str = ""
    """The next safe thing to do about it."""
    wanted: str = ""
    """The desired state."""
    trouble: str = ""
    """The name of the problem; "" without one."""
    alive: bool | None = None
    """Whether a process of it is running; None where only another host can tell."""
    holder: str = ""
    """The process that holds it, as "pid 4711"."""
    behind: int | None = None
    """Of the lane that is furthest behind, in the unit of the report."""
    report: JobReport | None = None
    reported_at: datetime | None = None
    current: bool = False
    """Whether the report is of this run."""
    last_known: bool = False
    """Whether state, lanes and figures are the last known, because no process of it is seen here."""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    changed_at: datetime | None = None
    exit_code: int | None = None
    tables: tuple[str, str] = ("", "")
    """Source table and target of its first channel."""
    slot: str = ""
    lag_seconds: float | None = None
    """Of the DN that lags most."""
    rate: float | None = None
    """Rows a second during a copy, else events a second."""
    spark: tuple[float | None, ...] = ()
    """Its rate over the last ten minutes, the oldest first."""
    busy: Busy | None = None
    throughput: Mapping[str, LanePace] = field(default_factory=dict)
    """By DN."""
    verified: Verified | None = None
    """The last comparison of source and target."""
    elsewhere: bool = False
    """Whether another host started it."""
    follows_on: bool = False
    """Whether the target is unaffected by what is wrong, as by a crash that is over."""
    only_quarantined: bool = False
    """Whether rows in quarantine are all that is wrong."""
    only_tables: bool = False
    """Whether all that is wrong is that some tables have stopped while the others continue."""
    quarantine_limit: int | None = None
    """With more quarantined rows of one table the job stops."""
    others: tuple[tuple[str, str], ...] = ()
    """Source table and target of each further channel."""
    faults: tuple[Fault, ...] = ()
    """The worst first."""
    queries: Mapping[str, QuerySeen] = field(default_factory=dict)
    """The DataFrame queries that read its slots, by source table, as they were seen at `queries_at`."""
    queries_at: datetime | None = None
    host: HostReport | None = None
    """What its supervisor measured of this host."""

    @property
    def since(self) -> datetime | None:
        """When it entered its state. The time of a kill is not recorded: then not before its last report."""
        seen = [at for at in (self.changed_at, self.reported_at if self.state is JobState.DEAD else None) if at]
        return max(seen, default=None)

    @property
    def state_text(self) -> str:
        """Its state as it is shown."""
        from slotkeeper.core.domain.last_known import state_text  # the first frame is seen without it

        return "-" if self.state is None else state_text(self.state, self.last_known)

    @property
    def side(self) -> str:
        """What holds it up if it is behind: this host where the judgement names it, else a side by its lanes' time."""
        if any(one.rule == "host_starved" for one in self.faults):
            return "this host"
        from slotkeeper.console.monitor.rates import bottleneck  # the first frame is seen without it

        return bottleneck(self.report if self.current else None, self.busy, self.lag_seconds)

    @property
    def unread(self) -> str:
        """What happens to its unread changes while it does not read."""
        from slotkeeper.core.judgement.of_job import unread_meanwhile  # the first frame is seen without it

        return unread_meanwhile(self.report)

    @property
    def refused(self) -> bool:
        """Whether it never ran here and the configuration rejects it."""
        return self.state is None and self.wrong.startswith(REFUSED)

    @property
    def unseen(self) -> bool:
        """Whether this state folder knows nothing of it: only the host that runs it can report its state."""
        never = self.state is JobState.STOPPED and self.started_at is None
        return (self.state is None or never) and not self.queries and not self.faults and not self.trouble

    @property
    def judged(self) -> Level:
        """Its level for a verdict on all jobs: a job that is unseen here is not known to be fine."""
        return Level.UNKNOWN if self.unseen else self.level

    def table_in(self, text: str) -> str:
        """The source table that a trouble's text names, where the job has several; else the first."""
        return next((table for table, _ in self.others if table in text), self.tables[0])

    @property
    def quarantined(self) -> int | None:
        """How many rows are in quarantine by its last report; None where it does not say."""
        return self.report.quarantined if self.report else None


def aged(read: Mapping[str, QuerySeen], seconds: float) -> dict[str, QuerySeen]:
    """The queries by table, with what they have said older by that number of seconds."""
    return {table: replace(one, age=None if one.age is None else one.age + seconds) for table, one in read.items()}


@dataclass(frozen=True, slots=True)
class JobDetail:
    """What is read for one job only: its last errors and the end of its log.

    `driver_starts` counts the last 24 hours; `rss` is the driver's memory in bytes, without Spark's own processes.
    """

    job: str
    errors: tuple[ErrorRow, ...] = ()
    log: tuple[str, ...] = ()
    driver_starts: int | None = None
    rss: int | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """What the state store of this machine says; `fault` is set where it could not be read.

    `at` is None before it was read once; `locked` are jobs that a command is starting or resetting at this moment.
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
    """Other consoles that may change something now."""
    faults: tuple[Fault, ...] = ()
    """Everything that is wrong, the worst first, by the one judgement."""


NOT_READ = Local()


@dataclass(frozen=True, slots=True)
class TableSeen:
    """The slots of one source table; after a failed look the values are those of `at`, and `fault` says why.

    Unread rows are asked for less often: they are of `counted_at`, None where they were not counted yet.
    """

    source: str
    table: str
    at: datetime | None = None
    slots: TableSlots | None = None
    retained: TableRetained | None = None
    fault: str = ""
    counted_at: datetime | None = None
    manual: ManualSql | None = None
    """What a person may type at this source; not known of what was recorded."""
    took: float | None = None
    """Seconds of the newest question to the source over a session that was open; not known of what was recorded."""


Tables = Mapping[tuple[str, str], TableSeen]
"""What was seen of slots, by source and table."""


@dataclass(frozen=True, slots=True)
class SinkSeen:
    """The quarantine of one sink; after a failed query the counts are those of `at`, and `fault` says why."""

    sink: str
    at: datetime | None = None
    counts: tuple[QuarantineCount, ...] = ()
    fault: str = ""


def sink_of(job: JobSpec) -> str:
    """The key of a job's quarantine: server and schema. Jobs of one sink share its quarantine."""
    return f"{job.store_at[0].place} {job.progress_schema}"


@dataclass(frozen=True, slots=True)
class MonitorState:
    """Everything that the console knows; `sinks` are those that have answered or failed once."""

    local: Local = NOT_READ
    tables: Tables = field(default_factory=dict)
    sinks: Mapping[str, SinkSeen] = field(default_factory=dict)

    def job(self, name: str) -> JobFacts | None:
        """One job by its name."""
        return next((one for one in self.local.jobs if one.name == name), None)
