"""Looks at the slots of source tables for the console.

Only calls that read; no call creates a slot. What fails becomes a sentence beside the last values, never an exception.
Next door: `console.collector` calls this, a thread per source; `console.picture` are the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from console.picture import TableSeen
from console.reader import told
from core.clock import Clock
from core.config.model import Loaded
from core.wiring_slots import tables
from core.wiring_verbs import Looked, look

Look = Callable[[Loaded, str, str], Looked]


class Looker:
    """Looks at one configuration's sources; safe to use from several threads."""

    def __init__(self, loaded: Loaded | None, clock: Clock, look_at: Look = look) -> None:
        self._loaded = loaded
        self._clock = clock
        self._look = look_at

    @property
    def places(self) -> list[tuple[str, str]]:
        """The (source, table) that configured jobs read."""
        return tables(self._loaded) if self._loaded else []

    def table(self, source: str, table: str, before: TableSeen | None) -> TableSeen:
        """A look at the slots of a table; the last values and the reason where it fails."""
        if self._loaded is None:
            return TableSeen(source, table, fault="there is no configuration")
        try:
            found = self._look(self._loaded, source, table)
        except Exception as error:  # the top of a thread: whatever it is must be told, and asked again
            return replace(before or TableSeen(source, table), fault=told(error))
        return TableSeen(source, table, self._clock.utc(), found.slots, found.hold)
