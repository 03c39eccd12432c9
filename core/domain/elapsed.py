"""Elapsed time on a clock that users can set, and detection of a wait without progress. Pure.

docs/clocks.md describes the use of each clock: durations on which decisions depend are measured with a monotonic clock
if one process records both the start and the end. Other durations are computed from times that another process wrote on
the same host; they are unknown if the clock has been set back since. The wait for a start has no fixed time limit,
because a start on a busy host may simply need more time; the wait ends after ten minutes without progress.
`slotkeeper.core.launch.view` takes the samples.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import overload

AHEAD_SECONDS = 5.0
"""Maximum number of seconds by which a stored time can be in the future, because reading it takes time. A time further
in the future was written before the clock was set back."""


@overload
def elapsed(at: float, now: float) -> float | None: ...
@overload
def elapsed(at: datetime, now: datetime) -> float | None: ...
def elapsed(at: float | datetime, now: float | datetime) -> float | None:
    """Return the seconds from `at` to `now`, at least 0; None (unknown) if `at` is in the future.

    >>> elapsed(100.0, 160.0), elapsed(100.0, 99.0), elapsed(3_600.0, 0.0)
    (60.0, 0.0, None)
    """
    past = now - at  # type: ignore[operator]
    seconds = past.total_seconds() if isinstance(past, timedelta) else float(past)
    return None if seconds < -AHEAD_SECONDS else max(0.0, seconds)


def is_older(at: datetime, now: datetime, seconds: float) -> bool:
    """Return whether more than `seconds` have passed since `at`, or the elapsed time is unknown."""
    past = elapsed(at, now)
    return past is None or past > seconds


STALLED_SECONDS = 600.0
"""Seconds without progress after which the wait for a start ends."""
CPU_STEP = 5.0
"""CPU seconds that count as progress; an idle JVM uses less than this in `STALLED_SECONDS` (0.8 % of a core)."""


@dataclass(frozen=True, slots=True)
class Signs:
    """One sample of a wait.

    `step` is the step that must be completed; `marks` is a value that changes whenever work is done; `cpu` is the CPU
    time in seconds used so far by the driver's processes, None if CPU time does not indicate progress.
    """

    step: str
    marks: Hashable
    cpu: float | None = None


class Progress:
    """One wait, with the time of its last progress in monotonic seconds of the caller's clock."""

    def __init__(self, now: float, limit: float = STALLED_SECONDS) -> None:
        self.began, self.limit = now, limit
        self.step = ""
        self._moved_at = now
        self._last: Signs | None = None

    def see(self, signs: Signs, now: float) -> None:
        """Add a sample."""
        self.step = signs.step
        before = self._last.cpu if self._last is not None else None
        # enough CPU time was used since the last progress; a decrease means that the processes have changed
        worked = before is not None and signs.cpu is not None and not 0 <= signs.cpu - before < CPU_STEP
        if self._last is None or signs.marks != self._last.marks or worked:
            self._moved_at, self._last = now, signs

    def quiet(self, now: float) -> float:
        """Return the seconds since the last progress."""
        return now - self._moved_at

    def stalled(self, now: float) -> str:
        """Return the reason why the wait ends; empty while it continues.

        >>> wait = Progress(0.0)
        >>> wait.see(Signs("the JVM", 1), 0.0)
        >>> wait.stalled(600.0), wait.stalled(600.1)
        ('', 'no progress for 600 s while waiting for the JVM')
        """
        if self.quiet(now) <= self.limit:
            return ""
        return f"no progress for {self.limit:.0f} s while waiting for {self.step or 'its first step'}"
