"""Map a driver's end (exit code, reported state, requested stop) to the supervisor's next step, without side effects.

The driver's exit codes are a contract: 0 ended as requested, 2 configuration, 10 FAILED (needs an action), 11
SUPERSEDED, 12 ended by SIGTERM, 13 the Spark cluster provides no executor (the only crash that does not count towards a
crash loop). Any other code, and any signal, is a crash.
"""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, field, replace

from slotkeeper.core.domain.job import WITH_PROCESS, JobEvent, JobState

ENDED = 0
CONFIGURATION = 2
FAILED = 10
SUPERSEDED = 11
TERMINATED = 12
NO_CLUSTER = 13


@dataclass(frozen=True, slots=True)
class Ended:
    """The run has ended; `event` is recorded unless the driver has already reported its own end."""

    exit_code: int | None
    event: JobEvent | None
    reason: str
    trouble: str = ""
    safe: str = ""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The driver must be restarted; `text` describes its end.

    `counts` is False if the cause is temporary and needs no action, such as maintenance of the cluster.
    """

    exit_code: int | None
    code: str
    text: str
    counts: bool = True


@dataclass(slots=True)
class CrashHistory:
    """The times of a run's driver crashes, by the monotonic clock."""

    times: deque[float] = field(default_factory=deque)

    def add(self, now: float, window: float) -> int:
        """Record one more crash; return the number of crashes within the window."""
        self.times.append(now)
        while self.times[0] < now - window:
            self.times.popleft()
        return len(self.times)


def judge(exit_code: int | None, reported: JobState, stop_wanted: bool) -> Ended | Crashed:
    """Return the step that follows a driver's end; `exit_code` is None if an adopted driver did not record a code.

    >>> judge(-9, JobState.RUNNING, stop_wanted=False)
    Crashed(exit_code=-9, code='SIGKILL', text='killed by SIGKILL', counts=True)
    """
    if stop_wanted and exit_code in (ENDED, TERMINATED):
        return Ended(exit_code, JobEvent.STOPPED, "stopped as requested")
    if exit_code in _MEANINGS:
        return _MEANINGS[exit_code]
    if stop_wanted:
        return Ended(exit_code, JobEvent.STOPPED, f"stopped; its driver {_how_it_ended(exit_code)}")
    if exit_code is None and reported not in WITH_PROCESS:
        return Ended(None, None, f"ended as {reported.value}")
    code = "gone" if exit_code is None else _signal(-exit_code) if exit_code < 0 else f"exit {exit_code}"
    return Crashed(exit_code, code, _how_it_ended(exit_code), exit_code != NO_CLUSTER)


def because(crash: Crashed, out_of_memory: str) -> Crashed:
    """Return the crash with the cause of the kill, if known; a signal itself does not show its cause.

    >>> because(Crashed(-9, "SIGKILL", "killed by SIGKILL"), "").text
    'killed by SIGKILL, cause unknown'
    """
    if out_of_memory:
        return replace(crash, text=f"{crash.text}, out of memory: {out_of_memory}")
    return replace(crash, text=f"{crash.text}, cause unknown") if crash.exit_code == -signal.SIGKILL else crash


TAKEN_OVER = Ended(
    SUPERSEDED, JobEvent.SUPERSEDED, "a later start of this job has taken over", trouble="SUPERSEDED",
    safe="No action needed if the later start was intended. Otherwise, stop it on its host, and"
    " start the job where it is to run",
)  # fmt: skip
"""The end of a run after a later start; the driver reports it immediately, because closing resources can take time."""
_MEANINGS: dict[int | None, Ended] = {
    ENDED: Ended(ENDED, JobEvent.STOPPED, "ended as requested"),
    CONFIGURATION: Ended(
        CONFIGURATION, JobEvent.FAILED, "its configuration was rejected",
        safe="`slotkeeper config check` names the errors; then correct them",
    ),
    FAILED: Ended(
        FAILED, JobEvent.FAILED, "its driver ended with an error that requires an action",
        safe="`slotkeeper jobs logs JOB` shows why; nothing was skipped",
    ),
    SUPERSEDED: TAKEN_OVER,
    TERMINATED: Ended(TERMINATED, JobEvent.STOPPED, "terminated by an external SIGTERM, not by `jobs stop`"),
}  # fmt: skip


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "disappeared without an exit code"
    if exit_code == NO_CLUSTER:
        return "ended because the Spark cluster provides no executor"
    return f"killed by {_signal(-exit_code)}" if exit_code < 0 else f"ended with exit code {exit_code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
