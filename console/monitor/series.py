"""Lag and rate of a job and of its lanes over a time range, one value per point, calculated from frames. Pure.

None means unknown: before the first frame, across a restart, if a counter decreased, or where nothing was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from slotkeeper.core.domain.job import RESETTABLE, JobState

if TYPE_CHECKING:
    from slotkeeper.core.state.frames import Frame
    from slotkeeper.core.state.rows import EventRow

FRAME_SECONDS = 5.0
"""The interval at which a supervisor records frames. A point never covers less time."""
GAP_SECONDS = 20.0
"""The time in seconds without a frame after which values are unknown, unless points are longer."""
WHOLE = ""
"""The key of the whole job, with the highest lag of its DNs and the sum of their rates."""
BEGAN, ENDED = "fault began", "fault ended"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A time range with `points` values that ends at `last`."""

    job: str
    last: datetime
    span: timedelta
    points: int

    @property
    def every(self) -> float:
        """The length of a point in seconds."""
        return max(FRAME_SECONDS, self.span.total_seconds() / max(1, self.points))

    @property
    def number(self) -> int:
        """The number of the last point since 1970. While the number is the same, the graph does not change."""
        return int(self.last.timestamp() // self.every)

    @property
    def first(self) -> int:
        """The number of the first point."""
        return self.number - max(1, round(self.span.total_seconds() / self.every)) + 1


@dataclass(frozen=True, slots=True)
class Line:
    """One value per point, oldest first: lag in seconds, rate in events per second."""

    lags: tuple[float | None, ...] = ()
    rates: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of a job, or the start or end of a fault."""

    at: float
    event: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class JobSeries:
    """The values of a job by lane, and in total under `WHOLE`; `begins` is the start of the first point in UTC."""

    job: str
    begins: float
    every: float
    lines: Mapping[str, Line] = field(default_factory=dict)
    happened: tuple[Happened, ...] = ()

    @property
    def points(self) -> int:
        """The number of values of each lane."""
        return len(self.lines[WHOLE].lags) if WHOLE in self.lines else 0


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of a frame for graphs. Counters, by lane and under `WHOLE`, are comparable only within one `phase`."""

    at: float
    phase: str
    lags: Mapping[str, float | None]
    events: Mapping[str, int]
    faults: Mapping[tuple[str, str], tuple[float, str]]


def sample_of(frame: Frame) -> Sample:
    """Return the sample of a frame. Values that were not reported in the frame's run are unknown."""
    view, report = frame.view, frame.view.report
    if report is None or not view.reported or view.state not in _KNOWN:
        return Sample(frame.at.timestamp(), "", {}, {}, {})
    copying = not report.lanes
    events = {lane.name: lane.changes for lane in report.lanes}
    events[WHOLE] = report.snapshot_rows if copying else report.changes
    known = [lag for lag in frame.lags.values() if lag is not None]
    complete = bool(known) and len(known) == len(frame.lags) and not copying
    lags = {**frame.lags, WHOLE: max(known) if complete else None}
    faults = {(one.party, one.name): (one.since, one.cause) for one in report.conditions}
    return Sample(frame.at.timestamp(), f"{report.run}/{'copy' if copying else 'stream'}", lags, events, faults)


_KNOWN = frozenset(JobState) - {*RESETTABLE, JobState.CANCELLED, JobState.DEAD}
"""The states in which a report is current. A job in any other state applies nothing, so its last report is outdated."""


def series_of(wanted: Wanted, samples: Sequence[Sample], events: Iterable[EventRow]) -> JobSeries:
    """Return the values of a time range. `samples` are in chronological order and can start earlier."""
    first, number = wanted.first, wanted.number - wanted.first + 1
    names = [WHOLE, *dict.fromkeys(name for one in samples for name in one.lags if name != WHOLE)]
    lags: dict[str, list[float | None]] = {name: [None] * number for name in names}
    rates: dict[str, list[float | None]] = {name: [None] * number for name in names}
    gap = max(GAP_SECONDS, 2.5 * wanted.every)
    for before, one in zip([None, *samples], samples, strict=False):
        place = int(one.at // wanted.every) - first
        for name, lag in one.lags.items():
            _put(lags[name], place, lag)
        if before is None or not before.phase or before.phase != one.phase or one.at - before.at > gap:
            continue
        begin = int(before.at // wanted.every) - first
        for name in lags:
            old, new = before.events.get(name), one.events.get(name)
            rate = None
            if old is not None and new is not None and new >= old and one.at > before.at:
                rate = (new - old) / (one.at - before.at)
            for each in range(min(begin + 1, place), place + 1):
                _put(rates[name], each, rate)
                if each < place:
                    _put(lags[name], each, before.lags.get(name))
    if samples and 0 <= wanted.last.timestamp() - samples[-1].at <= GAP_SECONDS:
        place = int(samples[-1].at // wanted.every) - first
        for values in (*lags.values(), *rates.values()):  # a recent value is valid until the next frame
            for each in range(place + 1, len(values)):
                _put(values, each, values[place] if 0 <= place < len(values) else None)
    happened = [Happened(row.at.timestamp(), row.event, row.text) for row in events]
    happened += _faults(samples)
    end = (wanted.number + 1) * wanted.every
    inside = [one for one in happened if first * wanted.every <= one.at < end]
    return JobSeries(
        wanted.job,
        first * wanted.every,
        wanted.every,
        {name: Line(tuple(lags[name]), tuple(rates[name])) for name in names},
        tuple(sorted(inside, key=lambda one: one.at)),
    )


def _put(values: list[float | None], place: int, value: float | None) -> None:
    if 0 <= place < len(values):
        values[place] = value


def _faults(samples: Sequence[Sample]) -> list[Happened]:
    """Return the faults reported by drivers: each starts as reported, and ends at the first frame without it."""
    found: list[Happened] = []
    open_now: dict[tuple[str, str], tuple[float, str]] = {}
    for one in samples:
        found += [
            Happened(since, BEGAN, f"{key[1]}: {cause}")
            for key, (since, cause) in one.faults.items()
            if key not in open_now
        ]
        found += [Happened(one.at, ENDED, key[1]) for key in open_now if key not in one.faults]
        open_now = dict(one.faults)
    return found
