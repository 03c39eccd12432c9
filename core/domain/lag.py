"""How far behind a lane is in time, from what was seen of its source: pairs of a time and what was latest then. Pure.

A lane that has applied everything up to P has applied all that was there when the source's latest was P: that moment is
its lag ago. Between two statuses latest is taken to have grown evenly; where none found it at P or below, the lag is
unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from slotkeeper.core.domain.elapsed import elapsed

FRESH_SECONDS = 15.0
"""A lane at its latest lags by 0 while the source has told that latest within this time: idle lanes look no oftener."""
_CLOSE, _HOUR = 600.0, 3_600.0
_GAPS = ((_CLOSE, 0.0), (_HOUR, 30.0), (float("inf"), 300.0))
_THIN_EVERY = 60


@dataclass(frozen=True, slots=True)
class Lags:
    """The lags of a job's lanes at one moment, in seconds: `known` by lane, None where unknown.

    `least` is by lane of unknown lag what it lags by at least: so long it has been watched, without coming to where its
    source was at first.
    """

    known: Mapping[str, float | None] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)


class Curve:
    """What was latest when, for one lane: all of the last ten minutes, less and less of what lies before."""

    def __init__(self, kept: float = 86_400.0) -> None:
        self._kept = kept
        self._times: list[float] = []
        self._latest: list[int] = []
        self._added = 0

    def __len__(self) -> int:
        return len(self._times)

    def see(self, at: float, latest: int) -> None:
        """At that moment (seconds of any clock) this was latest.

        A latest that falls begins a new curve, and so does a clock that was set back: no lag is told across it.
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
        """How far a lane that has applied everything up to `point` is behind, in seconds.

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
        """The lag, or all the time since the first status where no status found it at `point` or below; 0 without any.

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
        """Leave pairs out: what is left tells the same, only less closely."""
        times: list[float] = []
        latest: list[int] = []
        for at, point in zip(reversed(self._times), reversed(self._latest), strict=True):
            age = now - at
            gap = next(gap for within, gap in _GAPS if age <= within)
            if age <= self._kept and (not times or times[-1] - at >= gap):
                times.append(at)
                latest.append(point)
        self._times, self._latest = times[::-1], latest[::-1]
