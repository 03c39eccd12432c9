"""Task runners: a runner that uses threads instead of Spark, and views that use a part of a runner's capacity.

Unit, property and fault tests run the same engine with threads; production uses `slotkeeper.core.spark.runner`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from slotkeeper.core.ports.driver import TaskRunner


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
        """Start a task in a thread; its future ends with CancelledError if its group is cancelled first."""
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
    """A part of a runner's capacity: `capacity` computes it from the runner's capacity; the names of its task groups
    start with `prefix`."""

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
