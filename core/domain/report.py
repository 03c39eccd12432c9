"""A job's report and status: its driver's report and conditions, and its processes as seen from one host.

Screens and `--json` show only these values. Unknown values are None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.field import SIGNED, Moment, Positive, Signed, SignedOrNone
from slotkeeper.core.domain.job import JobState, TableReport, WantedState, said_of
from slotkeeper.core.domain.lane import FRESH_SECONDS
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.text import many, safe

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
    """The party's own error text."""
    since: Moment
    """Since when it has existed."""
    lanes: tuple[str, ...] = ()
    """The lanes that wait because of it; each: a lane."""
    of: int = 0
    """The total number of lanes."""
    tries: int = 0
    """The number of retries."""
    code: str = ""
    """The server's own code, an SQLSTATE or an error number; empty if it gave none."""
    message: str = ""
    """SK- and four digits, empty if no server caused it."""
    act: str = ""
    """The action that ends it, empty if only waiting helps."""

    @property
    def effect(self) -> str:
        """The lanes that wait because of it, as text."""
        return self.effect_on("DN")

    def effect_on(self, part: str) -> str:
        """Describe the lanes that wait because of it; `part` is the source's term for a lane's share.

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
        """One line without a duration, because a text that changes every second cannot be compared."""
        return f"{self.name}: {self.cause}" + (f", {self.effect}" if self.lanes else "")


def server_of(message: str) -> tuple[str, str, str]:
    """Return (side, name, cause) from an error message: the server that it names, and that server's own text.

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
    """Merge conditions with the same party and name, with the earliest start of each; the oldest first.

    While a source does not respond, its DNs' conditions count as the source's.
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

    Positions are strings in the source's format. Each position is accompanied by a number that grows with it.
    """

    shard: str
    """The DN's name."""
    node_id: Signed
    """The DN's number, often negative."""
    state: str
    """One of creating, copying, catching up, running."""
    activity: str
    """One of idle, due, applying, registering, waiting, stopped (its table has stopped on its own)."""
    position: str | None
    """A position of the binlog, in the dialect's format as stored in the progress row."""
    latest: str | None
    """The source's newest position, as last reported by this DN."""
    registered: str | None
    """The position up to which the job has confirmed at the source; null: none yet."""
    changes: int
    """Total number of events read."""
    last_commit_age: float | None
    """Seconds since its last commit; null: none in this run."""
    retry: str = ""
    """The text "retrying n, next in s"; empty if it is not retrying."""
    error: str = ""
    """The newest current error, empty if there is none."""
    side: str = ""
    """The side of the error: source, sink, spark, or empty if unknown."""
    polled_age: float | None = None
    """Seconds since the source reported its newest position."""
    read_s: float | None = None
    """Seconds spent reading from the source in this run."""
    write_s: float | None = None
    """Seconds spent writing to the sink in this run."""
    register_s: float | None = None
    """Seconds spent registering in this run."""
    waited: float = 0.0
    """The longest time from becoming due to the start of a step, seconds."""
    source_table: str = ""
    """Its channel's schema.table at the source."""
    target: str = ""
    """Its channel's schema.table at the sink."""
    label: str = ""
    """Its name if the job has several tables, else empty."""
    at: SignedOrNone = None
    """A number that grows with position."""
    latest_at: SignedOrNone = None
    """A number that grows with latest."""
    registered_to: SignedOrNone = None
    """A number that grows with registered."""
    empty_to: SignedOrNone = None
    """A number that grows with the position up to which no row follows `position`."""
    behind: int | None = None
    """The distance from position to latest, in the report's unit."""
    shown: str | None = None
    """The position as shown on screens; latest and registered have the same format."""
    gtids: str = ""
    """GTIDs applied at position, as the server names them; empty if positions have none."""
    delay: float | None = None
    """Seconds by which the last applied change is behind the source's clock; it grows while nothing is applied, and is
    0 if nothing waits; null: positions of this kind have no time."""

    @property
    def name(self) -> str:
        """The lane's name within its job: its DN, or its label."""
        return self.label or self.shard

    @property
    def done_to(self) -> int | None:
        """The number up to which everything is applied: `at`, or a higher one up to which no row follows."""
        return self.at if self.at is None or self.empty_to is None else max(self.at, self.empty_to)

    @property
    def known_behind(self) -> int | None:
        """`behind`; None if the lane is at a latest position that is too old to count as current."""
        old = self.polled_age is not None and self.polled_age > FRESH_SECONDS
        return None if old and self.behind == 0 else self.behind


@dataclass(frozen=True, slots=True)
class JobReport:
    """A driver's last report of its job; it writes about one per second."""

    job: str
    """The job's name."""
    run: str
    """The run that reported it."""
    state: Annotated[str, JobState]
    """The job's state (`slotkeeper docs states`)."""
    reason: str = ""
    """The reason, as text; empty if there is none."""
    trouble: str = ""
    """A name of trouble (`slotkeeper docs states`), empty if there is none."""
    safe: str = ""
    """The safe action, empty if no action is needed."""
    epoch: int | None = None
    """The epoch of its progress rows."""
    lanes: tuple[LaneReport, ...] = ()
    """Its lanes."""
    chunks_done: int | None = None
    """Completed chunks of the copy; null: no copy is under way."""
    chunks_total: int | None = None
    """Chunks of the copy; null: no copy is under way."""
    snapshot_rows: int = 0
    """Rows that this run has copied."""
    changes: int = 0
    """Total number of events read, over all lanes."""
    tasks_started: int = 0
    """Tasks that Spark started in this run."""
    registrations: int = 0
    """Registrations at the source in this run."""
    environment: str = ""
    """The source's environment, as configured."""
    quarantined: int | None = None
    """Rows in quarantine; null: disabled by its configuration, or unknown."""
    quarantined_newest: str = ""
    """The newest row in quarantine: its entry, key and SQLSTATE; empty if there is none."""
    repeats: int = 0
    """Total number of rows that a sink separate from its progress store may have received twice."""
    unit: str = ""
    """The unit of behind, by the source's dialect."""
    place: str = ""
    """The term for a position, by the source's dialect."""
    part: str = "DN"
    """The term for the part that a lane reads, by the source's dialect: DN, shard, stream."""
    keeps_positions: bool = True
    """Whether the source keeps positions of slots, which have a time to live; if not, no slot expires."""
    tables: tuple[TableReport, ...] = ()
    """The tables of a job with several tables, each with its own state."""
    conditions: tuple[Condition, ...] = ()
    """Problems that the driver reports, the oldest first."""
    lock_waits: tuple[LockWait, ...] = ()
    """Its sessions at the sink that wait for a lock, as last measured."""
    locks_untold: str = ""
    """The reason why the sink's locks are unknown, empty if they are known."""
    source_waits: tuple[SourceWait, ...] = ()
    """Sessions at the source that wait for its slots or its sessions, as last measured."""
    source_untold: str = ""
    """The reason why the source's waits are unknown, or the part hidden from its login; empty if all are known."""
    clock_apart: Annotated[float | None, SIGNED] = None
    """Minimum seconds by which the source's clock was ahead of this host's, below 0: behind; null: not measured."""
    quarantine_limit: int | None = None
    """The job stops at more quarantined rows per table than this; null: quarantine is disabled."""
    sink_here: bool | None = None
    """Whether the sink is on the driver's host, by its address."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process on one host."""

    pid: Positive
    """Its process id."""
    started: str
    """Boot, pid namespace and start time in clock ticks since that boot: differs for another process with this pid, and
    does not depend on the wall clock."""
    session_id: int
    """The session that it leads or belongs to."""
    run_id: str
    """Its run."""
    host: str
    """Its host."""


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
    """The reason, as text, including that of a missing process; empty if there is none."""
    trouble: str = ""
    """A name of trouble (`slotkeeper docs states`), empty if there is none."""
    safe: str = ""
    """The safe action, empty if no action is needed."""
    config: str = ""
    """The configuration file with which it was started."""
    run: str = ""
    """Its newest run, empty if there was none."""
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
    """Since when it has been in this state."""
    started_at: datetime | None = None
    """When its newest run started; null: none started."""
    ended_at: datetime | None = None
    """When its newest run ended; null: it has not ended."""
    exit_code: SignedOrNone = None
    """The driver's exit code in its newest run, negative if a signal ended it; null: none."""
    report: JobReport | None = None
    """Its driver's last report; null: never reported."""
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

    @property
    def lives(self) -> bool:
        """Whether one of its processes is running on this host."""
        return self.supervisor_alive or self.driver_alive

    @property
    def last_known(self) -> bool:
        """Whether state, lanes and figures are the last known ones, because this host finds no process of the job."""
        return bool(self.run) and not self.starting and not (self.state.has_process and self.lives)

    @property
    def goes_on(self) -> bool:
        """Whether its driver reports that it is working; PENDING is excluded, because the job may still fail."""
        return self.reported and self.state in (JobState.RUNNING, JobState.SNAPSHOT, JobState.CATCHING_UP)

    @property
    def living_tables(self) -> tuple[TableReport, ...]:
        """The states of the tables of a running job with several tables; empty for a job without a process."""
        known = self.report if self.reported and self.lives and self.state.has_process else None
        return known.tables if known else ()


def why_of(view: JobStatus) -> str:
    """Return the problem of a job and of its tables as one text; the problem's name appears once."""
    tables = said_of(view.living_tables)
    whole = why_whole(view)
    return "; ".join(part for part in (tables, whole) if part)


def why_whole(view: JobStatus) -> str:
    """Return the problem of the job as a whole, without what its tables report themselves."""
    if view.reason and safe(said_of(view.living_tables)) == view.reason:
        return ""
    named = view.trouble if not view.reason.startswith(view.trouble) else ""
    return ": ".join(part for part in (named, view.reason) if part)
