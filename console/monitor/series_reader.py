"""Reads what graphs show from the recorded frames; what was read stays, so that the next reading costs what is new.

The store is opened for each reading, which comes once for every point: a connection that is kept takes memory all the
time. Used by one thread.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.console.monitor.series import GAP_SECONDS, JobSeries, Sample, Wanted, sample_of, series_of
from slotkeeper.core.clock import Clock
from slotkeeper.core.state.frames import Metrics
from slotkeeper.core.state.sqlite import Store

_KEPT = 4
"""So many stretches are remembered: a job's at two lengths, and its neighbours'."""


class SeriesReader:
    """The graphs of one state store. Raises errors of `slotkeeper.core.errors`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._samples: dict[tuple[str, float], tuple[float, list[Sample]]] = {}

    def read(self, wanted: Wanted) -> JobSeries:
        """A stretch of a job's time."""
        first = datetime.fromtimestamp(wanted.first * wanted.every, timezone.utc)
        begin = first - timedelta(seconds=max(GAP_SECONDS, 2.5 * wanted.every))
        with Store.open(self._folder, clock=self._clock) as store:
            metrics = Metrics(store)
            samples = self._followed(metrics, wanted, begin)
            events = metrics.events_between(wanted.job, first, wanted.last)
        return series_of(wanted, samples, events)

    def _followed(self, metrics: Metrics, wanted: Wanted, first: datetime) -> list[Sample]:
        """The samples of the stretch: those that are remembered, and what came since."""
        key, begin, last = (wanted.job, wanted.every), first.timestamp(), wanted.last.timestamp()
        since, kept = self._samples.pop(key, (begin, []))
        if since > begin or (kept and kept[-1].at > last):
            since, kept = begin, []
        after = datetime.fromtimestamp(kept[-1].at + 0.001, timezone.utc) if kept else first
        new = [sample_of(frame) for frame in metrics.some(wanted.job, after, wanted.last, wanted.every)]
        found = sorted((one for one in (*kept, *new) if one.at >= begin), key=lambda one: one.at)
        self._samples[key] = since, found
        while len(self._samples) > _KEPT:
            del self._samples[next(iter(self._samples))]
        return found
