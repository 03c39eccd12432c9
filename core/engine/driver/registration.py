"""Decides when, how and up to which position to register with the source, under the row's lock (design 4.2 step 6).

The dialect decides what a server retains and how to confirm it (`Slot.confirm`). A position is registered only
after a target check that started after the position's commit. Changes written to a target that was emptied, exchanged
or altered can then be replayed (ADR 63). Steps never wait for the check; only registrations do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.lane import Lane, Lanes
from slotkeeper.core.domain.position import NOTHING_KEPT, Position, confirmable
from slotkeeper.core.domain.position import Kept as Registered
from slotkeeper.core.domain.progress import Activity, LaneKey, ProgressRow
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.target_seen import LEAST_COUNTED, TargetSeen, altered, changed, counts_to, renewed, trouble
from slotkeeper.core.domain.watch import Expected, ahead_of_row, exactly, judge
from slotkeeper.core.domain.watch import trouble as named
from slotkeeper.core.engine.driver.context import Interrupted, JobContext, StreamPlan, about, stay_paused
from slotkeeper.core.engine.driver.threads import SerialExecutor
from slotkeeper.core.engine.worker.step import Probe, nothing
from slotkeeper.core.errors import Busy, Defect, SlotkeeperError, Superseded, Trouble, TroubleName, classed
from slotkeeper.core.ports.driver import LaneFence
from slotkeeper.core.ports.sink import Asked, TargetReader, Watched
from slotkeeper.core.ports.source import Confirmation, Slot, Source, SourceTable


@dataclass(frozen=True, slots=True)
class Registration:
    """A lane's next registration; `before`: the last registration; `expected`: the states that a status can show now.

    `others`: the lanes of other channels with the same stored position. `committed`: the job's last committed position,
    if it is after `position`. `seen`: the record of the target check that covers `position`.
    """

    key: LaneKey
    shard: Shard
    epoch: int
    expected: Expected
    position: Position
    before: Registered
    others: tuple[LaneKey, ...] = ()
    committed: Position | None = None
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """The position that a lane can register (where it was when the last successful check started), and its record."""

    place: Position
    seen: str = ""


LOCKED_SECONDS = 10.0
"""Maximum seconds from locking the row to the last call: a driver that stalls longer may have lost the lock."""


@dataclass(frozen=True, slots=True)
class _Limit:
    clock: Clock
    end: float

    def check(self) -> None:
        """Raise Busy if the lock was taken too long ago (model: a stalled registrar hides a cleared slot)."""
        if self.clock.monotonic() > self.end:
            raise Busy("a registration took too long after taking its lock: stopped before its next call")


def register(
    table: SourceTable, rows: LaneFence, wanted: Registration, clock: Clock, probe: Probe = nothing
) -> Registered:
    """Register the position, store the slot's new state in the progress row, and return the state.

    After any error except Trouble and Superseded, the outcome is unknown. The caller must then accept the old and the
    new state, and must not read the status again while a call of this job can still take effect.
    """
    with table.pinned(), rows.registration(wanted.key, wanted.epoch, wanted.others) as lock:
        limit = _Limit(clock, clock.monotonic() + LOCKED_SECONDS)
        _end_rivals(table.slot, rows)
        first = _read_status(table.source, wanted)
        position = lock.row.position
        if position is None:
            raise Defect(f"{wanted.shard.name}: cannot register a lane without a position")
        for row in (lock.row, *lock.others):
            back = ahead_of_row(first, row.position) if row.position is not None else None
            if back:
                raise back
        committed = wanted.committed or wanted.position
        if committed > position:  # the row is before a position that the job has committed
            had = committed.text
            sentence = f"{wanted.shard.name}: the sink's row is at {position.text}, but the job had committed {had}"
            raise named(TroubleName.SINK_OLDER, sentence)
        place = wanted.position
        if wanted.others:
            place = confirmable(place, (row.position for row in lock.others), first.kept.furthest)
        asked = Confirmation(place, wanted.before, wanted.expected.fingerprint, limit.check, probe)
        registered: Registered = NOTHING_KEPT
        if table.slot is not None:
            registered = table.slot.confirm(first, asked)
        else:  # the server stores no position, so no earlier registration can take effect late
            asked.check()
        lock.record(registered, wanted.seen)
    return registered


def _end_rivals(slot: Slot | None, rows: LaneFence) -> None:
    """End other registrars of the lane after the sink was reconnected; raises Busy if it is unknown whether they ended.

    The sink can show an older state, in which the row of an older driver is valid again. After Busy, the caller waits
    for the registrars' time limit (model: without this check, a counterexample of 12 steps hides a cleared slot).
    """
    if slot is None or rows.generation <= slot.cleared_for:
        return
    slot.cleared_for = rows.generation
    if not slot.end_sessions():
        raise Busy("the sink connection is new: an older registration may still be in progress")


def _read_status(source: Source, wanted: Registration) -> SlotStatus:
    shard = wanted.shard
    found = next((status for status in source.read_status(shard) if status.shard == shard), None)
    if found is None:
        raise Busy(f"{shard.name} does not answer under its name: the DN set may have changed", where="source")
    trouble = judge(found, wanted.expected)
    if trouble:
        raise trouble
    return found


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of settling a lane: its position, its registration, and whether rows arrived meanwhile (`waiting`).

    `error` occurred after the position was moved, so both are valid. `sent`: part of the registration of `asked` may
    have taken effect. `certain`: False if a call can still take effect.
    """

    position: Position
    registered: Registered | None = None
    waiting: bool = False
    error: SlotkeeperError | None = None
    sent: bool = False
    certain: bool = True
    asked: Position | None = None


def register_at(
    table: SourceTable,
    rows: LaneFence,
    lane: Lane,
    epoch: int,
    position: Position,
    clock: Clock,
    probe: Probe,
    others: tuple[LaneKey, ...] = (),
    proven: Proven | None = None,
) -> Settled:
    """Register a lane's position as far as `others` and `proven` allow; return an error as a value."""
    place, seen = (proven.place, proven.seen) if proven else (position, "")
    expected, before = lane.expected, lane.registered
    wanted = Registration(lane.key, lane.shard, epoch, expected, place, before, others, position, seen)
    try:
        return Settled(position, register(table, rows, wanted, clock, probe))
    except Exception as error:  # after any error, it is unknown which calls took effect
        certain = isinstance(error, Trouble | Superseded) or table.slot is None or table.slot.end_sessions()
        return Settled(position, error=classed(error), sent=True, certain=certain, asked=place)


class LaneOwner(Protocol):
    """The owner of the lanes: the loop. Only the loop replaces lanes and decides on failures and registrations."""

    lanes: Lanes
    paused: bool

    def lanes_of(self, table: str) -> Iterable[Lane]:
        """Return the lanes of a source table."""

    def line(self, lane: Lane) -> str:
        """Return the connection name of a lane's DN, for the executor and for sessions."""

    def registrar(self, lane: Lane) -> tuple[SourceTable, LaneFence]:
        """Return the sessions that register a lane."""

    def sharing(self, lane: Lane) -> tuple[LaneKey, ...]:
        """Return the lanes of other channels with the same stored position."""

    def post(self, handle: Callable[..., None], *arguments: object) -> None:
        """Call `handle` on the loop's thread."""

    def fail_table(self, table: str, error: SlotkeeperError, waits: bool = True) -> None:
        """End the loop with an error about a source table."""

    def fail_lane(self, lane: Lane, error: SlotkeeperError) -> None:
        """Retry a lane later or end the loop, as `slotkeeper.core.retry` decides."""

    def retry_sink_lanes(self) -> None:
        """Immediately retry the lanes that wait because of the sink, which now answers again."""

    def settle_now(self, name: str) -> None:
        """At the next turn, settle an idle lane whose row was set back, regardless of its last registration."""

    def start_registration(self, lane: Lane, work: Callable[[], Settled]) -> None:
        """Call `work` in a thread to register a lane."""

    def fail_job(self, error: SlotkeeperError) -> None:
        """End the loop with an error about the whole job."""

    def target_altered(self, table: str, parts: str) -> None:
        """Report that another session altered these parts of a target, which still fits the source."""

    def nodes_changed(self, names: set[Shard]) -> None:
        """Handle added, removed or renamed DNs."""


EVERY = 1.0
SHARE = 10
"""After two consecutive slow checks, checks use at most a tenth of the time. A single slow check can be a brief stall.
A check that waited for a lock does not count, because it causes no load and must not delay reports on other targets."""
ROUNDS, FEW = 10, 10
"""A check includes a tenth of the idle targets, and at least ten, in turn, because each target costs CPU. No
registration waits for a target's turn: a target for which a lane waits is in every check."""
SAID_AFTER = 3.0
"""Seconds of failed checks before they are reported: RUNNING alone would hide that no position is confirmed."""
SILENT_AFTER = 8.0
"""Seconds without an answer to a check before this is reported; shorter than the session's time limit."""


class TargetWatch:
    """Checks the targets of streaming lanes once per second, idle ones in turn; a changed target fails its table.

    `find_proven` returns the position up to which a lane can register. `loop.py` calls `check` in every turn;
    `slotkeeper.core.domain.target_seen` decides whether a check succeeds.
    """

    def __init__(self, loop: LaneOwner, plan: StreamPlan, executor: SerialExecutor, clock: Clock, probe: Probe) -> None:
        self._loop, self._targets, self._epoch = loop, plan.targets, plan.epoch
        self._executor, self._clock, self._probe = executor, clock, probe
        self._records = {table: one.record for table, one in plan.targets.tables.items()}
        self._most = dict.fromkeys(plan.targets.tables, LEAST_COUNTED)
        self._proven = {name: lane.position for name, lane in loop.lanes.items()}
        self._asked: float | None = None
        self._last = False
        """Whether the loop is ending, so that due lanes get no further step."""
        self._next, self._took = 0.0, 0.0
        self._retrying = plan.retrying
        self._failing_since: float | None = None
        self._said = False
        self._errors: set[str] = set()
        """Tables whose last check returned an error."""
        self._turn = ""
        """The last idle table that was checked in turn."""
        self.waiting: set[str] = set()
        """Names of lanes whose registration waits for the next check."""
        self.failing = False
        """Whether the last check returned an error for a target."""

    def find_proven(self, lane: Lane) -> Proven | None:
        """Return the position up to which a lane can register, and the check's record; None without target checks."""
        if self._targets.reader is None:
            return None
        shared = self._loop.sharing(lane)
        lanes = [lane, *(one for one in self._loop.lanes.values() if one.key in shared)] if shared else [lane]
        places = [min(one.position, self._proven.get(one.name, one.position)) for one in lanes]
        record = self._records.get(lane.key.source_table)
        return Proven(min(places), record.text if record else "")

    def note_position(self, lane: Lane) -> None:
        """Record that a lane can register a later position after the next check."""
        if self._targets.reader is not None and self._proven.get(lane.name, lane.position) < lane.position:
            self.waiting.add(lane.name)

    def register(self, lane: Lane) -> bool:
        """Start the registration of a lane's proven position; return False if it is already registered."""
        place, others, proven = lane.position, self._loop.sharing(lane), self.find_proven(lane)
        if lane.registered.at(proven.place if proven else place) == lane.registered:
            return False
        registrar, epoch, clock, probe = self._loop.registrar, self._epoch, self._clock, self._probe
        self._loop.start_registration(
            lane, lambda: register_at(*registrar(lane), lane, epoch, place, clock, probe, others, proven)
        )
        return True

    @property
    def awaits_check(self) -> bool:
        """Whether lanes are waiting for a check and the last check returned no error."""
        return bool(self.waiting) and not self.failing

    def _register_waiting(self) -> None:
        """Register idle lanes that waited for a check; lanes in a task are registered after the task."""
        for name in list(self.waiting):
            lane = self._loop.lanes.get(name)
            if lane is not None and lane.activity is Activity.REGISTERING:
                continue
            self.waiting.discard(name)
            if lane is not None and (lane.activity is Activity.IDLE or (self._last and lane.activity is Activity.DUE)):
                self.register(lane)

    def check(self, now: float, at_once: bool = False) -> None:
        """Start a target check if one is due and none is running; `at_once`: even if not due, at the loop's end."""
        self._report_silence(now)
        reader, self._last = self._targets.reader, at_once
        if reader is None or self._asked is not None or (now < self._next and not at_once):
            return
        tables = self._due(at_once)
        if not tables:
            return
        stood: dict[str, Position] = {name: lane.position for name, lane in self._loop.lanes.items()}
        watched = [self._targets.tables[table] for table in sorted(tables)]
        records = dict(self._records)
        self._asked = now

        def ask() -> None:
            found: dict[str, TargetSeen | SlotkeeperError] = {}
            try:
                found = self._judged(reader, watched, records)
            except Exception as raised:
                found = dict.fromkeys(tables, classed(raised))
            self._loop.post(self._answered, stood, found)

        self._executor.submit("targets", ask)

    def _due(self, all_of_them: bool) -> set[str]:
        """Return the tables to check: those that lanes work on or wait for, those that failed, and some idle ones."""
        lanes = self._loop.lanes
        tables = {lane.key.source_table for lane in lanes.values()} & self._records.keys()
        busy = {lane.key.source_table for lane in lanes.values() if lane.activity is not Activity.IDLE}
        busy |= {lanes[name].key.source_table for name in self.waiting if name in lanes} | self._errors
        idle = sorted(tables - busy)
        most = len(idle) if all_of_them else max(FEW, -(-len(idle) // ROUNDS))
        begin = bisect_right(idle, self._turn)
        taken = [*idle[begin:], *idle[:begin]][:most]
        self._turn = taken[-1] if taken else self._turn
        return tables & busy | set(taken)

    def _judged(
        self, reader: TargetReader, watched: Sequence[Watched], records: Mapping[str, TargetSeen | None]
    ) -> dict[str, TargetSeen | SlotkeeperError]:
        """Return each table's new record or its error: TARGET CHANGED is recorded before it is reported."""
        tables = {one.job.channel.source_table: one for one in watched}
        asked = [Asked(one.job, one.columns, records[table], self._most[table]) for table, one in tables.items()]
        found: dict[str, TargetSeen | SlotkeeperError] = {}
        for table, seen in reader.read(asked).items():
            one, record = tables[table], records[table]
            if isinstance(seen, SlotkeeperError):
                found[table] = seen
                continue
            named = self._named(reader, one, record, seen)
            if named is not None and record is not None:
                why = named.message.removeprefix(f"target {one.job.channel.target} ")
                reader.mark(one.job, self._epoch, replace(record, why=why))
            found[table] = named or renewed(seen)
        return found

    @staticmethod
    def _named(reader: TargetReader, one: Watched, record: TargetSeen | None, seen: TargetSeen) -> Trouble | None:
        name = one.job.channel.target
        if record is not None and record.oid == seen.oid and (parts := altered(record, seen)):
            refused = reader.refusal(one.job, one.identity)
            if refused is not None:
                return trouble(
                    name, f"was altered ({parts}); the check found: {refused.message}; to revert: {refused.hint}"
                )
        why = changed(record, seen)
        return trouble(name, why) if why else None

    def _answered(self, stood: Mapping[str, Position], found: Mapping[str, TargetSeen | SlotkeeperError]) -> None:
        now = self._clock.monotonic()
        self._report([one for one in found.values() if isinstance(one, SlotkeeperError)], now)
        took, self._asked = now - (self._asked or now), None
        waited = any(isinstance(one, Busy) for one in found.values())
        least, self._took = min(took, self._took), took
        self._next = now + max(EVERY if waited or took > EVERY else EVERY - took, 0.0 if waited else SHARE * least)
        self._errors = {table for table, one in found.items() if isinstance(one, SlotkeeperError)}
        self.failing = bool(self._errors)
        for table, seen in found.items():
            if isinstance(seen, TargetSeen):
                before = self._records[table]
                parts = altered(before, seen) if before is not None and before.oid == seen.oid else ""
                if parts:
                    self._loop.target_altered(table, parts)
                applied = seen.changes - before.changes if before else 0
                self._most[table] = max(self._most[table], counts_to(applied))
                self._records[table] = seen
            elif isinstance(seen, Trouble):
                self._loop.fail_table(table, seen)
            elif isinstance(seen, Superseded):
                self._loop.fail_job(seen)
        passed = {table for table, seen in found.items() if isinstance(seen, TargetSeen)}
        for name, lane in self._loop.lanes.items():
            if name in stood and lane.key.source_table in passed:
                self._proven[name] = stood[name]
        if passed:
            self._register_waiting()

    def _report(self, errors: Sequence[SlotkeeperError], now: float) -> None:
        """Report repeatedly failing checks and their recovery. Locks and table errors are reported elsewhere."""
        passing = [one for one in errors if not isinstance(one, (Busy, Trouble, Superseded))]
        if not passing:
            if self._said:
                self._retrying("", None)
            self._failing_since, self._said = None, False
            return
        self._failing_since = self._asked if self._failing_since is None else self._failing_since
        if now - (self._failing_since or now) >= SAID_AFTER:
            self._said = True
            text = f"target not checked, so no position is confirmed; retrying: {passing[0].message}"
            self._retrying(text, passing[0])

    def _report_silence(self, now: float) -> None:
        if self._asked is not None and not self._said and now - self._asked >= SILENT_AFTER:
            self._said = True
            text = f"target not checked, so no position is confirmed; no answer for {SILENT_AFTER:.0f} s"
            self._retrying(text, Party.SINK)


KEPT_AT_ONCE = 0.25
"""Maximum seconds for registrations in one call."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One channel's slot: the context narrowed to the channel, the epoch, and the progress rows."""

    part: JobContext
    epoch: int
    rows: tuple[ProgressRow, ...]


class KeepAlive:
    """Keeps the slots of a start's channels alive during a copy or wait by registering the same points again.

    No lane streams meanwhile, so no other thread registers these slots. `kept`: all channels of the job, copied or not.
    """

    def __init__(self, ctx: JobContext, kept: Iterable[Kept]) -> None:
        self._ctx = ctx
        registers = ctx.job.binlog.binlog and ctx.sessions.keeps_positions
        self._kept = tuple(kept) if registers else ()
        now = ctx.clock.monotonic()
        self._late: set[LaneKey] = set()
        """Lanes whose last registration failed."""
        self._at = {row.key: now for one in self._kept for row in one.rows}

    def renew_due(self) -> None:
        """Register the points of due rows in batches that do not delay the caller for long."""
        began = self._ctx.clock.monotonic()
        for one in self._kept:
            for row in one.rows:
                now = self._ctx.clock.monotonic()
                if now - began > KEPT_AT_ONCE:
                    return
                if now - self._at[row.key] >= self._ctx.keepalive:
                    self._at[row.key] = now
                    self._register(one, row)

    def wait_out_pause(self) -> None:
        """Wait until a pause ends, keeping all slots alive; raises Interrupted after the pause, and on a stop."""
        if stay_paused(self._ctx, self.renew_due) or self._ctx.wanted() is not WantedState.RUN:
            raise Interrupted

    def wait_and_renew(self) -> None:
        """Wait until a pause ends and keep the slots alive; called between two queries of a wait."""
        self.wait_out_pause()
        self.renew_due()

    def _register(self, one: Kept, row: ProgressRow) -> None:
        points = row.registered
        if points is None or row.position is None:
            return
        sessions, shard = one.part.sessions, Shard(row.key.shard, row.node_id)
        # also expect the state after a repeated registration, whose answer may have been lost
        expected = exactly(points, row.fingerprint).widened(points.at(points.again))
        others = (key for key in self._at if key.shard == row.key.shard and key != row.key)
        sharing = tuple(others) if points.shared else ()  # rows of other channels: the source stores one position
        wanted = Registration(row.key, shard, one.epoch, expected, points.again, points, sharing)
        try:
            with about(self._ctx, one.part):
                register(sessions.admin("start"), sessions.rows("keep"), wanted, self._ctx.clock)
        except (Trouble, Superseded):
            raise
        except SlotkeeperError as error:
            self._late.add(row.key)
            self._ctx.narrator.retrying(f"cannot keep the slot alive: {error.message}", error)
            return
        if row.key in self._late:
            self._late.remove(row.key)
            self._ctx.narrator.retrying("")
