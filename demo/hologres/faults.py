"""What goes wrong at the stand-in for a Hologres on request: at the next pages and messages."""

from __future__ import annotations

import threading
from collections import Counter
from enum import Enum
from typing import TypeVar


class Fault(Enum):
    """What happens to one page of a binlog that is read by SQL."""

    DROP = "the line is cut in the middle of the page"
    TWICE = "the page's records come twice"
    EMPTY = "the page comes without any record"


class StreamFault(Enum):
    """What happens to one message of a binlog's stream that has a record."""

    DROP = "the line is cut in the middle of the message"
    TWICE = "the message comes twice"
    EMPTY = "a message without any record comes before it"
    SPLIT = "it ends with the row before an update, whose row after it comes in the next message"
    LEFT_OUT = "it has rows without a byte, as the server's own filter leaves them"
    VERSION = "it says that its rows are of a newer version of the table, which no catalog has"


_Kind = TypeVar("_Kind", Fault, StreamFault)
FOREIGN_LSN = 9_000_000_000_000_000
"""In the keepalives of a stream: what a Hologres writes there is not documented, so that it must not matter."""


class Faults:
    """Armed faults, limits, and shards that do not answer; thread-safe. `met` counts what has happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: Counter[Enum] = Counter()
        self._hanging: dict[int, threading.Event] = {}
        self.met: Counter[Enum] = Counter()
        self.pages = 0
        """How many pages were asked for."""
        self.messages = 0
        """How many messages with a record were sent."""
        self.streams: list[str] = []
        """The commands that began a stream."""
        self.flushed: set[int] = set()
        """What clients of streams said to have flushed."""
        self.senders: int | None = None
        """How many streams there may be at once; None: as many as are asked for."""
        self.frame_lsn = FOREIGN_LSN
        """In keepalives of streams."""
        self.keepalive_seconds = 0.5
        """Between keepalives, which ask for an answer; a real server has some ten. 0: behind each message."""
        self.running = 0
        """How many streams there are."""
        self.deaf = False
        """Whether what clients say to have flushed moves no slot."""
        self.forward_only = False
        """Whether a slot is never moved back."""
        self.one_reader = False
        """Whether a slot has one stream for each shard at most, as PostgreSQL has one for each slot."""
        self._readers: Counter[tuple[str, int]] = Counter()
        self.ended = threading.Event()

    def arm(self, fault: Enum, times: int = 1) -> None:
        """Let this happen to the next so many pages, or messages, that have a record."""
        with self._lock:
            self._armed[fault] += times

    def disarm(self) -> None:
        """Let nothing that is armed happen."""
        with self._lock:
            self._armed.clear()

    def armed(self, kind: type[Enum] = Fault) -> bool:
        """Whether anything of a kind is."""
        with self._lock:
            return any(left for fault, left in self._armed.items() if isinstance(fault, kind))

    def take(self, kind: type[_Kind]) -> _Kind | None:
        """The fault for a page or a message that has records; None for none."""
        with self._lock:
            for fault, left in self._armed.items():
                if left and isinstance(fault, kind):
                    self._armed[fault] -= 1
                    self.met[fault] += 1
                    return fault
        return None

    def begun(self, command: str) -> bool:
        """Count a stream that begins; whether there may be one more."""
        with self._lock:
            if self.senders is not None and self.running >= self.senders:
                return False
            self.running += 1
            self.streams.append(command)
            return True

    def taken(self, slot: str, shard: int) -> bool:
        """Count a stream of a shard by a slot; whether it may be."""
        with self._lock:
            self._readers[slot, shard] += 1
            return not (slot and self.one_reader and self._readers[slot, shard] > 1)

    def over(self, slot: str, shard: int) -> None:
        """Count a stream that ends."""
        with self._lock:
            self.running -= 1
            self._readers[slot, shard] -= 1

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
