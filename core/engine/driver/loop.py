"""The streaming loop of a job's driver: assigns due lanes to tasks, registers lanes and schedules retries.

One thread makes all decisions. I/O runs in other threads or on workers, and its results arrive as events. A lane is a
frozen record that only the loop's thread replaces.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from slotkeeper.core import errors, retry
from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.lane import Assignment, Lane, Lanes, assign, due, names_by_table, pairs_of, times
from slotkeeper.core.domain.progress import Activity, LaneKey
from slotkeeper.core.domain.report import GIVEN_UP
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import OTHER_SERVER, exactly, trouble
from slotkeeper.core.engine.driver.context import StreamPlan, name_table
from slotkeeper.core.engine.driver.failure import retry_early, retry_sink_lanes
from slotkeeper.core.engine.driver.idle_lanes import SETTLE_EVERY, IdleLanes
from slotkeeper.core.engine.driver.poll_schedule import LINES
from slotkeeper.core.engine.driver.registration import Settled, TargetWatch
from slotkeeper.core.engine.driver.threads import SHARED_FROM, SerialExecutor, line_of
from slotkeeper.core.engine.driver.upkeep import Upkeep, changed_nodes
from slotkeeper.core.engine.tasks import LaneOutcome, LaneTask, StreamOutcome, StreamTask
from slotkeeper.core.engine.worker.step import Probe
from slotkeeper.core.errors import Busy, ErrorKind, SlotkeeperError, Superseded, Trouble, TroubleName, Unclassified
from slotkeeper.core.ports.driver import LaneFence, Sessions, TaskRunner
from slotkeeper.core.ports.source import LOST_ANSWER_WAIT, SourceTable
from slotkeeper.core.retry import Failure, RetryRules

OVERRUN = 2.0
"""Seconds past its deadline after which a task counts as overrun; more if recent tasks ended later."""
MOST_SLACK = 20.0
CANCEL_AFTER = 10.0
"""Seconds between a task's overrun and its cancellation, which ends the worker; longer with each attempt."""
STOP_WITHIN = 5.0
LANE_SECONDS, EVENT_SECONDS = 0.0006, 0.00006
"""The minimum seconds between two turns per lane, without an event and with one, because a turn visits all lanes."""


@dataclass(frozen=True, slots=True)
class _Released:
    """A table that has left the loop: its last lanes, the tasks that still process them, and their time limit."""

    error: SlotkeeperError | None
    lanes: Mapping[str, Lane]
    tasks: frozenset[int]
    by: float


class End(Enum):
    """The reason why a loop ended without a problem."""

    STOPPED = "stopped"
    RESUMED = "resumed"
    OTHER_NODES = "other nodes"
    CAUGHT_UP = "caught up"
    EMPTY = "no table is left"


class Loop:
    """Streams until stopped; implements `LaneOwner`. `lanes`: the lanes by name, on which reports are based."""

    def __init__(
        self,
        plan: StreamPlan,
        lanes: dict[str, Lane],
        sessions: Sessions,
        runner: TaskRunner,
        stream: Callable[[StreamTask], StreamOutcome],
        clock: Clock,
        wanted: Callable[[], WantedState],
        tick: Callable[[Loop], None],
        probe: Probe,
    ) -> None:
        self.plan, self.lanes = plan, Lanes(lanes)
        self.paused, self.registrations, self.other_nodes = False, 0, ""
        self._sessions, self._runner, self._stream = sessions, runner, stream
        self._clock, self._wanted, self._tick, self._probe = clock, wanted, tick, probe
        self._rules = RetryRules.of(plan.job)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._names = names_by_table(lanes)
        self._nodes = len({lane.shard.node_id for lane in lanes.values()})
        self._failure: SlotkeeperError | None = None
        self._executor = SerialExecutor(2 * min(self._nodes, SHARED_FROM) + LINES + 5)
        self._targets = TargetWatch(self, plan, self._executor, clock, probe)
        self._idle = IdleLanes(self, plan, sessions, self._executor, clock, probe, self._targets)
        self._upkeep = Upkeep(self, plan, sessions, self._executor, clock)
        self._tasks: dict[int, Assignment] = {}
        self._shares: dict[int, int] = {}
        """The number of source sessions of each running task."""
        self._released: dict[str, _Released] = {}
        """Tables that have left the loop but have not been passed to `release_table` yet."""
        self._next_task = 1
        self._turn_at = 0.0
        self._registrars: dict[tuple[str, str], tuple[SourceTable, LaneFence]] = {}
        self._slack = OVERRUN
        self._most = len(lanes)
        """Maximum number of lanes per task: twice the number of lanes that a task has processed within its time."""

    @property
    def quarantined(self) -> tuple[int, str] | None:
        """The number of quarantined rows and a description of the newest; None before the first count."""
        return self._upkeep.quarantined

    def run(self) -> End:
        """Stream until the desired state changes; raises a problem that a user must resolve, or Superseded."""
        try:
            return self._run()
        except SlotkeeperError as error:
            if not self._is_explained_by_nodes(error):
                raise
            return End.OTHER_NODES
        finally:
            self._report_released(waits=False)
            self._executor.close()

    def _run(self) -> End:
        while True:
            wanted = self._wanted()
            if wanted is WantedState.STOP:
                self._drain_tasks()
                return End.STOPPED
            if wanted is WantedState.PAUSE and not self.paused:
                self._drain_tasks()
                self.paused = True
            if wanted is WantedState.RUN and self.paused:
                return End.RESUMED
            if self.other_nodes and not self.paused:
                self._drain_tasks()
                return End.OTHER_NODES
            if not self.paused and self.plan.regroups():
                self._drain_tasks()
                return End.RESUMED
            for table in self.plan.find_leaving(self._names) if self.plan.find_leaving is not None else ():
                self._release_table(table, None)
            self._report_released()
            if not self.lanes:
                if not self._released:
                    return End.EMPTY
                self._handle_events(0.1)
                continue
            if self.plan.until_caught_up and all(
                lane.activity is Activity.IDLE and lane.nothing_waits for lane in self.lanes.values()
            ):
                self._drain_tasks()
                return End.CAUGHT_UP
            self._run_turn()

    def _release_table(self, table: str, error: SlotkeeperError | None, waits: bool = True) -> None:
        """Stop a table; pass it to the plan's `release_table` once no task processes its lanes, or after a few seconds.

        The fence rejects a task's late commit, but another job can write to the target once its lock is released.
        """
        gone = {name: self.lanes.pop(name) for name in self._names.pop(table)}
        self._idle.forget(table)
        self._registrars = {place: both for place, both in self._registrars.items() if place[0] != table}
        tasks = frozenset(number for number, task in self._tasks.items() if gone.keys() & set(task.lanes))
        self._released[table] = _Released(error, gone, tasks, self._clock.monotonic() + (STOP_WITHIN if waits else 0.0))
        self._report_released()

    def _report_released(self, waits: bool = True) -> None:
        now = self._clock.monotonic()
        for table, leaving in list(self._released.items()):
            if waits and leaving.tasks & self._tasks.keys() and now < leaving.by:
                continue
            del self._released[table]
            assert self.plan.release_table is not None
            self.plan.release_table(table, leaving.error, leaving.lanes)

    def _is_explained_by_nodes(self, error: SlotkeeperError, table: str = "") -> bool:
        """Return whether a changed DN set explains the failed source call; every call to a removed DN fails."""
        if error.where != "source" or isinstance(error, Superseded) or not self.plan.job.binlog.need_redistribution:
            return False
        table = table or next(iter(self._names), self.plan.job.channels[0].source_table)
        try:
            # not the session of `Upkeep.check_nodes`, which another thread may use now
            nodes = self._sessions.of(table).source("failure")
            return bool(changed_nodes(nodes, (lane.shard for lane in self.lanes_of(table))))
        except SlotkeeperError:
            return False

    def _run_turn(self) -> None:
        now = self._turn_at = self._clock.monotonic()
        self._upkeep.keep_lease(now)
        self._answer_requests(now)
        self._wake_lanes(now)
        if not self.paused:
            self._handle_overruns(now)
            if not self._upkeep.awaits_login(now):
                self._assign_lanes(now)
        self._idle.poll(now)
        self._idle.settle(now)
        self._targets.check(now)
        self._upkeep.check_nodes(now)
        self._upkeep.ask_life(now)
        self._upkeep.read_rows(now)
        self._upkeep.count_quarantined(now)
        self._tick(self)
        self._handle_events(max(0.2 if self._tasks else 0.1, len(self.lanes) * LANE_SECONDS))

    def _answer_requests(self, now: float) -> None:
        """Bring forward retries and polls at users' request."""
        for asked in self.plan.requests.new():
            changed, answers = retry_early(self.lanes, self._names, asked.table, now, self.paused)
            self.lanes.update(changed)
            for one in answers:
                if one.polled:
                    self._idle.poll_now(one.table, now)
            self.plan.requests.answer(asked, answers)

    def _handle_events(self, seconds: float) -> None:
        try:
            self._events.get(timeout=seconds)()
            until = self._turn_at + len(self.lanes) * EVENT_SECONDS
            while True:
                self._events.get(timeout=max(0.0, until - self._clock.monotonic()))()
        except queue.Empty:
            pass
        if self._failure is not None:
            raise self._failure

    def _drain_tasks(self) -> None:
        """Stop assigning lanes; after `STOP_WITHIN` seconds, abandon tasks, registrations and a last target check."""
        end, cancelled = self._clock.monotonic() + STOP_WITHIN, False
        halfway = end - STOP_WITHIN / 3
        while self._clock.monotonic() < end and (
            self._tasks or self._targets.awaits_check or self.lanes.of(Activity.REGISTERING)
        ):
            self._targets.check(self._clock.monotonic(), at_once=not self._tasks)
            self._handle_events(0.1)
            if not cancelled and self._clock.monotonic() > halfway:
                cancelled = True
                for task in self._tasks.values():
                    self._runner.cancel(task.group)
        for name, lane in self.lanes.items():
            # a lane in registration keeps its state, because a status read before the answer would show an unexpected
            # state; so does a waiting lane, because its call can still take effect after a lost answer
            stays = lane.activity in (Activity.REGISTERING, Activity.WAITING)
            left = lane.activity if stays else Activity.IDLE
            self.lanes[name] = replace(lane, activity=left, task=0)

    def _wake_lanes(self, now: float) -> None:
        for table in self.plan.copied_again() if not self.paused else ():
            for lane in self.lanes_of(table):
                if lane.activity is Activity.IDLE:
                    self.lanes[lane.name] = due(lane, now)
        for lane in self.lanes.of(Activity.WAITING, Activity.DUE):
            ready = lane.activity is Activity.WAITING and lane.ready_at <= now
            if self.paused and (ready or lane.activity is Activity.DUE):
                self.lanes[lane.name] = replace(lane, activity=Activity.IDLE)  # an idle lane keeps its slot alive
            elif ready:
                self.lanes[lane.name] = due(lane, now)

    def _handle_overruns(self, now: float) -> None:
        for number, task in list(self._tasks.items()):
            late = now - task.deadline
            if not task.overrun and late >= self._slack:
                self._tasks[number] = replace(task, overrun=True)
                self._reassign_lanes(task)
            elif task.overrun and not task.cancelled:
                # a single lane that was cancelled before gets a longer time limit
                alone = len(task.lanes) == len(self._remaining_lanes(task)) == 1
                factor = times(self.lanes[task.lanes[0]].cancelled) if alone else 1
                if late >= self._slack + CANCEL_AFTER * factor:
                    self._tasks[number] = replace(task, cancelled=True)
                    self._runner.cancel(task.group)

    def _reassign_lanes(self, task: Assignment) -> None:
        """Make each lane of an overrun task due for a separate task; a single lane waits, as a new task would hang."""
        for name in self._remaining_lanes(task) if len(task.lanes) > 1 else ():
            if self.lanes[name].task == task.number:
                self.lanes[name] = replace(self.lanes[name], activity=Activity.DUE, alone=True, task=0)

    def _remaining_lanes(self, task: Assignment) -> list[str]:
        return [name for name in task.lanes if name in self.lanes]

    def _adapt_slack(self, task: Assignment) -> None:
        """Adapt the overrun limit to late tasks: reassigning lanes immediately would only add load on a busy host.

        A cancelled task loses its worker, and starting a new worker can take as long as a task is allowed to run.
        """
        if task.cancelled:
            self._slack = min(MOST_SLACK, 2 * self._slack)
        else:
            late = self._clock.monotonic() - task.deadline
            self._slack = min(MOST_SLACK, max(OVERRUN, 2 * late, self._slack * 0.9))

    def _fail_late_lanes(self, now: float) -> bool:
        """Whether the source may have deleted records that a due lane needs."""
        for lane in self.lanes.of(Activity.DUE) if self.plan.record_ttls.any else ():
            late = self.plan.record_ttls.late(lane, now)
            if late is not None and lane.name in self.lanes:
                self.fail_table(lane.key.source_table, late)
        return self._failure is not None

    def _fail_without_lease(self) -> bool:
        if self._upkeep.not_ours is not None:
            for lane in self.lanes.of(Activity.DUE):
                self.fail_lane(lane, self._upkeep.not_ours)
        return self._upkeep.not_ours is not None

    def _assign_lanes(self, now: float) -> None:
        if self._fail_late_lanes(now) or self._fail_without_lease() or not self.lanes.of(Activity.DUE):
            return
        assigned = assign(
            self.lanes.values(),
            self._tasks.values(),
            self._runner.capacity,
            self._next_task,
            now,
            # with more lanes than parallel tasks, the time is shorter so that lanes wait less
            self.plan.task_seconds / (1 if len(self.lanes) <= self._runner.capacity else 3),
            self._most,
        )
        for task in assigned:
            self._next_task = task.number + 1
            self._tasks[task.number] = task
            tasks, again = [], self.plan.copied_again()
            for name in task.lanes:
                lane = replace(self.lanes[name], activity=Activity.APPLYING, task=task.number)
                self.lanes[name] = lane
                table = lane.key.source_table
                tasks.append(LaneTask(table, lane.shard, lane.expected, lane.width, table in again))
            parallel = self._shares[task.number] = self._parallel(task)
            named = self.plan.group, task.session(self.plan.task_prefix), self.plan.feed
            spec = StreamTask(self.plan.job, self.plan.epoch, tuple(tasks), task.deadline - now, parallel, *named)
            future = self._runner.submit(self._stream, spec, task.group)
            future.add_done_callback(partial(self.post, self._task_ended, task.number))

    def _parallel(self, task: Assignment) -> int:
        """Return the number of source sessions for a task from the pool that all tasks share.

        DWS: `binlog_parallel_num` applies only if there are fewer parallel tasks than DNs.
        """
        needed = pairs_of(self.lanes[name] for name in task.lanes)
        if len(self.lanes) <= self._runner.capacity or needed == 1:
            return 1
        options, capacity = self.plan.job.binlog, max(1, self._runner.capacity - len(self._shares))
        left = options.connection_pool_size - sum(self._shares.values())
        return max(1, min(options.binlog_parallel_num, -(-left // capacity)))

    def _task_ended(self, number: int, future: Future[Any]) -> None:
        task = self._tasks.pop(number)
        self._shares.pop(number, None)
        self._adapt_slack(task)
        mine = [name for name in self._remaining_lanes(task) if self.lanes[name].task == number]
        try:
            outcome: StreamOutcome = future.result()
        except CancelledError:
            # end the sink's work for an abandoned task, or for a task whose worker was lost; does not wait
            self.plan.end_task(task.session(self.plan.task_prefix), partial(self.post, self._blame_sink, mine))
            outcome = StreamOutcome(())
            if task.cancelled and len(task.lanes) == len(mine) == 1:
                # a lane whose separate task was cancelled waits before its next attempt, because it would otherwise
                # occupy the capacity again; the next attempt gets more time, because the step may need it
                lane = replace(self.lanes[mine[0]], cancelled=self.lanes[mine[0]].cancelled + 1)
                side = lane.side if GIVEN_UP in lane.error else ""  # kept until the sink reports whether it was working
                self.fail_lane(lane, Busy(f"{lane.name}: {GIVEN_UP}", where=side))
                self._clear_others(lane)
                return
        except SlotkeeperError as error:
            if error.where == "spark":  # its worker may have exited
                self.plan.end_task(task.session(self.plan.task_prefix))
                if not isinstance(error, Unclassified):
                    self._failure = error
                    return
            for name in mine:
                if name in self.lanes:
                    self.fail_lane(self.lanes[name], error)
            return
        whole = self.plan.whole or self.plan.job
        by_name = {whole.lane_name(one.table, one.shard.name): one for one in outcome.lanes}
        # some lanes of a task may have had no turn, which shows how many lanes a task can process
        reached = sum(one.waited is not None for one in outcome.lanes)
        many_lanes = reached < len(outcome.lanes)
        self._most = 2 * reached if many_lanes else max(self._most, 2 * reached)
        # a failed lane is what delayed an overrun task; the outcome includes it even if the lanes were reassigned
        for name, ended in by_name.items():
            if ended.error is not None and name in self.lanes:
                self._clear_others(self.lanes[name])
        on_its_way = max(0.0, self._clock.monotonic() - task.assigned - outcome.seconds)
        for name in mine:
            if name not in self.lanes:  # its table ended because of another lane
                continue
            lane, found = self.lanes[name], by_name.get(name)
            if found is None or found.waited is None:  # without a turn, the lane stays due and keeps its waiting time
                self.lanes[name] = replace(lane, activity=Activity.DUE, task=0)
                continue
            if self._clock.monotonic() < task.deadline + CANCEL_AFTER:
                lane = replace(lane, cancelled=max(0, lane.cancelled - 1))
            waited = task.assigned - lane.since + on_its_way + found.waited
            has_more = bool(found.rows) and not outcome.idle and not many_lanes
            self.plan.delayed(lane.key.source_table, found.delayed)
            load = outcome.load / len(outcome.lanes)
            lane = replace(lane, has_more=has_more, waited=max(lane.waited, waited), load=load)
            self._lane_ended(lane, found, many_lanes)

    def _blame_sink(self, names: Iterable[str], at_work: bool) -> None:
        """Record the sink as the cause of these lanes' cancelled steps if it was executing a statement for them.

        Otherwise the source, the worker or this host can be the cause; a separate query detects a silent DN.
        """
        for lane in [self.lanes[name] for name in names if name in self.lanes]:
            if GIVEN_UP in lane.error:
                self.lanes[lane.name] = replace(lane, side="sink" if at_work else "")

    def _clear_others(self, culprit: Lane) -> None:
        """Let due lanes that share neither table nor DN with the failed lane run in shared tasks again."""
        for name, lane in self.lanes.items():
            apart = lane.key.source_table != culprit.key.source_table and lane.shard != culprit.shard
            suspected = lane.alone and not lane.cancelled and not lane.history.failures
            if apart and suspected and lane.activity is Activity.DUE:
                self.lanes[name] = replace(lane, alone=False)

    def _lane_ended(self, lane: Lane, outcome: LaneOutcome, many_lanes: bool = False) -> None:
        now = self._clock.monotonic()
        counted = max(lane.changes, outcome.changes), max(lane.repeats, outcome.repeats)
        lane = replace(lane, task=0, changes=counted[0], repeats=counted[1])
        lane = replace(lane, spent=lane.spent.more(outcome.read_seconds, outcome.write_seconds))
        if outcome.position is not None:
            lane = replace(lane, position=max(outcome.position, lane.position))
        if outcome.rows:
            lane = replace(lane, committed_at=now)
        if outcome.error is not None:
            self.fail_lane(lane, outcome.error.error())
            return
        lane = replace(lane.answered, alone=lane.cancelled > 0)
        lane = replace(lane, width=self.plan.job.binlog.binlog_sync_point_size)
        if outcome.latest is not None:
            lane = replace(lane, latest=outcome.latest, polled_at=now)
            self.plan.record_ttls.see(lane.key.source_table, lane.shard.name, outcome.latest, now)
        # if other lanes are waiting, register at the rate of idle lanes
        later = many_lanes and now - lane.kept_at < self._idle.many_lanes
        self._targets.note_position(lane)
        if not later and self._targets.register(lane):
            return
        ready = due(lane, now) if lane.has_more and not later else replace(lane, activity=Activity.IDLE, poll_by=now)
        self.lanes[lane.name] = replace(ready, has_more=False)

    def lanes_of(self, table: str) -> Iterable[Lane]:
        return (self.lanes[name] for name in self._names.get(table, ()))

    def line(self, lane: Lane) -> str:
        return line_of(lane.shard.node_id, self._nodes)

    def post(self, handle: Callable[..., None], *arguments: object) -> None:
        self._events.put(lambda: handle(*arguments))

    def fail_table(self, table: str, error: SlotkeeperError, waits: bool = True) -> None:
        """End the loop with an error about a source table; if the job has other tables, end only that table.

        `waits`: wait for tasks that still have lanes of this table.
        """
        name_table(self.plan.whole or self.plan.job, table, error)
        if (
            (self.plan.follows_servers and error.code == OTHER_SERVER)
            or self.plan.release_table is None
            or (not self._names.keys() - {table} and table not in self._released)
        ):
            self._failure = error
        elif table in self._names:
            topology = isinstance(error, Trouble) and error.name is TroubleName.TOPOLOGY_CHANGED
            adopts = topology and self._is_explained_by_nodes(error, table)
            self.other_nodes = error.message if adopts else self.other_nodes
            # a new start adopts the DNs, or names the tables that cannot; while the job is paused, there is none
            if not (adopts or (self.other_nodes and not self.paused)):
                self._release_table(table, error, waits)

    def target_altered(self, table: str, parts: str) -> None:
        """Report an altered target; a sink that has to name all columns is opened again, by a new start."""
        self.plan.altered(f"target of {table}: another session altered its {parts}; it still fits the source")
        if self.plan.job.in_two_parts and not self.paused:
            self.other_nodes = f"the target of {table} was altered"

    def nodes_changed(self, names: set[Shard]) -> None:
        """Record a changed DN set; once no call is in progress and the job is not paused, a new start handles it."""
        sentence = f"the DN set changed: {', '.join(sorted({shard.name for shard in names}))}"
        if self.plan.job.binlog.need_redistribution:
            self.other_nodes = sentence
        else:
            self._failure = trouble(TroubleName.TOPOLOGY_CHANGED, sentence)

    def fail_lane(self, lane: Lane, error: SlotkeeperError) -> None:
        now = self._clock.monotonic()
        since = lane.failing_since if lane.history.failures else now
        failure = Failure.of(error, lane.width)
        history = replace(lane.history, elapsed=now - since)
        decision = retry.decide(failure, history, self._rules, self._clock.random())
        lane = replace(lane, task=0, alone=True, failing_since=since, error=error.message)
        lane = replace(lane, side=error.where, code=error.code)
        lane = replace(lane, history=retry.after(history, failure, self._rules))
        if failure.kind is ErrorKind.LOGIN:
            self._upkeep.login_refused(error.where, lane.history.login)
        match decision:
            case retry.RetryAfter(seconds, _):
                lane = replace(lane, activity=Activity.WAITING, ready_at=now + seconds)
            case retry.Halve(width):
                lane = replace(due(lane, now), width=width)
            case retry.EndQuietly():
                self._failure = error if isinstance(error, Superseded) else Superseded(error.message)
            case retry.Stop(reason):
                error.no_more = reason
                self.fail_table(lane.key.source_table, error)
        if lane.name in self.lanes:
            self.lanes[lane.name] = lane

    def registrar(self, lane: Lane) -> tuple[SourceTable, LaneFence]:
        """Return the sessions that register a lane; no work under another connection name uses them."""
        line, table = self.line(lane), lane.key.source_table
        found = self._registrars.get((table, line))
        if found is None:
            sessions = self._sessions.of(table)
            found = self._registrars[table, line] = (sessions.admin(f"r/{line}"), sessions.rows(f"r/{line}"))
        return found

    def sharing(self, lane: Lane) -> tuple[LaneKey, ...]:
        """Return the lanes of other channels with the same stored position; one connection registers them all."""
        if not lane.registered.shared:
            return ()
        return tuple(one.key for one in self.lanes.values() if one.shard == lane.shard and one.key != lane.key)

    def settle_now(self, name: str) -> None:
        lane = self.lanes[name]
        if lane.activity is Activity.IDLE:
            self.lanes[name] = replace(lane, kept_at=-math.inf)
            self._idle.settle_next(name)

    def retry_sink_lanes(self) -> None:
        self.lanes.update(retry_sink_lanes(self.lanes, self._clock.monotonic()))

    def start_registration(self, lane: Lane, work: Callable[[], Settled]) -> None:
        self.lanes[lane.name] = replace(lane, activity=Activity.REGISTERING)

        def run() -> None:
            began = self._clock.monotonic()
            try:
                settled = work()
            except Exception as error:
                settled = Settled(lane.position, error=errors.classed(error))
            self.post(self._registered, lane.name, settled, self._clock.monotonic() - began)

        self._executor.submit(f"register {self.line(lane)}", run)

    def _registered(self, name: str, settled: Settled, seconds: float) -> None:
        if name not in self.lanes:
            return
        now = self._clock.monotonic()
        lane = replace(self.lanes[name], position=max(settled.position, self.lanes[name].position))
        lane = replace(lane, spent=lane.spent.more(register=seconds))
        if settled.error is not None:
            self._registration_failed(lane, settled)
            return
        self._targets.note_position(lane)
        applied = lane.committed_at is not None and lane.committed_at > lane.kept_at
        if settled.registered is not None:
            self.registrations += 1
            expected = exactly(settled.registered, lane.expected.fingerprint)
            lane = replace(lane, registered=settled.registered, expected=expected, kept_at=now, checked=None)
        lane = lane.answered
        again = settled.waiting or lane.has_later or applied  # a poll shows that nothing waits after the applied rows
        now_due = settled.waiting or (lane.has_more and not self.paused)  # reading a status first would only cost time
        lane = due(lane, now) if now_due else replace(lane, activity=Activity.IDLE)
        self.lanes[name] = replace(lane, has_more=False, poll_by=now + SETTLE_EVERY / 10 if again else None)

    def _registration_failed(self, lane: Lane, settled: Settled) -> None:
        assert settled.error is not None
        sent = settled.sent and not isinstance(settled.error, Trouble | Superseded)
        if sent:
            place = settled.asked or settled.position
            lane = replace(lane, expected=lane.expected.widened(lane.registered.at(place)))
        self.lanes[lane.name] = lane
        self.fail_lane(lane, settled.error)
        if sent and not settled.certain and self._failure is None and lane.name in self.lanes:
            # no status is read while a registration of this job can still take effect (design 4.2)
            ready, failed = self._clock.monotonic() + LOST_ANSWER_WAIT, self.lanes[lane.name]
            self.lanes[lane.name] = replace(
                failed, activity=Activity.WAITING, ready_at=max(failed.ready_at, ready), not_before=ready
            )

    def fail_job(self, error: SlotkeeperError) -> None:
        self._failure = error
