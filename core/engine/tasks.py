"""The inputs and results of tasks, and the runners that run tasks.

Messages are frozen, picklable values without secrets or connections. Unit, property and fault tests run the same engine
with threads; production uses `slotkeeper.core.spark.runner`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotkeeper.core.domain.copy_limit import NO_LIMIT, CopyLimit
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import Expected
from slotkeeper.core.errors import ErrorValues
from slotkeeper.core.ports.driver import TaskRunner
from slotkeeper.core.ports.source import Chunk


@dataclass(frozen=True, slots=True)
class LaneTask:
    """A lane of a task: a source table on a DN. The position is not sent: the task reads it from the progress row."""

    table: str
    shard: Shard
    expected: Expected
    width: int
    again: bool = False
    """Whether the task also copies planned chunks of the table again (ADR 98)."""


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Lanes that one task processes in turn for at most `seconds`, `parallel` of them at once.

    `group` names the tables that stream together: a worker retains sessions per group. `session` is the unique name of
    the task's store sessions, "" if none is needed; `feed` is the address of the job's shared reader, "" without one.
    """

    job: JobSpec
    epoch: int
    lanes: tuple[LaneTask, ...]
    seconds: float
    parallel: int = 1
    group: str = ""
    session: str = ""
    feed: str = ""


@dataclass(frozen=True, slots=True)
class LaneOutcome:
    """A task's result for one lane.

    `position`: the last known committed position, None if none was read. `latest`: the newest position in the last
    status. `changes` and `repeats`: the counts in the lane's progress row, including earlier tasks (0: not read).
    `rows`: the rows of this task. `waited`: seconds from the task's start to the lane's first turn, None if it had no
    turn.
    """

    table: str
    shard: Shard
    position: Position | None = None
    steps: int = 0
    rows: int = 0
    changes: int = 0
    repeats: int = 0
    latest: Position | None = None
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    error: ErrorValues | None = None
    waited: float | None = None
    delayed: str = ""
    """Why a planned chunk was not copied again by this task; "" if no such attempt failed."""


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """A task's outcomes by lane; `idle`: the task ended because all lanes were quiet, not at its deadline.

    `peak_kib`: the worker's peak resident memory, in KiB (0: unknown). `seconds`: the task's duration on the worker.
    `load`: the number of pairs of sessions that it kept busy; less than its pairs only if the sink can commit steps of
    several lanes together, and lanes can therefore share a pair.
    """

    lanes: tuple[LaneOutcome, ...]
    peak_kib: int = 0
    idle: bool = False
    seconds: float = 0.0
    load: float = 1.0


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Chunks of one channel that one task copies, each in its own transaction; `job` contains only that channel.

    `session`: see `StreamTask`. `limit`, `parts` and `credit`: see `Pace`.
    """

    job: JobSpec
    epoch: int
    chunks: tuple[Chunk, ...]
    copying: str
    seconds: float
    group: str = ""
    session: str = ""
    limit: CopyLimit = NO_LIMIT
    parts: float = 1.0
    credit: float = 0.0


@dataclass(frozen=True, slots=True)
class CopyOutcome:
    """Numbers of finished chunks, and copied rows; `refused`: a chunk was not free (another run has taken over).

    `spent`: the seconds of a limited copy's budget that the task has used, including a chunk that failed.
    """

    done: tuple[int, ...]
    rows: int
    refused: bool = False
    error: ErrorValues | None = None
    peak_kib: int = 0
    spent: float = 0.0


@dataclass(frozen=True, slots=True)
class ViewsTask:
    """Builds of views, and rounds until no change waits, for at most `seconds` (a build takes as long as it needs).

    `session`: the name of its session at the sink.
    """

    job: JobSpec
    epoch: int
    builds: tuple[str, ...]
    seconds: float
    session: str


@dataclass(frozen=True, slots=True)
class ViewsOutcome:
    """The rounds that had changes, and the changes that they applied; `error`: why the task ended early.

    `locked`: a build waited in vain for a lock.
    """

    rounds: int = 0
    applied: int = 0
    error: ErrorValues | None = None
    locked: bool = False


class LocalRunner:
    """Runs tasks in threads; a cancelled task is abandoned and can still commit; the fence makes this harmless."""

    def __init__(self, capacity: int = 2) -> None:
        self.capacity = max(2, capacity)
        self.tasks_started = 0
        self._pool = ThreadPoolExecutor(self.capacity * 4, "slotkeeper-task")
        self._lock = threading.Lock()
        self._live: dict[Future[Any], str] = {}
        self.left_behind = 0
        """The number of cancelled tasks that have not ended yet and still hold their sessions."""

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self.tasks_started += 1
            self._live[future] = group
        self._pool.submit(entry, spec).add_done_callback(partial(self._ended, future))
        return future

    def _ended(self, future: Future[Any], task: Future[Any]) -> None:
        if not self._take(future):
            with self._lock:
                self.left_behind -= 1
            return
        error = CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def _take(self, future: Future[Any]) -> bool:
        with self._lock:
            return self._live.pop(future, None) is not None

    def cancel(self, group: str) -> None:
        """Abandon the tasks of a group, because a thread cannot be ended from outside."""
        with self._lock:
            found = [future for future, known in self._live.items() if known == group]
        for future in found:
            if self._take(future):
                with self._lock:
                    self.left_behind += 1
                future.set_exception(CancelledError())

    def close(self) -> None:
        """Return without waiting: each thread ends with its task."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Part:
    """A part of a runner's capacity, which `capacity` computes; the names of its task groups start with `prefix`."""

    def __init__(self, runner: TaskRunner, capacity: Callable[[int], int], prefix: str = "") -> None:
        self._runner, self._capacity, self._prefix = runner, capacity, prefix

    @property
    def capacity(self) -> int:
        return self._capacity(self._runner.capacity)

    @property
    def tasks_started(self) -> int:
        return self._runner.tasks_started

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        return self._runner.submit(entry, spec, self._prefix + group)

    def cancel(self, group: str) -> None:
        self._runner.cancel(self._prefix + group)

    def close(self) -> None:
        if not self._prefix:  # with a prefix, the runner belongs to the job
            self._runner.close()


class Pooled(_Part):
    """A view of a runner with a capacity of at most `size`, because each task reads over a source connection."""

    def __init__(self, runner: TaskRunner, size: int) -> None:
        super().__init__(runner, lambda there: max(2, min(there, size)))


class SharedRunner(_Part):
    """The joint tables' share of a runner: its capacity minus at most half of it for the `beside` separate tables."""

    def __init__(self, whole: TaskRunner, beside: int = 0) -> None:
        super().__init__(whole, lambda there: max(1, there - min(self.beside, there // 2)))
        self.beside = beside

    def apart(self, table: str) -> TaskRunner:
        """Return a separate table's share of the runner; its task groups have their own names."""
        return _Part(self._runner, lambda there: max(1, there // 2 // max(1, self.beside)), f"{table}/")
