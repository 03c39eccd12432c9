"""Elapsed time on a clock that users can set, the lag of lanes, and detection of a wait without progress. Pure.

docs/clocks.md describes the use of each clock: durations on which decisions depend are measured with a monotonic clock
if one process records both the start and the end. Other durations are computed from times that another process wrote on
the same host; they are unknown if the clock has been set back since. The wait for a start has no fixed time limit,
because a start on a busy host may simply need more time; the wait ends after ten minutes without progress.

The lag of a lane that has applied everything up to P is the time since the source's latest position was P. Between two
statuses, the latest position is assumed to have increased linearly; if no status reported a latest position at or
before P, the lag is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
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
        self.step = signs.step
        before = self._last.cpu if self._last is not None else None
        # enough CPU time was used since the last progress; a decrease means that the processes have changed
        worked = before is not None and signs.cpu is not None and not 0 <= signs.cpu - before < CPU_STEP
        if self._last is None or signs.marks != self._last.marks or worked:
            self._moved_at, self._last = now, signs

    def quiet(self, now: float) -> float:
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


FRESH_SECONDS = 15.0
"""Seconds after a status for which a lane at its latest position has a lag of 0: the polling interval of idle lanes."""
_CLOSE, _HOUR = 600.0, 3_600.0
_GAPS = ((_CLOSE, 0.0), (_HOUR, 30.0), (float("inf"), 300.0))
_THIN_EVERY = 60


@dataclass(frozen=True, slots=True)
class Lags:
    """The lags of a job's lanes at one time, in seconds; `known` contains the lag by lane, None if unknown.

    `least` contains the minimum lag of each lane whose lag is unknown: the time for which the lane has not reached the
    source's first observed position.
    """

    known: Mapping[str, float | None] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)


class Curve:
    """The history of latest positions of one lane: complete for the last ten minutes, thinned out before that."""

    def __init__(self, kept: float = 86_400.0) -> None:
        self._kept = kept
        self._times: list[float] = []
        self._latest: list[int] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._times)

    def see(self, at: float, latest: int) -> None:
        """Add the latest position at a time (seconds of any clock).

        If the latest position decreases or the clock is set back, a new curve starts: no lag can be computed across
        this.
        """
        if self._times and elapsed(self._times[-1], at) is None:
            self._times, self._latest = [], []
        if self._times and at < self._times[-1]:
            return
        if self._latest and latest < self._latest[-1]:
            self._times, self._latest = [], []
        if self._latest and latest == self._latest[-1]:
            self._times[-1] = at
            return
        self._times.append(at)
        self._latest.append(latest)
        self._added += 1
        if self._added % _THIN_EVERY == 0:
            self._thin(at)

    def lag(self, point: int, now: float) -> float | None:
        """Return the lag in seconds of a lane that has applied everything up to `point`.

        >>> curve = Curve()
        >>> for at, latest in ((0.0, 100), (5.0, 140), (10.0, 180)): curve.see(at, latest)
        >>> curve.lag(180, 12.0), curve.lag(150, 12.0), curve.lag(99, 12.0), curve.lag(180, 60.0)
        (0.0, 5.75, None, 50.0)
        """
        place = bisect_right(self._latest, point) - 1
        if place < 0 or elapsed(self._times[-1], now) is None:
            return None
        if place == len(self._latest) - 1:
            unseen = max(0.0, now - self._times[place])
            return 0.0 if unseen <= FRESH_SECONDS else unseen
        grown = (point - self._latest[place]) / (self._latest[place + 1] - self._latest[place])
        return max(0.0, now - self._times[place] - grown * (self._times[place + 1] - self._times[place]))

    def at_least(self, point: int, now: float) -> float:
        """Return the lag, or the time since the first status if all positions are after `point`; 0 without a status.

        >>> curve = Curve()
        >>> for at, latest in ((0.0, 100), (5.0, 140)): curve.see(at, latest)
        >>> curve.at_least(120, 10.0), curve.at_least(99, 12.0)
        (7.5, 12.0)
        """
        known = self.lag(point, now)
        if known is not None:
            return known
        return max(0.0, now - self._times[0]) if self._times else 0.0

    def _thin(self, now: float) -> None:
        """Drop entries of the curve, which makes older lags less precise but not wrong."""
        times: list[float] = []
        latest: list[int] = []
        for at, point in zip(reversed(self._times), reversed(self._latest), strict=True):
            age = now - at
            gap = next(gap for within, gap in _GAPS if age <= within)
            if age <= self._kept and (not times or times[-1] - at >= gap):
                times.append(at)
                latest.append(point)
        self._times, self._latest = times[::-1], latest[::-1]
