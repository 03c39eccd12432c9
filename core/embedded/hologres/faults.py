"""What goes wrong at the stand-in for a Hologres on request, at the next pages that are read. Next door: `proxy.py`."""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum


class Fault(Enum):
    """What happens to one page of a binlog."""

    DROP = "the line is cut in the middle of the page"
    TWICE = "the page's records come twice"
    EMPTY = "the page comes without any record"


class Faults:
    """Armed faults, and shards that do not answer; thread-safe. `met` counts what has happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Counter[Fault] = Counter()
        self._hanging: dict[int, threading.Event] = {}
        self.met: Counter[Fault] = Counter()
        self.pages = 0
        """How many pages were asked for."""
        self.ended = threading.Event()

    def arm(self, fault: Fault, times: int = 1) -> None:
        """Let this happen to the next so many pages that have a record."""
        with self._lock:
            self._armed[fault] += times

    def armed(self) -> bool:
        """Whether anything is."""
        with self._lock:
            return any(self._armed.values())

    def take(self) -> Fault | None:
        """The fault for a page that has records; None for none."""
        with self._lock:
            for fault, left in self._armed.items():
                if left:
                    self._armed[fault] -= 1
                    self.met[fault] += 1
                    return fault
        return None

    def hang(self, shard: int) -> None:
        """Let whatever is asked of a shard's binlog wait."""
        with self._lock:
            self._hanging.setdefault(shard, threading.Event())

    def release(self) -> None:
        """Let all shards answer again."""
        with self._lock:
            hanging, self._hanging = self._hanging, {}
        for event in hanging.values():
            event.set()

    def wait(self, shard: int) -> None:
        """Return once a shard answers."""
        with self._lock:
            event = self._hanging.get(shard)
        while event is not None and not event.wait(0.2) and not self.ended.is_set():
            continue
