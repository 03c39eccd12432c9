"""The driver's care for lanes that no task has: looking, settling, registering, and what follows a failure.

Next door: `loop.py` adds the tasks and the run itself; `watch.py` is the I/O, `core.retry` the decision.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from core import retry
from core.clock import Clock
from core.domain.attempts import NO_HISTORY
from core.domain.lane import Activity, Lane, due, names_by_table
from core.domain.progress import LaneState, ProgressRow
from core.domain.record_ttl import RecordTtls
from core.domain.slot import Shard
from core.domain.spec import JobSpec
from core.domain.watch import judge, trouble
from core.engine.driver import lane_io
from core.engine.driver.context import placed
from core.engine.driver.poll_schedule import LINES, PollSchedule
from core.engine.driver.registration import exactly, widened
from core.engine.driver.serial_executor import SHARED_FROM, Lines, line_of
from core.engine.worker.step import Probe
from core.errors import Busy, ErrorKind, SlotkeeperError, Superseded, Trouble, TroubleName, classed
from core.ports.driver import Sessions
from core.retry import Failure, RetryRules

READ_EVERY = 1.0
COUNT_EVERY = 5.0
"""How often the rows in quarantine are counted: replays change their number from outside."""
SETTLE_EVERY = 3.0
"""An idle lane moves over empty ranges, and registers, no more often than this."""
SETTLED_A_SECOND = 20
"""So many registrations of idle lanes a second are enough: more would take the time from lanes that have rows."""
AT_ONCE = 20
"""So many of them may come at once, after a while without any."""
LOST_ANSWER_WAIT = 15.0
"""Longer than a registration's limit at the server: after this no call of ours is still on its way."""
OLDER_STATUSES, OLDER_SECONDS = 3, 10.0


LEASE_EVERY = 1.0
LEASE_LATE = 10.0
"""A lease's session that answers later counts as lost: sooner than a server frees the locks of a line that is gone.

It is cut off then, so that a new one is tried.
"""


def unleased() -> None:
    """For a loop that holds no lease."""


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What a loop is told: keepalive in seconds is how often an idle lane registers the same point again.

    `keep_lease` raises where the job's lease, or the lock on a target, is not held; `sever_lease` makes it end.
    """

    job: JobSpec
    epoch: int
    keepalive: float
    until_caught_up: bool = False
    task_seconds: float = 3.0
    keep_lease: Callable[[], None] = unleased
    sever_lease: Callable[[], None] = unleased
    record_ttls: RecordTtls = field(default_factory=lambda: RecordTtls({}, {}))


class IdleLanes:
    """Holds the lanes and their events; only the thread that runs the loop replaces a lane."""

    def __init__(
        self,
        plan: LoopPlan,
        lanes: dict[str, Lane],
        sessions: Sessions,
        clock: Clock,
        probe: Probe,
    ) -> None:
        self.plan = plan
        self.lanes = lanes
        self.paused = False
        self.registrations = 0
        self._sessions = sessions
        self._clock = clock
        self._probe = probe
        self._rules = RetryRules.of(plan.job)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._tables = tuple(channel.source_table for channel in plan.job.channels)
        self._nodes = len({lane.shard.node_id for lane in lanes.values()})
        self._names = names_by_table(lanes)
        self._lines = Lines(2 * min(self._nodes, SHARED_FROM) + LINES + 4)
        self._many_lanes = len(lanes) / SETTLED_A_SECOND
        """Seconds between two registrations of a lane that is idle, or served in a crowd."""
        self._settling: dict[str, None] = {}
        self._settles, self._settled_at = float(AT_ONCE), clock.monotonic()
        self._schedule = PollSchedule(
            {table: {n: lanes[n].shard.node_id for n in names} for table, names in self._names.items()}
        )
        self._record_ttls = plan.record_ttls
        self._older: dict[str, tuple[int, float]] = {}
        self._failure: SlotkeeperError | None = None
        self._reading = False
        self._read_at = 0.0
        self._asked: float | None = None
        self._lease_at = 0.0
        self._not_ours: SlotkeeperError | None = None
        self.held: int | None = None
        self._counting = False
        self._count_at = 0.0
        self._checking = False
        self._check_at = clock.monotonic() + plan.job.binlog.check_node_change_interval / 1000
        self.other_nodes = ""

    def _post(self, handle: Callable[..., None], *arguments: object) -> None:
        self._events.put(lambda: handle(*arguments))

    def _of(self, table: str) -> Iterable[Lane]:
        return (self.lanes[name] for name in self._names.get(table, ()))

    def _fail(self, table: str, error: SlotkeeperError) -> None:
        self._failure = placed(self.plan.job, table, error)

    def _lane_failed(self, lane: Lane, error: SlotkeeperError) -> None:
        now = self._clock.monotonic()
        since = lane.failing_since if lane.history.failures else now
        failure = Failure.of(error, lane.width)
        history = replace(lane.history, elapsed=now - since)
        decision = retry.decide(failure, history, self._rules, self._clock.random())
        lane = replace(lane, task=0, alone=True, failing_since=since, error=error.message, side=error.where)
        lane = replace(lane, history=retry.after(history, failure, self._rules))
        match decision:
            case retry.RetryAfter(seconds, _):
                lane = replace(lane, activity=Activity.WAITING, ready_at=now + seconds)
            case retry.Halve(width):
                lane = replace(due(lane, now), width=width)
            case retry.EndQuietly():
                self._failure = error if isinstance(error, Superseded) else Superseded(error.message)
            case retry.Stop(reason):
                named = isinstance(error, Trouble)
                error.hint = error.hint or reason
                self._fail(lane.key.source_table, error if named else _because(error, reason))
        self.lanes[lane.name] = lane

    def _poll(self, now: float) -> None:
        idle = {name for name, lane in self.lanes.items() if lane.activity is Activity.IDLE}
        for wanted in self._schedule.due(idle, now):
            lanes = [self.lanes[name] for name in wanted.lanes]
            if wanted.line is None:
                self._lines.submit(f"watch {self._line(lanes[0])}", partial(self._see_one, lanes[0]))
            else:
                see_all = partial(self._see_all, wanted.table, lanes, f"watch {wanted.line}")
                self._lines.submit(f"watch all {wanted.line}", see_all)

    def _line(self, lane: Lane) -> str:
        return line_of(lane.shard.node_id, self._nodes)

    def _read_rows(self, now: float) -> None:
        """Every second, where the lanes in tasks stand by now: a task tells only at its end."""
        if self._reading or now < self._read_at or not any(one.task for one in self.lanes.values()):
            return
        self._reading, self._read_at = True, now + READ_EVERY
        tables = sorted({lane.key.source_table for lane in self.lanes.values() if lane.task})

        def read() -> None:
            try:
                rows = [row for table in tables for row in self._sessions.of(table).rows("reader").rows()]
            except Exception:
                rows = []  # whoever writes there reports the trouble
            self._post(self._rows_read, rows)

        self._lines.submit("rows", read)

    def _rows_read(self, rows: list[ProgressRow]) -> None:
        self._reading = False
        for row in rows:
            name = self.plan.job.lane_name(row.key.source_table, row.key.shard)
            lane = self.lanes.get(name)
            if lane is None or not lane.task or row.position is None or row.epoch != self.plan.epoch:
                continue
            if row.position > lane.position:
                self.lanes[name] = replace(
                    lane,
                    position=row.position,
                    changes=row.changes,
                    latest=max(lane.latest or 0, row.position.point),
                    committed_at=self._clock.monotonic(),
                )

    def _keep_lease(self, now: float) -> None:
        """Every second: across progress schemas there is no fence, so nothing is dealt while the lock is not held."""
        if self._asked is not None:
            if now - self._asked >= LEASE_LATE:
                self._asked = now  # the session that is tried next may not answer either
                self._not_ours = Busy("the session that holds the lease does not answer", where="sink")
                self.plan.sever_lease()
            return
        if now < self._lease_at:
            return
        self._asked, self._lease_at = now, now + LEASE_EVERY

        def ask() -> None:
            error = None
            try:
                self.plan.keep_lease()
            except Exception as raised:
                error = classed(raised)
            self._post(self._lease_answered, error)

        self._lines.submit("lease", ask)

    def _lease_answered(self, error: SlotkeeperError | None) -> None:
        self._asked, self._not_ours = None, error
        if error is not None and error.kind in (ErrorKind.OPERATOR, ErrorKind.SUPERSEDED):
            self._failure = error

    def _count_held(self, now: float) -> None:
        """Every few seconds, how many rows are in quarantine; nothing where the job holds none by its configuration."""
        if not self.plan.job.sink_options.quarantines or self._counting or now < self._count_at:
            return
        self._counting, self._count_at = True, now + COUNT_EVERY

        def ask() -> None:
            try:
                found: int | None = sum(self._sessions.of(table).rows("held").held() for table in self._tables)
            except Exception:
                found = None  # whoever writes there reports the trouble
            self._post(self._held_counted, found)

        self._lines.submit("held", ask)

    def _held_counted(self, found: int | None) -> None:
        self._counting = False
        self.held = self.held if found is None else found

    def _see_one(self, lane: Lane) -> None:
        try:
            source = self._sessions.of(lane.key.source_table).source(f"watch/{self._line(lane)}")
            seen = lane_io.see_one(source, lane, not self.paused)
        except Exception as error:  # a thread that ended without an answer would end all looking
            seen = lane_io.Seen(lane.shard, error=classed(error))
        self._post(self._polled_alone, lane, seen)

    def _see_all(self, table: str, idle: list[Lane], session: str) -> None:
        try:
            ours = {lane.shard: lane.expected.fingerprint for lane in self._of(table)}
            source = self._sessions.of(table).source(session)
            # a pause keeps slots alive and reads nothing: a question that fails must not come in between
            seen, shards = lane_io.see_all(source, idle, set(ours), max(ours.values()), not self.paused)
        except Exception as error:
            self._post(self._poll_failed, table, classed(error))
            return
        by_shard = {one.shard: one for one in seen}
        pairs = [(lane, by_shard[lane.shard]) for lane in idle if lane.shard in by_shard]
        self._post(self._polled, table, pairs, shards)

    def _poll_failed(self, table: str, error: SlotkeeperError) -> None:
        if isinstance(error, Trouble):
            self._fail(table, error)
            return
        self._schedule.together_failed(table, self._clock.monotonic())

    def _polled(self, table: str, pairs: list[tuple[Lane, lane_io.Seen]], shards: set[Shard]) -> None:
        ours = {lane.shard for lane in self._of(table)}
        if shards != ours:
            self._nodes_changed(shards ^ ours)
        self._schedule.together_ended(table)
        self._consider_all(table, pairs)

    def _check_nodes(self, now: float) -> None:
        """Every `check_node_change_interval`: new DNs and new names, also where no look would show them."""
        options = self.plan.job.binlog
        if not options.need_redistribution or self._checking or now < self._check_at:
            return
        self._checking, self._check_at = True, now + options.check_node_change_interval / 1000

        def check() -> None:
            try:
                there = self._sessions.of(self._tables[0]).source("nodes").nodes()
            except Exception:
                there = []  # whoever looks there reports the trouble
            self._post(self._nodes_seen, there)

        self._lines.submit("nodes", check)

    def _nodes_seen(self, there: list[Shard]) -> None:
        self._checking = False
        new = set(there) - {lane.shard for lane in self.lanes.values()}
        if new:
            self._nodes_changed(new)

    def _nodes_changed(self, names: set[Shard]) -> None:
        """A start decides about another set of DNs, once nothing is on its way; a pause goes on keeping slots alive."""
        sentence = f"the DN set changed: {', '.join(sorted({shard.name for shard in names}))}"
        if self.plan.job.binlog.need_redistribution:
            self.other_nodes = sentence
        else:
            self._failure = trouble(TroubleName.TOPOLOGY_CHANGED, sentence)

    def _polled_alone(self, lane: Lane, seen: lane_io.Seen) -> None:
        self._schedule.alone_ended(lane.key.source_table, lane.name, seen.error is None, self._clock.monotonic())
        self._consider_all(lane.key.source_table, [(lane, seen)])

    def _consider_all(self, table: str, pairs: list[tuple[Lane, lane_io.Seen]]) -> None:
        now = self._clock.monotonic()
        for asked, seen in pairs:
            if self.lanes[asked.name] is asked:
                self._consider(asked, seen, now)
        found = any(lane.activity is Activity.DUE for lane in self._of(table))
        options = self.plan.job.binlog
        self._schedule.paced(table, found, now, options.binlog_sleep_time, options.binlog_max_sleep_time)

    def _consider(self, lane: Lane, seen: lane_io.Seen, now: float) -> None:
        if seen.error is not None:
            self._lane_failed(lane, seen.error)
            return
        status = seen.status
        assert status is not None
        found = judge(status, lane.expected)
        if found:
            self._fail(lane.key.source_table, found)
            return
        self._record_ttls.see(lane.key.source_table, lane.shard.name, status.latest, now)
        if status.latest < lane.position.point:
            self._older_status(lane, status.latest, now)
            return
        late = self._record_ttls.late(lane, now) if status.latest > lane.position.point else None
        if late is not None:
            self._fail(lane.key.source_table, late)
            return
        self._older.pop(lane.name, None)
        lane = replace(lane, latest=status.latest, polled_at=now, history=NO_HISTORY, error="", alone=False)
        self.lanes[lane.name] = lane
        if seen.waiting and not self.paused:
            self.lanes[lane.name] = due(lane, now)
            return
        if seen.waiting is False:
            lane = replace(lane, checked=status.latest)
        self.lanes[lane.name] = lane
        if self._settle_due(lane, now):
            self._settling[lane.name] = None

    def _settle_due(self, lane: Lane, now: float) -> bool:
        age = now - lane.kept_at
        unregistered = lane.position.point > lane.registered.live
        # a lane that is catching up is waited for
        often = SETTLE_EVERY if lane.state is LaneState.CATCHING_UP else max(SETTLE_EVERY, self._many_lanes)
        return age >= max(self.plan.keepalive, self._many_lanes) or (
            age >= often and (self._moves(lane) or unregistered)
        )

    def _moves(self, lane: Lane) -> bool:
        return lane.latest is not None and lane.latest > lane.position.point and not self.paused

    def _settle(self, now: float) -> None:
        """Lanes that are to be settled have their turns, so many a second: at once they would hold all others up."""
        self._settles = min(AT_ONCE, self._settles + (now - self._settled_at) * SETTLED_A_SECOND)
        self._settled_at = now
        while self._settling and self._settles >= 1:
            name = next(iter(self._settling))
            del self._settling[name]
            lane = self.lanes[name]
            if lane.activity is Activity.IDLE and self._settle_due(lane, now):
                self._settles -= 1
                self._start_settling(lane, self._moves(lane))

    def _start_settling(self, lane: Lane, move: bool) -> None:
        self._start_registration(
            lane,
            lambda: lane_io.settle(*self._registrar(lane), lane, self.plan.epoch, move, self._clock, self._probe),
        )

    def _older_status(self, lane: Lane, latest: int, now: float) -> None:
        count, since = self._older.get(lane.name, (0, now))
        self._older[lane.name] = (count + 1, since)
        if count + 1 >= OLDER_STATUSES and now - since >= OLDER_SECONDS:
            sentence = f"{lane.shard.name}: the source's newest point {latest} is below our {lane.position.point}"
            self._fail(lane.key.source_table, trouble(TroubleName.SOURCE_OLDER, sentence))

    def _registrar(self, lane: Lane) -> tuple[Any, Any]:
        name, sessions = f"r/{self._line(lane)}", self._sessions.of(lane.key.source_table)
        return sessions.admin(name), sessions.rows(name)

    def _start_registration(self, lane: Lane, work: Callable[[], lane_io.Settled]) -> None:
        self.lanes[lane.name] = replace(lane, activity=Activity.REGISTERING)

        def run() -> None:
            began = self._clock.monotonic()
            try:
                settled = work()
            except Exception as error:
                settled = lane_io.Settled(lane.position, error=classed(error))
            self._post(self._registered, lane.name, settled, self._clock.monotonic() - began)

        self._lines.submit(f"register {self._line(lane)}", run)

    def _registered(self, name: str, settled: lane_io.Settled, seconds: float) -> None:
        now = self._clock.monotonic()
        lane = replace(self.lanes[name], position=max(self.lanes[name].position, settled.position))
        lane = replace(lane, spent=lane.spent.more(register=seconds))
        if settled.error is not None:
            self._registration_failed(lane, settled)
            return
        if settled.registered is not None:
            self.registrations += 1
            expected = exactly(settled.registered, lane.expected.fingerprint)
            lane = replace(lane, registered=settled.registered, expected=expected, kept_at=now, checked=-1)
        lane = replace(lane, history=NO_HISTORY, error="")
        again = settled.waiting or (lane.latest or 0) > lane.position.point
        now_due = settled.waiting or (lane.has_more and not self.paused)  # a look first would only cost time
        self.lanes[name] = replace(due(lane, now) if now_due else replace(lane, activity=Activity.IDLE), has_more=False)
        if again:
            self._schedule.soon(lane.key.source_table, now + SETTLE_EVERY / 10)

    def _registration_failed(self, lane: Lane, settled: lane_io.Settled) -> None:
        assert settled.error is not None
        sent = settled.wanted and not isinstance(settled.error, Trouble | Superseded)
        if sent:
            lane = replace(lane, expected=widened(lane.expected, settled.wanted))
        self.lanes[lane.name] = lane
        self._lane_failed(lane, settled.error)
        if sent and not settled.certain and self._failure is None:
            self._wait_out(self.lanes[lane.name])

    def _wait_out(self, lane: Lane) -> None:
        """No look until no registration of ours can still be on its way (design 4.2)."""
        ready = self._clock.monotonic() + LOST_ANSWER_WAIT
        self.lanes[lane.name] = replace(lane, activity=Activity.WAITING, ready_at=max(lane.ready_at, ready))


def _because(error: SlotkeeperError, reason: str) -> SlotkeeperError:
    error.hint = error.hint or reason
    return error
