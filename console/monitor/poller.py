"""The background of the console: one thread reads the state store every two seconds; one per source looks at slots.

Slots are looked at only while their screen asks for them: one question per two seconds and source, over one session
that is given back a minute after that screen was left. Threads are daemons: a source that does not answer must not keep
the console from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

if TYPE_CHECKING:
    from slotkeeper.console.monitor.slot_poller import SlotPoller
    from slotkeeper.console.monitor.snapshot import Local, TableSeen
    from slotkeeper.core.judgement.facts import SlotSeen

EVERY = 2.0
RESTING = 10.0
"""So often the store is read while the screen stands still."""
LINGER = 60.0
"""So long a source's session is kept after slots were last shown."""
_SLOWEST = 30.0


class LocalSeen(Message):
    """The state store was read."""

    def __init__(self, local: Local) -> None:
        super().__init__()
        self.local = local


class SlotsSeen(Message):
    """The slots of these tables were looked at, or could not be."""

    def __init__(self, *tables: TableSeen) -> None:
        super().__init__()
        self.tables = tables


Post = Callable[[Message], object]


class Reads(Protocol):
    """What reads the state store."""

    def local(self, job: str = "") -> Local:
        """What it says; with errors and log of one job where it is named."""

    def remember(self, found: list[SlotSeen]) -> None:
        """What was seen of slots, for everybody on this machine."""

    def close(self) -> None:
        """Give it back."""


class Collector:
    """Collects over threads; messages go to `post`."""

    def __init__(self, reader: Reads, slot_poller: SlotPoller, every: float = EVERY, linger: float = LINGER) -> None:
        self._reader = reader
        self._slot_poller = slot_poller
        self._every = every
        self._least = every
        self._linger = linger
        self._job = ""
        self._resting = False
        self._slots = threading.Event()
        self._hurry = threading.Event()
        self._ended = threading.Event()

    def start(self, post: Post) -> None:
        """Start the threads."""
        sources = sorted({source for source, _ in self._slot_poller.places})
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

    def set_every(self, seconds: float) -> None:
        """Obeyed at once."""
        self._every = seconds
        self._hurry.set()

    def rest(self, resting: bool) -> None:
        """Obeyed from the next reading on; the end of a rest at once."""
        self._resting = resting
        if not resting:
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
            self._hurry.wait(max(self._every, RESTING) if self._resting else self._every)
        self._reader.close()

    def _remember(self, seen: list[TableSeen]) -> None:
        from slotkeeper.console.monitor.sights import sights  # its modules are loaded by then: a source has been asked

        self._reader.remember(sights(seen))

    def _follow_slots(self, source: str, post: Post) -> None:
        failed = 0
        while True:
            if not self._slots.wait(self._linger):
                self._slot_poller.close(source)
                self._slots.wait()
            if self._ended.is_set():
                self._slot_poller.close(source)
                return
            seen = self._slot_poller.turn(source)
            self._remember(seen)
            post(SlotsSeen(*seen))
            failed = min(failed + 1, 10) if any(one.fault for one in seen) else 0
            # a source that does not answer is asked less often
            pause = min(_SLOWEST, self._least * 2**failed) if failed else 0.0
            self._ended.wait(max(self._every, self._least, pause))
