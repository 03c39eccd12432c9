"""Lag and rate of a job and of its lanes over a stretch of time, as a value per point, from its frames. Pure.

Unknown is None: before the first frame, across a restart, where a counter fell, and where nothing was recorded.
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
"""A supervisor records so often: a point is never shorter."""
GAP_SECONDS = 20.0
"""After so long without a frame nothing is known, unless points are longer."""
WHOLE = ""
"""The job itself among its lines: the lag of the DN that lags most, and the rate of all."""
BEGAN, ENDED = "fault began", "fault ended"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which stretch: `points` values that end at `last`."""

    job: str
    last: datetime
    span: timedelta
    points: int

    @property
    def every(self) -> float:
        """Seconds of a point."""
        return max(FRAME_SECONDS, self.span.total_seconds() / max(1, self.points))

    @property
    def number(self) -> int:
        """The number of the last point since 1970: while it stays, so does the picture."""
        return int(self.last.timestamp() // self.every)

    @property
    def first(self) -> int:
        """The number of the first point."""
        return self.number - max(1, round(self.span.total_seconds() / self.every)) + 1


@dataclass(frozen=True, slots=True)
class Line:
    """A value per point, the oldest first: lag in seconds, rate in events a second."""

    lags: tuple[float | None, ...] = ()
    rates: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened to a job: one of its events, or a fault that began or ended."""

    at: float
    event: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class JobSeries:
    """The lines of a job by lane, its own under `WHOLE`; `begins` is when the first point begins, in seconds of UTC."""

    job: str
    begins: float
    every: float
    lines: Mapping[str, Line] = field(default_factory=dict)
    happened: tuple[Happened, ...] = ()

    @property
    def points(self) -> int:
        """How many values each line has."""
        return len(self.lines[WHOLE].lags) if WHOLE in self.lines else 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What a frame says for graphs; `phase` names the counters, which are by lane and the job's under `WHOLE`."""

    at: float
    phase: str
    lags: Mapping[str, float | None]
    events: Mapping[str, int]
    faults: Mapping[tuple[str, str], tuple[float, str]]


def sample_of(frame: Frame) -> Sample:
    """The sample of a frame; what was not reported in its run is unknown."""
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
"""A job in another state applies nothing: what its last report said is not what is."""


def series_of(wanted: Wanted, samples: Sequence[Sample], events: Iterable[EventRow]) -> JobSeries:
    """The lines of a stretch; `samples` are in the order of their time and may begin before it."""
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
        for values in (*lags.values(), *rates.values()):  # what was so a moment ago is so until the next frame
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
    """What drivers said to be wrong: when each began, as they told it, and the first frame without it."""
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
