"""The background of the console: one thread reads the state store every two seconds; one per source looks at slots.

Slots are looked at only while their screen asks for them, one table of a source at a time and at most once per two
seconds and source. Threads are daemons: a source that does not answer must not keep the console from ending.
Next door: `console.reader` reads the store, `console.looker` looks at sources; `console.app` gets the messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from textual.message import Message

from console.looker import Looker
from console.picture import Local, TableSeen
from console.reader import Reader

EVERY = 2.0
_SLOWEST = 30.0


class LocalSeen(Message):
    """The state store was read."""

    def __init__(self, local: Local) -> None:
        super().__init__()
        self.local = local


class SlotsSeen(Message):
    """The slots of one table were looked at, or could not be."""

    def __init__(self, table: TableSeen) -> None:
        super().__init__()
        self.table = table


Post = Callable[[Message], object]


class Feed(Protocol):
    """What the app needs of a collector; tests give one without threads."""

    def start(self, post: Post) -> None:
        """Begin to collect; messages go to `post`."""

    def want(self, job: str, slots: bool) -> None:
        """Whose errors and log are shown now, and whether slots are."""

    def now(self) -> None:
        """Read the store again now; slots keep to their interval."""

    def stop(self) -> None:
        """Collect no more."""


class Collector:
    """The feed over real threads."""

    def __init__(self, reader: Reader, looker: Looker, every: float = EVERY) -> None:
        self._reader = reader
        self._looker = looker
        self._every = every
        self._job = ""
        self._slots = threading.Event()
        self._hurry = threading.Event()
        self._ended = threading.Event()

    def start(self, post: Post) -> None:
        """Start the threads."""
        sources = sorted({source for source, _ in self._looker.places})
        threading.Thread(target=self._follow_store, args=(post,), name="slotkeeper-store", daemon=True).start()
        for source in sources:
            threading.Thread(
                target=self._follow_slots, args=(source, post), name=f"slotkeeper-slots-{source}", daemon=True
            ).start()

    def want(self, job: str, slots: bool) -> None:
        """Obeyed from the next reading on."""
        self._job = job
        if slots:
            self._slots.set()
        else:
            self._slots.clear()

    def now(self) -> None:
        """Do not wait for the interval."""
        self._hurry.set()

    def stop(self) -> None:
        """The threads end with what they are doing."""
        self._ended.set()
        self._hurry.set()
        self._slots.set()

    def _follow_store(self, post: Post) -> None:
        while not self._ended.is_set():
            self._hurry.clear()
            post(LocalSeen(self._reader.local(self._job)))
            self._hurry.wait(self._every)
        self._reader.close()

    def _follow_slots(self, source: str, post: Post) -> None:
        tables = [table for its, table in self._looker.places if its == source]
        seen: dict[str, TableSeen] = {}
        turn = 0
        while True:
            self._slots.wait()
            if self._ended.is_set():
                return
            table = tables[turn % len(tables)]
            turn += 1
            began = time.monotonic()
            seen[table] = self._looker.table(source, table, seen.get(table))
            post(SlotsSeen(seen[table]))
            taken = time.monotonic() - began
            # a source that answers slowly or not at all is asked less often
            pause = min(_SLOWEST, taken * 2) if seen[table].fault else 0.0
            self._ended.wait(max(self._every, pause))
