"""Write the engine's activity, and the state of the slots for the job's tables, to the state store."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.model import Loaded, owners
from slotkeeper.core.domain.endpoint import loopback
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped
from slotkeeper.core.domain.job import JobEvent, JobState, TableReport, said_of, transition
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.progress import Activity, LaneState
from slotkeeper.core.domain.report import Condition, JobReport, LaneReport, merged, server_of
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.views import ViewReport
from slotkeeper.core.engine.driver.failure import act_of, explained, of_lanes
from slotkeeper.core.errors import AwaitsCopy, Busy, Refused, SlotkeeperError
from slotkeeper.core.ports.driver import ChunkCounts, TaskRunner
from slotkeeper.core.services.binlog_rows import slot_poller
from slotkeeper.core.slots.status import StatusPoller, sights
from slotkeeper.core.sources import registry
from slotkeeper.core.state import observed
from slotkeeper.core.state.sqlite import StateError, Store

_PENDING = JobState.PENDING.value
EVERY, LONGEST, SHARE = 1.0, 3.0, 200
"""Maximum seconds between reports, and the minimum ratio of that interval to the time that a report takes: with
hundreds of lanes, a report takes long. A console marks data that is six seconds old as outdated."""
AT_ONCE = 0.1
"""Seconds after the conversion of lanes for which the ages in their reports still count as current."""
CLOCK_SET = 2.0
"""Seconds by which the offset between wall clock and monotonic clock has to change to show that the clock was set."""


class StoreNarrator:
    """Writes state changes at once, and reports about once per second, to the state store of this host.

    Implements `slotkeeper.core.engine.driver.context.Narrator`.
    """

    def __init__(self, store: Store, job: JobSpec, run: str, clock: Clock, runner: TaskRunner) -> None:
        self._store, self._clock, self._runner = store, clock, runner
        self._job = job
        self._targets = {channel.source_table: channel.target for channel in job.channels}
        kind = registry.open(job.source_kind)
        self._report = JobReport(
            job=job.name,
            run=run,
            state=JobState.PENDING.value,
            environment=job.environment,
            unit=kind.positions.unit,
            place=kind.positions.name,
            part=kind.positions.part,
            keeps_positions=kind.traits.keeps_positions and not kind.traits.by_age,
            quarantine_limit=job.sink_options.quarantine_limit if job.sink_options.quarantines else None,
            sink_here=loopback(job.sink.host),
        )
        self._tables = {
            one.source_table: TableReport(one.source_table, one.target, JobState.PENDING.value)
            for one in job.channels
            if job.several
        }
        self._unanswered = ""
        """The message about a server that does not answer, which takes precedence over all other reasons, or ""."""
        self._again: dict[str, str] = {}
        """The progress of tables that are copied again."""
        self._names = {"source": f"source {job.source.name}", "sink": f"sink {job.sink.name}"}
        self._silences: tuple[Condition, ...] = ()
        self._trying: Condition | None = None
        """The condition for which the start or a copy is being retried; None if neither is."""
        self._of_lanes: tuple[Condition, ...] = ()
        self._apart = clock.utc().timestamp() - clock.monotonic()
        self._reported_at, self._every = 0.0, EVERY
        self._taken_in_at = clock.monotonic()
        self._errors: dict[str, str] = {}
        self._lanes: tuple[dict[str, Lane], int, int] | None = None
        self._lock = threading.Lock()

    @property
    def streams(self) -> bool:
        """Whether the job's lanes are known, which means that its slots exist."""
        return self._lanes is not None

    def event(self, event: JobEvent, reason: str = "") -> None:
        try:
            state = self._store.apply(self._report.job, event, reason)
            self._store.record_event(self._report.job, event.value, reason)
        except (Busy, StateError):
            # the store of this host may be busy or missing; the next report contains the state
            state = transition(JobState(self._report.state), event)
        if event is JobEvent.COPY_BEGAN and not self._tables:
            self._void(*self._targets.values())
        self._take_in()
        with self._lock:
            self._report = replace(self._report, state=state.value, reason=reason)
        self._tell(now=True)

    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None:
        now = self._clock.monotonic()
        for name, lane in lanes.items():
            if lane.error or name in self._errors:
                self._record_error(name, lane.error, lane.side)
        self._lanes = (lanes, epoch, registrations)
        if now - self._reported_at >= self._every:
            self._take_in()
            with self._lock:
                troubled = self._of_lanes[0].said if self._of_lanes else ""
                again = "; ".join(self._again.values())
                self._report = replace(self._report, reason=troubled or said_of(self._report.tables) or again)
            self._tell()
            self._every = min(LONGEST, max(EVERY, SHARE * (self._clock.monotonic() - now)))

    def _take_in(self) -> None:
        """Convert the last reported lanes for the report. This is done only when a report is due, because it would
        otherwise take most of the time of a job with many lanes.
        """
        if self._lanes is None:
            return
        (lanes, epoch, registrations), now = self._lanes, self._clock.monotonic()
        there = self._utc(now) + (self._report.clock_apart or 0.0)
        targets = self._targets
        reports = tuple(_lane_report(one, targets.get(one.key.source_table, ""), now, there) for one in lanes.values())
        conditions = of_lanes(lanes.values(), now, self._utc(now), self._names)
        with self._lock:
            self._taken_in_at, self._of_lanes = now, conditions
            self._report = replace(
                self._report,
                lanes=reports,
                epoch=epoch,
                changes=sum(lane.changes for lane in lanes.values()),
                repeats=sum(lane.repeats for lane in lanes.values()),
                registrations=registrations,
                tasks_started=self._runner.tasks_started,
            )

    def _utc(self, now: float) -> float:
        """Convert a monotonic time to seconds since 1970; the result for a time changes only if the clock was set."""
        apart = self._clock.utc().timestamp() - self._clock.monotonic()
        if abs(apart - self._apart) > CLOCK_SET:
            self._apart = apart
        return now + self._apart

    def copy(self, counts: ChunkCounts, epoch: int) -> None:
        with self._lock:
            copied = replace(self._report, epoch=epoch, chunks_done=counts.done, chunks_total=counts.total)
            limited = replace(copied, copy_rows_limit=counts.limit.rows, copy_bytes_limit=counts.limit.bytes)
            self._report = replace(limited, snapshot_rows=counts.rows, tasks_started=self._runner.tasks_started)
        self._tell()

    def quarantined(self, rows: int, newest: str = "") -> None:
        """Set the number of quarantined rows and the newest of them, for the next report."""
        with self._lock:
            self._report = replace(self._report, quarantined=rows, quarantined_newest=newest)

    def table(self, report: TableReport) -> None:
        """Set the state of a table in a job with several tables; record an event if it starts running or stops."""
        name = report.source_table
        with self._lock:
            new = TableReport(name, report.target, "")
            before, said_before = self._tables.get(name, new), said_of(self._report.tables)
            begins = report.state != before.state or report.rests or (report.state == _PENDING and not report.reason)
            since = self._clock.utc().timestamp() if begins else before.since
            self._tables[name] = replace(report, since=since)
            tables = tuple(self._tables.values())
            reason = said_of(tables) if self._report.reason == said_before else self._report.reason
            self._report = replace(self._report, tables=tables, reason=reason)
        if report.state == JobState.SNAPSHOT.value != before.state:
            self._void(report.target)
        if report.rests or report.state == JobState.RUNNING.value:
            said = f"{name}: {report.reason.removeprefix(f'{name}: ')}" if report.reason else name
            with suppress(Busy, StateError):
                self._store.record_event(self._report.job, f"table {report.state}", said)
                if report.state == JobState.FAILED.value:
                    self._store.record_error(self._report.job, "", "", said)
        self._tell(now=True)

    def stored(self, states: Mapping[str, LaneState]) -> None:
        """Do nothing: events show the progress of a job with one table; for several tables, `table` shows it."""

    def waits(self, tables: Collection[str], text: str) -> None:
        """Do nothing, for the same reason as in `stored`."""

    def shared_reader(self, error: SlotkeeperError | None) -> None:
        """Report why the shared reader does not work, and record the error; each error of it is one event."""
        before, job = self._report.shared_reader, self._report.job
        if error is None and before is None:
            return
        found = None
        if error is not None:
            cause = server_of(error.message)[2]
            if before is not None and before.cause == cause:
                return
            since = self._clock.utc().timestamp() if before is None else before.since
            reported = Condition(Party.SOURCE.value, self._names["source"], cause, since, code=error.code)
            found = explained(reported, self._job)
            with suppress(Busy, StateError):
                self._store.record_error(job, "source", error.code, error.message)
        with suppress(Busy, StateError):
            self._store.record_event(job, "shared reader", "reads again" if found is None else found.cause)
        with self._lock:
            self._report = replace(self._report, shared_reader=found)
        self._tell(now=True)

    def joined(self, channel: ChannelSpec) -> None:
        table = channel.source_table
        with self._lock:
            self._targets = {**self._targets, table: channel.target}
            self._job = replace(self._job, channels=(*self._job.channels, channel))
        with suppress(Busy, StateError):
            self._store.record_event(self._report.job, "table found", f"{table}, mirrored into {channel.target}")

    def skipped(self, one: Skipped) -> None:
        with suppress(Busy, StateError):
            self._store.record_event(self._report.job, "table skipped", f"{one.table}: {one.reason}")

    @property
    def job(self) -> JobSpec:
        """The job with the tables that it has added."""
        return self._job

    def _void(self, *targets: str) -> None:
        """Invalidate earlier comparisons, because a copy replaces the rows of a target."""
        job = self._report.job
        with suppress(Busy, StateError):
            if job in observed.last(self._store):
                observed.record(self._store, Verified.copied(job, self._clock.utc(), ", ".join(targets)))

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        if text != self._report.reason:
            self._record_error("", text)
        with self._lock:
            self._report = replace(self._report, reason=text)
            now = self._clock.utc().timestamp()
            self._trying = _tried(text, by, self._trying, now, self._names) if text else None
        self._tell(now=bool(text))

    def unanswered(self, text: str, silences: tuple[Condition, ...]) -> None:
        """Report at once that a server does not answer; "" once all answer. Any thread can call this."""
        if text and not self._unanswered:
            with suppress(Busy, StateError):
                self._store.record_error(self._report.job, text.split()[0], "", text)
        self._unanswered, self._silences = text, silences
        self._tell(now=True)

    def tell_views(self, text: str) -> None:
        """Record why the job's views are not maintained; "" once they are. Called from another thread."""
        if text and text != self._report.views_untold:
            with suppress(Busy, StateError):
                self._store.record_error(self._report.job, "views", "", text)
        with self._lock:
            self._report = replace(self._report, views_untold=text)

    def views(self, views: tuple[ViewReport, ...]) -> None:
        """Set the states of the job's views, for the next report. Called from another thread."""
        with self._lock:
            self._report = replace(self._report, views=views)

    def tell_again(self, table: str, text: str) -> None:
        """Report the progress of a table that is copied again; "" once it is complete. Called from another thread."""
        with self._lock:
            self._again = {name: said for name, said in {**self._again, table: text}.items() if said}

    def lock_waits(self, waits: tuple[LockWait, ...], untold: str) -> None:
        """Report at once the job's lock waits in its sink, or why they are unknown. Any thread can call this."""
        with self._lock:
            self._report = replace(self._report, lock_waits=waits, locks_untold=untold)
        self._tell(now=True)

    def source_waits(self, waits: tuple[SourceWait, ...], untold: str) -> None:
        """Report at once the source's sessions that wait for the job, or why unknown. Any thread can call this."""
        with self._lock:
            self._report = replace(self._report, source_waits=waits, source_untold=untold)
        self._tell(now=True)

    def clock_apart(self, seconds: float) -> None:
        """Set how far the source's clock is ahead, for the next report; callable from any thread."""
        with self._lock:
            self._report = replace(self._report, clock_apart=round(seconds, 3))

    def failed(self, error: SlotkeeperError) -> None:
        trouble = str(getattr(getattr(error, "name", None), "value", ""))
        job, act = self._report.job, act_of(error, self._job)
        event = JobEvent.AWAITS_COPY if isinstance(error, AwaitsCopy) else JobEvent.FAILED
        # if the disk is full, only the exit code reports the failure
        with suppress(Busy, StateError):
            if event is JobEvent.FAILED:
                self._store.record_error(job, error.where, error.code, str(error))
            self._store.apply(job, event, str(error), trouble, act)
            self._store.record_event(job, event.value, str(error))

    def _record_error(self, place: str, text: str, side: str = "") -> None:
        if text and self._errors.get(place) != text:
            said = f"{place}: {text}" if place and not text.startswith(f"{place}:") else text
            with suppress(Busy, StateError):
                self._store.record_error(self._report.job, side, "", said)
        self._errors[place] = text

    def _tell(self, now: bool = False) -> None:
        if not now and self._clock.monotonic() - self._reported_at < self._every:
            return
        self._reported_at = self._clock.monotonic()
        try:
            with self._lock:
                report, since = self._report, self._reported_at - self._taken_in_at
                trying = () if self._trying is None else (self._trying,)
                found = merged((*self._silences, *trying, *self._of_lanes))
            conditions = tuple(explained(one, self._job) for one in found)
            lanes = report.lanes if since < AT_ONCE else tuple(_older(lane, since) for lane in report.lanes)
            reason = self._unanswered or report.reason
            self._store.put_report(replace(report, lanes=lanes, reason=reason, conditions=conditions))
        except (Busy, Refused):
            # the store of this host may be busy or missing; the mirror itself does not depend on it
            return


def _tried(
    text: str, by: SlotkeeperError | Party | None, before: Condition | None, utc: float, names: Mapping[str, str]
) -> Condition:
    """Return the condition that a start or a copy waits for; it starts at the time of the first failed attempt."""
    message = by.message if isinstance(by, SlotkeeperError) else text
    side, name, cause = server_of(message)
    if isinstance(by, Party):
        party, name = by, name or names.get(by.value, "the lease")
    else:
        side = side or (by.where if by is not None else "")
        party = {"source": Party.SOURCE, "sink": Party.SINK}.get(side, Party.PROCESS)
        name = name or names.get(side, "Spark" if side == "spark" else "this job's driver")
    code = by.code if isinstance(by, SlotkeeperError) else ""
    if before is None or (before.party, before.name) != (party.value, name):
        return Condition(party.value, name, cause, utc, tries=1, code=code)
    return replace(before, cause=cause, tries=before.tries + 1, code=code)


def _older(lane: LaneReport, seconds: float) -> LaneReport:
    """Add the seconds elapsed since a lane's last report to the ages in it, because a loop that is blocked in a long
    call has read nothing since then.
    """
    return replace(
        lane,
        last_commit_age=None if lane.last_commit_age is None else lane.last_commit_age + seconds,
        polled_age=None if lane.polled_age is None else lane.polled_age + seconds,
        delay=lane.delay + seconds if lane.delay else lane.delay,  # a change that is not applied yet stays pending
    )


def _lane_report(lane: Lane, target: str, now: float, there: float) -> LaneReport:
    """Return the report of a lane; `there` is `now` by the source's clock, or by this host's if not measured."""
    retry, at, delay, empty_to = lane.retry, lane.position.committed_at, None, None
    if at is not None:  # age of the last applied commit, by the source's clock
        delay = round(max(0.0, there - at), 1) if lane.has_later and not lane.nothing_waits else 0.0
    if lane.checked is not None and lane.latest is not None and lane.checked.pair[0] <= lane.latest.pair[0]:
        empty_to = lane.checked.pair[0]  # a position beyond latest is from another binlog
    if retry:
        waits = lane.activity is Activity.WAITING
        retry += f", next in {max(0.0, lane.ready_at - now):.0f} s" if waits else ", trying now"
    return LaneReport(
        shard=lane.key.shard,
        node_id=lane.shard.node_id,
        state=lane.state.value,
        activity=lane.activity.value,
        position=lane.position.text,
        gtids=lane.position.gtids_text,
        latest=lane.latest.shown if lane.latest else None,
        registered=lane.registered.oldest.shown if lane.registered.oldest else None,
        changes=lane.changes,
        last_commit_age=None if lane.committed_at is None else now - lane.committed_at,
        retry=retry,
        error=lane.error,
        side=lane.side if lane.error else "",
        polled_age=None if lane.polled_at is None else now - lane.polled_at,
        read_s=lane.spent.read,
        write_s=lane.spent.write,
        register_s=lane.spent.register,
        waited=round(lane.waited, 3),
        source_table=lane.key.source_table,
        target=target,
        label=lane.label,
        at=lane.position.pair[0],
        latest_at=lane.latest.pair[0] if lane.latest else None,
        registered_to=lane.registered.oldest.pair[0] if lane.registered.oldest else None,
        empty_to=empty_to,
        behind=lane.latest.ahead_of(lane.position) if lane.latest else None,
        shown=lane.position.shown,
        delay=delay,
        applied_at=at,
    )


ASK_SLOT_EVERY = 1.5
"""Seconds between two reads; a read gets either a table's sync points or the number of its unread rows. Changed sync
points are shown within 5 s, even if the read in between counts rows."""


class SlotWatch:
    """Checks a job's slots every few seconds, and writes the time until which each is retained to the state store.

    Every process on this host therefore reports the same state of a slot, even if no console is open and after the job
    has ended. This class only reads; errors that occur here are also reported by the job itself. From the same answers,
    the driver determines the difference between the source's clock and its own. One thread runs from `start` to `stop`;
    it sends no query before the job's slots exist.
    """

    def __init__(self, loaded: Loaded, job: JobSpec, store: Store, narrator: StoreNarrator) -> None:
        self._every = loaded
        self._loaded = replace(loaded, jobs={job.name: job}, refused={})
        self._clock = SystemClock()
        self._source = job.source.name
        self._store, self._narrator = store, narrator
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll_on, name="slotkeeper-slots", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; does not wait for a thread whose read hangs."""
        self._done.set()
        self._thread.join(0.5)

    def _poll_on(self) -> None:
        poller: StatusPoller | None = None
        while not self._done.wait(ASK_SLOT_EVERY):
            with suppress(SlotkeeperError, OSError):
                job = self._narrator.job
                if poller is not None and self._loaded.jobs[job.name].channels != job.channels:
                    poller.close()
                    poller = None
                if self._narrator.streams:
                    self._loaded = replace(self._loaded, jobs={job.name: job})
                    poller = poller or slot_poller(self._loaded, self._source, self._clock)
                    self._poll(poller)
        with suppress(SlotkeeperError, OSError):
            if poller is not None:
                poller.close()

    def _poll(self, poller: StatusPoller) -> None:
        turn = poller.turn()
        if turn.seen is not None and turn.error is None and not self._done.is_set():
            self._narrator.clock_apart(turn.seen.clock_apart)
            others = owners(self._every, self._source, turn.table)
            seen = sights(self._source, turn.table, turn.seen.at, turn.seen.slots, turn.seen.retained, others)
            observed.put(self._store, seen, knows_all=False)
