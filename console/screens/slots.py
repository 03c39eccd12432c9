"""Slots, and one slot DN by DN. Looking never creates a slot; only while one of these is seen is a source asked.

Next door: `console.slot_models` has rows and sentences; `console.screens.table` draws.
"""

from __future__ import annotations

from typing import ClassVar

from console.picture import Level
from console.rows import Row, age
from console.screens.frame import Lines
from console.screens.table import TableScreen
from console.slot_models import (
    SHARD_COLUMNS,
    SLOT_COLUMNS,
    SlotFacts,
    all_slots,
    faults,
    shard_rows,
    slot_lines,
    slot_rows,
)
from core.domain.text import safe
from core.domain.ttl import in_words


class _OfSlots(TableScreen):
    """What both screens know."""

    number = "3"

    def slot(self, key: str | None) -> SlotFacts | None:
        """A slot by its key."""
        return next((one for one in all_slots(self.console.shown.tables.values()) if one.key == key), None)

    def oldest(self) -> str:
        """The age of what is shown: that of the oldest look."""
        seen = [one.at for one in self.console.shown.tables.values() if one.at is not None]
        return age(min(seen), self.console.now) if seen else "?"

    def told(self, key: str | None) -> tuple[str, Lines]:
        """What a slot's figures mean."""
        one = self.slot(key)
        missing = [(Level.UNKNOWN, text) for text in faults(self.console.shown.tables.values())]
        if one is None:
            return "What this means", missing or [(Level.REST, "no row is chosen")]
        ttl = one.seen.hold.ttl if one.seen.hold else None
        words = (
            "?" if ttl is None or ttl.seconds is None else in_words(ttl.seconds) + (" (default)" if ttl.default else "")
        )
        title = f"{safe(one.seen.source, 30)} {safe(one.seen.table, 60)} {safe(one.slot.name, 60)}   TTL {words}"
        return title, [*missing, *slot_lines(one, self.console.now)]


class SlotsScreen(_OfSlots):
    """Every slot of every table that a job reads."""

    columns = SLOT_COLUMNS
    panel_height = 6

    def rows(self) -> list[Row]:
        """The slots, the first to be cleared on top."""
        return slot_rows(self.console.shown.tables.values(), self.console.now)

    def heading(self) -> str:
        """The table's name."""
        return "Slots"

    def about(self) -> str:
        """The age of the oldest look."""
        if self.console.shown.tables:
            return f"seen {self.oldest()} ago"
        return "no source was asked yet" if self.console.has_sources else "no job with a source is configured"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What it means."""
        return self.told(key)

    def opened(self, key: str) -> None:
        """One slot DN by DN."""
        self.app.push_screen(SlotScreen(key))

    def crumb(self) -> str:
        """Where one is."""
        return "Slots   read-only: looking creates and moves nothing"


class SlotScreen(_OfSlots):
    """One slot DN by DN."""

    columns = SHARD_COLUMNS
    panel_height = 6
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "faults", "pause", "refresh", "quit")

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def rows(self) -> list[Row]:
        """The DNs, the first to be cleared on top."""
        one = self.slot(self.key)
        return shard_rows(one, self.console.now) if one else []

    def heading(self) -> str:
        """The table's name."""
        return "DN"

    def about(self) -> str:
        """The age of the look."""
        one = self.slot(self.key)
        return f"seen {age(one.seen.at, self.console.now)} ago" if one else "the slot is gone"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What it means."""
        return self.told(self.key)

    def crumb(self) -> str:
        """Where one is."""
        one = self.slot(self.key)
        return f"Slots > {safe(one.slot.name, 60) if one else '?'}"

    def leave(self) -> None:
        """Back to the slots."""
        self.app.pop_screen()
