"""Asks Spark every few seconds how many executors it has, and reports a session that is lost.

The question has a thread of its own, because py4j waits for a silent Java process without a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.cluster import SessionLife

EVERY = 2.0
"""Seconds between two questions."""


class SessionWatch:
    """Two threads, from `start` to `stop`; `lost` is called once, with the reason."""

    def __init__(self, executors: Callable[[], int], lost: Callable[[str], None], clock: Clock) -> None:
        self._executors, self._lost, self._clock = executors, lost, clock
        self._answer: int | None = None
        self._done = threading.Event()

    def start(self) -> None:
        """Start asking."""
        for each in (self._ask, self._judge):
            threading.Thread(target=each, name="slotkeeper-session", daemon=True).start()

    def stop(self) -> None:
        """Stop asking; does not wait for a question that hangs."""
        self._done.set()

    def _ask(self) -> None:
        while not self._done.is_set():
            with suppress(Exception):  # no answer: of a process that has ended, or a context that was stopped
                self._answer = self._executors()
            self._done.wait(EVERY)

    def _judge(self) -> None:
        life, before = SessionLife(), self._clock.monotonic()
        while not self._done.wait(EVERY):
            now = self._clock.monotonic()
            answer, self._answer = self._answer, None
            # A gap between two turns is time in which this process did not run either: it proves nothing of Spark.
            life, before = life.after(min(now - before, 2 * EVERY), answer), now
            if life.lost:
                self._lost(life.lost)
                return
