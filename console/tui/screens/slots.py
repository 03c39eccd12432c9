"""Slots, and one slot DN by DN. Looking never creates a slot.

Next door: `console.views.slots` has rows and sentences; `console.tui.screens.table` draws.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from console.monitor.snapshot import Level
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views.rows import Column, Row, age, columns_for
from console.views.slots import (
    SHARD_COLUMNS,
    SLOT_COLUMNS,
    SlotFacts,
    all_slots,
    faults,
    seen_at,
    shard_columns,
    shard_rows,
    slot_lines,
    slot_rows,
)
from core.domain.text import safe
from core.domain.ttl import in_words


class _OfSlots(TableScreen):
    """What both screens know."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "binlog", "binlog", id="slot-binlog", tooltip="the rows at this slot's point"),
        Binding("h", "history", "history", id="slot-history", tooltip="what was done to this slot from here"),
    ]
    number = "3"
    has_actions = True

    def slot(self, key: str | None) -> SlotFacts | None:
        """A slot by its key."""
        return next((one for one in all_slots(self.console.shown.tables.values()) if one.key == key), None)

    def oldest(self) -> str:
        """The age of what is shown: that of the oldest look."""
        known = [at for one in self.console.shown.tables.values() if (at := seen_at(one)) is not None]
        return age(min(known), self.console.now) if known else "?"

    def meant(self) -> tuple[SlotFacts | None, str]:
        """The slot that a key means, and the DN if one is chosen."""
        return self.slot(self.table.cursor_key), ""

    def act(self, keys: list[str]) -> None:
        """What can be done to a slot."""
        self.console.open_slot_menu([one for key in keys if (one := self.slot(key)) is not None])

    def action_binlog(self) -> None:
        """The rows that this slot has not read, or the last ones."""
        from console.tui.screens.binlog import BinlogScreen

        one, dn = self.meant()
        if one is None:
            self.console.say("no slot is chosen", Level.WARNING)
        else:
            self.app.push_screen(BinlogScreen.at(one.seen.source, one.seen.table, dn, slot=one.slot.name))

    def action_history(self) -> None:
        """What was done to it from this machine."""
        from console.tui.screens.audit import SlotHistoryScreen

        one, _ = self.meant()
        if one is None:
            self.console.say("no slot is chosen", Level.WARNING)
        else:
            self.app.push_screen(SlotHistoryScreen(one.seen.table, one.slot.name))

    def detail_of(self, key: str | None, shard: str | None = None) -> tuple[str, Lines]:
        """What a slot's figures mean."""
        one = self.slot(key)
        missing = [(Level.UNKNOWN, text) for text in faults(self.console.shown.tables.values())]
        if one is None:
            return "What this means", missing or [(Level.REST, "no row is chosen")]
        ttl = one.seen.retained.ttl if one.seen.retained else None
        words = (
            "?" if ttl is None or ttl.seconds is None else in_words(ttl.seconds) + (" (default)" if ttl.default else "")
        )
        title = f"{safe(one.seen.source, 30)} {safe(one.seen.table, 60)} {safe(one.slot.name, 60)}   TTL {words}"
        return title, [*missing, *slot_lines(one, self.console.now, self.console.shown.local, shard)]


class SlotsScreen(_OfSlots):
    """Every slot of every table that a job reads."""

    its_place = "Slots   read-only: looking creates and moves nothing"
    its_name = "Slots"
    columns = SLOT_COLUMNS
    panel_height = 8
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "open", "filter", "sort", "faults", "act", "slot-binlog", "slot-history", "palette",
    )  # fmt: skip

    def rows(self) -> list[Row]:
        """The slots, the first to be cleared on top."""
        return slot_rows(self.console.shown.tables.values(), self.console.now, self.console.shown.local)

    def about(self) -> str:
        """The age of the oldest look."""
        if self.console.in_history:
            return "slots are not recorded; R leaves history"
        if self.console.shown.tables:
            return f"seen {self.oldest()} ago"
        return "no source was asked yet" if self.console.has_sources else "no job with a source is configured"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What it means."""
        return self.detail_of(key)

    def opened(self, key: str) -> None:
        """One slot DN by DN."""
        self.app.push_screen(SlotScreen(key))


class SlotScreen(_OfSlots):
    """One slot DN by DN."""

    its_name = "DN"
    columns = SHARD_COLUMNS
    panel_height = 10
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "filter", "faults", "act", "slot-binlog", "slot-history", "previous", "next", "pane",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def columns_now(self) -> tuple[Column, ...]:
        """The columns that are shown at this width."""
        return columns_for(shard_columns(self.slot(self.key)), self.app.size.width, self.wide)

    def rows(self) -> list[Row]:
        """The DNs, the first to be cleared on top."""
        one = self.slot(self.key)
        return shard_rows(one, self.console.now) if one else []

    def about(self) -> str:
        """The age of the look."""
        one = self.slot(self.key)
        return f"seen {age(seen_at(one.seen), self.console.now)} ago" if one else "the slot is gone"

    def meant(self) -> tuple[SlotFacts | None, str]:
        """This slot, on the DN under the cursor."""
        return self.slot(self.key), self.table.cursor_key or ""

    def act(self, keys: list[str]) -> None:
        """What can be done to this slot, whichever DNs are marked."""
        super().act([self.key])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What it means."""
        return self.detail_of(self.key, key)

    def crumb(self) -> str:
        """Where one is."""
        one = self.slot(self.key)
        return f"Slots > {safe(one.slot.name, 60) if one else '?'}"
