"""Faults of the Hologres stand-in on request: they affect the next pages and messages."""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum
from typing import TypeVar


class Fault(Enum):
    """A fault in one page of a binlog that is read with SQL."""

    DROP = "the connection is cut in the middle of the page"
    TWICE = "the page's records are sent twice"
    EMPTY = "the page is sent without records"


class StreamFault(Enum):
    """A fault in one stream message that contains a record."""

    DROP = "the connection is cut in the middle of the message"
    TWICE = "the message is sent twice"
    EMPTY = "a message without records is sent before it"
    SPLIT = "the message ends with the before-row of an update; the after-row is in the next message"
    LEFT_OUT = "the message has empty rows, as after the server's own filter"
    VERSION = "the rows have a newer table version that is in no catalog"


_Kind = TypeVar("_Kind", Fault, StreamFault)
FOREIGN_LSN = 9_000_000_000_000_000
"""LSN in a stream's keepalives: Hologres does not document it, so a reader must not depend on it."""


class Faults:
    """Armed faults, limits, and shards that do not answer; thread-safe. `met` counts the faults that have occurred."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Counter[Enum] = Counter()
        self._hanging: dict[int, threading.Event] = {}
        self.met: Counter[Enum] = Counter()
        self.pages = 0
        """Number of requested pages."""
        self.messages = 0
        """Number of sent messages that contain a record."""
        self.streams: list[str] = []
        """Commands that started a stream."""
        self.flushed: set[int] = set()
        """LSNs that streams' clients reported as flushed."""
        self.senders: int | None = None
        """Maximum number of parallel streams; None: unlimited."""
        self.frame_lsn = FOREIGN_LSN
        """LSN in keepalives of streams."""
        self.keepalive_seconds = 0.5
        """Seconds between keepalives that request an answer; about ten in a real server. 0: one after each message."""
        self.running = 0
        """Number of open streams."""
        self.deaf = False
        """If true, a report of flushed LSNs does not move the slot."""
        self.forward_only = False
        """If true, a slot never moves back."""
        self.one_reader = False
        """If true, a slot has at most one stream per shard, as a PostgreSQL slot has at most one."""
        self._readers: Counter[tuple[str, int]] = Counter()
        self.ended = threading.Event()

    def arm(self, fault: Enum, times: int = 1) -> None:
        """Arm this fault for the next pages or messages that contain a record."""
        with self._lock:
            self._armed[fault] += times

    def disarm(self) -> None:
        """Disarm all faults."""
        with self._lock:
            self._armed.clear()

    def armed(self, kind: type[Enum] = Fault) -> bool:
        """Whether any fault of a kind is armed."""
        with self._lock:
            return any(left for fault, left in self._armed.items() if isinstance(fault, kind))

    def take(self, kind: type[_Kind]) -> _Kind | None:
        """Return the fault for a page or a message that has records, or None."""
        with self._lock:
            for fault, left in self._armed.items():
                if left and isinstance(fault, kind):
                    self._armed[fault] -= 1
                    self.met[fault] += 1
                    return fault
        return None

    def begun(self, command: str) -> bool:
        """Count a stream that starts; return False if it would exceed the limit."""
        with self._lock:
            if self.senders is not None and self.running >= self.senders:
                return False
            self.running += 1
            self.streams.append(command)
            return True

    def taken(self, slot: str, shard: int) -> bool:
        """Count a stream of a shard that uses a slot; return whether it is allowed."""
        with self._lock:
            self._readers[slot, shard] += 1
            return not (slot and self.one_reader and self._readers[slot, shard] > 1)

    def over(self, slot: str, shard: int) -> None:
        """Count a stream that ends."""
        with self._lock:
            self.running -= 1
            self._readers[slot, shard] -= 1

    def hang(self, shard: int) -> None:
        """Make every request for a shard's binlog wait."""
        with self._lock:
            self._hanging.setdefault(shard, threading.Event())

    def release(self) -> None:
        """Let all shards answer again."""
        with self._lock:
            hanging, self._hanging = self._hanging, {}
        for event in hanging.values():
            event.set()

    def wait(self, shard: int) -> None:
        """Wait until a shard answers."""
        with self._lock:
            event = self._hanging.get(shard)
        while event is not None and not event.wait(0.2) and not self.ended.is_set():
            continue
