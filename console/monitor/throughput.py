"""Follows the frames of all jobs, so that a look at them costs only what is new, and tells how fast each moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from slotkeeper.console.monitor.rates import CELL_SECONDS, CELLS, OLD_SECONDS, JobTracks
from slotkeeper.console.monitor.snapshot import JobFacts, LanePace
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch.seen import lags_of
from slotkeeper.core.state.frames import Frame, Metrics

_SPAN = timedelta(seconds=CELLS * CELL_SECONDS)
_NEAR = timedelta(seconds=20)
_STEP = 30.0
_SET_BACK = timedelta(seconds=30)
"""A frame that is older by more was recorded after the clock was set back; less is one that was seen before."""
_COPYING = (JobState.PENDING, JobState.SNAPSHOT)


@dataclass
class _Followed:
    tracks: JobTracks = field(default_factory=JobTracks)
    frame: Frame | None = None

    @property
    def at(self) -> datetime | None:
        return None if self.frame is None else self.frame.at

    def lags_at(self, now: datetime) -> dict[str, float | None]:
        """A lag that is not measured any more grows with the clock: what was applied then is all that is applied."""
        return {} if self.frame is None else dict(lags_of(self.frame, now).known)


class Throughput:
    """The tracks of all jobs, at a moment that only goes forward."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Followed] = {}
        self._last = 0
        self._began = False

    def follow(self, metrics: Metrics, now: datetime) -> None:
        """Take in what was recorded since the last time, and the last ten minutes at first."""
        if not self._began:
            self._began = True
            self.go_to(metrics, now)
        for kept in metrics.since(self._last, now - _NEAR if not self._last else now - _SPAN):
            self._last = max(self._last, kept.id)
            self._see(kept.frame)

    def go_to(self, metrics: Metrics, at: datetime) -> None:
        """Begin at a moment: each job's last frame, and its last ten minutes as far as sparklines need them."""
        self._jobs = {}
        for frame in metrics.frames(at):
            self._take([*metrics.some(frame.view.name, at - _SPAN, at - _NEAR, _STEP), frame], metrics, at)

    def _take(self, frames: Iterable[Frame], metrics: Metrics, at: datetime) -> None:
        *before, last = frames
        for frame in (*before, *metrics.some(last.view.name, at - _NEAR, at, 1.0), last):
            self._see(frame)

    def _see(self, frame: Frame) -> None:
        followed = self._jobs.setdefault(frame.view.name, _Followed())
        if followed.at is not None and followed.at - frame.at > _SET_BACK:
            followed = self._jobs[frame.view.name] = _Followed()
        if followed.at is not None and frame.at <= followed.at:
            return
        followed.frame = frame
        if frame.view.report is not None and frame.view.reported:
            followed.tracks.see(frame.at.timestamp(), frame.view.report)

    def newest(self) -> list[Frame]:
        """The last frame of each job."""
        return [one.frame for one in self._jobs.values() if one.frame is not None]

    def with_rates(self, job: JobFacts, now: datetime) -> JobFacts:
        """The job with its lags and rates; unknown where nothing was recorded lately."""
        followed = self._jobs.get(job.name)
        if followed is None or followed.at is None or job.state is None:
            return job
        moment, old = now.timestamp(), elapsed(followed.at, now)
        lags = followed.lags_at(now)
        tracks = followed.tracks
        throughput = {
            dn: LanePace(lags.get(dn), track.rate(moment), track.spark(moment), track.eta(moment))
            for dn, track in tracks.lanes.items()
        }
        throughput |= {dn: LanePace(lag) for dn, lag in lags.items() if dn not in throughput}
        known = [lag for lag in lags.values() if lag is not None]
        return replace(
            job,
            lag_seconds=max(known) if known and len(known) == len(lags) and job.state not in _COPYING else None,
            rate=tracks.whole.rate(moment),
            spark=tracks.whole.spark(moment),
            busy=tracks.busy() if old is not None and old <= OLD_SECONDS else None,
            throughput=throughput,
        )
