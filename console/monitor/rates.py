"""Rates of jobs and DNs, calculated from successive frames. Pure.

None means unknown: with fewer than two samples, across a restart, if a counter decreased, or if the last sample is old.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slotkeeper.core.judgement.facts import BEHIND_SECONDS

if TYPE_CHECKING:
    from slotkeeper.core.domain.report import JobReport

CELLS, CELL_SECONDS = 8, 75.0
"""The number of cells of a sparkline and their length in seconds; together they cover ten minutes."""
_RATE_WINDOW, _TREND_WINDOW = 15.0, 60.0
OLD_SECONDS = 15.0
_GAP_SECONDS = 45.0
_BUSIEST = 0.70


@dataclass(frozen=True, slots=True)
class Sample:
    """One lane at a point in time: its events so far, its position, and the latest position, as numbers.

    Counters with different `phase` cannot be compared.
    """

    at: float
    phase: str
    events: int
    point: int | None = None
    latest: int | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """Shares of the lanes' working time in the last minute. Reading includes staging the rows."""

    read: float
    write: float
    register: float


@dataclass(frozen=True, slots=True)
class _Spent:
    at: float
    run: str
    read: float
    write: float
    register: float


class Track:
    """The samples of one lane, or of a whole job."""

    def __init__(self) -> None:
        self._near: deque[Sample] = deque()
        self._cells: dict[int, tuple[int, float]] = {}
        self._level: int | None = None
        """The position at which the lane was last caught up."""

    def see(self, sample: Sample) -> None:
        """Add the next sample. A sample that does not continue the last sample starts a new track."""
        last = self._near[-1] if self._near else None
        if last is not None and sample.at <= last.at:
            return
        if last is not None and (
            sample.phase != last.phase or sample.events < last.events or sample.at - last.at > _GAP_SECONDS
        ):
            self._near.clear()
            last = None
            self._level = None
        if sample.point is not None and sample.latest is not None and sample.point >= sample.latest:
            self._level = sample.point
        self._near.append(sample)
        while sample.at - self._near[0].at > _TREND_WINDOW:
            self._near.popleft()
        if last is not None:
            cell = int(sample.at // CELL_SECONDS)
            events, seconds = self._cells.get(cell, (0, 0.0))
            self._cells[cell] = (events + sample.events - last.events, seconds + sample.at - last.at)
            self._cells = {number: kept for number, kept in self._cells.items() if number > cell - CELLS}

    def rate(self, now: float) -> float | None:
        """Return the recent rate in events per second.

        >>> track = Track()
        >>> for at, events in ((0.0, 100), (5.0, 600)): track.see(Sample(at, "run", events))
        >>> track.rate(6.0), track.rate(60.0)
        (100.0, None)
        """
        if not self._near or now - self._near[-1].at > OLD_SECONDS:
            return None
        last = self._near[-1]
        first = next(one for one in self._near if last.at - one.at <= _RATE_WINDOW)
        return (last.events - first.events) / (last.at - first.at) if last.at > first.at else None

    def spark(self, now: float) -> tuple[float | None, ...]:
        """Return the events per second of each cell, oldest first; None if unknown."""
        newest = int(now // CELL_SECONDS)
        found = (self._cells.get(number) for number in range(newest - CELLS + 1, newest + 1))
        return tuple(cell[0] / cell[1] if cell and cell[1] else None for cell in found)

    def applied(self) -> float | None:
        """Return the applied share of the changes since the lane was last caught up; None if that time is unknown.

        >>> track = Track()
        >>> for at, point, latest in ((0.0, 5, 5), (5.0, 6, 9)): track.see(Sample(at, "run", 0, point, latest))
        >>> track.applied()
        0.25
        """
        last = self._near[-1] if self._near else None
        if last is None or last.point is None or last.latest is None or self._level is None:
            return None
        waited = last.latest - self._level
        return (last.point - self._level) / waited if waited > 0 else 1.0

    def eta(self, now: float) -> float | None:
        """Return the seconds until the lane has caught up, at its current rate; None if it makes no progress."""
        if not self._near or now - self._near[-1].at > OLD_SECONDS:
            return None
        first, last = self._near[0], self._near[-1]
        if last.latest is None or last.point is None or first.latest is None or first.point is None:
            return None
        behind = last.latest - last.point
        if behind <= 0:
            return 0.0
        gained = (last.point - first.point) - (last.latest - first.latest)
        return behind * (last.at - first.at) / gained if gained > 0 else None


class JobTracks:
    """The samples of a job and its lanes, and how the lanes spent their time."""

    def __init__(self) -> None:
        self.whole = Track()
        self.lanes: dict[str, Track] = {}
        self._spent: deque[_Spent] = deque()

    def see(self, at: float, report: JobReport) -> None:
        """Add the report of a frame recorded at that time."""
        copying = not report.lanes
        phase = f"{report.run}/{'copy' if copying else 'stream'}"
        self.whole.see(Sample(at, phase, report.snapshot_rows if copying else report.changes))
        for lane in report.lanes:
            track = self.lanes.setdefault(lane.name, Track())
            latest = lane.latest_at if lane.known_behind is not None else None  # an outdated latest position is ignored
            track.see(Sample(at, report.run, lane.changes, lane.at, latest))
        self._spend(at, report)

    def busy(self) -> Busy | None:
        """Return how lanes spent their time in the last minute; None if they did nothing or this is unknown."""
        if len(self._spent) < 2:
            return None
        first, last = self._spent[0], self._spent[-1]
        read, write, register = last.read - first.read, last.write - first.write, last.register - first.register
        total = read + write + register
        if min(read, write, register) < 0 or total <= 0:
            return None
        return Busy(read / total, write / total, register / total)

    def _spend(self, at: float, report: JobReport) -> None:
        read = _sum(lane.read_s for lane in report.lanes)
        write = _sum(lane.write_s for lane in report.lanes)
        register = _sum(lane.register_s for lane in report.lanes)
        if read is None or write is None or register is None or not report.lanes:
            return
        last = self._spent[-1] if self._spent else None
        # these sums restart with each driver, also within a run
        if last is not None and (last.run != report.run or last.read > read or last.write > write):
            self._spent.clear()
        self._spent.append(_Spent(at, report.run, read, write, register))
        while at - self._spent[0].at > _TREND_WINDOW:
            self._spent.popleft()


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if None in found else sum(value or 0.0 for value in found)


def bottleneck(report: JobReport | None, busy: Busy | None, lag: float | None) -> str:
    """Return the side that fails ("source and sink" if both do), or that takes most of the time of a lagging job.

    "" if there is none.
    """
    retrying = {lane.side for lane in report.lanes if lane.retry} if report else set()
    sides = [side for side in ("source", "sink") if side in retrying]
    if sides:
        return " and ".join(sides)
    if busy is None or lag is None or lag <= BEHIND_SECONDS:
        return ""
    shares = (("source", busy.read), ("sink", busy.write), ("registration", busy.register))
    return next((side for side, share in shares if share > _BUSIEST), "")
