"""A crowd of lanes for the real loop and the real tasks, with a source and a sink that only count.

Not real: the cost of a step (`step` seconds of waiting), and the endless supply of changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, NoReturn, cast

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.position import Kept
from slotkeeper.core.domain.progress import Activity, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.engine.driver.context import StreamPlan
from slotkeeper.core.engine.driver.job import lane_of
from slotkeeper.core.engine.driver.loop import Loop
from slotkeeper.core.engine.tasks import StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.ports.driver import LaneFence
from slotkeeper.core.ports.sink import StepSink, Top
from slotkeeper.core.ports.source import NEUTRAL, Confirmation, Inspector, Slot, Source, SourceTable
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours, points_of
from slotkeeper.core.sources.dws.source import confirm

STATUS_LIMIT = 2.0
"""The delay that a hanging DN causes for each check of it, as in `slotkeeper.core.sources.dws.session`."""


IDLE = 0.05
"""Seconds of an interval without any step that count in full. A longer interval counts a tenth, because then the host
and not the loop delays the tasks.
"""


class WorkClock(SystemClock):
    """A clock that counts work done, so that other load on the host changes nothing.

    A second has passed when every pair of sessions has taken a second's worth of steps; while no step is under way, the
    host's time counts.
    """

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd

    def monotonic(self) -> float:
        return self._crowd.now()


@dataclass
class Crowd:
    """`names` are the lanes; each always has another change to apply. `slow` lanes take ten times as long a step,
    `hanging` ones never answer. `done` counts steps per lane, `sessions` has the numbers of the pairs of sessions that
    tasks got. Implements the sessions of a loop and its task runner.
    """

    names: list[str]
    step: float
    capacity: int = 2
    slow: frozenset[str] = frozenset()
    hanging: frozenset[str] = frozenset()
    parallel: int = 3
    pool: int = 5
    done: dict[str, int] = field(default_factory=dict)
    tasks_started: int = 0
    sessions: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shards = {name: Shard(name, number) for number, name in enumerate(self.names, 1)}
        self.rows_ = {name: self._row(name) for name in self.names}
        self.done = dict.fromkeys(self.names, 0)
        self.over = threading.Event()
        self.clock: Clock = WorkClock(self)
        self._work = self._idle = 0.0
        self._under_way, self._idle_since = 0, time.monotonic()
        self._pool = ThreadPoolExecutor(self.capacity, "place")
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds of work done, see `WorkClock`."""
        with self._lock:
            gap = time.monotonic() - self._idle_since if not self._under_way else 0.0
            return self._work + self._idle + _counted(gap)

    def _begins(self) -> None:
        with self._lock:
            if not self._under_way:
                self._idle += _counted(time.monotonic() - self._idle_since)
            self._under_way += 1

    def _ends(self, seconds: float) -> None:
        self._work += seconds / (self.capacity * max(self.sessions))
        self._under_way -= 1
        self._idle_since = time.monotonic()

    @property
    def job(self) -> JobSpec:
        end = Endpoint("none", "localhost", 1, "none", "none")
        options = BinlogOptions(
            binlog=True,
            binlog_parallel_num=self.parallel,
            connection_pool_size=self.pool,
            check_node_change_interval=3_600_000,
        )
        return JobSpec("crowd", end, end, "s", (ChannelSpec("ods.t", "mart.t"),), binlog=options)

    def loop(self, task_seconds: float, tick: Any) -> Loop:
        """Slotkeeper's loop over this crowd; it stops once `over` is set."""
        lanes = {name: lane_of(row, 1, self.now()) for name, row in self.rows_.items()}
        plan = StreamPlan(self.job, 1, 3_600.0, task_seconds=task_seconds)
        wanted = lambda: WantedState.STOP if self.over.is_set() else WantedState.RUN  # noqa: E731
        return Loop(plan, lanes, self, self, _not_called, self.clock, wanted, tick, nothing)

    def _row(self, name: str) -> ProgressRow:
        key, registered = LaneKey("none", "ods.t", "s", name), SyncPoints(1, 1, 1)
        at = DwsPosition(1, None)
        return ProgressRow(
            key, self.shards[name].node_id, "", DwsPosition(1), 1, 0, LaneState.RUNNING, at, at, "", "i", registered
        )

    # -- the task runner

    def submit(self, entry: Any, spec: object, group: str) -> Future[Any]:
        assert isinstance(spec, StreamTask)
        self.tasks_started += 1
        self.sessions.add(spec.parallel)
        ones = [(cast(Source, One(self)), cast(StepSink, One(self))) for _ in range(spec.parallel)]
        pairs = [lambda table, one=one: one for one in ones]
        return self._pool.submit(entries.stream_lanes, spec, pairs, self.clock, nothing)

    def cancel(self, group: str) -> None: ...

    def close(self) -> None:
        self.over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- the driver's sessions

    def of(self, table: str) -> Crowd:
        return self

    def source(self, name: str) -> Source:
        return cast(Source, One(self))

    def admin(self, name: str) -> SourceTable:
        one = One(self)
        return SourceTable(cast(Source, one), cast(Slot, one), cast(Inspector, one), NEUTRAL)

    def rows(self, name: str) -> LaneFence:
        return cast(LaneFence, One(self))

    def know_columns(self, known: Sequence[Column]) -> None: ...

    def log_in(self, where: str) -> None:
        """No password is requested."""

    # -- both servers

    def read_status(self, shard: Shard) -> SlotStatus:
        if shard.name in self.hanging:
            self.over.wait(STATUS_LIMIT)
            raise Unreachable(f"{shard.name} does not answer", where="source").after_limit()
        row = self.rows_[shard.name]
        assert row.registered is not None and row.position is not None
        return SlotStatus(shard, row.registered, DwsPosition(row.position.pair[0] + 1, None, 1), "i")

    def seconds(self, name: str) -> float:
        """Return the time that a step of this lane should take."""
        return self.step * (10 if name in self.slow else 1)

    def commit(self, name: str, new: DwsPosition) -> None:
        with self._lock:
            self._ends(self.seconds(name))
            self.rows_[name] = replace(self.rows_[name], position=new, changes=self.rows_[name].changes + 1)
            self.done[name] += 1

    def registered(self, name: str, values: Kept) -> None:
        with self._lock:
            self.rows_[name] = replace(self.rows_[name], registered=values)


@dataclass
class Lock:
    row: ProgressRow
    record: Any
    others: tuple[ProgressRow, ...] = ()


class One:
    """One session to either end; a sink's session counts the rows that it stages."""

    shown_as = ""
    cleared_for = 1
    generation = 1
    encoding = Encoding.COPY_TEXT
    sweeps = None
    joint_status = True

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        wanted = [shard] if shard else list(self._crowd.shards.values())
        return [self._crowd.read_status(one) for one in wanted]

    def nodes(self) -> list[Shard]:
        return list(self._crowd.shards.values())

    def has_changes(self, shard: Shard, after: DwsPosition, up_to: DwsPosition) -> bool:
        return True

    def xmin_at(self, shard: Shard, point: int) -> int:
        return 1

    def next_range(self, after: DwsPosition, status: SlotStatus, width: int, begins: bool = False) -> DwsPosition:
        return ours(status.latest)

    def reached(
        self, after: DwsPosition, up_to: DwsPosition | None, top: Top | None, status: SlotStatus
    ) -> DwsPosition:
        return DwsPosition(up_to.point) if up_to else ours(status.latest).from_here

    def confirm(self, first: SlotStatus, asked: Confirmation) -> SyncPoints:
        return confirm(self, first, asked)

    def copy_changes(self, shard: Shard, after: DwsPosition, up_to: DwsPosition, out: BinaryIO) -> int:
        self._crowd._begins()
        self._crowd.over.wait(self._crowd.seconds(shard.name))
        out.write(b"one\n")
        return 1

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        kept = self._crowd.rows_[shard.name].registered
        assert kept is not None
        old = points_of(kept)
        new = replace(old, durable=point) if checkpoint else replace(old, live=point)
        self._crowd.registered(shard.name, new)
        return 1

    def end_sessions(self, pattern: str = "") -> bool:
        return True

    def read_row(self, key: LaneKey) -> ProgressRow:
        return self._crowd.rows_[key.shard]

    def rows(self) -> list[ProgressRow]:
        return list(self._crowd.rows_.values())

    @contextmanager
    def registration(self, key: LaneKey, epoch: int, others: tuple[LaneKey, ...] = ()) -> Iterator[Lock]:
        yield Lock(self.read_row(key), lambda kept, seen: None)

    def stage(self, reader: BinaryIO) -> int:
        return len(reader.read().splitlines())

    def top(self, up_to: int) -> Top:
        return Top(up_to, 0)

    def commit(self, key: LaneKey, epoch: int, after: DwsPosition, new: DwsPosition, rows: int) -> bool:
        self._crowd.commit(key.shard, new)
        return True

    def abandon(self) -> None: ...

    def close(self) -> None: ...


@dataclass
class Waits:
    """The figures of a loop's tick: the longest wait of any lane except `but`, including waits that have not ended.

    It ends the loop after this number of turns of every lane, or once a lane has waited for `limit` seconds of the
    crowd's clock.
    """

    crowd: Crowd
    turns: int
    limit: float
    but: frozenset[str] = frozenset()
    longest: float = 0.0

    def __call__(self, loop: Loop) -> None:
        now = self.crowd.now()
        sound = [lane for name, lane in loop.lanes.items() if name not in self.but]
        self.longest = max([self.longest, *(_waiting(lane, now) for lane in sound)])
        if self.longest > self.limit or all(self.crowd.done[lane.key.shard] >= self.turns for lane in sound):
            self.crowd.over.set()


def _not_called(task: StreamTask) -> NoReturn:
    raise AssertionError("the crowd takes a task's steps itself")


def _counted(gap: float) -> float:
    return min(gap, IDLE) + max(0.0, gap - IDLE) / 10


def _waiting(lane: Lane, now: float) -> float:
    return max(lane.waited, now - lane.since if lane.activity is Activity.DUE else 0.0)
