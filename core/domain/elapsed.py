"""How long ago something was by a clock that people set: not told where the clock was set back since. Pure.

Which clock decides what stands in docs/clocks.md: durations that decide go by a monotonic clock wherever one process
sees both ends. What is left is told from times that another process wrote, on the same host.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import overload

AHEAD_SECONDS = 5.0
"""What is ahead by more was written before a clock was set back; less may be the time that reading it took."""


@overload
def elapsed(at: float, now: float) -> float | None: ...
@overload
def elapsed(at: datetime, now: datetime) -> float | None: ...
def elapsed(at: float | datetime, now: float | datetime) -> float | None:
    """Seconds from `at` to `now`, at least 0; None where `at` lies ahead, so that nobody can tell.

    >>> elapsed(100.0, 160.0), elapsed(100.0, 99.0), elapsed(3_600.0, 0.0)
    (60.0, 0.0, None)
    """
    past = now - at  # type: ignore[operator]
    seconds = past.total_seconds() if isinstance(past, timedelta) else float(past)
    return None if seconds < -AHEAD_SECONDS else max(0.0, seconds)


def is_older(at: datetime, now: datetime, seconds: float) -> bool:
    """Whether it was longer ago than that, or nobody can tell."""
    past = elapsed(at, now)
    return past is None or past > seconds
