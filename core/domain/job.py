"""The states of a job and of its tables, and their transitions; see the diagrams in `docs/states.md`. Pure.

The driver and its supervisor bring the job to the desired state, which a user sets. A transient error does not change
the state; it is reported as the reason "retrying n, next in s". A table can stop independently of its job and has its
own state; the job is RUNNING as long as one of its tables is RUNNING.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from slotkeeper.core.domain.field import MomentOrNone
from slotkeeper.core.domain.remedy import until_started
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Refused, TroubleName


class JobState(Enum):
    """The state of a job; the values are shown to users."""

    PENDING = "PENDING"
    SNAPSHOT = "SNAPSHOT"
    CATCHING_UP = "CATCHING UP"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    FINISHED = "FINISHED"
    CANCELLED = "CANCELLED"
    AWAITS_COPY = "AWAITS COPY"
    """A reset has cleared its progress rows: the next start copies, and requires consent if the copy replaces rows."""
    DEAD = "DEAD"
    """Observed, never stored: the job should be running, but neither a driver nor a supervisor is running."""
    ELSEWHERE = "ELSEWHERE"
    """Observed, never stored: another of the hosts that share the job owns it."""
    UNKNOWN = "UNKNOWN"
    """Observed, never stored: several hosts share the job, and this host cannot see which of them runs it."""

    @property
    def has_process(self) -> bool:
        """Whether a job in this state should have a running driver."""
        return self in WITH_PROCESS

    @property
    def is_open(self) -> bool:
        """Whether the job's newest run has no recorded end; its processes may nevertheless have exited."""
        return self in WITH_PROCESS or self is JobState.DEAD


class JobEvent(Enum):
    """The events of a job; the values appear in `docs/states.md` and in the event list."""

    START = "start"
    BEGAN = "driver began"
    COPY_BEGAN = "copy began"
    COPY_DONE = "copy done"
    CAUGHT_UP = "caught up"
    SWITCHED = "source switched"
    RESHAPED = "columns changed"
    COPIED_AGAIN = "copied again"
    PAUSED = "paused"
    RESUMED = "resumed"
    CRASHED = "driver crashed"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    GONE = "no process found"
    FAILED = "failed"
    FINISHED = "finished"
    RESET = "slot reset"
    AWAITS_COPY = "copy awaited"
    CANCELLED = "cancelled"


_EVENTS = {
    "driver began": "run started",
    "copy began": "copy started",
    "copy awaited": "waiting for a copy",
    "run asked": "run requested",
    "pause asked": "pause requested",
    "stop asked": "stop requested",
}
"""The labels of events whose stored name is not their label."""


def event_text(event: str, text: str) -> str:
    """Return an event as shown: its label and its text, without a repetition of the event's name.

    >>> event_text("driver started", "driver started, pid 7"), event_text("failed", "SLOT LOST")
    ('driver started: pid 7', 'failed: SLOT LOST')
    >>> event_text("stopped", "stopped"), event_text("pause asked", "by a command")
    ('stopped', 'pause requested by a command')
    """
    label, more = _EVENTS.get(event, event), text.removeprefix(event).lstrip(" ,:")
    return f"{label} {more}" if more == "by a command" else f"{label}: {more}" if more else label


class WantedState(Enum):
    """The desired state of a job; stored in the state store, and applied by its driver within 10 s."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


_S = JobState
_STREAMING = (_S.PENDING, _S.SNAPSHOT, _S.CATCHING_UP, _S.RUNNING)
WITH_PROCESS = frozenset({*_STREAMING, _S.PAUSED})
"""States in which a driver should be running; a job leaves any other state only at a user's request."""
_ENDED = (_S.STOPPED, _S.FAILED, _S.FINISHED, _S.AWAITS_COPY)

RESETTABLE = (_S.STOPPED, _S.FAILED, _S.AWAITS_COPY)
"""States in which a slot of the job can be reset."""


def _same(*states: JobState) -> dict[JobState, JobState]:
    return {state: state for state in states}


def _all(states: tuple[JobState, ...] | frozenset[JobState], after: JobState) -> dict[JobState, JobState]:
    return dict.fromkeys(states, after)


_AFTER: dict[JobEvent, dict[JobState, JobState]] = {
    JobEvent.START: _all((*_ENDED, _S.DEAD), _S.PENDING),
    JobEvent.BEGAN: _all(WITH_PROCESS, _S.PENDING),
    JobEvent.COPY_BEGAN: _all((_S.PENDING, _S.SNAPSHOT), _S.SNAPSHOT),
    JobEvent.COPY_DONE: _all((_S.PENDING, _S.SNAPSHOT, _S.CATCHING_UP), _S.CATCHING_UP),
    JobEvent.CAUGHT_UP: _all((_S.PENDING, _S.CATCHING_UP, _S.RUNNING), _S.RUNNING),
    JobEvent.SWITCHED: _same(*WITH_PROCESS),
    JobEvent.RESHAPED: _same(*WITH_PROCESS),
    JobEvent.COPIED_AGAIN: _same(*WITH_PROCESS),
    JobEvent.PAUSED: _all(WITH_PROCESS, _S.PAUSED),
    JobEvent.RESUMED: {**_same(*_STREAMING), _S.PAUSED: _S.PENDING},
    JobEvent.CRASHED: _same(*WITH_PROCESS),
    JobEvent.STOPPED: {**_all(WITH_PROCESS, _S.STOPPED), **_all((_S.STOPPED, _S.DEAD), _S.STOPPED)},
    JobEvent.SUPERSEDED: _all(WITH_PROCESS, _S.STOPPED),
    JobEvent.GONE: _all(WITH_PROCESS | {_S.DEAD}, _S.STOPPED),
    JobEvent.FAILED: {**_all(WITH_PROCESS, _S.FAILED), **_same(_S.FAILED)},
    JobEvent.FINISHED: _all((_S.PENDING, _S.SNAPSHOT, _S.FINISHED), _S.FINISHED),
    JobEvent.RESET: _all(RESETTABLE, _S.STOPPED),
    JobEvent.AWAITS_COPY: _all((*WITH_PROCESS, *RESETTABLE), _S.AWAITS_COPY),
    JobEvent.CANCELLED: _all(_ENDED, _S.CANCELLED),
}

_WHY: dict[JobEvent, str] = {
    JobEvent.START: "it is not stopped; `slotkeeper jobs restart` stops and starts it",
    JobEvent.BEGAN: "only a started job has a driver",
    JobEvent.COPY_BEGAN: "a copy starts only with its job",
    JobEvent.COPY_DONE: "no copy is under way",
    JobEvent.CAUGHT_UP: "its copy is not complete, or it does not stream",
    JobEvent.SWITCHED: "it has no process that could switch",
    JobEvent.RESHAPED: "it has no process that could follow a change",
    JobEvent.COPIED_AGAIN: "it has no process that could copy a table",
    JobEvent.PAUSED: "it has no process; pausing requires a running job",
    JobEvent.RESUMED: "it has no process; `slotkeeper jobs start` starts it",
    JobEvent.CRASHED: "it has no driver that could crash",
    JobEvent.STOPPED: "it has no process to stop",
    JobEvent.SUPERSEDED: "it has no process that another start could replace",
    JobEvent.GONE: "it should not have a process",
    JobEvent.FAILED: "it has no process that could fail",
    JobEvent.FINISHED: "only a full copy without a stream (`binlog = false`) finishes",
    JobEvent.RESET: "a slot can be reset while its job is STOPPED, FAILED or AWAITS COPY; stop it first",
    JobEvent.AWAITS_COPY: "it has no copy to wait for",
    JobEvent.CANCELLED: "only a stopped job can be cancelled; stop it first",
}


def transition(state: JobState, event: JobEvent) -> JobState:
    """Return the state after an event; raises Refused with one sentence if the state does not allow the event.

    >>> transition(JobState.SNAPSHOT, JobEvent.COPY_DONE)
    <JobState.CATCHING_UP: 'CATCHING UP'>
    """
    after = _AFTER[event].get(state)
    if after is not None:
        return after
    why = "CANCELLED is final" if state is JobState.CANCELLED else _WHY[event]
    raise Refused(f"a {state.value} job does not accept the event '{event.value}': {why}")


@dataclass(frozen=True, slots=True)
class TableWanted:
    """The desired state of one table; `turn` increases with each requested start, to tell requests apart."""

    wanted: WantedState = WantedState.RUN
    turn: int = 0


AS_THE_JOB = TableWanted()
"""The desired state of a table that has no desired state of its own and follows the job."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """The report on one table of a job with several tables."""

    source_table: str
    """The source table, as schema.table."""
    target: str
    """The target table, as schema.table."""
    state: Annotated[str, JobState]
    """Its state (`slotkeeper docs states`)."""
    reason: str = ""
    """The reason, as text; empty if there is none."""
    trouble: str = ""
    """The name of the problem (`slotkeeper docs states`), empty if there is none."""
    safe: str = ""
    """The safe action, empty if no action is needed."""
    since: MomentOrNone = None
    """When the table entered this state; null: not recorded."""

    @property
    def rests(self) -> bool:
        """Whether the table has stopped and only a user can start it again."""
        return self.state in RESTING


GONE = "table dropped at the source, or hidden from this login"
"""The reason of a table that the source no longer lists; a login without privileges on a table does not see it."""
GONE_ACT = "no action needed; the target's rows stay; add the table to `except` to end this report"

RESTING = (JobState.FAILED.value, JobState.AWAITS_COPY.value, JobState.STOPPED.value)
_AMISS = (JobState.FAILED, JobState.AWAITS_COPY, JobState.STOPPED, JobState.PAUSED)
"""States of a table that has stopped independently of its job, the worst first."""


def amiss(tables: Iterable[TableReport]) -> list[TableReport]:
    """Return the stopped tables, the worst first; none if all are paused, because then the job itself is paused."""
    known = list(tables)
    found = [one for state in _AMISS for one in known if one.state == state.value]
    return [] if all(one.state == JobState.PAUSED.value for one in known) else found


def slot_lost(state: JobState | None, trouble: str, reason: str, tables: Iterable[TableReport], table: str) -> bool:
    """Return whether a table or its whole job is FAILED because the source dropped changes that the slot had not read.

    >>> failed = TableReport("ods.b", "m.b", "FAILED", trouble="SLOT LOST")
    >>> [slot_lost(JobState.RUNNING, "", "", (failed,), one) for one in ("ods.a", "ods.b")]
    [False, True]
    >>> slot_lost(JobState.FAILED, "SLOT LOST", "dn_1: gone", (), "ods.a")
    True
    """
    known, lost = list(tables), TroubleName.SLOT_LOST.value
    if any(one.source_table == table and (one.state, one.trouble) == (JobState.FAILED.value, lost) for one in known):
        return True
    named = [one.source_table for one in known if one.source_table in reason]
    return state is JobState.FAILED and trouble == lost and (not named or table in named)


def to_do(job: str, table: TableReport) -> str:
    """Return the safe action for a stopped table, including the command that starts only this table.

    >>> to_do("orders", TableReport("ods.a", "m.a", "FAILED", safe="fix it, then `slotkeeper jobs start orders`"))
    'fix it, then `slotkeeper jobs start orders --table ods.a`'
    >>> to_do("orders", TableReport("ods.a", "m.a", "FAILED", safe="check the password"))
    'check the password; then `slotkeeper jobs start orders --table ods.a`'
    >>> to_do("orders", TableReport("ods.a", "m.a", "PAUSED"))
    '`slotkeeper jobs resume orders --table ods.a` continues from its position'
    """
    alone = f"{typed(job)} --table {typed(table.source_table)}"
    if table.state == JobState.PAUSED.value:
        return f"`slotkeeper jobs resume {alone}` continues from its position"
    if table.reason == GONE:
        return table.safe
    if not table.safe:
        return f"`slotkeeper jobs start {alone}` continues from its position"
    return started_alone(until_started(table.safe, job), job, table.source_table)


def started_alone(text: str, job: str, source_table: str) -> str:
    """Return `text` with each command that starts the job replaced by the command that starts only one of its tables.

    >>> started_alone("slotkeeper jobs start orders", "orders", "ods.a")
    'slotkeeper jobs start orders --table ods.a'
    """
    name = typed(job)
    alone = f"jobs start {name} --table {typed(source_table)}"
    return re.sub(rf"jobs start {re.escape(name)}(?![\w-])(?! --)", lambda _: alone, text)


def said_of(tables: Iterable[TableReport]) -> str:
    """Describe the stopped tables, the worst first; "" if none has stopped.

    >>> said_of([TableReport("ods.a", "m.a", "RUNNING"), TableReport("ods.b", "m.b", "FAILED", "SLOT LOST")])
    '1 of 2 tables FAILED: ods.b: SLOT LOST'
    >>> said_of([TableReport("ods.a", "m.a", "RUNNING")])
    ''
    """
    known = list(tables)
    parts = []
    for state in _AMISS:
        found = [one for one in known if one.state == state.value]
        if not found or (state is JobState.PAUSED and len(found) == len(known)):
            continue
        first = found[0]
        reason = first.reason.removeprefix(f"{first.source_table}: ")
        names = ": ".join(filter(None, (first.source_table, reason)))
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        parts.append(f"{len(found)} of {len(known)} tables {state.value}: {names}{more}")
    return "; ".join(parts)
