"""A job as it can be seen from one machine, with its processes, as values.

A process is named so that it is recognised again for certain: nothing is ended by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobReport


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
