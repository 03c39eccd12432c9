"""The screen of all slots, and the screen of one slot by DN. They never create a slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.below import LEAST_ROOM, GraphBelow
from slotkeeper.console.tui.screens.table import LEAST_EVENTS, TableScreen
from slotkeeper.console.views import headlines
from slotkeeper.console.views.rows import Column, Row, Verdict, age, columns_for
from slotkeeper.console.views.slots import (
    SHARD_COLUMNS,
    SLOT_COLUMNS,
    SlotFacts,
    all_slots,
    faults,
    seen_at,
    shard_columns,
    shard_rows,
    slot_columns,
    slot_lines,
    slot_rows,
    ttl_line,
)
from slotkeeper.core.domain.text import safe


class _OfSlots(TableScreen):
    """The base class of both screens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "binlog", "binlog", id="slot-binlog", tooltip="show the rows at this slot's point"),
        Binding("h", "history", "history", id="slot-history", tooltip="changes to this slot from this host"),
    ]
    number = "3"
    has_actions = True

    def slot(self, key: str | None) -> SlotFacts | None:
        """Return a slot by its key; None if there is none."""
        return next((one for one in all_slots(self.console.shown.tables.values()) if one.key == key), None)

    def meant(self) -> tuple[SlotFacts | None, str]:
        """Return the slot on which a key acts, and the DN if one is selected."""
        return self.slot(self.table.cursor_key), ""

    def slot_meant(self) -> SlotFacts | None:
        return self.meant()[0]

    def jobs_meant(self) -> list[str]:
        one = self.slot_meant()
        return [one.slot.job] if one is not None and one.slot.job else []

    def act(self, keys: list[str]) -> None:
        self.console.open_slot_menu([one for key in keys if (one := self.slot(key)) is not None])

    def action_binlog(self) -> None:
        from slotkeeper.console.tui.screens.binlog import BinlogScreen

        one, dn = self.meant()
        if one is None:
            self.console.say("no slot is selected", Level.WARNING)
        else:
            self.app.push_screen(BinlogScreen.at(one.seen.source, one.seen.table, dn, slot=one.slot.name))

    def action_history(self) -> None:
        one, _ = self.meant()
        if one is None:
            self.console.say("no slot is selected", Level.WARNING)
        else:
            self.console.open("slot-history", one.seen.table, one.slot.name)

    def detail_of(self, key: str | None, shard: str | None = None) -> tuple[str, Lines]:
        """Return an explanation of a slot's figures."""
        one = self.slot(key)
        missing = [(Level.UNKNOWN, text) for text in faults(self.console.shown.tables.values())]
        if one is None:
            none = "no row is selected" if self.every_row else headlines.NO_SLOTS
            return "What this means", missing or [(Level.REST, none)]
        said = ttl_line(one, self.console.now, self.console.ascii_only, self.console.shown.local)
        title = f"{safe(one.seen.source, 30)} {safe(one.seen.table, 60)} {safe(one.slot.name, 60)}   {said}"
        return title, [*missing, *slot_lines(one, self.console.now, self.console.shown.local, shard)]


class SlotsScreen(_OfSlots, GraphBelow):
    """Every slot of every table that a job reads."""

    its_place = "Slots   viewing creates and moves nothing"
    its_name = "Slots"
    columns = SLOT_COLUMNS
    tells_events = True
    panel_height = 8
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "open", "filter", "sort", "fault", "act", "slot-binlog", "slot-history", "palette",
    )  # fmt: skip

    def rows(self) -> list[Row]:
        return slot_rows(
            self.console.shown.tables.values(), self.console.now, self.console.shown.local, self.console.ascii_only
        )

    def verdict(self) -> Verdict:
        if not self.console.has_sources and not self.console.in_history:
            return Verdict(Level.REST, headlines.NO_JOB)
        first = self.every_row[0].key if self.every_row else None
        answered = any(one.slots is not None for one in self.console.shown.tables.values())
        local, now = self.console.shown.local, self.console.now
        return headlines.of_slots(self.every_row, self.slot(first), answered, now, local, self.apart)

    def every_column(self) -> Sequence[Column]:
        return slot_columns(self.console.shown.tables.values())

    def about(self) -> str:
        if self.console.in_history and not self.console.shown.tables:
            return "no slot status recorded at that time; press R to leave history"
        if known := [at for one in self.console.shown.tables.values() if (at := seen_at(one)) is not None]:
            return f"seen {age(min(known), self.console.now)} ago"
        return "no source has answered yet" if self.console.has_sources else "no job with a source is configured"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        return self.detail_of(key)

    def drawn(self, key: str | None, width: int, rows: int) -> list[Text]:
        """Return the slot's DNs if there are several and there is room for some of them."""
        one = self.slot(key)
        if one is None:
            return []
        ascii_only = self.console.ascii_only
        every = shard_rows(one, self.console.now, ascii_only, self.console.shown.local)
        if len(every) < 2 or rows < min(len(every), 4) + 2:
            return []
        shown = columns_for(shard_columns(one), width)
        return [self.text(""), *self.inset(shown, every[: rows - 2], width)]

    def more(self, key: str | None, room: int) -> list[Text]:
        graphs = super().more(key, room - LEAST_EVENTS - 2) if room >= LEAST_ROOM + LEAST_EVENTS + 2 else []
        return [*graphs, *self.last_events(room - len(graphs))]

    def graphed(self, key: str | None) -> tuple[str, str]:
        one = self.slot(key)
        return (one.slot.job or "" if one is not None else ""), ""

    def opened(self, key: str) -> None:
        self.app.push_screen(SlotScreen(key))


class SlotScreen(_OfSlots):
    """One slot, with a row per DN."""

    its_name = "Lanes"
    columns = SHARD_COLUMNS
    tells_events = True
    panel_height = 10
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "filter", "fault", "act", "slot-binlog", "slot-history", "previous", "next", "pane",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def every_column(self) -> Sequence[Column]:
        return shard_columns(self.slot(self.key))

    def rows(self) -> list[Row]:
        one = self.slot(self.key)
        return shard_rows(one, self.console.now, self.console.ascii_only, self.console.shown.local) if one else []

    def verdict(self) -> Verdict:
        one, local = self.slot(self.key), self.console.shown.local
        if one is None:
            return Verdict(Level.UNKNOWN, "The slot no longer exists")
        return Verdict(*headlines.of_slot(one, self.console.now, local))

    def about(self) -> str:
        one = self.slot(self.key)
        return f"seen {age(seen_at(one.seen), self.console.now)} ago" if one else "the slot no longer exists"

    def meant(self) -> tuple[SlotFacts | None, str]:
        return self.slot(self.key), self.table.cursor_key or ""

    def act(self, keys: list[str]) -> None:
        super().act([self.key])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        return self.detail_of(self.key, key)

    def crumb(self) -> str:
        one = self.slot(self.key)
        return f"Slots > {safe(one.slot.name, 60) if one else '?'}"
