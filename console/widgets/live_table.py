"""A table that changes under the eye without moving the cursor to another thing.

Rows have keys. Only cells that differ are drawn again; the cursor stays on its key through updates, sorts and
filters. Where its row is gone the cursor is hidden and nothing can be opened until a person moves it. Cells are Text:
markup is never parsed. Private parts of DataTable are used, which is why textual is pinned.

Next door: `console.view_models` makes the rows; `console.screens` put them here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events
from textual._two_way_dict import TwoWayDict
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

from console.picture import Level
from console.rows import Column, Row, plain
from console.theme import style_of

MARKED = "*"
ROLES = {
    Level.CRITICAL: "crit",
    Level.WARNING: "warn",
    Level.UNKNOWN: "unknown",
    Level.BUSY: "busy",
    Level.REST: "rest",
}


class LiveTable(DataTable[Text], inherit_bindings=False):
    """Rows by key; give it all rows and columns each time with `show`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "down", id="down", key_display="j"),
        Binding("k,up", "cursor_up", "up", id="up", key_display="k"),
        Binding("g,home", "scroll_top", "first row", id="top", key_display="g"),
        Binding("G,end", "scroll_bottom", "last row", id="bottom", key_display="G"),
        Binding("pagedown", "page_down", "page down", id="page-down", key_display="PgDn"),
        Binding("pageup", "page_up", "page up", id="page-up", key_display="PgUp"),
        Binding("enter", "open", "open", id="open", key_display="Enter"),
    ]

    class Opened(Message):
        """Enter was pressed while the cursor was on this key."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on another key, or on none."""

    def __init__(self, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(
            cursor_type="row", cursor_foreground_priority="renderable", cell_padding=0, zebra_stripes=False, id=id
        )
        self._ascii_only = ascii_only
        self._shown: dict[str, Row] = {}
        self._fields: tuple[Column, ...] = ()
        self._marked: frozenset[str] = frozenset()
        self._worn = ""
        self._held: str | None = None
        self._following = False

    @property
    def cursor_key(self) -> str | None:
        """The key that the cursor is on; None where its row is not shown."""
        return self._held if self._held in self._shown else None

    def keys(self) -> list[str]:
        """The keys from top to bottom."""
        return [str(row.key.value) for row in self.ordered_rows]

    def show(self, rows: Sequence[Row], columns: Sequence[Column], marked: Collection[str] = ()) -> None:
        """Make the table these rows in this order; those that are marked have a star behind their glyph."""
        before = self.cursor_key
        self._following = True
        try:
            if tuple(columns) != self._fields or self.app.theme != self._worn:
                self._set_columns(columns)
            wanted = {row.key: row for row in rows}
            self._drop([key for key in self._shown if key not in wanted])
            turned = self._marked.symmetric_difference(marked)
            self._marked = frozenset(marked)
            for key in turned & self._shown.keys():
                self._put_cells(self._shown[key], self._fields)
            for row in wanted.values():
                self._put(row)
            self._order(list(wanted))
            self._follow(list(wanted))
        finally:
            self._following = False
        if self.cursor_key != before:
            self.post_message(self.Moved())

    def hold(self, key: str) -> None:
        """Put the cursor on a row that is shown: asked for by a person."""
        if key in self._shown:
            self._held = key
            self._follow(self.keys())
            self.post_message(self.Moved())

    def hold_first(self) -> None:
        """Put the cursor on the first row where its own is not shown: asked for by a person."""
        if self.cursor_key is None and self._shown:
            self.hold(self.keys()[0])

    def action_open(self) -> None:
        """Open what the cursor is on, if it is on anything."""
        if self.cursor_key is not None:
            self.post_message(self.Opened(self.cursor_key))

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """A person moved the cursor: it holds the row's key from now on."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        if not self._following:
            self._take()

    def action_cursor_down(self) -> None:
        """Down; from nowhere to where the cursor would be."""
        if not self._appear():
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Up; from nowhere to where the cursor would be."""
        if not self._appear():
            super().action_cursor_up()

    def action_scroll_top(self) -> None:
        """The first row."""
        self._appear()
        super().action_scroll_top()

    def action_scroll_bottom(self) -> None:
        """The last row."""
        self._appear()
        super().action_scroll_bottom()

    async def _on_click(self, event: events.Click) -> None:
        self._appear()
        await super()._on_click(event)

    # Underneath

    def _appear(self) -> bool:
        if self.cursor_key is not None or not self._shown:
            return False
        self.show_cursor = True
        self._take()
        return True

    def _take(self) -> None:
        keys = self._row_locations
        row = self.cursor_row
        if 0 <= row < len(keys):
            found = keys.get_key(row)
            self._held = str(found.value) if found is not None else None
            self.post_message(self.Moved())

    def _set_columns(self, columns: Sequence[Column]) -> None:
        self.clear(columns=True)
        self._shown = {}
        self._fields = tuple(columns)
        self._worn = self.app.theme
        for column in columns:
            self.add_column(self._text(column.label, column, Level.FINE), width=column.width + 1, key=column.key)

    def _drop(self, gone: list[str]) -> None:
        if len(gone) * 2 > len(self._shown):
            self.clear()
            self._shown = {}
            return
        for key in gone:
            self.remove_row(key)
            del self._shown[key]

    def _put(self, row: Row) -> None:
        old = self._shown.get(row.key)
        self._shown[row.key] = row
        if old is None:
            self.add_row(*(self._cell(row, column) for column in self._fields), key=row.key)
            return
        if old != row:
            same = old.level is row.level
            self._put_cells(row, [c for c in self._fields if not same or old.cells.get(c.key) != row.cells.get(c.key)])

    def _put_cells(self, row: Row, columns: Sequence[Column]) -> None:
        place = self._row_locations.get(RowKey(row.key))
        for column in columns:
            number = self._fields.index(column)
            self._data[RowKey(row.key)][ColumnKey(column.key)] = self._cell(row, column)
            self._update_count += 1
            if place is not None:
                self._refresh_region(self._get_cell_region(Coordinate(place, number)))

    def _order(self, keys: list[str]) -> None:
        before = {key.value: self._row_locations.get(key) for key in self._row_locations}
        moved = [number for number, key in enumerate(keys) if before.get(key) != number]
        if not moved:
            return
        by_value = {key.value: key for key in self.rows}
        self._row_locations = TwoWayDict({by_value[key]: number for number, key in enumerate(keys)})
        self._update_count += 1
        for number in moved:
            self.refresh_row(number)

    def _follow(self, keys: list[str]) -> None:
        if self._held is None and keys:
            self._held = keys[0]
        was, self._following = self._following, True
        try:
            if self._held in self._shown:
                row = keys.index(self._held)
                if row != self.cursor_row:
                    self.move_cursor(row=row)
            self.show_cursor = self._held in self._shown
        finally:
            self._following = was

    def _cell(self, row: Row, column: Column) -> Text:
        level = row.level if column.key in ("mark", "state", "left", "deadline", "wrong", "trouble") else Level.FINE
        text = self._text(row.cells.get(column.key, ""), column, level)
        if column.key == "mark" and row.key in self._marked:
            text = text[:-1].append(MARKED, style=style_of(self.app.theme, "marked"))
        return text

    def _text(self, value: str, column: Column, level: Level) -> Text:
        """The value in exactly the column's width; what is too long ends in two dots."""
        text = plain(value, self._ascii_only)
        room = column.width
        if cell_len(text) > room:
            text = set_cell_size(text, max(0, room - 2)) + ".."[:room]
        elif column.right:
            text = " " * (room - cell_len(text)) + text
        return Text(set_cell_size(text, room) + " ", style=self._style(level), no_wrap=True, end="")

    def _style(self, level: Level) -> str:
        role = ROLES.get(level)
        return style_of(self.app.theme, role) if role else ""
