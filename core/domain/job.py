"""The states of a job and the one function that says how they follow each other; `docs/states.md` draws it.

A state is what is, the wanted state what a person wants: the driver and its supervisor bring the first to the second.
Trouble that passes by itself is no state: the job stays what it is and its reason says "retrying n, next in s".
"""

from __future__ import annotations

from enum import Enum

from slotkeeper.core.errors import Refused


class JobState(Enum):
    """What a job is doing; the values are what people see."""

    PENDING = "PENDING"
    SNAPSHOT = "SNAPSHOT"
    CATCHING_UP = "CATCHING UP"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    FINISHED = "FINISHED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    """Seen, never stored: it is meant to have a driver, and neither that nor its supervisor lives."""

    @property
    def has_process(self) -> bool:
        """Whether a job in this state is meant to have a living driver."""
        return self in WITH_PROCESS

    @property
    def is_open(self) -> bool:
        """Whether nobody has recorded the end of the job's newest run, though its processes may be gone."""
        return self in WITH_PROCESS or self is JobState.DEAD


class JobEvent(Enum):
    """What can happen to a job; the values are the words of `docs/states.md` and of the event list."""

    START = "start"
    BEGAN = "driver began"
    COPY_BEGAN = "copy began"
    COPY_DONE = "copy done"
    CAUGHT_UP = "caught up"
    PAUSED = "paused"
    RESUMED = "resumed"
    CRASHED = "driver crashed"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    GONE = "no process found"
    FAILED = "failed"
    FINISHED = "finished"
    RESET = "slot reset"
    CANCELLED = "cancelled"


class WantedState(Enum):
    """What a person wants of a job; kept in the state store and obeyed by its driver within 10 s."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


_S = JobState
_STREAMING = (_S.PENDING, _S.SNAPSHOT, _S.CATCHING_UP, _S.RUNNING)
WITH_PROCESS = frozenset({*_STREAMING, _S.PAUSED})
"""States in which a driver is meant to live; the others are left by a person only."""
_AT_REST = (_S.STOPPED, _S.FAILED, _S.FINISHED)


def _same(*states: JobState) -> dict[JobState, JobState]:
    return {state: state for state in states}


def _all(states: tuple[JobState, ...] | frozenset[JobState], after: JobState) -> dict[JobState, JobState]:
    return dict.fromkeys(states, after)


_AFTER: dict[JobEvent, dict[JobState, JobState]] = {
    JobEvent.START: _all((*_AT_REST, _S.DEAD), _S.PENDING),
    JobEvent.BEGAN: _all(WITH_PROCESS, _S.PENDING),
    JobEvent.COPY_BEGAN: _all((_S.PENDING, _S.SNAPSHOT), _S.SNAPSHOT),
    JobEvent.COPY_DONE: _all((_S.PENDING, _S.SNAPSHOT, _S.CATCHING_UP), _S.CATCHING_UP),
    JobEvent.CAUGHT_UP: _all((_S.PENDING, _S.CATCHING_UP, _S.RUNNING), _S.RUNNING),
    JobEvent.PAUSED: _all(WITH_PROCESS, _S.PAUSED),
    JobEvent.RESUMED: {**_same(*_STREAMING), _S.PAUSED: _S.PENDING},
    JobEvent.CRASHED: _same(*WITH_PROCESS),
    JobEvent.STOPPED: {**_all(WITH_PROCESS, _S.STOPPED), **_all((_S.STOPPED, _S.DEAD), _S.STOPPED)},
    JobEvent.SUPERSEDED: _all(WITH_PROCESS, _S.STOPPED),
    JobEvent.GONE: _all(WITH_PROCESS | {_S.DEAD}, _S.STOPPED),
    JobEvent.FAILED: {**_all(WITH_PROCESS, _S.FAILED), **_same(_S.FAILED)},
    JobEvent.FINISHED: _all((_S.PENDING, _S.SNAPSHOT, _S.FINISHED), _S.FINISHED),
    JobEvent.RESET: _all((_S.STOPPED, _S.FAILED), _S.STOPPED),
    JobEvent.CANCELLED: _all(_AT_REST, _S.CANCELLED),
}

_WHY: dict[JobEvent, str] = {
    JobEvent.START: "it is not at rest; `slotkeeper jobs restart` stops and starts it",
    JobEvent.BEGAN: "only a job that was started has a driver",
    JobEvent.COPY_BEGAN: "a copy begins at a job's start only",
    JobEvent.COPY_DONE: "no copy is going on",
    JobEvent.CAUGHT_UP: "its copy is not done, or it does not stream",
    JobEvent.PAUSED: "it has no process; pausing needs a running job",
    JobEvent.RESUMED: "it has no process; `slotkeeper jobs start` starts it",
    JobEvent.CRASHED: "it has no driver that could crash",
    JobEvent.STOPPED: "it has no process to stop",
    JobEvent.SUPERSEDED: "it has no process that another start could replace",
    JobEvent.GONE: "it is not meant to have a process",
    JobEvent.FAILED: "it has no process that could fail",
    JobEvent.FINISHED: "only a full copy without a stream (`binlog = false`) comes to an end",
    JobEvent.RESET: "slots are reset while their job is STOPPED or FAILED; stop it first",
    JobEvent.CANCELLED: "a job is cancelled at rest; stop it first",
}


def transition(state: JobState, event: JobEvent) -> JobState:
    """The state after an event; raises Refused with one sentence where the event cannot happen in that state.

    >>> transition(JobState.SNAPSHOT, JobEvent.COPY_DONE)
    <JobState.CATCHING_UP: 'CATCHING UP'>
    """
    after = _AFTER[event].get(state)
    if after is not None:
        return after
    why = "CANCELLED is final" if state is JobState.CANCELLED else _WHY[event]
    raise Refused(f"a job that is {state.value} does not take the event '{event.value}': {why}")
