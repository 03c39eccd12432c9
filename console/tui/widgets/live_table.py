"""A table that updates without moving the cursor to another row.

Rows have keys, and the cursor stays on its key through updates, sorts and filters. If its row disappears, the cursor is
hidden and no row can be opened until the user moves the cursor. Only visible rows are converted to text and only
changed cells are redrawn, so two thousand rows cost as much as twenty. Markup is never parsed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from slotkeeper.console.tui.theme import style_of
from slotkeeper.console.tui.widgets.line import WHEEL, Drawn
from slotkeeper.console.views.rows import Column, Row, both_ends, clause, plain
from slotkeeper.console.views.signs import ROLES, SIGNS, cell, coloured, joined, mark

MARKED = "*"
SIDES = 3
"""The number of cells that the frame takes from a row; the last column already ends with a space for the right side."""
_COLOURED = ("mark", "state", "left", "deadline", "wrong", "trouble")
_Made = tuple[Row, bool, bool, Strip]


class LiveTable(Drawn, can_focus=True):
    """Rows by key; `show` receives all rows and columns each time."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"live-table--header", "live-table--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="up", key_display="k"),
        Binding("g,home", "jump(0)", "first row", id="top", key_display="g"),
        Binding("G,end", "jump(1)", "last row", id="bottom", key_display="G"),
        Binding("pagedown", "page(1)", "page down", id="page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="page-up", key_display="PgUp"),
        Binding("enter", "open", "open", id="open", key_display="Enter"),
    ]

    class Opened(Message):
        """Enter was pressed while the cursor was on this key."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor has moved to another key, or has disappeared."""

    def __init__(self, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id)
        self._ascii_only = ascii_only
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._fields: tuple[Column, ...] = ()
        self._header = Strip([])
        self._marked: frozenset[str] = frozenset()
        self._cursor: str | None = None
        self._top = 0
        self._made: dict[int, _Made] = {}
        self._framed = False
        self.cursor_row = 0

    @property
    def cursor_key(self) -> str | None:
        """The key of the cursor's row; None if the row is not shown."""
        return self._cursor if self._cursor in self._places else None

    @property
    def show_cursor(self) -> bool:
        """Whether there is a cursor."""
        return self.cursor_key is not None

    @property
    def row_count(self) -> int:
        """The number of rows, visible or not."""
        return len(self._rows)

    def keys(self) -> list[str]:
        """Return the keys from top to bottom."""
        return list(self._places)

    def words(self, place: int) -> list[str]:
        """Return the cells of the row at that index as they are drawn."""
        return [self._text(self._rows[place].cells.get(column.key, ""), column) for column in self._fields]

    def show(self, rows: Sequence[Row], columns: Sequence[Column], marked: Collection[str] = ()) -> None:
        """Show these rows in this order; marked rows have a star after their glyph."""
        before = self.cursor_key
        if tuple(columns) != self._fields:
            self._fields = tuple(columns)
            self._forget()
        self._marked = frozenset(marked)
        by_key = {row.key: row for row in rows}
        self._rows = list(by_key.values())
        self._places = {key: place for place, key in enumerate(by_key)}
        if self._cursor is None and self._rows:
            self._cursor = self._rows[0].key
        self._follow()
        self._draw()
        if self.cursor_key != before:
            self.post_message(self.Moved())

    def move_to(self, key: str) -> None:
        """Move the cursor to a visible row at the user's request."""
        if key in self._places:
            self._go(self._places[key])

    def move_to_first(self) -> None:
        """Move the cursor to the first row, at the user's request, if the cursor's own row is not shown."""
        if self.cursor_key is None:
            self._go(0)

    def frame(self, framed: bool) -> None:
        """Draw the rows with or without the sides of a frame."""
        if self._framed != framed:
            self._framed = framed
            self._forget()
            self._draw()

    # Keys and mouse

    def action_open(self) -> None:
        if self.cursor_key is not None:
            self.post_message(self.Opened(self.cursor_key))

    def action_move(self, by: int) -> None:
        """Move down or up; a hidden cursor reappears at its last position."""
        self._go(self.cursor_row + by * self.show_cursor)

    def action_jump(self, end: int) -> None:
        """Move to the first or the last row."""
        self._go(end * len(self._rows))

    def action_page(self, by: int) -> None:
        """Move down or up by the number of visible rows."""
        self._go(self.cursor_row + by * self._room)

    def on_click(self, event: events.Click) -> None:
        if event.y > 0 and self._top + event.y <= len(self._rows):
            self._go(self._top + event.y - 1)
            if event.chain > 1:
                self.action_open()

    def on_mouse_scroll_down(self) -> None:
        """Scroll down; the cursor stays on its row."""
        self._show_from(self._top + WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self._show_from(self._top - WHEEL)

    def on_resize(self) -> None:
        self._forget()
        self._reveal()
        self._draw()

    def notify_style_update(self) -> None:
        """Redraw after a change of theme."""
        super().notify_style_update()
        self._forget()
        if self.is_mounted:
            self.call_next(self._draw)

    # Internal

    @property
    def _room(self) -> int:
        return max(1, self.size.height - 1)

    def _go(self, place: int) -> None:
        """Move the cursor to that index, or to the nearest row."""
        if self._rows:
            self.cursor_row = max(0, min(place, len(self._rows) - 1))
            self._cursor = self._rows[self.cursor_row].key
            self._reveal()
            self._draw()
            self.screen._dirty_widgets.add(self)
            self.screen._on_timer_update()  # draw the cursor before the slower panel
            self.post_message(self.Moved())

    def _follow(self) -> None:
        place = self._places.get(self._cursor or "")
        if place is not None and place != self.cursor_row:
            self.cursor_row = place
            self._reveal()
        else:
            self.cursor_row = max(0, min(self.cursor_row, len(self._rows) - 1))
            self._top = max(0, min(self._top, len(self._rows) - self._room))

    def _reveal(self) -> None:
        """Scroll as little as necessary to show the cursor."""
        top = min(max(self._top, self.cursor_row - self._room + 1), self.cursor_row)
        self._top = max(0, min(top, len(self._rows) - self._room))

    def _show_from(self, top: int) -> None:
        self._top = max(0, min(top, len(self._rows) - self._room))
        self._draw()

    def _forget(self) -> None:
        self._made = {}
        self._header = Strip([])

    def _draw(self) -> None:
        if not self._header and self._fields:
            style = self.get_component_rich_style("live-table--header")
            label = "".join(self._text(one.label, one) for one in self._fields)
            self._header = self._sided([Segment(label, style)], cell_len(label))
        made: dict[int, _Made] = {}
        for place in range(self._top, min(self._top + self._room, len(self._rows))):
            row, old = self._rows[place], self._made.get(place)
            under, marked = place == self.cursor_row and self.show_cursor, row.key in self._marked
            if old is None or old[0] is not row or old[1:3] != (under, marked):
                old = row, under, marked, self._strip(row, under, marked)
            made[place] = old
        self._made = made
        below = [self._sided([], 0)] * (self.size.height - 1 - len(made)) if self._framed else []
        self.put([self._header, *(one[3] for one in made.values()), *below])

    def _strip(self, row: Row, under: bool, marked: bool) -> Strip:
        parts: list[tuple[str, str]] = []
        for column in self._fields:
            value = row.cells.get(column.key, "")
            if column.key == "mark" and value == row.level.value:
                value = mark(row.level, self._ascii_only)
            severity = ROLES.get(row.level, "") if column.key in _COLOURED else ""
            role = row.tints.get(column.key, severity)
            if column.label:
                value, role = cell(value, role, self._ascii_only)
            text = self._text(value, column)
            if column.key == "mark" and marked:
                parts += [(text[:-1], role), (MARKED, "marked")]
            else:
                parts += coloured(text) if role == SIGNS else [(text, role)]
        width = sum(cell_len(text) for text, _ in parts)
        blank = self.size.width - width - SIDES * self._framed
        parts.append((" " * blank, ""))
        return self._sided([Segment(text, self._style(role, under)) for text, role in joined(parts)], width + blank)

    def _sided(self, segments: list[Segment], width: int) -> Strip:
        """Return a row between the sides of the frame, if there is one."""
        if not self._framed:
            return Strip(segments)
        side = "|" if self._ascii_only else "\u2502"
        style = Style.parse(style_of(self.app.theme, "frame"))
        blank = Segment(" " * max(0, self.size.width - SIDES - width))
        return Strip([Segment(f"{side} ", style), *segments, blank, Segment(side, style)])

    def _style(self, role: str, under: bool) -> Style:
        style = Style.parse(style_of(self.app.theme, role)) if role else Style.null()
        if not under:
            return style
        cursor = self.get_component_rich_style("live-table--cursor")
        return cursor + style + Style.from_color(bgcolor=cursor.bgcolor)

    def _text(self, value: str, column: Column) -> str:
        """Return the value in exactly the column's width, and its gap; a truncated value ends with two dots."""
        text, room, gap = plain(value, self._ascii_only), column.width, " " * column.gap
        taken = len(text) if text.isascii() else cell_len(text)
        if taken > room:
            shown = both_ends(text, room) if column.name else clause(text, room)
            shown = shown or set_cell_size(text, max(0, room - 2)) + ".."[:room]
            return set_cell_size(shown, room) + gap
        blanks = " " * (room - taken)
        return (blanks + text if column.right else text + blanks) + gap
