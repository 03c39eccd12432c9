"""Looks at the slots of a job's tables every few seconds, and leaves in the state store until when each is kept.

By the same answers the driver knows how far the source's clock is from ours.

So that everybody on this machine tells the same of a slot, also with no console open and after the job has ended. It
reads, and nothing else; what fails here the job itself is told as well.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded, owners
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.services.binlog_rows import slot_poller
from slotkeeper.core.slots.status import StatusPoller, sights
from slotkeeper.core.spark.narrator import StoreNarrator
from slotkeeper.core.state import slots_seen
from slotkeeper.core.state.sqlite import Store

EVERY = 1.5
"""Seconds between two looks: a table's points, or its unread rows. What comes between two looks at one table's points
is told within five seconds, also where the look between them counts."""


class SlotWatch:
    """One thread, from `start` to `stop`; it asks nothing before the job has come so far that its slots are there."""

    def __init__(self, loaded: Loaded, job: JobSpec, store: Store, narrator: StoreNarrator) -> None:
        self._every = loaded
        self._loaded = replace(loaded, jobs={job.name: job}, refused={})
        self._clock = SystemClock()
        self._source = job.source.name
        self._store = store
        self._narrator = narrator
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll_on, name="slotkeeper-slots", daemon=True)

    def start(self) -> None:
        """Begin looking."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that hangs is left behind, its thread is no reason to wait."""
        self._done.set()
        self._thread.join(0.5)

    def _poll_on(self) -> None:
        poller: StatusPoller | None = None
        while not self._done.wait(EVERY):
            with suppress(SlotkeeperError, OSError):
                if self._narrator.streams:
                    poller = poller or slot_poller(self._loaded, self._source, self._clock)
                    self._poll(poller)
        with suppress(SlotkeeperError, OSError):
            if poller is not None:
                poller.close()

    def _poll(self, poller: StatusPoller) -> None:
        turn = poller.turn()
        if turn.seen is not None and turn.error is None and not self._done.is_set():
            self._narrator.clock_apart(turn.seen.clock_apart)
            others = owners(self._every, self._source, turn.table)
            seen = sights(self._source, turn.table, turn.seen.at, turn.seen.slots, turn.seen.retained, others)
            slots_seen.put(self._store, seen, knows_all=False)
