"""A job's report and status: the report and conditions of its driver, and its processes as seen from one host.

Screens and `--json` show only these values. Unknown values are None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from slotkeeper.core.domain.elapsed import FRESH_SECONDS
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.field import SIGNED, Moment, MomentOrNone, Positive, Signed, SignedOrNone
from slotkeeper.core.domain.job import JobState, TableReport, WantedState, said_of
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.domain.views import ViewReport

_SERVER = re.compile(r"(?:^|: )((source|sink) (\S+?))(?: \([^()]*\):?|:) ", re.DOTALL)
GIVEN_UP = "a step did not end in time and was cancelled"
"""The error text for a step that exceeded its task's time limit."""
_CONNECTING = re.compile(r"connection to server .*? failed: ", re.DOTALL)
_ADVICE = re.compile(r"\s*Is the server running .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """A current problem that the driver reports."""

    party: Annotated[str, Party]
    """The party that causes it."""
    name: str
    """The party's name."""
    cause: str
    """The error message of that party."""
    since: Moment
    """When it started."""
    lanes: tuple[str, ...] = ()
    """The lanes that are waiting because of it; each: the name of a lane."""
    of: int = 0
    """The total number of lanes."""
    tries: int = 0
    """The number of retries."""
    code: str = ""
    """The server's code, an SQLSTATE or an error number; empty if there is none."""
    message: str = ""
    """SK- followed by four digits; empty if no server caused the problem."""
    act: str = ""
    """The action that ends it; empty if you can only wait."""

    @property
    def effect(self) -> str:
        """A description of the lanes that are waiting because of this condition."""
        return self.effect_on("DN")

    def effect_on(self, part: str) -> str:
        """Describe the lanes that are waiting because of this condition; `part` is the source's term for a DN.

        >>> Condition("sink", "sink mart", "refused", 0.0, ("dn_1", "dn_2"), 4).effect_on("DN")
        '2 of 4 DNs wait'
        """
        if not self.lanes:
            return ""
        if self.of == 1:
            return "the job waits"
        verb = "waits" if len(self.lanes) == 1 else "wait"
        return f"{len(self.lanes)} of {many(self.of, part)} {verb}"

    @property
    def said(self) -> str:
        """A one-line description without a duration, so that descriptions can be compared."""
        return f"{self.name}: {self.cause}" + (f", {self.effect}" if self.lanes else "")


def server_of(message: str) -> tuple[str, str, str]:
    """Return (side, name, cause) from an error message: the server that it names, and the message of that server.

    >>> server_of('sink mart (h:5432/m as etl): connection to server at "h", port 5432 failed: Connection refused')
    ('sink', 'sink mart', 'Connection refused')
    >>> server_of("ods.orders: source maria: Lost connection")
    ('source', 'source maria', 'Lost connection')
    >>> server_of("dn_2: a step did not end in time")
    ('', '', 'dn_2: a step did not end in time')
    """
    found = _SERVER.search(message)
    side, name, rest = (found[2], found[1], message[found.end() :]) if found else ("", "", message)
    return side, name, _ADVICE.sub("", _CONNECTING.sub("", rest)).strip() or message


def merged(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Merge conditions that have the same party and name, with the earliest start; the oldest condition comes first.

    While a source does not respond, the conditions of its DNs are merged into the source's condition.
    """
    every, found = list(conditions), dict[tuple[str, str], Condition]()
    source = next((one for one in every if one.party == "source"), None)
    for given in every:
        behind = source is not None and given.party == "dn"
        one = replace(given, party="source", name=source.name) if source is not None and behind else given
        key = (one.party, one.name)
        before = found.get(key)
        if before is None:
            found[key] = one
            continue
        cause, code = (before.cause, before.code) if before.cause else (one.cause, one.code)
        lanes = tuple(dict.fromkeys((*before.lanes, *one.lanes)))
        since = min(before.since, one.since)
        tries = max(before.tries, one.tries)
        of = max(before.of, one.of)
        found[key] = replace(one, cause=cause, code=code, since=since, lanes=lanes, of=of, tries=tries)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.name)))


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One lane: a source table on one DN.

    Positions are strings in the source's format. Each has a corresponding number, which increases with the position.
    """

    shard: str
    """The DN's name."""
    node_id: Signed
    """The DN's number, often negative."""
    state: str
    """One of creating, copying, catching up, running."""
    activity: str
    """One of idle, due, applying, registering, waiting, stopped (its table has stopped independently of the job)."""
    position: str | None
    """The lane's position in the binlog, in the dialect's format as stored in the progress row."""
    latest: str | None
    """The source's newest position, as last reported by this DN."""
    registered: str | None
    """The position that the job has confirmed in the source; null: none yet."""
    changes: int
    """Total number of events read."""
    last_commit_age: float | None
    """Seconds since its last commit; null: none in this run."""
    retry: str = ""
    """The text "retrying n, next in s"; empty if it is not retrying."""
    error: str = ""
    """The newest current error; empty if there is none."""
    side: str = ""
    """The side on which the error occurred: source, sink, spark, or empty if unknown."""
    polled_age: float | None = None
    """Seconds since the source last reported its newest position."""
    read_s: float | None = None
    """Seconds spent reading from the source in this run."""
    write_s: float | None = None
    """Seconds spent writing to the sink in this run."""
    register_s: float | None = None
    """Seconds spent registering positions in this run."""
    waited: float = 0.0
    """The longest time from becoming due to the start of a step, in seconds."""
    source_table: str = ""
    """The source table, as schema.table."""
    target: str = ""
    """The target table, as schema.table."""
    label: str = ""
    """Its name if the job has several tables, else empty."""
    at: SignedOrNone = None
    """A number that increases with `position`."""
    latest_at: SignedOrNone = None
    """A number that increases with `latest`."""
    registered_to: SignedOrNone = None
    """A number that increases with `registered`."""
    empty_to: SignedOrNone = None
    """A number that increases with the position up to which there are no rows after `position`."""
    behind: int | None = None
    """The distance from `position` to `latest`, in the unit of the report."""
    shown: str | None = None
    """The position as shown on screens; `latest` and `registered` have the same format."""
    gtids: str = ""
    """GTIDs applied at `position`, in the server's format; empty if positions of this kind have no GTIDs."""
    delay: float | None = None
    """Seconds by which the last applied change is behind the source's clock; increases while nothing is applied, and is
    0 if no change is pending; null: positions of this kind have no time."""
    applied_at: MomentOrNone = None
    """Commit time of the last applied change, by the source's clock; null: unknown, or positions have no time."""

    @property
    def name(self) -> str:
        """The lane's name within its job: its DN, or its label."""
        return self.label or self.shard

    @property
    def done_to(self) -> int | None:
        """The number up to which all rows are applied: `at`, or `empty_to` if it is higher."""
        return self.at if self.at is None or self.empty_to is None else max(self.at, self.empty_to)

    @property
    def known_behind(self) -> int | None:
        """The value of `behind`; None if it is 0 but the latest position was reported too long ago."""
        old = self.polled_age is not None and self.polled_age > FRESH_SECONDS
        return None if old and self.behind == 0 else self.behind


@dataclass(frozen=True, slots=True)
class JobReport:
    """The last report of a driver, which writes about one report per second."""

    job: str
    """The job's name."""
    run: str
    """The run that reported it."""
    state: Annotated[str, JobState]
    """The job's state (`slotkeeper docs states`)."""
    reason: str = ""
    """The reason, as text; empty if there is none."""
    trouble: str = ""
    """The name of the problem (`slotkeeper docs states`), empty if there is none."""
    safe: str = ""
    """The safe action, empty if no action is needed."""
    epoch: int | None = None
    """The epoch of the job's progress rows."""
    lanes: tuple[LaneReport, ...] = ()
    """The job's lanes."""
    chunks_done: int | None = None
    """Completed chunks of the copy; null: no copy is under way."""
    chunks_total: int | None = None
    """Chunks of the copy; null: no copy is under way."""
    snapshot_rows: int = 0
    """Number of rows copied in this run."""
    copy_rows_limit: int | None = None
    """Maximum rows per second of the job's copies; null: no limit, or no copy in this run."""
    copy_bytes_limit: int | None = None
    """Maximum bytes per second of the job's copies; null: no limit, or no copy in this run."""
    changes: int = 0
    """Total number of events read by all lanes."""
    tasks_started: int = 0
    """Number of tasks that Spark started in this run."""
    registrations: int = 0
    """Number of registrations in the source in this run."""
    environment: str = ""
    """The source's environment, as configured."""
    quarantined: int | None = None
    """Number of rows in quarantine; null: quarantine is disabled by the job's configuration, or unknown."""
    quarantined_newest: str = ""
    """The newest row in quarantine: its entry, key and SQLSTATE; empty if there is none."""
    repeats: int = 0
    """Total number of rows that the sink may have received twice, if it is separate from its progress store."""
    unit: str = ""
    """The unit of `behind`, which depends on the source's dialect."""
    place: str = ""
    """The term for a position in the source's dialect."""
    part: str = "DN"
    """The term in the source's dialect for the part that a lane reads: DN, shard, stream."""
    keeps_positions: bool = True
    """Whether the source stores the positions of slots, which then have a time to live; if not, no slot expires."""
    tables: tuple[TableReport, ...] = ()
    """The tables of a job with several tables, each with its own state."""
    conditions: tuple[Condition, ...] = ()
    """Problems that the driver reports, the oldest first."""
    shared_reader: Condition | None = None
    """Why the tables read the source's log over their own connections; null: they share a reader, or the kind has
    none."""
    lock_waits: tuple[LockWait, ...] = ()
    """The job's sessions in the sink that are waiting for a lock, as last measured."""
    locks_untold: str = ""
    """The reason why the sink's locks are unknown, empty if they are known."""
    source_waits: tuple[SourceWait, ...] = ()
    """Sessions on the source that are waiting for the job's slots or sessions, as last measured."""
    source_untold: str = ""
    """The reason why waits on the source are unknown or partly hidden from the job's login; empty if all are known."""
    clock_apart: Annotated[float | None, SIGNED] = None
    """Minimum seconds by which the source's clock was ahead of this host's, negative if behind; null: not measured."""
    quarantine_limit: int | None = None
    """Number of quarantined rows per table above which the job stops; null: quarantine is disabled."""
    sink_here: bool | None = None
    """Whether the sink is on the driver's host, according to its address."""
    views: tuple[ViewReport, ...] = ()
    """The job's SQL views, as last read from the sink."""
    views_untold: str = ""
    """Why the job's views are not maintained at the moment; empty if they are, or if the job has none."""

    @property
    def locked_lanes(self) -> frozenset[str]:
        """The names of the lanes whose target one of the job's sessions waits to lock."""
        locked = {wait.thing for wait in self.lock_waits}
        return frozenset(lane.name for lane in self.lanes if lane.target in locked)


@dataclass(frozen=True, slots=True)
class Identity:
    """One process on one host."""

    pid: Positive
    """The process id."""
    started: str
    """The boot, the pid namespace, and the start time in clock ticks since that boot; differs for a later process with
    the same pid, and does not depend on the wall clock."""
    session_id: int
    """The session id of the process."""
    run_id: str
    """The id of the run to which the process belongs."""
    host: str
    """The host on which the process runs."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as seen from this host."""

    name: str
    """The job's name."""
    state: JobState
    """The job's state (`slotkeeper docs states`)."""
    wanted: WantedState
    """Its desired state."""
    reason: str = ""
    """The reason for the state, as text, including the reason for a missing process; empty if there is none."""
    trouble: str = ""
    """The name of the problem (`slotkeeper docs states`), empty if there is none."""
    safe: str = ""
    """The safe action, empty if no action is needed."""
    config: str = ""
    """The configuration file with which it was started."""
    run: str = ""
    """Its newest run, empty if it has never run."""
    supervisor: Identity | None = None
    """Its supervisor's process; null: none was found."""
    supervisor_alive: bool = False
    """Whether its supervisor is running on this host."""
    driver: Identity | None = None
    """Its driver's process; null: none was found."""
    driver_alive: bool = False
    """Whether its driver is running on this host."""
    elsewhere: bool = False
    """Whether it was started on another host or in another container, and no end is recorded."""
    changed_at: datetime | None = None
    """When it entered this state."""
    started_at: datetime | None = None
    """When its newest run started; null: none started."""
    ended_at: datetime | None = None
    """When its newest run ended; null: it has not ended."""
    exit_code: SignedOrNone = None
    """The driver's exit code in its newest run, negative if a signal ended it; null: none."""
    report: JobReport | None = None
    """The last report of its driver; null: never reported."""
    reported_at: datetime | None = None
    """When its driver last reported; null: never."""
    reported: bool = False
    """Whether the driver of this run has reported."""
    starting: bool = False
    """Whether it was just started, and its supervisor has not recorded its process yet."""
    supervisor_stopped: bool = False
    """Whether a signal or a debugger has stopped its supervisor."""
    driver_stopped: bool = False
    """Whether a signal or a debugger has stopped its driver."""
    runs_on: str = ""
    """The name of the host that owns the job, if several hosts share it; empty if none does or if this is unknown."""

    @property
    def lives(self) -> bool:
        """Whether one of its processes is running on this host."""
        return self.supervisor_alive or self.driver_alive

    @property
    def last_known(self) -> bool:
        """Whether states and values are only the last known ones, because the job has no process on this host."""
        return bool(self.run) and not self.starting and not (self.state.has_process and self.lives)

    @property
    def goes_on(self) -> bool:
        """Whether the driver reports that the job is working; PENDING is excluded, because the job may still fail."""
        return self.reported and self.state in (JobState.RUNNING, JobState.SNAPSHOT, JobState.CATCHING_UP)

    @property
    def living_tables(self) -> tuple[TableReport, ...]:
        """The states of the tables of a running job with several tables; empty for a job without a process."""
        known = self.report if self.reported and self.lives and self.state.has_process else None
        return known.tables if known else ()


def why_of(view: JobStatus) -> str:
    """Return the problem of a job and of its tables as one string, in which the problem's name appears once."""
    tables = said_of(view.living_tables)
    whole = why_whole(view)
    return "; ".join(part for part in (tables, whole) if part)


def why_whole(view: JobStatus) -> str:
    """Return the problem of the job as a whole, without the problems of individual tables."""
    if view.reason and safe(said_of(view.living_tables)) == view.reason:
        return ""
    named = view.trouble if not view.reason.startswith(view.trouble) else ""
    return ": ".join(part for part in (named, view.reason) if part)
