"""The console's background threads: one reads the state store every two seconds, and one per source polls slots.

Slots are polled only while a screen shows them, with one light query per source every two seconds, over one session
that is closed a minute after the user leaves the screen. Polling uses only read calls and creates no slot. An error is
shown as a sentence next to the last values and never raised. The threads are daemons, because a source that does not
answer must not keep the console from exiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.core.config.model import tables

if TYPE_CHECKING:
    from slotkeeper.console.monitor.snapshot import Local
    from slotkeeper.core.clock import Clock
    from slotkeeper.core.config.model import Loaded
    from slotkeeper.core.judgement.facts import SlotSeen
    from slotkeeper.core.slots.status import PollTurn

EVERY = 2.0
RESTING = 15.0
"""Seconds between two reads of the store while the screen is frozen."""
LINGER = 60.0
"""The time in seconds for which a source's session stays open after slots were last shown."""
_SLOWEST = 30.0


class LocalSeen(Message):
    """The state store was read."""

    def __init__(self, local: Local) -> None:
        super().__init__()
        self.local = local

    def can_replace(self, message: Message) -> bool:
        """Return whether a later message makes this one superfluous, if the screen is slower than the reads."""
        return isinstance(message, LocalSeen)


class SlotsSeen(Message):
    """The slots of these tables were polled, or the poll failed."""

    def __init__(self, *tables: TableSeen) -> None:
        super().__init__()
        self.tables = tables


Post = Callable[[Message], object]


class Reads(Protocol):
    """The reader of the state store."""

    def local(self, job: str = "") -> Local:
        """Return the contents of the store, including the errors and log of `job` if it is given."""

    def remember(self, found: list[SlotSeen]) -> None:
        """Record the observed slots, for every console on this host."""

    def close(self) -> None:
        """Close the store."""


class Collector:
    """Reads the store and polls slots in threads. Each result is sent as a message to `post`."""

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
        """Choose the job whose errors and log are read, and whether slots are polled, from the next read on."""
        self._job = job
        if slots:
            self._slots.set()
        else:
            self._slots.clear()

    def now(self) -> None:
        """Read immediately instead of after the interval."""
        self._hurry.set()

    def set_every(self, seconds: float) -> None:
        """Set the interval between reads, from now on."""
        self._every = seconds
        self._hurry.set()

    def rest(self, resting: bool) -> None:
        """Read every `RESTING` seconds from the next read on; when resting ends, read immediately."""
        self._resting = resting
        if not resting:
            self._hurry.set()

    def stop(self) -> None:
        """Stop the threads, each after its current operation."""
        self._ended.set()
        self._hurry.set()
        self._slots.set()

    def _follow_store(self, post: Post) -> None:
        while not self._ended.is_set():
            self._hurry.clear()
            post(LocalSeen(self._reader.local(self._job)))
            self._hurry.wait(max(self._every, RESTING) if self._resting else self._every)
        self._reader.close()

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
            from slotkeeper.console.monitor.health import sights  # loaded only once a source has been queried

            self._reader.remember(sights(seen))
            post(SlotsSeen(*seen))
            failed = min(failed + 1, 10) if any(one.fault for one in seen) else 0
            # a source that does not answer is polled less often
            pause = min(_SLOWEST, self._least * 2**failed) if failed else 0.0
            self._ended.wait(max(self._every, self._least, pause))


class Watched(Protocol):
    """Queries one source for its slots."""

    def turn(self) -> PollTurn:
        """Send one query."""

    def close(self) -> None:
        """End the source's session; a later turn opens another session."""


OpenPoller = Callable[["Loaded", str, "Clock"], Watched]


def opened(loaded: Loaded, source: str, clock: Clock) -> Watched:
    """Return a poller of a source. Its driver is loaded at its first query, not when the console starts."""
    from slotkeeper.core.services.binlog_rows import slot_poller

    return slot_poller(loaded, source, clock)


class SlotPoller:
    """Polls the sources of one configuration; each source is polled by one thread."""

    def __init__(self, loaded: Loaded | None, clock: Clock, open_poller: OpenPoller = opened) -> None:
        self._loaded = loaded
        self._clock = clock
        self._open = open_poller
        self._watches: dict[str, Watched] = {}
        self._took: dict[str, float | None] = {}
        self._seen: dict[tuple[str, str], TableSeen] = {}

    @property
    def places(self) -> list[tuple[str, str]]:
        """The (source, table) pairs that configured jobs read."""
        return tables(self._loaded) if self._loaded else []

    def turn(self, source: str) -> list[TableSeen]:
        """Send one query to a source; return tables with new values or, after an error, all with the last values."""
        mine = [table for its, table in self.places if its == source]
        if self._loaded is None or not mine:
            return []
        is_open, asked_at = source in self._watches, self._clock.monotonic()
        try:
            if not is_open:
                self._watches[source] = self._open(self._loaded, source, self._clock)
            turn = self._watches[source].turn()
            self._took[source] = self._clock.monotonic() - asked_at if is_open else None
        except Exception as error:  # top level of a thread: any error is reported and the query repeated
            return [self._keep(source, table, None, error) for table in mine]
        if turn.everywhere:
            return [self._keep(source, table, None, turn.error) for table in mine]
        return [self._keep(source, turn.table, turn, turn.error)]

    def close(self, source: str) -> None:
        """Close the session in the source."""
        if source in self._watches:
            self._watches[source].close()

    def _keep(self, source: str, table: str, turn: PollTurn | None, error: Exception | None) -> TableSeen:
        from slotkeeper.console.monitor.store_reader import message_of  # already loaded: the store is read first

        kept = self._seen.get((source, table), TableSeen(source, table))
        if turn is not None and turn.seen is not None:
            from slotkeeper.core.sources import registry  # its drivers are already loaded: the source has answered

            one, sources = turn.seen, self._loaded.sources if self._loaded else {}
            manual = registry.open(sources[source].dialect).manual if sources else None
            kept = TableSeen(source, table, one.at, one.slots, one.retained, counted_at=one.counted_at, manual=manual)
        took = self._took.get(source)
        self._seen[source, table] = replace(kept, fault=message_of(error) if error else "", took=took)
        return self._seen[source, table]
