"""Takes a frame of a job every few seconds while a supervisor watches it, and one whenever its state changes.

It also follows what was latest when, so that a lag can be told in seconds, and has what is wrong told. It never raises:
a record that cannot be written is missed, and the job goes on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.lane import Curve, Lags
from slotkeeper.core.domain.report import JobReport, JobView, LaneReport
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch import log
from slotkeeper.core.launch.alerting import Alerting
from slotkeeper.core.launch.launch import Limits
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.frames import GROUP, Base, Frame, Metrics
from slotkeeper.core.state.sqlite import Store

_CURVE_STEP = 300.0
_UNSEEN = Curve()


class Recorder:
    """The frames of one job, taken by the one process that supervises it."""

    def __init__(self, store: Store, job: str, limits: Limits, alerting: Alerting | None = None) -> None:
        self._store = store
        self._metrics = Metrics(store)
        self._job = job
        self._limits = limits
        self._alerting = alerting
        self._base: Base | None = None
        self._due = 0.0
        self._taken = 0
        self._state: JobState | None = None
        self._curves: dict[str, Curve] | None = None
        self._failed = False

    def tick(self, now: bool = False) -> None:
        """Take a frame and judge what is to be told where that is due, or at once; cheap where it is not."""
        try:
            state = self._store.state(self._job)
            if now or state is not self._state or time.monotonic() >= self._due:
                self._state = state
                self._due = time.monotonic() + self._limits.frame_every
                self._take()
        except SlotkeeperError as error:
            if not self._failed:
                self._failed = True
                log.say(self._store.folder, self._job, f"no frame could be recorded: {error}")
        if self._alerting is not None:
            self._alerting.tick(self._limits.alerts_every, now)

    def _take(self) -> None:
        at = datetime.fromtimestamp(self._store.now(), timezone.utc)
        view = observe(self._store, self._job)
        lags = self._lags(view, at)
        self._base = self._metrics.add(Frame(view, at, lags.known, lags.least), self._base)
        if self._taken % GROUP == 0:
            self._metrics.prune(self._job, at.timestamp(), self._limits.frames_kept, self._limits.frames_most)
        self._taken += 1

    def _lags(self, view: JobView, at: datetime) -> Lags:
        if view.report is None:
            return Lags()
        if self._curves is None:
            self._curves = self._remembered(at)
        if view.reported and view.reported_at is not None:
            _follow(self._curves, view.report, view.reported_at.timestamp())
        return lags_at(self._curves, view.report.lanes, at.timestamp())

    def _remembered(self, at: datetime) -> dict[str, Curve]:
        """The curves as earlier supervisors saw them: a lag that began before a restart is still known after it."""
        kept = self._limits.frames_kept
        curves: dict[str, Curve] = defaultdict(lambda: Curve(kept))
        for frame in self._metrics.some(self._job, at - timedelta(seconds=kept), at, _CURVE_STEP):
            if (seen := frame.view).report is not None and seen.reported and seen.reported_at is not None:
                _follow(curves, seen.report, seen.reported_at.timestamp())
        return curves


def lags_at(curves: Mapping[str, Curve], lanes: Iterable[LaneReport], now: float) -> Lags:
    """How far lanes are behind in time, at `now`, by the curves of their names.

    A lane is as far as nothing is left for it to apply. Its row follows more slowly where nothing comes: a job of many
    lanes settles so many of them a second.
    """
    known: dict[str, float | None] = {}
    least: dict[str, float] = {}
    for lane in lanes:
        here, curve = lane.done_to, curves.get(lane.name, _UNSEEN)
        known[lane.name] = None if here is None else curve.lag(here, now)
        if here is not None and known[lane.name] is None and lane.behind:
            least[lane.name] = curve.at_least(here, now)
    return Lags(known, least)


def _follow(curves: dict[str, Curve], report: JobReport, reported_at: float) -> None:
    for lane in report.lanes:
        if lane.latest_at is not None and lane.polled_age is not None:
            curves[lane.name].see(reported_at - lane.polled_age, lane.latest_at)
