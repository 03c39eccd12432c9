"""What is known of a job: what its driver reports and finds wrong, and its processes as seen from one host.

Screens and `--json` show nothing else. Unknown is None, never 0.
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
"""What is said of a step that waited for something longer than its task may last."""
_CONNECTING = re.compile(r"connection to server .*? failed: ", re.DOTALL)
_ADVICE = re.compile(r"\s*Is the server running .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that the driver knows to be wrong now."""

    party: Annotated[str, Party]
    """Whose it is."""
    name: str
    """The party in words."""
    cause: str
    """In its own words."""
    since: Moment
    """Since when."""
    lanes: tuple[str, ...] = ()
    """The lanes that wait by it; each: a lane."""
    of: int = 0
    """Out of so many."""
    tries: int = 0
    """How often it was tried again."""
    code: str = ""
    """The server's own code, an SQLSTATE or an error number; empty where it gave none."""
    message: str = ""
    """SK- and four digits, empty where no server is asked."""
    act: str = ""
    """What ends it, empty where nothing is known but to wait."""

    @property
    def effect(self) -> str:
        """What waits by it."""
        return self.effect_on("DN")

    def effect_on(self, part: str) -> str:
        """What waits by it, where a lane reads what the source calls `part`.

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
        """In a line, without the time that it lasts: a text that changes every second is no text to compare."""
        return f"{self.name}: {self.cause}" + (f", {self.effect}" if self.lanes else "")


def server_of(message: str) -> tuple[str, str, str]:
    """(side, name, cause) of an error's sentence: which server it names, and what is left of it in that one's words.

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
    """Those of one party and name as one, which began with the first of them; the oldest first.

    A DN that does not answer behind a source that does not is the source's.
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

    Positions are texts of the source's dialect. A position has a number beside it that grows with it.
    """

    shard: str
    """The DN's name."""
    node_id: Signed
    """The DN's number, often negative."""
    state: str
    """One of creating, copying, catching up, running."""
    activity: str
    """One of idle, due, applying, registering, waiting, stopped (its table has ended alone)."""
    position: str | None
    """A place of the binlog, as the dialect writes and the store keeps it."""
    latest: str | None
    """The newest place of the source, as this DN told it last."""
    registered: str | None
    """The place up to which the source was told that all is done; null: nothing yet."""
    changes: int
    """Events read, ever."""
    last_commit_age: float | None
    """How long ago its last step was committed, seconds; null: none in this run."""
    retry: str = ""
    """The text "retrying n, next in s"; empty where nothing is retried."""
    error: str = ""
    """The newest error that is not over, empty without one."""
    side: str = ""
    """Whose error: source, sink, spark, or empty where it is not known."""
    polled_age: float | None = None
    """How long ago the source said what is latest, seconds."""
    read_s: float | None = None
    """Spent reading from the source in this run, seconds."""
    write_s: float | None = None
    """Spent writing to the sink in this run, seconds."""
    register_s: float | None = None
    """Spent registering in this run, seconds."""
    waited: float = 0.0
    """The longest time that it was due before a step began, seconds."""
    source_table: str = ""
    """Its channel's schema.table at the source."""
    target: str = ""
    """Its channel's schema.table at the sink."""
    label: str = ""
    """What it is called where the job has several tables, else empty."""
    at: SignedOrNone = None
    """A number that grows with position."""
    latest_at: SignedOrNone = None
    """A number that grows with latest."""
    registered_to: SignedOrNone = None
    """A number that grows with registered."""
    empty_to: SignedOrNone = None
    """A number that grows with the place up to which no row was found beyond position."""
    behind: int | None = None
    """What lies between position and latest, in the report's unit."""
    shown: str | None = None
    """The position as people see it, as latest and registered are."""
    gtids: str = ""
    """GTIDs that are done at position, as the server names them; empty where positions name none."""
    delay: float | None = None
    """By how much what was applied last is behind the source's clock, seconds; it grows while nothing more is applied,
    and is 0 where nothing waits; null: positions of this kind do not tell."""

    @property
    def name(self) -> str:
        """What the lane is called within its job: its DN, or its label."""
        return self.label or self.shard

    @property
    def done_to(self) -> int | None:
        """The number up to which nothing is left to apply: `at`, or beyond it where no row was found in between."""
        return self.at if self.at is None or self.empty_to is None else max(self.at, self.empty_to)

    @property
    def known_behind(self) -> int | None:
        """`behind`, and unknown where the lane is at a latest that the source has told too long ago to be called so."""
        old = self.polled_age is not None and self.polled_age > FRESH_SECONDS
        return None if old and self.behind == 0 else self.behind


@dataclass(frozen=True, slots=True)
class JobReport:
    """What a job's driver told of itself last; it writes it every second or so."""

    job: str
    """The job's name."""
    run: str
    """The run that told it."""
    state: Annotated[str, JobState]
    """What the job is doing (`slotkeeper docs states`)."""
    reason: str = ""
    """Why, for people; empty where there is nothing to say."""
    trouble: str = ""
    """A name of trouble (`slotkeeper docs states`), empty where there is none."""
    safe: str = ""
    """What is safe to do, empty where nothing needs to be done."""
    epoch: int | None = None
    """The epoch of its progress rows."""
    lanes: tuple[LaneReport, ...] = ()
    """Its lanes."""
    chunks_done: int | None = None
    """Chunks of the copy that are done; null: no copy is under way."""
    chunks_total: int | None = None
    """Chunks of the copy; null: no copy is under way."""
    snapshot_rows: int = 0
    """Rows that this run has copied."""
    changes: int = 0
    """Events read, ever, over all lanes."""
    tasks_started: int = 0
    """Tasks that Spark started in this run."""
    registrations: int = 0
    """Registrations at the source in this run."""
    environment: str = ""
    """The source's environment, as configured."""
    quarantined: int | None = None
    """Rows in quarantine; null: it holds none by its configuration, or not known."""
    quarantined_newest: str = ""
    """Of the newest row in quarantine: its entry, key and SQLSTATE; empty where there is none."""
    repeats: int = 0
    """Rows that a sink beside its progress store may have got once more, ever."""
    unit: str = ""
    """What behind counts, by the source's dialect."""
    place: str = ""
    """What a position is called, by the source's dialect."""
    part: str = "DN"
    """What a lane reads, by the source's dialect: DN, shard, stream."""
    keeps_positions: bool = True
    """Whether the source keeps positions of slots, which have a time to live; else no slot expires."""
    tables: tuple[TableReport, ...] = ()
    """The tables of a job of several, each by itself."""
    conditions: tuple[Condition, ...] = ()
    """What is wrong by the driver's word, the oldest first."""
    lock_waits: tuple[LockWait, ...] = ()
    """Its sessions at the sink that wait for a lock, as last measured."""
    locks_untold: str = ""
    """Why the sink could not tell of locks when it was last asked, empty where it could."""
    source_waits: tuple[SourceWait, ...] = ()
    """Sessions at the source that wait for its slots or its sessions, as last measured."""
    source_untold: str = ""
    """Why the source could not tell of waits when it was last asked, or what of them is hidden from its login; empty
    where it told all."""
    clock_apart: Annotated[float | None, SIGNED] = None
    """By how many seconds the source's clock was ahead of this machine's at least, below 0: behind; null: not
    measured."""
    quarantine_limit: int | None = None
    """With more rows of a table quarantined it stops; null: it holds none."""
    sink_here: bool | None = None
    """Whether the sink is on the host of the driver, by its address."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one machine."""

    pid: Positive
    """Its process id."""
    started: str
    """Boot, pid namespace and start in clock ticks since that boot: another process with this pid has another, and a
    changed wall clock changes nothing of it."""
    session_id: int
    """The session that it leads or belongs to."""
    run_id: str
    """The run that it is of."""
    host: str
    """The machine."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job as it is seen from this machine."""

    name: str
    """The job's name."""
    state: JobState
    """What the job is doing (`slotkeeper docs states`)."""
    wanted: WantedState
    """What a person wants of it."""
    reason: str = ""
    """Why, for people, a missing process included; empty where there is nothing to say."""
    trouble: str = ""
    """A name of trouble (`slotkeeper docs states`), empty where there is none."""
    safe: str = ""
    """What is safe to do, empty where nothing needs to be done."""
    config: str = ""
    """The configuration file that it was started with."""
    run: str = ""
    """Its newest run, empty where there was none."""
    supervisor: Identity | None = None
    """Its supervisor's process; null: none was seen."""
    supervisor_alive: bool = False
    """Whether its supervisor lives here."""
    driver: Identity | None = None
    """Its driver's process; null: none was seen."""
    driver_alive: bool = False
    """Whether its driver lives here."""
    elsewhere: bool = False
    """Whether it was started on another machine or in another container, and has not been seen to end."""
    changed_at: datetime | None = None
    """Since when it is in this state."""
    started_at: datetime | None = None
    """When its newest run began; null: none began."""
    ended_at: datetime | None = None
    """When its newest run ended; null: it has not ended."""
    exit_code: SignedOrNone = None
    """The driver's exit code in its newest run, negative: ended by that signal; null: none."""
    report: JobReport | None = None
    """What its driver told last; null: its driver has never reported."""
    reported_at: datetime | None = None
    """When its driver reported last; null: never."""
    reported: bool = False
    """Whether the driver of this very run has reported."""
    starting: bool = False
    """Whether it was started a moment ago, and its supervisor has not said yet who it is."""
    supervisor_stopped: bool = False
    """Whether a signal or a debugger keeps its supervisor from running."""
    driver_stopped: bool = False
    """Whether one keeps its driver from running."""

    @property
    def lives(self) -> bool:
        """Whether a process of it lives here."""
        return self.supervisor_alive or self.driver_alive

    @property
    def last_known(self) -> bool:
        """Whether state, lanes and figures are the last known, because no process of the job is seen here."""
        return bool(self.run) and not self.starting and not (self.state.has_process and self.lives)

    @property
    def goes_on(self) -> bool:
        """Whether its driver says that it does its work: a job on its way to that, PENDING, may yet fail."""
        return self.reported and self.state in (JobState.RUNNING, JobState.SNAPSHOT, JobState.CATCHING_UP)

    @property
    def living_tables(self) -> tuple[TableReport, ...]:
        """The states of the tables of a running job that has several; empty for a job without a process."""
        known = self.report if self.reported and self.lives and self.state.has_process else None
        return known.tables if known else ()


def why_of(view: JobStatus) -> str:
    """The problem of a job and of its tables in one text; the name of the problem appears once."""
    tables = said_of(view.living_tables)
    whole = why_whole(view)
    return "; ".join(part for part in (tables, whole) if part)


def why_whole(view: JobStatus) -> str:
    """The problem of the job as a whole, without what its tables report themselves."""
    if view.reason and safe(said_of(view.living_tables)) == view.reason:
        return ""
    named = view.trouble if not view.reason.startswith(view.trouble) else ""
    return ": ".join(part for part in (named, view.reason) if part)
