"""The recorded history: the console's content at an earlier time, steps between recorded times, and graphs.

Supervisors record frames (`slotkeeper.core.launch.supervisor`). Every process that sees slots records them
(`slotkeeper.core.state.observed`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.console.monitor.health import complete, facts
from slotkeeper.console.monitor.series import GAP_SECONDS, JobSeries, Sample, Wanted, sample_of, series_of
from slotkeeper.console.monitor.snapshot import JobDetail, JobFacts, Level, Local, TableSeen
from slotkeeper.console.monitor.store_reader import Throughput, message_of
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.fault import ranked
from slotkeeper.core.domain.ttl import TimeLeft, Ttl, severity_of
from slotkeeper.core.judgement.facts import Facts, JobSeen, SlotSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import lags_of
from slotkeeper.core.ports.source import NEUTRAL, SlotWords
from slotkeeper.core.slots.status import ShardRetained, SlotOnShard, SlotRetained, SlotView, TableRetained, TableSlots
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.frames import Frame, Metrics
from slotkeeper.core.state.observed import last, seen_until
from slotkeeper.core.state.rows import ErrorRow
from slotkeeper.core.state.sqlite import Store

LOG_NOT_RECORDED = "the log is not recorded in the history; press R to leave the history"
STEP, LONGEST_STEP = 5.0, 300.0
PLAY_SECONDS = 1.0
"""The time in seconds for which playback shows each frame."""
STOPPED_SECONDS = 0.3
SILENT_SECONDS = 15.0
_NOTHING = "not recorded before this time"
_EVENTS, _AUDIT = 20, 200
_AGO = re.compile(r"-\s*(\d+)\s*([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")


def parse_moment(text: str, now: datetime) -> datetime:
    """Parse a typed time in the past, in UTC. Raises ValueError with a full-sentence message for any other text.

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
            raise ValueError(f"{found:%Y-%m-%d %H:%M:%S} UTC is in the future")
        return found
    raise ValueError("enter a time as 02:28, 02:28:01, 2026-11-21 02:28 (UTC) or -15m")


@dataclass(frozen=True, slots=True)
class Playback:
    """The time shown, the size of the next step in seconds, and the time of the last key press (monotonic clock)."""

    at: datetime
    step: float = STEP
    direction: int = 0
    pressed: float = float("-inf")
    playing: bool = False

    def toward(self, direction: int, now: float) -> Playback:
        """Prepare the step after `<` or `>`. Holding the key doubles the step each time, up to five minutes."""
        repeated = direction == self.direction and now - self.pressed <= STOPPED_SECONDS
        step = min(self.step * 2, LONGEST_STEP) if repeated else STEP
        return replace(self, step=step, direction=direction, pressed=now, playing=False)

    @property
    def wanted(self) -> datetime:
        """The target time of the step, whether recorded or not."""
        return self.at + timedelta(seconds=self.step * self.direction)

    def play(self) -> Playback:
        """Start or stop playback (key `f`)."""
        return replace(self, playing=not self.playing, step=STEP, direction=1)

    def landed(self, before: float | None, after: float | None) -> Playback:
        """Return the state at the recorded time that is next to the step's end.

        `before` is the last recorded time up to the step's end, and `after` the first recorded time beyond it. A step
        crosses gaps in the records; at either end of the history, the time does not change.
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
    """The history in one state store; used by one thread, like `store_reader.Reader`."""

    def __init__(self, loaded: Loaded | None, folder: Path, clock: Clock) -> None:
        self._loaded = loaded
        self._folder = folder
        self._clock = clock
        self._store: Store | None = None
        self._metrics: Metrics | None = None

    def close(self) -> None:
        """Close the state store."""
        if self._store is not None:
            self._store.close()
            self._store = self._metrics = None

    def begin(self) -> Playback | None:
        """Start at the newest frame; None if nothing is recorded. Raises errors of `slotkeeper.core.errors`."""
        before, _ = self._opened()[1].beside(self._clock.utc())
        return None if before is None else Playback(datetime.fromtimestamp(before, timezone.utc))

    def go(self, playback: Playback, text: str) -> Playback:
        """Handle `:at TEXT`. Raises ValueError with a full-sentence message if TEXT is not a time in the past."""
        return replace(playback, at=parse_moment(text, self._clock.utc()), playing=False, direction=0, step=STEP)

    def stepped(self, playback: Playback) -> Playback:
        """Execute the step that `toward` or `play` prepared. Raises errors of `slotkeeper.core.errors`."""
        return playback.landed(*self._opened()[1].beside(playback.wanted))

    def local(self, at: datetime, job: str = "") -> Local:
        """Return the contents of the state store at that time; `fault` is set if it cannot be read."""
        try:
            store, metrics = self._opened()
            return self._at(store, metrics, at, job)
        except Exception as error:  # the screen must show any error
            return Local(at, fault=message_of(error))

    def tables(self, local: Local) -> dict[tuple[str, str], TableSeen]:
        """Return the slots at that time. Raises errors of `slotkeeper.core.errors`."""
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
            detail=JobDetail(job, tuple(row for row in errors if row.job == job)[:5], (LOG_NOT_RECORDED,))
            if job in names
            else None,
            faults=ranked(fault for one in jobs for fault in one.faults),
        )


def _facts(frame: Frame, at: datetime) -> JobFacts:
    """Return a job at that time; its level is UNKNOWN if its frames end while it had a process."""
    lags = lags_of(frame, at)
    seen = JobSeen(frame.view, lags.known, least_lags=lags.least, host=frame.host)
    job = replace(facts(frame.view, judge(Facts(at, (seen,))), at), host=frame.host)
    silent = (at - frame.at).total_seconds()
    if job.state is not None and job.state.has_process and silent > SILENT_SECONDS:
        wrong = f"nothing was recorded after {frame.at:%H:%M:%S}; the last recorded state is {job.state.value}"
        return replace(job, level=Level.UNKNOWN, wrong=wrong, safe="", alive=None, behind=None, current=False)
    return job


def _error(row: ErrorRow, at: datetime) -> ErrorRow:
    """Return an error as known at that time. Its count at that time is not recorded, so it is shown as at least one."""
    if row.last_at <= at:
        return row
    later = f"{row.message} (at least once by this time, {row.count} times until {row.last_at:%m-%d %H:%M:%S})"
    return replace(row, count=1, last_at=row.first_at, message=later)


SILENT = timedelta(minutes=10)
"""Rows are recorded every minute, so after a gap of this length no process was recording the slot."""
_KEEPING = SlotWords(marks=("live", "durable"))
REMEMBERED = "the history records each slot once a minute as a whole, without its DNs"


def tables_of(
    found: Iterable[SlotSeen], at: datetime, positionless: Collection[str] = ()
) -> dict[tuple[str, str], TableSeen]:
    """Return the slots by source and table, as recorded by then. Sources of `positionless` jobs store no positions.

    One row per minute is recorded for each slot. Its individual DNs, and the DNs on which it retains binlog, are not
    recorded.
    """
    by_table: dict[tuple[str, str], list[SlotSeen]] = {}
    for one in found:
        by_table.setdefault((one.source, one.table), []).append(one)
    return {key: _table(key, slots, at, positionless) for key, slots in by_table.items()}


def _table(key: tuple[str, str], slots: list[SlotSeen], at: datetime, positionless: Collection[str]) -> TableSeen:
    seen = max(one.at for one in slots)
    ttl = next((int(one.ttl) for one in slots if one.ttl is not None), None)
    words = NEUTRAL if all(one.job in positionless for one in slots) else _KEEPING
    silent = f"no record after {seen:%H:%M:%S}" if at - seen > SILENT else ""
    return TableSeen(
        *key,
        seen,
        TableSlots(*key, tuple(_view(one) for one in slots)),
        TableRetained(Ttl(ttl), None, seen, tuple(_retained(one, seen) for one in slots), (REMEMBERED,), words),
        silent,
        seen,
    )


def _view(one: SlotSeen) -> SlotView:
    shards = (SlotOnShard(one.shard or "?", unread=one.unread),) if one.exists is not False else ()
    return SlotView(one.slot, one.job or None, one.exists, shards)


def _retained(one: SlotSeen, seen: datetime) -> SlotRetained:
    if one.exists is False:
        return SlotRetained(one.slot, ())
    left = None
    if one.expires_at is not None and one.ttl:
        still = max(0, int((one.expires_at - seen).total_seconds()))
        left = TimeLeft(one.expires_at, still, severity_of(still, int(one.ttl)))
    return SlotRetained(
        one.slot, (ShardRetained(one.shard or "?", None, None, None, one.unread, None, None, left, None),)
    )


_KEPT = 4
"""The maximum number of cached time ranges: two lengths for one job, and the ranges of neighboring jobs."""


class SeriesReader:
    """The graphs of one state store; used by one thread. Raises errors of `slotkeeper.core.errors`.

    Samples are cached, so that each read loads only new frames. The store is opened for each read, once per point,
    because an open connection uses memory permanently.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._samples: dict[tuple[str, float], tuple[float, list[Sample]]] = {}

    def read(self, wanted: Wanted) -> JobSeries:
        """Return a job's graphs for a time range."""
        first = datetime.fromtimestamp(wanted.first * wanted.every, timezone.utc)
        begin = first - timedelta(seconds=max(GAP_SECONDS, 2.5 * wanted.every))
        with Store.open(self._folder, clock=self._clock) as store:
            metrics = Metrics(store)
            samples = self._followed(metrics, wanted, begin)
            events = metrics.events_between(wanted.job, first, wanted.last)
        return series_of(wanted, samples, events)

    def _followed(self, metrics: Metrics, wanted: Wanted, first: datetime) -> list[Sample]:
        """Return the samples of the time range: cached and new samples."""
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
