"""What is known of a job: what its driver reports and finds wrong, and its processes as seen from one host.

Screens and `--json` show nothing else. Unknown is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.lane import FRESH_SECONDS
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.text import many

_SERVER = re.compile(r"(?:^|: )((source|sink) (\S+)) \([^()]*\):? ", re.DOTALL)
GIVEN_UP = "a step did not end in time and was cancelled"
"""What is said of a step that waited for something longer than its task may last."""
_CONNECTING = re.compile(r"connection to server .*? failed: ", re.DOTALL)
_ADVICE = re.compile(r"\s*Is the server running .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """`party` is a `slotkeeper.core.domain.fault.Party` value, `name` the party in words, `cause` what it said itself.

    `since` is in seconds since 1970. `lanes` wait by it, out of `of`; `tries` is how often it was tried again.
    """

    party: str
    name: str
    cause: str
    since: float
    lanes: tuple[str, ...] = ()
    of: int = 0
    tries: int = 0

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
        cause = before.cause if before.cause else one.cause
        lanes = tuple(dict.fromkeys((*before.lanes, *one.lanes)))
        since = min(before.since, one.since)
        tries = max(before.tries, one.tries)
        found[key] = replace(one, cause=cause, since=since, lanes=lanes, of=max(before.of, one.of), tries=tries)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.name)))


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One lane (a source table on one DN) at one moment; positions are texts of its dialect, times are seconds.

    `activity` is one word of: idle, due, applying, registering, waiting, stopped (its table has ended alone); `retry`
    says "retrying n, next in s" or "", `side` whose trouble that is: source, sink, spark or "" where it is not known.
    `polled_age` is how long ago the source said what is latest. `read_s`, `write_s` and `register_s` are the seconds
    that this run's lane has spent reading from the source, writing to the sink and registering, since its driver
    began. `waited` is the longest time that the lane was due before a step of it began. `source_table` and `target`
    are its channel's; `label` is what the lane is called where the job has several channels. `registered` is the
    place up to which the source was told that all is done. `position` is the form that is stored, `shown` the same
    place for people, as `latest` and `registered` are. `at`, `latest_at` and `registered_to` are numbers that grow
    with position, latest and registered, `empty_to` with the place up to which no row was found beyond position;
    `behind` is what lies between position and latest in the dialect's own unit.
    """

    shard: str
    node_id: int
    state: str
    activity: str
    position: str | None
    latest: str | None
    registered: str | None
    changes: int
    last_commit_age: float | None
    retry: str = ""
    error: str = ""
    side: str = ""
    polled_age: float | None = None
    read_s: float | None = None
    write_s: float | None = None
    register_s: float | None = None
    waited: float = 0.0
    source_table: str = ""
    target: str = ""
    label: str = ""
    at: int | None = None
    latest_at: int | None = None
    registered_to: int | None = None
    empty_to: int | None = None
    behind: int | None = None
    shown: str | None = None
    gtids: str = ""
    """The transactions that are done at `position`, as the server names them; "" where positions name none."""
    delay: float | None = None
    """By how much what was applied last is behind the source's clock, which grows while nothing more is applied; 0
    where nothing waits; None where positions do not tell (`Position.committed_at`)."""

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
    """A job's own account of itself, written every second or so while its driver lives.

    `state` is a `slotkeeper.core.domain.job.JobState` value ("CATCHING UP"); `trouble` is a name of trouble or "";
    `safe` says what is safe to do about it. `quarantined` are the rows that it holds, None where it holds none by its
    configuration; with more than `quarantine_limit` of a table it stops. `repeats` are the rows that a sink beside its
    progress store may have got once more, ever. `unit` is what `behind` counts, `place` what a position is called and
    `part` what a lane reads, by the source's dialect; `keeps_positions`: it keeps some that have a time to live
    (`slotkeeper.core.domain.traits`), else no slot expires. `tables` are how the tables of a job of several
    stand, each by itself; `conditions` what the driver knows to be wrong, the oldest first. `lock_waits` are those of
    its sessions at the sink, as last measured, and `locks_untold` why the sink could not tell of them when it was last
    asked, "" where it could. `clock_apart`: by how many seconds the source's clock was ahead of this machine's when
    last measured, at least (below 0: behind); None where nobody has measured it.
    """

    job: str
    run: str
    state: str
    reason: str = ""
    trouble: str = ""
    safe: str = ""
    epoch: int | None = None
    lanes: tuple[LaneReport, ...] = ()
    chunks_done: int | None = None
    chunks_total: int | None = None
    snapshot_rows: int = 0
    changes: int = 0
    tasks_started: int = 0
    registrations: int = 0
    environment: str = ""
    quarantined: int | None = None
    repeats: int = 0
    unit: str = ""
    place: str = ""
    part: str = "DN"
    keeps_positions: bool = True
    tables: tuple[TableReport, ...] = ()
    conditions: tuple[Condition, ...] = ()
    lock_waits: tuple[LockWait, ...] = ()
    locks_untold: str = ""
    clock_apart: float | None = None
    quarantine_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one machine: a reused pid has another `started`, a rebooted machine too.

    `started` names the boot, the pid namespace and the start in clock ticks since that boot, so that it survives a
    changed wall clock; `session_id` is the session that the process leads or belongs to; `run_id` is ours.
    """

    pid: int
    started: str
    session_id: int
    run_id: str
    host: str


@dataclass(frozen=True, slots=True)
class JobView:
    """`reason` and `safe` already say what a missing process means.

    `elsewhere`: it was started on another machine or in another container, and has not been seen to end.
    `starting`: it was started a moment ago, and its supervisor has not said yet who it is.
    `supervisor_stopped`, `driver_stopped`: it lives, and a signal keeps it from running (SIGSTOP, a debugger).
    `reported`: the driver of this very run has reported. `changed_at`: since when it is in this state; `exit_code` is
    that of its newest run.
    """

    name: str
    state: JobState
    wanted: WantedState
    reason: str = ""
    trouble: str = ""
    safe: str = ""
    config: str = ""
    run: str = ""
    supervisor: Identity | None = None
    supervisor_alive: bool = False
    driver: Identity | None = None
    driver_alive: bool = False
    elsewhere: bool = False
    changed_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    report: JobReport | None = None
    reported_at: datetime | None = None
    reported: bool = False
    starting: bool = False
    supervisor_stopped: bool = False
    driver_stopped: bool = False

    @property
    def lives(self) -> bool:
        """Whether a process of it lives here."""
        return self.supervisor_alive or self.driver_alive
