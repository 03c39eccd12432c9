"""Runs tasks in threads of this process, without Spark, for unit, property and fault tests with the same engine.

The product path is `core.spark.runner`. Next door: `core.ports.driver` has the port.
"""

from __future__ import annotations

import importlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from core.ports.driver import TaskRunner


def function_of(path: str) -> Any:
    """The function that `package.module.function` names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


class LocalRunner:
    """Runs tasks in threads; a task cannot be cancelled here, only left behind."""

    def __init__(self, seats: int = 2) -> None:
        self.seats = max(2, seats)
        self.tasks_started = 0
        self._pool = ThreadPoolExecutor(self.seats * 4, "slotkeeper-task")
        self._lock = threading.Lock()

    def submit(self, function_path: str, spec: object, group: str) -> Future[Any]:
        """Start a task in a thread."""
        with self._lock:
            self.tasks_started += 1
        return self._pool.submit(function_of(function_path), spec)

    def cancel(self, group: str) -> None:
        """Nothing: a thread cannot be ended from outside."""

    def close(self) -> None:
        """Wait for no one: threads end with their task."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class Pooled:
    """A runner of which a job uses at most `size` seats, because each task reads through a source connection."""

    def __init__(self, runner: TaskRunner, size: int) -> None:
        self._runner = runner
        self._size = size

    @property
    def seats(self) -> int:
        """The runner's seats, or the size of the pool where that is less."""
        return max(2, min(self._runner.seats, self._size))

    @property
    def tasks_started(self) -> int:
        """How many tasks were ever started."""
        return self._runner.tasks_started

    def submit(self, function_path: str, spec: object, group: str) -> Future[Any]:
        """Start a task."""
        return self._runner.submit(function_path, spec, group)

    def cancel(self, group: str) -> None:
        """Try to end the tasks of a group."""
        self._runner.cancel(group)

    def close(self) -> None:
        """End all tasks."""
        self._runner.close()
