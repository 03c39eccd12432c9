"""Reads the state store on this host for the console: jobs with their lags and rates, errors, events, and the audit.

An error is returned as a sentence and never raised. Each read processes only frames recorded since the last read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from queue import SimpleQueue

from slotkeeper.console.monitor.health import complete, facts
from slotkeeper.console.monitor.query_poller import QueryPoller
from slotkeeper.console.monitor.rates import CELL_SECONDS, CELLS, OLD_SECONDS, JobTracks
from slotkeeper.console.monitor.snapshot import JobDetail, JobFacts, LanePace, Local
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.judgement.facts import Facts, Machine, SlotSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch import armed
from slotkeeper.core.launch.launch import START_LOCK
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.launch.seen import gather, lags_of
from slotkeeper.core.redaction import masked
from slotkeeper.core.state import observed
from slotkeeper.core.state.alerts import AckFile, Acks, ended, without
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import marks
from slotkeeper.core.state.frames import Frame, Metrics
from slotkeeper.core.state.observed import last
from slotkeeper.core.state.sqlite import Store

LOG_LINES = 40
_EVENTS = 40


class Reader:
    """Reads one configuration's jobs; used by one thread."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock, queries: QueryPoller | None = None) -> None:
        self.loaded = loaded
        self._queries = queries
        self._folder = folder
        self._clock = clock
        self._store: Store | None = None
        self._throughput = Throughput()
        self._firing: set[str] = set()
        self._sights: SimpleQueue[list[SlotSeen]] = SimpleQueue()

    def remember(self, found: list[SlotSeen]) -> None:
        """Record the slots that this console observed, at the next read; callable from any thread."""
        self._sights.put(found)

    def local(self, job: str = "") -> Local:
        """Return the contents of the state store, including the errors and log of `job` if it is given."""
        now = self._clock.utc()
        try:
            if self._store is None:
                self._store = Store.open(self._folder, clock=self._clock)
            return self._read(self._store, job, now)
        except Exception as error:  # top level of a thread: any error is reported and the reading repeated
            fault = message_of(error)
            return Local(now, fault=fault, faults=judge(Facts(now, machine=Machine(str(self._folder), fault))))

    def _end_acks(self, file: AckFile, faults: Iterable[Fault], now: datetime) -> Acks:
        """Return acknowledgements and silences, except those of faults that have ended since the last call.

        The console ends them itself, because no supervisor may be running.
        """
        acks, before = file.read(), self._firing
        self._firing = {one.key for one in faults}
        over = before - self._firing
        if not ended(acks, over):
            return acks
        try:
            return file.end(over, now)
        except SlotkeeperError:  # the folder is read-only or its disk is full; end them only in this console
            self._firing |= over
            return without(acks, over)

    def close(self) -> None:
        """Close the state store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _read(self, store: Store, job: str, now: datetime) -> Local:
        with suppress(SlotkeeperError):  # the folder may be read-only; this console shows the slots anyway
            while not self._sights.empty():
                observed.put(store, self._sights.get())
        self._throughput.follow(Metrics(store), now)
        seen = gather(store, self.loaded, now, self._throughput.newest())
        views, faults = [one.view for one in seen.jobs], judge(seen)
        acks = self._end_acks(AckFile(store.folder), faults, now)
        known = {view.name for view in views}
        known_jobs = [replace(facts(one.view, faults, now), host=one.host) for one in seen.jobs]
        jobs = complete(known_jobs, self.loaded, last(store), faults)
        jobs = [self._throughput.with_rates(one, now, bool(seen.machine.full)) for one in jobs]
        jobs = self._queries.among(jobs) if self._queries is not None else jobs
        events = [event for name in sorted(known) for event in store.events(name, _EVENTS)]
        events.sort(key=lambda one: one.id, reverse=True)  # in recording order: the clock may have been set back
        audit = Audit(store.folder).read(200)
        return Local(
            now,
            tuple(jobs),
            tuple(events[:_EVENTS]),
            audit.lines,
            audit.damaged,
            tuple(one for name in sorted(known) for one in store.errors(name)),
            tuple(marks(store.folder.path)),
            acks,
            next((_detail(store, view, now) for view in views if view.name == job), None),
            tuple(name for name in sorted(known) if store.folder.is_locked(name, START_LOCK)),
            armed=armed.others(store.folder, now),
            faults=faults,
        )


def message_of(error: Exception) -> str:
    """Return the error as a sentence, with secrets masked."""
    known = isinstance(error, SlotkeeperError | OSError)
    return masked(str(error) if known else f"unexpected {type(error).__name__}; this is a defect")


def _detail(store: Store, view: JobStatus, now: datetime) -> JobDetail:
    since = now - timedelta(days=1)
    starts = sum(one.event == "driver started" and one.at >= since for one in store.events(view.name, 1_000))
    log: list[str] = []
    with suppress(StateError):  # the log's own screen shows the error
        log = last_lines(store.folder.log(view.name), LOG_LINES)
    rss = _rss(view.driver.pid) if view.driver and view.driver_alive else None
    return JobDetail(view.name, tuple(store.errors(view.name)[:5]), tuple(log), starts, rss)


def _rss(pid: int) -> int | None:
    """Return the resident memory of a process in bytes; None if it cannot be determined."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


_SPAN = timedelta(seconds=CELLS * CELL_SECONDS)
_NEAR = timedelta(seconds=20)
_STEP = 30.0
_SET_BACK = timedelta(seconds=30)
"""A frame that is older by more than this was recorded after the clock was set back; any other is a duplicate."""
_COPYING = (JobState.PENDING, JobState.SNAPSHOT)


@dataclass
class _Followed:
    tracks: JobTracks = field(default_factory=JobTracks)
    frame: Frame | None = None

    @property
    def at(self) -> datetime | None:
        return None if self.frame is None else self.frame.at

    def lags_at(self, now: datetime, ended: bool) -> dict[str, float | None]:
        """Return the lags. A lag that is no longer measured grows with the clock, because nothing more is applied."""
        return {} if self.frame is None else dict(lags_of(self.frame, now, ended=ended).known)


class Throughput:
    """The tracks of all jobs at a time that only moves forward."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Followed] = {}
        self._last = 0
        self._began = False

    def follow(self, metrics: Metrics, now: datetime) -> None:
        """Add the frames recorded since the last call; the first call adds those of the last ten minutes."""
        if not self._began:
            self._began = True
            self.go_to(metrics, now)
        for kept in metrics.since(self._last, now - _NEAR if not self._last else now - _SPAN):
            self._last = max(self._last, kept.id)
            self._see(kept.frame)

    def go_to(self, metrics: Metrics, at: datetime) -> None:
        """Start at a given time: add each job's last frame, and its last ten minutes at sparkline resolution."""
        self._jobs = {}
        for frame in metrics.frames(at):
            name = frame.view.name
            before = metrics.some(name, at - _SPAN, at - _NEAR, _STEP)
            for seen in (*before, *metrics.some(name, at - _NEAR, at, 1.0), frame):
                self._see(seen)

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
        """Return the last frame of each job."""
        return [one.frame for one in self._jobs.values() if one.frame is not None]

    def with_rates(self, job: JobFacts, now: datetime, unstored: bool = False) -> JobFacts:
        """Return the job with lags and rates; unknown without recent records or if recording fails (`unstored`)."""
        followed = self._jobs.get(job.name)
        if followed is None or followed.at is None or job.state is None:
            return job
        moment, old = now.timestamp(), elapsed(followed.at, now)
        lags = followed.lags_at(now, job.last_known)
        lags = dict.fromkeys(lags) if unstored else lags
        tracks = followed.tracks
        throughput = {
            dn: LanePace(lags.get(dn), track.rate(moment), track.spark(moment), track.eta(moment), track.applied())
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
