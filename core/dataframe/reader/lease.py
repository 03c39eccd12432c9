"""A query's lease on its slot: a job start without a target, and progress rows that follow Spark's commits.

The rows have the same form as a job's rows (`slotkeeper_progress`), so a query's slot has the same protection as a
job's slot: only one reader at a time, an epoch, registrations under the row's lock, and no reset while the query runs.
The authoritative position is in Spark's checkpoint; a row's position is the end of the last batch known to be in
Spark's commit log.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.dataframe.reader import accounts
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.inventory import Skipped
from slotkeeper.core.domain.job import JobEvent, TableReport, WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.logged_change import Loss
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.watch import Turn, exactly, judge, trouble
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.first_start import blank_row, retained_from
from slotkeeper.core.engine.driver.job import lane_of
from slotkeeper.core.engine.driver.lease import Leases, take_lease
from slotkeeper.core.engine.driver.registration import register_at
from slotkeeper.core.engine.driver.start import LEASE_WAIT, begin
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import Defect, ErrorKind, Refused, SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.driver import NO_DEFAULTS, ChunkCounts, CopyStore, Followed, StartStore
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT, Chunk
from slotkeeper.core.sources import registry
from slotkeeper.core.wiring.driver import WiredSessions
from slotkeeper.core.wiring.worker import ENTRIES

KEEPALIVE = 30.0
"""Seconds after which an unchanged position is registered again to renew its TTL."""
TAKES_OVER = '.option("take_over", "true")'
"""The option with which a query ends an earlier query that does not release its slot."""
SAID_AGAIN = 30.0
"""Minimum seconds between two equal log lines of a waiting start, which checks five times per second."""
_PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
LOG = logging.getLogger("slotkeeper.dataframe")


class _Quiet:
    """A narrator that logs only what a start waits for, each text at most once per `SAID_AGAIN` seconds.

    Implements `slotkeeper.core.engine.driver.context.Narrator`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, float] = {}

    def event(self, event: JobEvent, reason: str = "") -> None: ...
    def lanes(self, lanes: dict[str, Lane], state: LaneState, epoch: int, registrations: int) -> None: ...
    def copy(self, counts: ChunkCounts, epoch: int) -> None: ...
    def quarantined(self, rows: int, newest: str = "") -> None: ...
    def table(self, report: TableReport) -> None: ...
    def stored(self, states: Mapping[str, LaneState]) -> None: ...
    def waits(self, tables: Collection[str], text: str) -> None: ...
    def shared_reader(self, error: SlotkeeperError | None) -> None: ...
    def joined(self, channel: ChannelSpec) -> None: ...
    def skipped(self, one: Skipped) -> None: ...

    def retrying(self, text: str, by: SlotkeeperError | Party | None = None) -> None:
        now = self._clock.monotonic()
        if text and now - self._said.get(text, -SAID_AGAIN) >= SAID_AGAIN:
            self._said[text] = now
            LOG.warning("%s", text)


@dataclass(frozen=True, slots=True)
class Begun:
    """A leased slot with the position of each DN from its row; `fresh` is True until the first batch is committed."""

    epoch: int
    fingerprint: str
    positions: Mapping[str, Position]
    fresh: bool
    feed: str = ""
    """The address of the query's shared reader; "" if there is none."""


class SlotLease:
    """The lease of one query; not thread-safe. `start` is the start option of a new query, from `options.asked`."""

    def __init__(
        self,
        job: JobSpec,
        start: str,
        clock: Clock | None = None,
        probe: Probe = nothing,
        keepalive: float = KEEPALIVE,
        take_over: bool = False,
    ) -> None:
        self._job, self._start, self._take_over = job, start, take_over
        self._clock = clock or SystemClock()
        self._probe, self._keepalive = probe, keepalive
        self._run = f"query-{uuid.uuid4().hex[:8]}"
        self._sessions: TargetlessSessions | None = None
        self._leases: Leases | None = None
        self._lanes: dict[str, Lane] = {}
        self._epoch = 0

    def begin(self) -> Begun:
        """Lease the slot, creating it if needed; raises the errors of a job start."""
        self._sessions = TargetlessSessions(self._job, self._run)
        store = self._sessions.store()
        store.create_tables()
        rows = store.rows()
        for row in rows:  # a query must not use a job's rows, or the job would miss changes that the query registers
            if not row.of_query:
                job, table = self._job, self._job.channel.source_table
                what = f"slot {job.slot} of {table} belongs to a job with target {row.target}"
                raise Refused(what, f"set another slot in [jobs.{job.name}]", where="sink")
        ctx, at = self._context(), self._start
        if all(row.state is LaneState.CREATING for row in rows):  # no rows, or an interrupted first start
            if at == "slot":
                _at_slot(ctx)
            else:
                ctx = replace(ctx, job=replace(ctx.job, start=_earliest(ctx) if at == "earliest" else at))
        return self._started(ctx)

    def _started(self, ctx: JobContext) -> Begun:
        (begun,) = begin(ctx)
        store = ctx.sessions.store()
        rows = list(begun.rows)
        if any(row.noted_end is None or row.state is not LaneState.RUNNING for row in rows):
            # the first start: record its positions, which Spark requests again until a batch is committed
            first = {row.key.shard: row.position for row in rows if row.position is not None}
            turn = Turn(begun.epoch, len(rows), tuple({row.state for row in rows}), LaneState.RUNNING)
            store.set_state(turn, first)
            rows = store.rows()
        now = self._clock.monotonic()
        self._lanes = {row.key.shard: replace(lane_of(row, 1, now), kept_at=now) for row in rows}
        self._epoch, self._leases = begun.epoch, Leases(ctx, begun.epoch)
        fresh = all(row.noted_end is not None and row.noted_end == row.position for row in rows)
        accounts.begin(self._job, begun.epoch, fresh=fresh)
        positions = {name: lane.position for name, lane in self._lanes.items()}
        feed = ""
        if registry.open(self._job.source_kind).feed is not None:  # then a table has one position
            feed = self._opened.feed({self._job.channel.source_table: min(positions.values())})
        return Begun(begun.epoch, begun.identity.text, positions, fresh, feed)

    def judged(self, status: SlotStatus) -> Trouble | None:
        """Return the problem indicated by a slot status, or None."""
        return judge(status, self._lanes[status.shard.name].expected)

    def committed(self, positions: Mapping[str, Position]) -> None:
        """Advance the rows, then the slot, to the end of a batch that is in the commit log.

        After a transient error, the next call retries; no change is lost while the slot's position is too old.
        """
        for name in sorted(positions):
            try:
                self._follow(name, positions[name])
            except SlotkeeperError as error:
                if error.kind not in _PASSING:
                    raise
                LOG.warning("%s: registration failed, retrying: %s", name, error)

    def keep(self) -> None:
        """Raise an error if another query now holds the slot; ignore a transient failure of the store."""
        assert self._leases is not None
        try:
            self._leases.keep()
        except SlotkeeperError as error:
            if error.kind not in _PASSING:
                raise
            LOG.warning("cannot take the lease, retrying: %s", error)

    def close(self) -> None:
        """Release the slot; can be called twice."""
        if self._sessions is not None:
            self._sessions.close()
            self._sessions = self._leases = None

    def _follow(self, name: str, to: Position) -> None:
        lane = self._lanes[name]
        if to < lane.position:
            what = f"{name}: the checkpoint is at {to.text}, but its slot has moved on to {lane.position.text}"
            raise trouble(TroubleName.SLOT_MOVED, what)
        if to > lane.position:
            self._advance(lane, to)
            lane = self._lanes[name] = replace(lane, position=to)
        due = self._clock.monotonic() - lane.kept_at >= self._keepalive
        if lane.unregistered or due:
            self._register(lane)

    def _advance(self, lane: Lane, to: Position) -> None:
        rows = self._opened.rows("commits")
        if rows.advance_empty(lane.key, self._epoch, lane.position, to):
            return
        row = rows.read_row(lane.key)
        if row is None:
            raise trouble(TroubleName.PROGRESS_LOST, f"the store has lost the progress row of {lane.name}")
        if row.epoch != self._epoch:
            raise Superseded(f"another query has taken over this slot: {self._opened.store().holder()}", where="sink")
        if row.position is None or row.position.text != to.text:  # if equal, this query wrote it: the response was lost
            where = row.position.text if row.position else "none"
            what = f"{lane.name}: the store's row is at {where}, but this query wrote {lane.position.text}"
            raise trouble(TroubleName.SINK_OLDER, what)

    def _register(self, lane: Lane) -> None:
        sessions, before = self._opened, lane.registered
        by = (sessions.admin(f"dn {lane.shard.node_id}"), sessions.rows("commits"))
        settled = register_at(*by, lane, self._epoch, lane.position, self._clock, self._probe)
        if settled.registered is not None:
            expected = exactly(settled.registered, lane.expected.fingerprint)
            now = self._clock.monotonic()
            self._lanes[lane.name] = replace(lane, registered=settled.registered, expected=expected, kept_at=now)
            return
        assert settled.error is not None
        self._lanes[lane.name] = replace(lane, expected=lane.expected.widened(before.at(lane.position)))
        if settled.error.kind in _PASSING and not settled.certain:
            time.sleep(LOST_ANSWER_WAIT)  # the call may still take effect, so wait before the next status query
        raise settled.error

    @property
    def _opened(self) -> TargetlessSessions:
        assert self._sessions is not None
        return self._sessions

    def _context(self) -> JobContext:
        return JobContext(
            job=self._job,
            sessions=self._opened,
            runner=LocalRunner(1),
            work=ENTRIES,
            narrator=_Quiet(self._clock),
            wanted=lambda: WantedState.RUN,
            pause=time.sleep,
            clock=self._clock,
            probe=self._probe,
            take_over=self._take_over,
            passed_by=TAKES_OVER,
        )


def _earliest(ctx: JobContext) -> str:
    """Return the oldest position per DN after which all changes are retained; "latest" if none ever existed."""
    starter = ctx.sessions.starter()
    registered, records = retained_from(starter), starter.inspector.records()
    places = {}
    for shard in starter.source.nodes():
        oldest = records[shard.name].point if shard.name in records else None
        known = [one for one in (registered.get(shard.name), oldest) if one is not None]
        if known:
            places[shard.name] = min(known).place.text
    if not places:
        return "latest"
    return ", ".join(f"{name}={text}" for name, text in sorted(places.items()))


def _at_slot(ctx: JobContext) -> None:
    """Create rows for an existing slot without an owner; the query will start at the slot's registered positions."""
    source, job = ctx.sessions.source("start"), ctx.job
    take_lease(ctx, ctx, ctx.clock.monotonic() + LEASE_WAIT)
    store = ctx.sessions.store()
    if store.rows():
        return
    source.admit()
    identity = source.identify()
    starter = ctx.sessions.starter()
    if starter.slot is None:
        what = f"a source of kind {job.source_kind} stores no slot whose position could be the start"
        raise Refused(what, 'set .option("start", ...) to "initial", "latest" or a position', where="source")
    if not starter.lists(job.slot):
        what = f"slot {job.slot} of {job.channel.source_table} does not exist, or the server cannot list slots"
        raise Refused(what, 'create it with .option("start", "initial") or "latest"', where="source")
    statuses = ctx.sessions.admin("start").source.read_status(None)
    store.insert([_row(ctx, identity, status) for status in statuses])


def _row(ctx: JobContext, identity: TableIdentity, status: SlotStatus) -> ProgressRow:
    there, job = status.kept, ctx.job
    oldest = there.oldest
    if there.missing or oldest is None or not there.settled:
        what = f"{status.shard.name}: slot {job.slot} holds {there.shown}, which cannot be a start position"
        to_do = 'move it to the newest position (`slotkeeper slots register`), or set .option("start", "initial")'
        raise Refused(what, to_do, where="source")
    made = blank_row(ctx, identity, status.shard)
    return replace(made, position=oldest.from_here, state=LaneState.RUNNING, registered=there)


class NoTarget:
    """A `slotkeeper.core.ports.driver.Target` for queries: it accepts every table, and no copy ever writes to it."""

    def admit(self, identity: TableIdentity) -> bool:
        return False

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        return False

    def takes_copy(self, identity: TableIdentity) -> bool:
        return True

    def count_rows(self, identity: TableIdentity) -> RowCount:
        return RowCount(None)

    def size(self, identity: TableIdentity) -> int | None:
        return None

    def readers(self) -> str | None:
        return None

    def copying(self, on_existing: str = "") -> str:
        return "spark"

    def half_done(self, way: str) -> Refused | None:
        return None

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        raise Defect("a query copies in its own batches")

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        return Reshape()

    def follow(self, store: StartStore, followed: Followed, probe: Callable[[str], None]) -> None:
        raise Defect("a query's target is never altered")

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        raise Defect("a query's target is never altered")

    def alterable(self, shape: Reshape) -> None: ...

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        return ()

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        raise Defect("a query copies in its own batches")


class TargetlessSessions(WiredSessions):
    """The sessions of a query, which are those of a job without a target."""

    def target(self) -> NoTarget:
        return NoTarget()

    def feed(self, positions: Mapping[str, Position]) -> str:
        """Start a reader that planning and tasks share, even for one table."""
        self._opened.read_for_all(positions, 1)
        return self._opened.feed

    def targets(self) -> None:
        """Return None, because a query has no target to watch."""
