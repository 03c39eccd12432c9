"""How long ago something was by a clock that people set, and how long a wait continues while it sees progress. Pure.

docs/clocks.md has which clock decides what: durations that decide go by a monotonic clock wherever one process
sees both ends. The rest is computed from times that another process wrote, on the same host; unknown where the clock
was set back since. A clock alone ends starts on a busy host that need nothing but time, so a wait lasts while it sees
progress, and ten minutes without any; `slotkeeper.core.launch.view` samples.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import overload

AHEAD_SECONDS = 5.0
"""What is ahead by more was written before a clock was set back; less may be the time that reading it took."""


@overload
def elapsed(at: float, now: float) -> float | None: ...
@overload
def elapsed(at: datetime, now: datetime) -> float | None: ...
def elapsed(at: float | datetime, now: float | datetime) -> float | None:
    """Seconds from `at` to `now`, at least 0; None where `at` is in the future: then it is unknown.

    >>> elapsed(100.0, 160.0), elapsed(100.0, 99.0), elapsed(3_600.0, 0.0)
    (60.0, 0.0, None)
    """
    past = now - at  # type: ignore[operator]
    seconds = past.total_seconds() if isinstance(past, timedelta) else float(past)
    return None if seconds < -AHEAD_SECONDS else max(0.0, seconds)


def is_older(at: datetime, now: datetime, seconds: float) -> bool:
    """Whether it was longer ago than that, or that is unknown."""
    past = elapsed(at, now)
    return past is None or past > seconds


STALLED_SECONDS = 600.0
"""How long a start may show no progress before its wait ends."""
CPU_STEP = 5.0
"""CPU seconds that count as progress: an idle JVM uses less than that within the limit (0.8 % of a core)."""


@dataclass(frozen=True, slots=True)
class Signs:
    """One sample of a wait.

    `step` names what is waited for; `marks` differ after any piece of work; `cpu` is the CPU time in seconds that the
    driver's processes have used so far, None where CPU time proves nothing.
    """

    step: str
    marks: Hashable
    cpu: float | None = None


class Progress:
    """One wait: when it saw progress last, by the caller's clock (monotonic seconds)."""

    def __init__(self, now: float, limit: float = STALLED_SECONDS) -> None:
        self.began, self.limit = now, limit
        self.step = ""
        self._moved_at = now
        self._last: Signs | None = None

    def see(self, signs: Signs, now: float) -> None:
        """Take a sample into account."""
        self.step = signs.step
        before = self._last.cpu if self._last is not None else None
        # enough CPU time was used since; less of it than before belongs to other processes
        worked = before is not None and signs.cpu is not None and not 0 <= signs.cpu - before < CPU_STEP
        if self._last is None or signs.marks != self._last.marks or worked:
            self._moved_at, self._last = now, signs

    def quiet(self, now: float) -> float:
        """Seconds since the last progress."""
        return now - self._moved_at

    def stalled(self, now: float) -> str:
        """Why the wait ends; empty while it continues.

        >>> wait = Progress(0.0)
        >>> wait.see(Signs("the JVM", 1), 0.0)
        >>> wait.stalled(600.0), wait.stalled(600.1)
        ('', 'no progress for 600 s while waiting for the JVM')
        """
        if self.quiet(now) <= self.limit:
            return ""
        return f"no progress for {self.limit:.0f} s while waiting for {self.step or 'its first step'}"
