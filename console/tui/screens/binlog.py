"""The binlog inspector: rows of one DN, read-only. Opening it queries no source; opening a table sends one query.

Nothing is polled; the user requests each query.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.monitor.snapshot import Level, TableSeen
from slotkeeper.console.tui.screens.asking import AskingScreen
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views import binlog as models
from slotkeeper.console.views.binlog import Place
from slotkeeper.console.views.headlines import NO_JOB
from slotkeeper.console.views.rows import Column, Row, Verdict
from slotkeeper.core.domain.inspection import Ask, Filter, Page
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.errors import ConfigError

Keys = tuple[str, ...]


class BinlogScreen(TableScreen):
    """The tables whose binlog can be read, according to the configuration."""

    its_place = "Binlog   viewing creates and moves nothing"
    its_name = "Binlog"
    number = "5"
    columns = models.PLACE_COLUMNS
    tells_events = True
    usual_order = "by name"

    @classmethod
    def at(cls, source: str, table: str, dn: str = "", slot: str = "") -> BinlogRowsScreen:
        """Return a new screen that shows rows from a slot's position on, or the last rows."""
        return BinlogRowsScreen(source, table, Ask(dn, None, slot))

    def rows(self) -> list[Row]:
        return models.place_rows(self._places(), self.console.shown.tables)

    def verdict(self) -> Verdict:
        if not self.every_row:
            return Verdict(Level.REST, NO_JOB)
        return Verdict(Level.REST, f"Binlog of {many(len(self.every_row), 'table')}{self.apart}viewing moves nothing")

    def panel(self, key: str | None) -> tuple[str, Lines]:
        if not self.rows():
            return "Binlog", [(Level.REST, NO_JOB)]
        return "Binlog", [
            (
                Level.FINE,
                "Enter reads up to 200 rows of one lane: unread rows of the job's slot, or the last rows.",
            ),
            (Level.FINE, "Viewing creates no slot and moves no point."),
        ]

    def opened(self, key: str) -> None:
        place = next((one for one in self._places() if one.key == key), None)
        if place is not None:
            self.app.push_screen(self.at(place.source, place.table, slot=place.slot))

    def _places(self) -> list[Place]:
        loaded = self.console.services.loaded
        return models.places_of(loaded.jobs.values()) if loaded else []


class AskLine(Input):
    """An input line for a point or a time; Enter confirms, Esc closes it."""

    class Answered(Message):
        """The typed text."""

        def __init__(self, what: str, text: str) -> None:
            super().__init__()
            self.what = what
            self.text = text

    def __init__(self) -> None:
        super().__init__(id="ask", compact=True, select_on_focus=False)
        self.what = ""

    def on_mount(self) -> None:
        """Hide the line until it is needed, and disable the blinking cursor, which causes traffic."""
        self.cursor_blink = False
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Stop the event, because this input is not the filter."""
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Answered(self.what, event.value.strip()))


class BinlogRowsScreen(AskingScreen):
    """Rows of one DN's binlog."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "o",
            "point",
            "point",
            id="binlog-point",
            tooltip="go to a position, a slot's position, or the latest rows",
        ),
        Binding("t", "time", "time", id="binlog-time", tooltip="go to a time; for tables with binlog timestamps"),
        Binding("f", "further", "further", id="binlog-further", tooltip="show the rows after this page"),
        Binding("K", "key", "key", id="binlog-key", tooltip="show only the key at the cursor; again: all keys"),
        Binding("D", "dn", "lane", id="binlog-dn", tooltip="show the next lane, for example another DN"),
        Binding("v", "mask", "mask", id="binlog-mask", tooltip="unmasking a PROD source is audited"),
    ]
    number = "5"
    panel_height = 8
    usual_order = "binlog order"
    keys_shown: ClassVar[Keys] = (
        "help", "back", "binlog-point", "binlog-time", "binlog-further", "binlog-key", "binlog-dn", "binlog-mask",
    )  # fmt: skip

    def __init__(self, source: str, table: str, ask: Ask) -> None:
        super().__init__()
        self.source = source
        self.its_table = table
        self.ask = ask
        self.page: Page | None = None
        self.hidden = False
        self._unmask = False
        self._rows: list[Row] = []

    def body(self) -> Iterator[Widget]:
        yield from super().body()
        yield AskLine()

    def on_mount(self) -> None:
        super().on_mount()
        self.ask_source(self.ask)

    # Querying

    def ask_source(self, ask: Ask, unmask: bool | None = None) -> None:
        """Query the source."""
        loaded, peeker = self.console.services.loaded, self.console.services.peeker
        if loaded is None:
            self.fault = "no configuration"
            return
        self.ask = ask
        wanted = self._unmask if unmask is None else unmask
        self.begin(lambda: peeker(loaded, self.source, self.its_table, ask, wanted))

    def taken(self, found: object) -> None:
        assert isinstance(found, Page)
        self.show(found)

    def show(self, page: Page) -> None:
        """Show a page; masked values stay hidden until the user unmasks them."""
        self.page = page
        self.hidden = page.masked or (self.hidden and not self._unmask)
        self._rows = models.binlog_rows(page, self.hidden)

    # Contents

    def rows(self) -> list[Row]:
        return self._rows

    @property
    def columns(self) -> tuple[Column, ...]:  # type: ignore[override]
        """The table's columns that fit; known after the first page."""
        if self.page is None:
            return (Column("mark", "", 1), Column("point", "POINT", 0))
        return models.binlog_columns(self.page, self._rows, self.app.size.width - self._sides)

    def heading(self) -> str:
        return f"Binlog {safe(self.its_table, 60)}"

    def about(self) -> str:
        if self.asked_at is not None:
            return f"querying {safe(self.ask.dn or self.source, 40)}, {time.monotonic() - self.asked_at:.0f} s"
        took = f"{self.took * 1000:.0f} ms" if self.took else ""
        return f"peek, at most {self.ask.most} rows   {took}"

    def verdict(self) -> Verdict:
        if self.fault:
            return Verdict(Level.CRITICAL, safe(self.fault, 300))
        masked = f"{self.apart}masked" if self.hidden else ""
        seen = self._seen()
        part = seen.retained.words.part if seen is not None and seen.retained is not None else "lane"
        return Verdict(Level.REST, models.said_of(self.ask, self.page, part) + masked)

    def strip(self) -> Lines:
        lines: list[tuple[Level, str]] = []
        for note in self.page.notes if self.page else ():
            lines.append((Level.WARNING, safe(note, 200)))
        left = models.left_out(self.page, self.columns) if self.page and self._rows else 0
        return [*lines, (Level.REST, f"{left} more columns do not fit: Enter shows them")] if left else lines

    def panel(self, key: str | None) -> tuple[str, Lines]:
        page = self.page
        if page is None:
            return "Row", [(Level.REST, "no rows read yet")]
        if not page.rows:
            return "Row", [
                (Level.REST, "no rows in this range"),
                *((Level.FINE, one) for one in models.read_so_far(page, self._seen(), {})),
            ]
        row = next((one for one in page.rows if one.key == key), None)
        keyed = models.key_of(page, row) if row else {}
        lines = models.image_lines(models.images(page, key, self.hidden), self.inner - 2)
        if keyed:
            net = models.net_effect(models.history(page, keyed))
            lines.append((Level.FINE, f"Key {models.key_words(keyed)}   {net}"))
        lines += [(Level.REST, one) for one in models.read_so_far(page, self._seen(), keyed)]
        return models.image_title(page, key), lines

    def crumb(self) -> str:
        key = f" > key {models.key_words(self.ask.filter.key)}" if self.ask.filter.key else ""
        return f"Binlog > {safe(self.its_table, 60)}{key}   this screen moves no point"

    def opened(self, key: str) -> None:
        if self.page is not None:
            self.app.push_screen(BinlogRowScreen(self.page, key, self.hidden))

    # Keys

    def action_point(self) -> None:
        self._ask("point", "a position, a slot name, or latest")

    def action_time(self) -> None:
        self._ask("time", "time with UTC offset, such as 2026-01-31T08:30:00Z")

    def action_further(self) -> None:
        if self.page is not None:
            self.ask_source(replace(self.ask, dn=self.page.shard, after=self.page.on, slot="", time=""))

    def action_key(self) -> None:
        page = self.page
        row = next((one for one in page.rows if one.key == self.table.cursor_key), None) if page else None
        if page is None or (row is None and not self.ask.filter.key):
            return
        key = {} if self.ask.filter.key or row is None else models.key_of(page, row)
        begun = page.begun or (page.rows[0].position.place.from_here if page.rows else None)
        only = Filter(self.ask.filter.kinds, key)
        self.ask_source(replace(self.ask, dn=page.shard, after=begun, slot="", time="", filter=only))

    def action_dn(self) -> None:
        """Read the same range on the next DN, because sync points are shared by all DNs of the cluster."""
        if self.page is None or not self.page.shards:
            return
        names: Sequence[str] = self.page.shards
        following = names[(names.index(self.page.shard) + 1) % len(names)] if self.page.shard in names else names[0]
        self.ask_source(replace(self.ask, dn=following))

    def action_mask(self) -> None:
        """Hide or show values. Values that are masked by default are read again, which is audited."""
        if self.page is None:
            return
        if self.page.masked:
            self._unmask = True
            self.ask_source(replace(self.ask, dn=self.page.shard), unmask=True)
            return
        self.hidden = not self.hidden
        if self.hidden:
            self._unmask = False
        self._rows = models.binlog_rows(self.page, self.hidden)
        self.redraw()

    def action_back(self) -> None:
        if self.query_one(AskLine).display:
            self._ask_no_more()
        else:
            super().action_back()

    def on_ask_line_answered(self, message: AskLine.Answered) -> None:
        self._ask_no_more()
        dn = self.page.shard if self.page else self.ask.dn
        base = replace(self.ask, dn=dn, after=None, slot="", time="")
        if message.what == "time" and message.text:
            self.ask_source(replace(base, time=message.text))
        elif message.text[:1].isdigit():
            self._go_to(base, message.text)
        elif message.text == "latest":
            self.ask_source(base)
        elif message.text:
            self.ask_source(replace(base, slot=message.text))

    def _go_to(self, base: Ask, text: str) -> None:
        loaded = self.console.services.loaded
        if loaded is None:
            return
        from slotkeeper.core.services import binlog_rows  # loads drivers, which are not needed before a query

        try:
            after = binlog_rows.place(loaded, self.source, text)
        except ConfigError as error:
            self.fault = str(error)
            self.redraw()
            return
        self.ask_source(replace(base, after=after))

    def on_key(self, event: events.Key) -> None:
        """In the input line, Esc only closes the line."""
        if event.key == "escape" and self.query_one(AskLine).display:
            event.stop()
            self._ask_no_more()

    def _ask(self, what: str, hint: str) -> None:
        line = self.query_one(AskLine)
        line.what, line.value, line.placeholder = what, "", hint
        line.display = True
        self.query_one("#crumb").display = False
        self.set_focus(line)

    def _ask_no_more(self) -> None:
        self.query_one(AskLine).display = False
        self.query_one("#crumb").display = True
        self.set_focus(self.table)

    def _seen(self) -> TableSeen | None:
        return self.console.shown.tables.get((self.source, self.its_table))


class BinlogRowScreen(TableScreen):
    """One row, column by column, before and after the change. The display does not change while it is open."""

    its_name = "Columns"
    number = "5"
    columns = models.IMAGE_COLUMNS
    panel_height = 8
    usual_order = "table order"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "previous", "next", "copy", "quit")

    def __init__(self, page: Page, key: str, hidden: bool) -> None:
        super().__init__()
        self._page = page
        self._key = key
        self._hidden = hidden

    def rows(self) -> list[Row]:
        return models.images(self._page, self._key, self._hidden)

    def about(self) -> str:
        return models.image_title(self._page, self._key)

    def panel(self, key: str | None) -> tuple[str, Lines]:
        row = next((one for one in self.rows() if one.key == key), None)
        if row is None:
            return "Column", [(Level.REST, "no column is selected")]
        column = next(one for one in self._page.identity.columns if one.name == key)
        lines = [(Level.FINE, f"before  {row.cells['before']}"), (Level.FINE, f"after   {row.cells['after']}")]
        return f"{safe(column.name, 60)}  {safe(column.type, 60)}", lines

    def crumb(self) -> str:
        return f"Binlog > {safe(self._page.table, 60)} > {self._key}"
