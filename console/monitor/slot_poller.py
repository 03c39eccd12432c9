"""Looks at the slots of source tables for the console, one light question at a time.

Only calls that read; no call creates a slot. What fails becomes a sentence beside the last values, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.core.config.model import tables

if TYPE_CHECKING:
    from slotkeeper.core.clock import Clock
    from slotkeeper.core.config.model import Loaded
    from slotkeeper.core.domain.remedy import ManualSql
    from slotkeeper.core.slots.status import PollTurn


class Watched(Protocol):
    """What asks one source."""

    def turn(self) -> PollTurn:
        """One question."""

    def close(self) -> None:
        """End its session; a later turn opens another one."""


OpenPoller = Callable[["Loaded", str, "Clock"], Watched]


def opened(loaded: Loaded, source: str, clock: Clock) -> Watched:
    """The real one; its drivers are loaded when a source is first asked, not when the console starts."""
    from slotkeeper.core.services.binlog_rows import slot_poller

    return slot_poller(loaded, source, clock)


class SlotPoller:
    """Looks at one configuration's sources; each source is used by one thread."""

    def __init__(self, loaded: Loaded | None, clock: Clock, open_poller: OpenPoller = opened) -> None:
        self._loaded = loaded
        self._clock = clock
        self._open = open_poller
        self._watches: dict[str, Watched] = {}
        self._seen: dict[tuple[str, str], TableSeen] = {}

    @property
    def places(self) -> list[tuple[str, str]]:
        """The (source, table) that configured jobs read."""
        return tables(self._loaded) if self._loaded else []

    def turn(self, source: str) -> list[TableSeen]:
        """One question to a source; the tables of which something is new; the last values where it failed."""
        mine = [table for its, table in self.places if its == source]
        if self._loaded is None or not mine:
            return []
        try:
            if source not in self._watches:
                self._watches[source] = self._open(self._loaded, source, self._clock)
            turn = self._watches[source].turn()
        except Exception as error:  # the top of a thread: whatever it is must be told, and asked again
            return [self._keep(source, table, None, error) for table in mine]
        if turn.everywhere:
            return [self._keep(source, table, None, turn.error) for table in mine]
        return [self._keep(source, turn.table, turn, turn.error)]

    def close(self, source: str) -> None:
        """Give the source's session back."""
        if source in self._watches:
            self._watches[source].close()

    def _keep(self, source: str, table: str, turn: PollTurn | None, error: Exception | None) -> TableSeen:
        from slotkeeper.console.monitor.store_reader import message_of  # loaded by then: the store is read first

        kept = self._seen.get((source, table), TableSeen(source, table))
        if turn is not None and turn.seen is not None:
            one = turn.seen
            manual = self._manual(source)
            kept = TableSeen(source, table, one.at, one.slots, one.retained, counted_at=one.counted_at, manual=manual)
        self._seen[source, table] = replace(kept, fault=message_of(error) if error else "")
        return self._seen[source, table]

    def _manual(self, source: str) -> ManualSql | None:
        from slotkeeper.core.sources import registry  # its drivers are loaded by then: the source has answered

        return registry.open(self._loaded.sources[source].dialect).manual if self._loaded else None
