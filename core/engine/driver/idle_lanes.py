"""Polls and settles idle lanes, and reports lanes with waiting rows; lanes in a task are the loop's responsibility.

Only the loop's thread calls `IdleLanes`. Queries run in the executor's threads and return plain values, which arrive as
events. `PollSchedule` decides which polls are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Lane, due, names_by_table, read_to
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Activity, LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.domain.watch import (
    ahead_of_row,
    explain_miss,
    judge,
    no_point,
    purged,
    stands_free,
    trouble,
)
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.failure import of_several
from slotkeeper.core.engine.driver.gate import Gate
from slotkeeper.core.engine.driver.poll_schedule import PollSchedule
from slotkeeper.core.engine.driver.registration import LaneOwner, Proven, Settled, TargetWatch, register_at
from slotkeeper.core.engine.driver.threads import SerialExecutor
from slotkeeper.core.engine.worker.step import Probe
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName, classed
from slotkeeper.core.ports.driver import LaneFence, Sessions
from slotkeeper.core.ports.source import Source, SourceTable

SETTLE_EVERY = 3.0
"""Minimum seconds between two moves of an idle lane over empty ranges, and between two registrations of that lane."""
SETTLED_A_SECOND = 20
"""Maximum number of registrations of idle lanes per second; more would slow down lanes with rows."""
MOVED_A_SECOND = 5
"""Maximum number of moves of idle lanes over empty ranges per second: a move takes about ten statements, and the source
retains no records for a table without changes."""
AT_ONCE = 20
"""Maximum number of registrations in one turn after an interval without registrations."""
OLDER_STATUSES, OLDER_SECONDS = 3, 10.0


class IdleLanes:
    """Polls a job's idle lanes, and settles them at a limited rate."""

    def __init__(
        self,
        loop: LaneOwner,
        plan: StreamPlan,
        sessions: Sessions,
        executor: SerialExecutor,
        clock: Clock,
        probe: Probe,
        checks: TargetWatch,
    ) -> None:
        self._loop, self._checks, self._plan, self._sessions = loop, checks, plan, sessions
        self._executor, self._clock, self._probe = executor, clock, probe
        lanes = loop.lanes
        self.many_lanes = len(lanes) / SETTLED_A_SECOND
        """Minimum seconds between two registrations of a lane, if it is idle or there are many lanes."""
        self._settling: dict[str, None] = {}
        self._settles, self._settled_at = float(AT_ONCE), clock.monotonic()
        names = names_by_table(lanes)
        # a job that ends once it has caught up waits for a poll of each lane
        gate = Gate(plan.newest if len(names) > 1 and not plan.until_caught_up else Newest.OWN)
        nodes = {t: {n: lanes[n].shard.node_id for n in own} for t, own in names.items()}
        self._schedule = PollSchedule(nodes, gate)
        self._older: dict[str, tuple[int, float]] = {}
        self._committed: dict[str, float] = {}

    def poll(self, now: float) -> None:
        self._reset_pauses()
        for wanted in self._schedule.due(self._loop.lanes.idle, now, self._loop.paused):
            lanes = [self._loop.lanes[name] for name in wanted.lanes]
            if wanted.checked:
                places = {table: read_to(self._loop.lanes_of(table)) for table in wanted.checked}
                self._executor.submit("check", partial(self._check, places))
            elif wanted.beside:
                asked = [(wanted.table, lanes)]
                asked += [(table, [self._loop.lanes[name] for name in names]) for table, names in wanted.beside]
                see_several = partial(self._see_several, asked, f"poll {wanted.line}")
                self._executor.submit(f"poll all {wanted.line}", see_several)
            elif wanted.line is None:
                self._executor.submit(f"poll {self._loop.line(lanes[0])}", partial(self._see_one, lanes[0]))
            else:
                see_all = partial(self._see_all, wanted.table, lanes, f"poll {wanted.line}")
                self._executor.submit(f"poll all {wanted.line}", see_all)

    def poll_now(self, table: str, now: float) -> None:
        """Make a table's next round of polls due now."""
        self._schedule.now(table, now)

    def forget(self, table: str) -> None:
        """Drop a table whose lanes were removed; results that still arrive for them are ignored."""
        self._schedule.drop(table)
        self._settling = {name: None for name in self._settling if name in self._loop.lanes}

    def _reset_pauses(self) -> None:
        """Update the tables' poll times after lanes return from a task, because a commit resets their poll pauses."""
        for lane in self._loop.lanes.take_changed():
            table = lane.key.source_table
            if lane.committed_at is not None and lane.committed_at > self._committed.get(table, -1.0):
                self._committed[table] = lane.committed_at
                self._schedule.busy(table)
            if lane.poll_by is not None:
                self._schedule.soon(table, lane.poll_by)
                self._loop.lanes[lane.name] = replace(lane, poll_by=None)

    def _see_one(self, lane: Lane) -> None:
        sent = self._clock.monotonic()
        try:
            source = self._sessions.of(lane.key.source_table).source(f"poll/{self._loop.line(lane)}")
            seen = see_one(source, lane, not self._loop.paused)
        except Exception as error:  # if no result were posted, this lane would not be polled again
            seen = Seen(lane.shard, error=classed(error))
        self._loop.post(self._polled_alone, lane, seen, sent)

    def _see_several(self, asked: list[tuple[str, list[Lane]]], session: str) -> None:
        sent, handles = self._clock.monotonic(), list[Callable[[], None]]()
        try:
            sources = [self._sessions.of(table).source(session) for table, _ in asked]
            statuses = sources[0].read_beside(sources) if sources[0].read_beside is not None else None
        except Exception:
            statuses = []
        if not statuses:
            tables, possible = [table for table, _ in asked], statuses is not None
            self._loop.post(lambda: self._schedule.several_failed(tables, self._clock.monotonic(), possible))
            return
        for (table, idle), source, found in zip(asked, sources, statuses, strict=True):
            try:
                ours = {lane.shard: lane.expected.fingerprint for lane in self._loop.lanes_of(table)}
                seen, shards = see_all(source, idle, set(ours), max(ours.values()), not self._loop.paused, found)
                by_shard = {one.shard: one for one in seen}
                pairs = [(lane, by_shard[lane.shard]) for lane in idle if lane.shard in by_shard]
                handles.append(partial(self._polled, table, pairs, shards, sent))
            except Exception as error:
                handles.append(partial(self._poll_failed, table, classed(error)))

        def handle_all() -> None:
            self._schedule.several_ended()
            for handle in handles:
                handle()

        self._loop.post(handle_all)

    def _see_all(self, table: str, idle: list[Lane], session: str) -> None:
        sent = self._clock.monotonic()
        try:
            ours = {lane.shard: lane.expected.fingerprint for lane in self._loop.lanes_of(table)}
            source = self._sessions.of(table).source(session)
            # during a pause, skip the query for changes: if it failed, the slots would not be kept alive
            seen, shards = see_all(source, idle, set(ours), max(ours.values()), not self._loop.paused)
        except Exception as error:
            self._loop.post(self._poll_failed, table, classed(error))
            return
        by_shard = {one.shard: one for one in seen}
        pairs = [(lane, by_shard[lane.shard]) for lane in idle if lane.shard in by_shard]
        self._loop.post(self._polled, table, pairs, shards, sent)

    def _check(self, places: dict[str, Position]) -> None:
        moves = self._schedule.gate.moves
        try:
            source = self._sessions.of(next(iter(places))).source("check")
            found = None if source.find_news is None else source.find_news(places)
        except Exception:
            # the tables' own polls report the error
            self._loop.post(lambda: self._schedule.check_failed(self._clock.monotonic()))
            return
        self._loop.post(self._checked, set(places), found, moves)

    def _checked(self, tables: set[str], found: Set[str] | None, moves: int) -> None:
        now = self._clock.monotonic()
        if found is None:
            self._schedule.check_failed(now, possible=False)
            return
        for table in tables - found:
            self._schedule.gate.clean(table, moves)
        self._schedule.check_ended(found, now)

    def _poll_failed(self, table: str, error: SlotkeeperError) -> None:
        if table not in self._schedule:
            self._schedule.free(table)
            return
        if isinstance(error, Trouble):
            self._loop.fail_table(table, error)
            return
        self._schedule.together_failed(table, self._clock.monotonic())

    def _polled(self, table: str, pairs: list[tuple[Lane, Seen]], shards: set[Shard], sent: float) -> None:
        if table not in self._schedule:
            self._schedule.free(table)
            return
        ours = {lane.shard for lane in self._loop.lanes_of(table)}
        if shards != ours:
            self._loop.nodes_changed(shards ^ ours)
        self._schedule.together_ended(table, self._clock.monotonic())
        self._apply_polls(table, pairs, sent)

    def _polled_alone(self, lane: Lane, seen: Seen, sent: float) -> None:
        if lane.key.source_table not in self._schedule:
            self._schedule.answered(lane.shard.node_id)
            return
        self._schedule.alone_ended(lane.key.source_table, lane.name, seen.error is None, self._clock.monotonic())
        self._apply_polls(lane.key.source_table, [(lane, seen)], sent)

    def _apply_polls(self, table: str, pairs: list[tuple[Lane, Seen]], sent: float) -> None:
        now = self._clock.monotonic()
        for asked, seen in pairs:
            if self._loop.lanes.get(asked.name) is asked:
                self._apply_poll(asked, seen, now, pairs)
        if table not in self._schedule:  # the result of the poll made the table fail
            return
        self._note_newest(table, [seen for _, seen in pairs], sent, now)
        found = any(lane.activity is Activity.DUE for lane in self._loop.lanes_of(table))
        options = self._plan.job.binlog
        self._schedule.paced(table, found, now, options.binlog_sleep_time, options.binlog_max_sleep_time)

    def _note_newest(self, table: str, polled: list[Seen], sent: float, now: float) -> None:
        latest = {seen.shard.name: seen.status.latest for seen in polled if seen.status is not None}
        if len(latest) < sum(1 for _ in self._loop.lanes_of(table)):
            self._schedule.gate.see_part(table, latest, now)
            return
        waiting = {seen.waiting if seen.error is None else None for seen in polled}
        rows = True if True in waiting else None if None in waiting else False
        self._schedule.gate.see(table, latest, rows, sent, now)

    def _apply_poll(self, lane: Lane, seen: Seen, now: float, pairs: list[tuple[Lane, Seen]]) -> None:
        if seen.error is not None:
            self._loop.fail_lane(lane, seen.error)
            return
        status = seen.status
        assert status is not None
        found = _lost_or_moved(lane, seen)
        if found:
            every = [_lost_or_moved(*each) for each in pairs]
            self._loop.fail_table(lane.key.source_table, of_several(found, every))
            return
        self._plan.record_ttls.see(lane.key.source_table, lane.shard.name, status.latest, now)
        if status.latest < lane.position:
            count, since = self._older.get(lane.name, (0, now))
            self._older[lane.name] = (count + 1, since)
            if count + 1 >= OLDER_STATUSES and now - since >= OLDER_SECONDS:
                newest, here = status.latest.shown, lane.position.shown
                sentence = f"{lane.shard.name}: the source's newest point {newest} is before the job's position {here}"
                self._loop.fail_table(lane.key.source_table, trouble(TroubleName.SOURCE_OLDER, sentence))
            return
        late = self._plan.record_ttls.late(lane, now) if status.latest > lane.position else None
        if late is not None:
            self._loop.fail_table(lane.key.source_table, late)
            return
        self._older.pop(lane.name, None)
        checked = status.latest if seen.waiting is False else lane.checked
        lane = replace(lane.answered, latest=status.latest, polled_at=now, alone=False, checked=checked)
        if seen.waiting and not self._loop.paused:
            self._loop.lanes[lane.name] = due(lane, now)
            return
        self._loop.lanes[lane.name] = lane
        if self._settle_due(lane, now):
            self._settling[lane.name] = None

    def _settle_due(self, lane: Lane, now: float) -> bool:
        age = now - lane.kept_at
        keeps = self._keeps_every(lane)
        if lane.name in self._checks.waiting and age < keeps:
            return False
        # lanes that are catching up settle more often, because the job waits for them
        slowly = max(SETTLE_EVERY, len(self._loop.lanes) / MOVED_A_SECOND)
        often = SETTLE_EVERY if lane.state is LaneState.CATCHING_UP else slowly
        return age >= keeps or (age >= often and (self._moves(lane) or lane.unregistered))

    def _keeps_every(self, lane: Lane) -> float:
        """Return the seconds after which an idle lane registers its point again, regardless of changes.

        They differ by up to a half between lanes, so that the lanes of a start do not register at the same time.
        """
        longest = self._plan.keepalives.get(lane.key.source_table, self._plan.keepalive)
        share = 1.0 - (crc32(lane.name.encode()) % 512) / 1024
        return max(self._plan.keepalive, self.many_lanes, longest * share)

    def _moves(self, lane: Lane) -> bool:
        return lane.has_later and not self._loop.paused

    def settle_next(self, name: str) -> None:
        self._settling[name] = None

    def settle(self, now: float) -> None:
        """Settle waiting lanes, at a limited rate per second: settling all at once would delay others."""
        self._settles = min(AT_ONCE, self._settles + (now - self._settled_at) * SETTLED_A_SECOND)
        self._settled_at = now
        while self._settling and self._settles >= 1:
            name = next(iter(self._settling))
            del self._settling[name]
            lane = self._loop.lanes[name]
            if lane.activity is Activity.IDLE and self._settle_due(lane, now):
                self._settles -= 1
                self._start_settling(lane, self._moves(lane))

    def _start_settling(self, lane: Lane, move: bool) -> None:
        epoch, clock, probe = self._plan.epoch, self._clock, self._probe
        others, proven = self._loop.sharing(lane), self._checks.find_proven(lane)
        keeps = clock.monotonic() - lane.kept_at >= self._keeps_every(lane)
        self._loop.start_registration(
            lane,
            lambda: settle(*self._loop.registrar(lane), lane, epoch, move, clock, probe, others, proven, keeps),
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of polling one lane: its status and whether rows are waiting (None: not queried), or an error."""

    shard: Shard
    status: SlotStatus | None = None
    waiting: bool | None = False
    error: SlotkeeperError | None = None


def see_all(
    source: Source,
    lanes: Iterable[Lane],
    ours: set[Shard],
    fingerprint: str,
    asks: bool = True,
    found: Sequence[SlotStatus] | None = None,
) -> tuple[list[Seen], set[Shard]]:
    """Return the status of each idle lane's DN, and the set of DNs; with `asks`, also query whether rows wait.

    `found`: the statuses of all DNs, if they were just read.
    Raises SLOT LOST for a DN without a status: a server that does not create a slot when queried returns no row for a
    DN that lost its points.
    """
    statuses = {status.shard: status for status in (source.read_status(None) if found is None else found)}
    there = set(statuses)
    if ours - there:
        there |= set(source.nodes())
        lost = ours & there - set(statuses)
        if lost:
            raise no_point(lost, fingerprint, source.identify().text)
    seen = [_ask_changes(source, lane, statuses[lane.shard], asks) for lane in lanes if lane.shard in statuses]
    return seen, there


def see_one(source: Source, lane: Lane, asks: bool = True) -> Seen:
    """Return the status of one DN after the query for all DNs has failed."""
    try:
        status = next(status for status in source.read_status(lane.shard) if status.shard == lane.shard)
        return _ask_changes(source, lane, status, asks)
    except SlotkeeperError as error:
        return Seen(lane.shard, error=error)


def _lost_or_moved(lane: Lane, seen: Seen) -> Trouble | None:
    if seen.status is None:
        return None
    return judge(seen.status, lane.expected) or purged(seen.status, lane.position)


def _ask_changes(source: Source, lane: Lane, status: SlotStatus, asks: bool) -> Seen:
    if judge(status, lane.expected) or status.latest < lane.position or status.latest == lane.checked:
        return Seen(lane.shard, status)
    if not asks:
        return Seen(lane.shard, status, waiting=None)
    try:
        return Seen(lane.shard, status, source.has_changes(lane.shard, lane.position, status.latest))
    except SlotkeeperError as error:
        return Seen(lane.shard, status, error=_named_by_status(source, lane) or error)


def _named_by_status(source: Source, lane: Lane) -> Trouble | None:
    """Return the problem that a status reports, or None; after DDL, it is more specific than the query error."""
    try:
        statuses = source.read_status(lane.shard)
    except Trouble as named:
        return named
    except SlotkeeperError:
        return None
    return next((judge(status, lane.expected) for status in statuses if status.shard == lane.shard), None)


def settle(
    table: SourceTable,
    rows: LaneFence,
    lane: Lane,
    epoch: int,
    move: bool,
    clock: Clock,
    probe: Probe,
    others: tuple[LaneKey, ...] = (),
    proven: Proven | None = None,
    keeps: bool = True,
) -> Settled:
    """With `move`, move an idle lane over an empty range; then register its proven position.

    An unchanged registration is repeated only with `keeps`, to keep the slot alive.
    """
    position = lane.position
    if move:
        found = _empty_step(table.source, rows, lane, epoch)
        if found is None:
            return Settled(position, waiting=True)
        position = found
    if proven is not None and not keeps and lane.registered.at(proven.place) == lane.registered:
        return Settled(position)
    return register_at(table, rows, lane, epoch, position, clock, probe, others, proven)


def _empty_step(source: Source, rows: LaneFence, lane: Lane, epoch: int) -> Position | None:
    """Return the lane's new position; None if rows are waiting, in which case the position was not moved."""
    first = _read_judged(source, lane)
    back = ahead_of_row(first, lane.position)
    if back:
        raise back
    if first.latest <= lane.position:
        return lane.position
    try:
        if source.has_changes(lane.shard, lane.position, first.latest):
            return None
    except SlotkeeperError as error:
        raise (_named_by_status(source, lane) or error) from error
    _read_judged(source, lane)
    new = source.reached(lane.position, None, None, first)
    if not rows.advance_empty(lane.key, epoch, lane.position, new):
        row = rows.read_row(lane.key)
        reason = explain_miss(row, epoch, lane.position)
        if isinstance(reason, Position) or stands_free(row, epoch, lane.position):
            return None  # another task of this job has moved the position or withdrawn a plan: a task rereads the row
        raise reason
    return new


def _read_judged(source: Source, lane: Lane) -> SlotStatus:
    status = next((status for status in source.read_status(lane.shard) if status.shard == lane.shard), None)
    if status is None:
        raise trouble(TroubleName.TOPOLOGY_CHANGED, f"{lane.shard.name} no longer answers for this table")
    found = judge(status, lane.expected)
    if found:
        raise found
    return status
