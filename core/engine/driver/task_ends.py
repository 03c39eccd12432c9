"""Ends, at the store, the sessions of tasks that were given up: else their statements go on, and the next try waits.

A cancelled worker is killed, and PostgreSQL 14 and later ends a statement whose client is gone (Connections and
Authentication, client_connection_check_interval), seconds later; an older one, a DWS and a pooler in between let it run
to its end, holding its locks. Nothing rests on this: a session that lives on is fenced by its progress row, as ever. It
runs in a thread of its own, as the server may be the very reason why a task was given up.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from slotkeeper.core.ports.driver import TaskEnds


class TaskSessions:
    """The sessions of the tasks of one loop, or of one copy: `prefix` is what their names begin with."""

    def __init__(self, ends: TaskEnds) -> None:
        self.prefix = ends.task_prefix()
        self._ends = ends
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._under_way = False

    def end(self, *names: str) -> None:
        """End what goes by these names, soon; waits for nobody, and a failure is nobody's."""
        with self._lock:
            self._waiting += filter(None, names)
            if self._under_way or not self._waiting:
                return
            self._under_way = True
        threading.Thread(target=self._run, name="slotkeeper-task-ends", daemon=True).start()

    def _run(self) -> None:
        while names := self._next():
            # not allowed, or no answer: the statement ends by the limit of its own session
            with suppress(Exception):
                self._ends.end_tasks(names)

    def _next(self) -> list[str]:
        """What waits by now; nothing ends the thread."""
        with self._lock:
            names, self._waiting = self._waiting, []
            self._under_way = bool(names)
            return names
