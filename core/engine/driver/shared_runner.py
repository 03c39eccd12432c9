"""One runner for the tables that stream together and those that go on alone: each sees its share of the capacity."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.ports.driver import TaskRunner


@dataclass
class SharedRunner:
    """The share of those that are together: all of it but half at most for the tables `beside`."""

    whole: TaskRunner
    beside: int = 0

    @property
    def capacity(self) -> int:
        """How many tasks can run at once."""
        return max(1, self.whole.capacity - min(self.beside, self.whole.capacity // 2))

    @property
    def tasks_started(self) -> int:
        """How many tasks were ever started."""
        return self.whole.tasks_started

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        """Start a task."""
        return self.whole.submit(entry, spec, group)

    def cancel(self, group: str) -> None:
        """Try to end the tasks of a group."""
        self.whole.cancel(group)

    def close(self) -> None:
        """End all tasks."""
        self.whole.close()

    def apart(self, table: str) -> TaskRunner:
        """The share of a table that goes on alone; its groups of tasks have names of their own."""
        return _Apart(self, table)


@dataclass
class _Apart:
    shared: SharedRunner
    table: str

    @property
    def capacity(self) -> int:
        return max(1, self.shared.whole.capacity // 2 // max(1, self.shared.beside))

    @property
    def tasks_started(self) -> int:
        return self.shared.tasks_started

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        return self.shared.submit(entry, spec, f"{self.table}/{group}")

    def cancel(self, group: str) -> None:
        self.shared.cancel(f"{self.table}/{group}")

    def close(self) -> None:
        """Nothing: the runner is the job's."""
