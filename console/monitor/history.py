"""What the console would have shown at a past moment, and how one steps from moment to moment.

Frames are recorded by supervisors (`slotkeeper.core.launch.supervisor`), slots by whoever sees them
(`slotkeeper.core.state.observed`). Next door: `slotkeeper.console.monitor.store_reader` does the same for now;
`slotkeeper.console.monitor.throughput` follows frames.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.console.monitor.health import facts
from slotkeeper.console.monitor.past_slots import tables_of
from slotkeeper.console.monitor.snapshot import JobDetail, JobFacts, Level, Local, TableSeen
from slotkeeper.console.monitor.store_reader import complete, message_of
from slotkeeper.console.monitor.throughput import Throughput
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.fault import ranked
from slotkeeper.core.judgement.facts import Facts, JobSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import lags_of
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.frames import Frame, Metrics
from slotkeeper.core.state.observed import last, seen_until
from slotkeeper.core.state.rows import ErrorRow
from slotkeeper.core.state.sqlite import Store

LOG_NOT_RECORDED = "the log is not part of history; leave it with R"
STEP, LONGEST_STEP = 5.0, 300.0
PLAY_SECONDS = 1.0
"""While it plays, a frame is shown for so long."""
STOPPED_SECONDS = 0.3
SILENT_SECONDS = 15.0
_NOTHING = "nothing was recorded of it until then"
_EVENTS, _AUDIT = 20, 200
_AGO = re.compile(r"-\s*(\d+)\s*([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")


def parse_moment(text: str, now: datetime) -> datetime:
    """What a person means by a moment of the past, in UTC; raises ValueError with a sentence for anything else.

    >>> now = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
    >>> [f"{parse_moment(said, now):%d %H:%M:%S}" for said in ("02:28", "02:40", "-15m", "2026-11-20 02:28:01")]
    ['21 02:28:00', '20 02:40:00', '21 02:16:07', '20 02:28:01']
    """
    said = text.strip().upper().removesuffix("UTC").removesuffix("Z").replace("T", " ").strip().lower()
    ago = _AGO.fullmatch(said)
    if ago is not None and len(ago.group(1)) < 6:
        return now - timedelta(seconds=int(ago.group(1)) * _UNITS[ago.group(2)])
    for form in _FORMS:
        today = len(said) <= len("00:00:00")
        try:
            found = datetime.strptime(f"{now:%Y-%m-%d} {said}" if today else said, form).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
        found = found - timedelta(days=1) if today and found > now else found
        if found > now:
            raise ValueError(f"{found:%Y-%m-%d %H:%M:%S} UTC has not come yet")
        return found
    raise ValueError("a moment is 02:28, 02:28:01, 2026-11-21 02:28 (UTC) or -15m")


@dataclass(frozen=True, slots=True)
class Playback:
    """Where one is: the moment, the size of the next step, and how the last key was pressed (monotonic seconds)."""

    at: datetime
    step: float = STEP
    direction: int = 0
    pressed: float = float("-inf")
    playing: bool = False

    def toward(self, direction: int, now: float) -> Playback:
        """`<` or `>` was pressed: a key that is held doubles its step, up to five minutes."""
        repeated = direction == self.direction and now - self.pressed <= STOPPED_SECONDS
        step = min(self.step * 2, LONGEST_STEP) if repeated else STEP
        return replace(self, step=step, direction=direction, pressed=now, playing=False)

    @property
    def wanted(self) -> datetime:
        """The moment that the step leads to, recorded or not."""
        return self.at + timedelta(seconds=self.step * self.direction)

    def play(self) -> Playback:
        """`p` was pressed: go on by itself, or stop."""
        return replace(self, playing=not self.playing, step=STEP, direction=1)

    def landed(self, before: float | None, after: float | None) -> Playback:
        """At the recorded moment that the step leads to: `before` is the last until it, `after` the first beyond it.

        Where nothing was recorded the step goes across; at either end one stays at what there is.
        """
        here = self.at.timestamp()
        if self.direction < 0:
            found = before if before is not None else after if after is not None and after < here else None
        else:
            found = before if before is not None and before > here else after
        if found is None:
            return replace(self, playing=False)
        return replace(self, at=datetime.fromtimestamp(found, timezone.utc))


class Past:
    """The recorded past of one state store; used by one thread, as `store_reader.Reader` is."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock) -> None:
        self._loaded = loaded
        self._folder = folder
        self._clock = clock
        self._store: Store | None = None
        self._metrics: Metrics | None = None

    def close(self) -> None:
        """Give the state store back."""
        if self._store is not None:
            self._store.close()
            self._store = self._metrics = None

    def begin(self) -> Playback | None:
        """At the newest frame; None where nothing is recorded. Raises errors of `slotkeeper.core.errors`."""
        before, _ = self._opened()[1].beside(self._clock.utc())
        return None if before is None else Playback(datetime.fromtimestamp(before, timezone.utc))

    def go(self, playback: Playback, text: str) -> Playback:
        """`:at TEXT`; raises ValueError with a sentence where that is no moment of the past."""
        return replace(playback, at=parse_moment(text, self._clock.utc()), playing=False, direction=0, step=STEP)

    def stepped(self, playback: Playback) -> Playback:
        """Where a step lands that `toward` or `play` has prepared. Raises errors of `slotkeeper.core.errors`."""
        return playback.landed(*self._opened()[1].beside(playback.wanted))

    def local(self, at: datetime, job: str = "") -> Local:
        """What the state store would have said then."""
        try:
            store, metrics = self._opened()
            return self._at(store, metrics, at, job)
        except Exception as error:  # whatever it is must be told on the screen
            return Local(at, fault=message_of(error))

    def tables(self, local: Local) -> dict[tuple[str, str], TableSeen]:
        """The slots of that moment. Raises errors of `slotkeeper.core.errors`."""
        if local.at is None or local.fault:
            return {}
        positionless = {job.name for job in local.jobs if job.report is not None and not job.report.keeps_positions}
        return tables_of(seen_until(self._opened()[0], local.at), local.at, positionless)

    def _opened(self) -> tuple[Store, Metrics]:
        if self._store is None or self._metrics is None:
            self._store = Store.open(self._folder, clock=self._clock)
            self._metrics = Metrics(self._store)
        return self._store, self._metrics

    def _at(self, store: Store, metrics: Metrics, at: datetime, job: str) -> Local:
        throughput = Throughput()
        throughput.go_to(metrics, at)
        names = [row.name for row in store.jobs()]
        found = {frame.view.name: _facts(frame, at) for frame in metrics.frames(at)}
        jobs = complete(
            [found.get(name) or JobFacts(name, Level.UNKNOWN, None, _NOTHING) for name in names],
            self._loaded,
            last(store, at),
        )
        errors = [_error(row, at) for name in names for row in store.errors(name) if row.first_at <= at]
        audit = Audit(store.folder).read(100_000)
        return Local(
            at,
            tuple(throughput.with_rates(one, at) for one in jobs),
            tuple(metrics.events_until(at, _EVENTS)),
            tuple(line for line in audit.lines if line.at <= at)[:_AUDIT],
            audit.damaged,
            tuple(errors),
            detail=_detail(job, errors) if job in names else None,
            faults=ranked(fault for one in jobs for fault in one.faults),
        )


def _facts(frame: Frame, at: datetime) -> JobFacts:
    """A job as it was; unknown where its frames end although it ought to have gone on."""
    lags = lags_of(frame, at)
    seen = JobSeen(frame.view, lags.known, least_lags=lags.least)
    job = facts(frame.view, judge(Facts(at, (seen,))), at)
    silent = (at - frame.at).total_seconds()
    if job.state is not None and job.state.has_process and silent > SILENT_SECONDS:
        wrong = f"nothing was recorded from {frame.at:%H:%M:%S} on; it was {job.state.value} then"
        return replace(job, level=Level.UNKNOWN, wrong=wrong, safe="", alive=None, behind=None, current=False)
    return job


def _detail(job: str, errors: list[ErrorRow]) -> JobDetail:
    return JobDetail(job, tuple(one for one in errors if one.job == job)[:5], (LOG_NOT_RECORDED,))


def _error(row: ErrorRow, at: datetime) -> ErrorRow:
    """An error as far as it was known then; how often it had come by then is not recorded, so one is the least."""
    if row.last_at <= at:
        return row
    later = f"{row.message} (at least once by then, {row.count} times until {row.last_at:%m-%d %H:%M:%S})"
    return replace(row, count=1, last_at=row.first_at, message=later)
