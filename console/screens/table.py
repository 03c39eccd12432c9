"""A screen with one live table: filter, faults only, a panel that explains the row under the cursor.

Next door: `console.screens.frame` is around it; each screen of this kind says its columns, rows and panel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from console.rows import Column, Row, columns_for, kept
from console.screens.frame import Frame, Line, Lines
from console.widgets.live_table import LiveTable


class TableScreen(Frame):
    """Rows, and what they mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", id="filter", key_display="/", tooltip="a pattern; ! in front inverts it"),
        Binding("z", "faults", "faults only", id="faults"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "filter", "faults", "pause", "refresh", "quit")
    columns: ClassVar[Sequence[Column]] = ()
    has_strip = False
    panel_height = 4

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        self.faults_only = False

    # What a screen of this kind says

    def rows(self) -> list[Row]:
        """All rows in their order."""
        raise NotImplementedError

    def heading(self) -> str:
        """The table's name."""
        raise NotImplementedError

    def about(self) -> str:
        """What else its title says."""
        return ""

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """Title and lines of the panel for the row under the cursor."""
        raise NotImplementedError

    def strip(self) -> Lines:
        """Lines above the table."""
        return ()

    def opened(self, key: str) -> None:
        """Enter was pressed on a row."""

    # How it is drawn

    @property
    def table(self) -> LiveTable:
        """The table."""
        return self.query_one(LiveTable)

    def body(self) -> Iterator[Widget]:
        """Strip, title, table, panel, filter."""
        if self.has_strip:
            yield Line("strip")
        yield Line("title")
        yield LiveTable(self.console.ascii_only, id="table")
        yield Line("subtitle")
        yield Line("panel")
        yield Input(id="filter", placeholder="filter: text or pattern, ! inverts", select_on_focus=False)

    def on_mount(self) -> None:
        """The cursor does not blink: blinking is traffic."""
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).display = False
        self.query_one("#panel").styles.height = self.panel_height
        self.table.focus()
        super().on_mount()

    def draw(self) -> None:
        """Strip, table, panel."""
        if self.has_strip:
            self.say("strip", self.paragraph(self.strip(), 4), layout=True)
        every = self.rows()
        shown = kept(every, self.wanted, self.faults_only)
        self.table.show(shown, columns_for(self.columns, self.app.size.width))
        number = str(len(every)) if len(shown) == len(every) else f"{len(shown)} of {len(every)}"
        how = [f"filter {self.wanted}"] if self.wanted else []
        how += ["faults only"] if self.faults_only else []
        about = [self.about()] if self.about() else []
        self.say("title", self.rule("   ".join([f"{self.heading()} {number}", *about, *how])))
        self.draw_panel()

    def draw_panel(self) -> None:
        """What the row under the cursor means."""
        title, lines = self.panel(self.table.cursor_key)
        self.say("subtitle", self.rule(title))
        self.say("panel", self.paragraph(lines, self.panel_height))

    def on_live_table_moved(self) -> None:
        """Explain the new row."""
        if self.is_current:
            self.draw_panel()

    def on_live_table_opened(self, message: LiveTable.Opened) -> None:
        """The key is that of the moment of the key press."""
        self.opened(message.key)

    # Keys

    def action_filter(self) -> None:
        """Type a filter."""
        self._show_filter(True)

    def action_faults(self) -> None:
        """Only rows in trouble, or all."""
        self.faults_only = not self.faults_only
        self.redraw()

    def action_back(self) -> None:
        """Close the filter, clear it, or leave."""
        if self.query_one(Input).display or self.wanted:
            self.query_one(Input).value = ""
            self.wanted = ""
            self._end_filter()
        else:
            self.leave()

    def leave(self) -> None:
        """There is nothing below a first screen."""

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter works while it is typed."""
        self.wanted = event.value
        self.redraw()

    def on_input_submitted(self) -> None:
        """Keep the filter; the cursor may go to what is left."""
        self._end_filter()
        self.table.hold_first()

    def _end_filter(self) -> None:
        self._show_filter(False)
        self.redraw()

    def _show_filter(self, shown: bool) -> None:
        """At once, not at the next refresh: what is typed next must not be taken for a key."""
        self.query_one(Input).display = shown
        self.query_one("#crumb").display = not shown
        self.set_focus(self.query_one(Input) if shown else self.table)
