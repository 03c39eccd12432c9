"""Polls and settles idle lanes, and reports lanes with waiting rows; lanes in a task are the loop's responsibility.

Only the loop's thread calls `IdleLanes`. Queries run in the executor's threads and return plain values, which arrive as
events. `PollSchedule` decides which polls are due, over a few connections regardless of the number of tables; it is
pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.lane import Lane, due, names_by_table
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import Activity, LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard, SlotStatus
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
        self._schedule = PollSchedule({t: {n: lanes[n].shard.node_id for n in own} for t, own in names.items()})
        self._older: dict[str, tuple[int, float]] = {}
        self._committed: dict[str, float] = {}

    def poll(self, now: float) -> None:
        """Start the polls that are due."""
        self._reset_pauses()
        idle = {name for name, lane in self._loop.lanes.items() if lane.activity is Activity.IDLE}
        for wanted in self._schedule.due(idle, now):
            lanes = [self._loop.lanes[name] for name in wanted.lanes]
            if wanted.line is None:
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
        for name, lane in self._loop.lanes.items():
            table = lane.key.source_table
            if lane.committed_at is not None and lane.committed_at > self._committed.get(table, -1.0):
                self._committed[table] = lane.committed_at
                self._schedule.busy(table)
            if lane.poll_by is not None:
                self._schedule.soon(table, lane.poll_by)
                self._loop.lanes[name] = replace(lane, poll_by=None)

    def _see_one(self, lane: Lane) -> None:
        try:
            source = self._sessions.of(lane.key.source_table).source(f"poll/{self._loop.line(lane)}")
            seen = see_one(source, lane, not self._loop.paused)
        except Exception as error:  # if no result were posted, this lane would not be polled again
            seen = Seen(lane.shard, error=classed(error))
        self._loop.post(self._polled_alone, lane, seen)

    def _see_all(self, table: str, idle: list[Lane], session: str) -> None:
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
        self._loop.post(self._polled, table, pairs, shards)

    def _poll_failed(self, table: str, error: SlotkeeperError) -> None:
        if table not in self._schedule:
            self._schedule.free(table)
            return
        if isinstance(error, Trouble):
            self._loop.fail_table(table, error)
            return
        self._schedule.together_failed(table, self._clock.monotonic())

    def _polled(self, table: str, pairs: list[tuple[Lane, Seen]], shards: set[Shard]) -> None:
        if table not in self._schedule:
            self._schedule.free(table)
            return
        ours = {lane.shard for lane in self._loop.lanes_of(table)}
        if shards != ours:
            self._loop.nodes_changed(shards ^ ours)
        self._schedule.together_ended(table)
        self._apply_polls(table, pairs)

    def _polled_alone(self, lane: Lane, seen: Seen) -> None:
        if lane.key.source_table not in self._schedule:
            self._schedule.answered(lane.shard.node_id)
            return
        self._schedule.alone_ended(lane.key.source_table, lane.name, seen.error is None, self._clock.monotonic())
        self._apply_polls(lane.key.source_table, [(lane, seen)])

    def _apply_polls(self, table: str, pairs: list[tuple[Lane, Seen]]) -> None:
        now = self._clock.monotonic()
        for asked, seen in pairs:
            if self._loop.lanes.get(asked.name) is asked:
                self._apply_poll(asked, seen, now, pairs)
        if table not in self._schedule:  # the result of the poll made the table fail
            return
        found = any(lane.activity is Activity.DUE for lane in self._loop.lanes_of(table))
        options = self._plan.job.binlog
        self._schedule.paced(table, found, now, options.binlog_sleep_time, options.binlog_max_sleep_time)

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
        lane = replace(lane.answered, latest=status.latest, polled_at=now, alone=False)
        self._loop.lanes[lane.name] = lane
        if seen.waiting and not self._loop.paused:
            self._loop.lanes[lane.name] = due(lane, now)
            return
        if seen.waiting is False:
            lane = replace(lane, checked=status.latest)
        self._loop.lanes[lane.name] = lane
        if self._settle_due(lane, now):
            self._settling[lane.name] = None

    def _settle_due(self, lane: Lane, now: float) -> bool:
        age = now - lane.kept_at
        if lane.name in self._checks.waiting and age < self._keeps_every:
            return False
        # lanes that are catching up settle more often, because the job waits for them
        often = SETTLE_EVERY if lane.state is LaneState.CATCHING_UP else max(SETTLE_EVERY, self.many_lanes)
        return age >= self._keeps_every or (age >= often and (self._moves(lane) or lane.unregistered))

    @property
    def _keeps_every(self) -> float:
        return max(self._plan.keepalive, self.many_lanes)

    def _moves(self, lane: Lane) -> bool:
        return lane.has_later and not self._loop.paused

    def settle_next(self, name: str) -> None:
        """Settle a lane at the next turn."""
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
        keeps = clock.monotonic() - lane.kept_at >= self._keeps_every
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
    source: Source, lanes: Iterable[Lane], ours: set[Shard], fingerprint: str, asks: bool = True
) -> tuple[list[Seen], set[Shard]]:
    """Return the status of each idle lane's DN, and the set of DNs; with `asks`, also query whether rows wait.

    Raises SLOT LOST for a DN without a status: a server that does not create a slot when queried returns no row for a
    DN that lost its points.
    """
    statuses = {status.shard: status for status in source.read_status(None)}
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


LINES = 4
"""Maximum number of parallel polls of all DNs, each for one table and over its own source session."""
ALL_AGAIN = 30.0
"""Seconds between polls of all DNs while one DN does not answer, in addition to the polls of single DNs."""
DN_AGAIN = 5.0
"""Seconds before a silent DN is polled again for any lane, because it can share its connection with other DNs."""


@dataclass(frozen=True, slots=True)
class Due:
    """A due poll. It covers all DNs of a table over connection `line`, or the DN of one lane if `line` is None."""

    table: str
    lanes: tuple[str, ...]
    line: int | None = None


@dataclass(slots=True)
class _Table:
    """A table's polls. `nodes`: node ids by lane; `alone`: lanes whose separate poll runs or waits for its DN."""

    nodes: Mapping[str, int]
    line: int
    alone: set[str] = field(default_factory=set)
    apart: bool = False
    again_at: float = 0.0
    next_at: float = 0.0
    empty_rounds: int = 0


class PollSchedule:
    """Tracks running polls and the times of the next polls, in monotonic seconds.

    A poll is one query to all DNs of a table. If the poll of one table fails, the table's DNs are polled one by one. If
    the poll of a second table fails before any poll succeeds, a DN is not answering, so the DNs of all tables are
    polled one by one. A DN that hangs must not delay polls of other DNs.

    `nodes`: the node ids of the lanes, by source table and lane.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, int]]) -> None:
        self._tables = {table: _Table(lanes, place % LINES) for place, (table, lanes) in enumerate(nodes.items())}
        self._gone: dict[str, int] = {}
        """The connection of each dropped table."""
        self._taken: set[int] = set()
        self._failed: set[str] = set()
        """Tables whose poll of all DNs has failed since the last successful poll of any table."""
        self._all_apart = False
        self._next = deque(self._tables)
        """The order of the tables for polls of all DNs, used while DNs are polled one by one.

        The order rotates, because the cause of a failed poll can be its table.
        """
        self._again_at = 0.0
        self._waiting: dict[int, deque[tuple[str, str]]] = {}
        self._asked: set[int] = set()
        self._rests: dict[int, float] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def drop(self, name: str) -> None:
        """Stop polling a table."""
        self._gone[name] = self._tables.pop(name).line
        self._failed.discard(name)
        self._next = deque(one for one in self._next if one != name)
        self._all_apart = self._all_apart and bool(self._next)
        for node, waiting in self._waiting.items():
            self._waiting[node] = deque(one for one in waiting if one[0] != name)

    def free(self, name: str) -> None:
        """Release the connection of a dropped table for other polls, after the table's own poll has ended."""
        self._taken.discard(self._gone[name])

    def answered(self, node: int) -> None:
        """Allow the next poll of a DN after a dropped table's poll of that DN has ended."""
        self._asked.discard(node)

    def due(self, idle: AbstractSet[str], now: float) -> list[Due]:
        """Return the due polls, and record them as running; `idle`: the names of idle lanes."""
        wanted: list[tuple[float, str, tuple[str, ...]]] = []
        for name, table in self._tables.items():
            if table.apart and now >= table.next_at:
                self._queue(name, table, idle)
            at = table.again_at if table.apart else table.next_at
            if self._all_apart or table.line in self._taken or now < at:
                continue
            free = tuple(lane for lane in table.nodes if lane in idle and lane not in table.alone)
            if free or table.apart:
                wanted.append((at, name, () if table.apart else free))
        if self._all_apart and now >= self._again_at and self._tables[self._next[0]].line not in self._taken:
            self._again_at = now + ALL_AGAIN
            wanted.append((now, self._next[0], ()))
            self._next.rotate(-1)
        return self._together(sorted(wanted)) + self._by_themselves(idle, now)

    def _together(self, wanted: list[tuple[float, str, tuple[str, ...]]]) -> list[Due]:
        found = []
        for _, name, lanes in wanted:  # a connection runs one poll at a time; the longest overdue poll runs first
            line = self._tables[name].line
            if line not in self._taken:
                self._taken.add(line)
                found.append(Due(name, lanes, line))
        return found

    def _queue(self, name: str, table: _Table, idle: AbstractSet[str]) -> None:
        for lane, node in table.nodes.items():
            if lane in idle and lane not in table.alone:
                table.alone.add(lane)
                self._waiting.setdefault(node, deque()).append((name, lane))

    def _by_themselves(self, idle: AbstractSet[str], now: float) -> list[Due]:
        found = []
        for node, waiting in self._waiting.items():
            while waiting and node not in self._asked and now >= self._rests.get(node, 0.0):
                name, lane = waiting.popleft()
                if lane in idle:
                    self._asked.add(node)
                    found.append(Due(name, (lane,)))
                else:
                    self._tables[name].alone.discard(lane)
        return found

    def together_failed(self, name: str, now: float) -> None:
        """Record that the query to all DNs failed, and poll each DN separately from now on."""
        table = self._tables[name]
        self._taken.discard(table.line)
        table.next_at = table.next_at if table.apart else 0.0
        table.apart, table.again_at = True, now + ALL_AGAIN
        self._failed.add(name)
        if len(self._failed) > 1 and not self._all_apart:
            self._all_apart, self._again_at = True, now + ALL_AGAIN
            self._next = deque(sorted(self._tables, key=lambda one: one in self._failed))
            for one in self._tables.values():
                one.apart = True

    def together_ended(self, name: str) -> None:
        """Record that all DNs answered, and poll them together again."""
        self._taken.discard(self._tables[name].line)
        for one in self._tables.values() if self._all_apart else (self._tables[name],):
            one.apart = False
        self._all_apart = False
        self._failed.clear()
        for node, waiting in self._waiting.items():
            kept = deque(one for one in waiting if self._tables[one[0]].apart)
            for table, lane in waiting if len(kept) < len(waiting) else ():
                if not self._tables[table].apart:
                    self._tables[table].alone.discard(lane)
            self._waiting[node] = kept

    def alone_ended(self, name: str, lane: str, answered: bool, now: float) -> None:
        """Record that a lane's DN answered, or that its poll failed."""
        table = self._tables[name]
        table.alone.discard(lane)
        self._asked.discard(table.nodes[lane])
        self._rests[table.nodes[lane]] = 0.0 if answered else now + DN_AGAIN

    def paced(self, name: str, found: bool, now: float, sleep_ms: int, max_sleep_ms: int) -> None:
        """Set the time of a table's next poll; `found`: a lane is due, so the next pause is the shortest."""
        table = self._tables[name]
        table.empty_rounds = 0 if found else table.empty_rounds + (not table.alone)
        table.next_at = now + poll_pause(table.empty_rounds, sleep_ms, max_sleep_ms)

    def soon(self, name: str, at: float) -> None:
        """Make a table's next poll due at `at` or earlier."""
        self._tables[name].next_at = min(self._tables[name].next_at, at)

    def now(self, name: str, now: float) -> None:
        """Make a table's next poll due now, even if its DNs are polled one by one."""
        table = self._tables[name]
        table.next_at, table.again_at = min(table.next_at, now), min(table.again_at, now)

    def busy(self, name: str) -> None:
        """Reset a table's poll pause to the shortest pause after rows were applied."""
        self._tables[name].empty_rounds = 0


def poll_pause(empty_rounds: int, sleep_ms: int, max_sleep_ms: int) -> float:
    """Return the seconds between polls: `binlog_sleep_time` x consecutive empty polls, at most `binlog_max_sleep_time`.

    >>> poll_pause(1, 500, 10_000), poll_pause(3, 500, 10_000), poll_pause(99, 500, 10_000)
    (0.5, 1.5, 10.0)
    """
    return min(sleep_ms * max(1, empty_rounds), max_sleep_ms) / 1000
