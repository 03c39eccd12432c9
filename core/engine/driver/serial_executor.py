"""Work of the driver in threads: one piece at a time on a line, and lines never wait for each other.

A line stands for one session, so that lanes may share it: without that a job with many lanes would hold a session for
each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Work = Callable[[], None]

SHARED_FROM = 16
"""A job whose table lies on more DNs than this has so many lines per kind, each for several DNs."""


class SerialExecutor:
    """Lines come into being by their names; `most` is how many of them there will be."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "slotkeeper-driver")
        self._waiting: dict[str, deque[Work]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, line: str, work: Work) -> None:
        """Do it once everything that was given to the line before is done; after `close` never."""
        with self._lock:
            if line in self._waiting:
                self._waiting[line].append(work)
            elif not self._closed:
                self._waiting[line] = deque()
                self._pool.submit(self._go, line, work)

    def close(self) -> None:
        """Begin nothing more; what is under way is left behind."""
        with self._lock:
            self._closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _go(self, line: str, work: Work) -> None:
        try:
            work()
        finally:
            with self._lock:
                waiting = self._waiting[line]
                if self._closed or not waiting:
                    del self._waiting[line]
                else:
                    self._pool.submit(self._go, line, waiting.popleft())


def line_of(node_id: int, nodes: int) -> str:
    """The line of a DN among so many: its own, or one that it shares.

    >>> line_of(-7, 4), line_of(-7, 64)
    ('-7', '9')
    """
    return str(node_id if nodes <= SHARED_FROM else node_id % SHARED_FROM)
