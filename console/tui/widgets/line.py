"""Lines of text that redraw only changed cells, to save bytes, and do no work for invisible lines.

A panel scrolls its lines. Letters typed before an input has the focus are not lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

GAP = 8
"""The number of unchanged cells between two changes up to which drawing them costs less than moving the cursor."""
WHEEL = 3
"""The number of lines per step of the mouse wheel."""
_NOTHING = Strip([])
Cell = tuple[str, Style | None]


class Drawn(Widget, inherit_bindings=False):
    """Lines from top to bottom; missing lines are blank."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._strips: list[Strip] = []

    def put(self, strips: list[Strip]) -> None:
        """Replace the lines, and redraw the cells that differ."""
        before, self._strips = self._strips, strips
        room = self.size
        regions = differing(before, strips, room)  # of the content: Textual adds the padding
        if regions or not room:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """Return one line in the style of this widget, adjusted to its width."""
        base = self.rich_style
        strip = self._strips[y] if y < len(self._strips) else _NOTHING
        drawn = strip.apply_style(base).adjust_cell_length(self.size.width, base)
        if not self.allow_select:
            return drawn
        span = self.text_selection.get_span(y) if self.text_selection else None
        return (self._selected(drawn, *span) if span else drawn).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """Return the text selected with the mouse."""
        return selection.extract("\n".join(strip.text.rstrip() for strip in self._strips)), "\n"

    def _selected(self, strip: Strip, first: int, end: int) -> Strip:
        style = self.screen.get_component_rich_style("screen--selection")
        before, inside, behind = strip.divide([first, strip.cell_length if end < 0 else end, strip.cell_length])
        return Strip.join([before, inside.apply_style(style), behind])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._strips)


def differing(before: Sequence[Strip], now: Sequence[Strip], room: Size) -> list[Region]:
    """Return the regions in which two sets of lines differ.

    >>> from rich.segment import Segment
    >>> old, new = [Strip([Segment("a b")]), Strip([Segment("c")])], [Strip([Segment("a c")])]
    >>> differing(old, new, Size(80, 24))
    [Region(x=2, y=0, width=1, height=1), Region(x=0, y=1, width=1, height=1)]
    """
    regions: list[Region] = []
    for y in range(min(max(len(before), len(now)), room.height)):
        old = before[y] if y < len(before) else _NOTHING
        new = now[y] if y < len(now) else _NOTHING
        if old != new:
            regions += (Region(first, y, end - first, 1) for first, end in _runs(_cells(old), _cells(new)))
    return regions


def _cells(strip: Strip) -> list[Cell]:
    """Return one item per cell; a wide character has a second item for its second cell."""
    found: list[Cell] = []
    for text, style, _ in strip:
        if text.isascii() or all(cell_len(character) == 1 for character in set(text)):
            found += zip(text, repeat(style))
        else:
            found += ((c * (1 + half), style) for c in text for half in range(max(1, cell_len(c))))
    return found


def _runs(old: list[Cell], new: list[Cell]) -> list[tuple[int, int]]:
    """Return the ranges of columns that differ, as (first, end)."""
    blank = (" ", None)
    length = max(len(old), len(new))
    old += [blank] * (length - len(old))
    new += [blank] * (length - len(new))
    runs: list[tuple[int, int]] = []
    for column in range(length):
        if old[column] == new[column] or (old[column][0] == " " == new[column][0] and _blank(old, new, column)):
            continue
        if runs and column - runs[-1][1] <= GAP:
            runs[-1] = runs[-1][0], column + 1
        else:
            runs.append((column, column + 1))
    return runs


def _blank(old: list[Cell], new: list[Cell], column: int) -> bool:
    """Return whether two blanks look the same: their text color is not visible."""
    before, now = old[column][1] or Style.null(), new[column][1] or Style.null()
    if before.underline or before.reverse or before.strike or now.underline or now.reverse or now.strike:
        return False
    return before.bgcolor == now.bgcolor


class Line(Drawn):
    """Text that redraws only changed cells. A long line is wrapped, or truncated if it must not wrap."""

    DEFAULT_CSS = "Line { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._now: Text | None = None
        self._is_high = False

    def say(self, text: Text, layout: bool = False) -> None:
        """Show text; `layout` means that the widget's height depends on it."""
        now, self._is_high = self._now, layout
        if now is None or text != now or text.spans != now.spans or text.style != now.style:
            self._now = text
            self._made(layout)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the text to the new width, which can change its height."""
        self._made(self._is_high)

    def _made(self, layout: bool) -> None:
        now, height, strips = self._now, len(self._strips), list[Strip]()
        console, width = self.app.console, self.size.width or self.app.size.width
        for line in now.split("\n", allow_blank=True) if now is not None else ():
            too_long = now is not None and not now.no_wrap and cell_len(line.plain) > width
            strips += (Strip(part.render(console)) for part in (line.wrap(console, width) if too_long else [line]))
        self.put(strips)
        if layout and len(self._strips) != height:
            self.refresh(layout=True)


def catch(line: Input, event: events.Key) -> None:
    """Insert a letter that reached the screen into the input; Textual handles other keys.

    Until the input has the focus, the screen receives the keys. They must neither be lost nor run another action.
    """
    if event.is_printable and event.character:
        event.stop()
        line.insert_text_at_cursor(event.character)


class Panel(Line):
    """As many lines as fit, starting at `top`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="panel-down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="panel-up", key_display="k"),
        Binding("g,home", "jump(0)", "first line", id="panel-top", key_display="g"),
        Binding("G,end", "jump(1)", "last line", id="panel-bottom", key_display="G"),
        Binding("pagedown", "page(1)", "page down", id="panel-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="panel-page-up", key_display="PgUp"),
    ]

    def __init__(self, id: str, room: int) -> None:
        super().__init__(id)
        self.room = room
        self.top = 0
        self._about: object = None
        self._lines: list[Text] = []

    @property
    def too_long(self) -> bool:
        """Whether there is something to scroll."""
        return len(self._lines) > self.room

    @property
    def where(self) -> str:
        """The visible lines and their total number; "" if all are visible."""
        last = min(self.top + self.room, len(self._lines))
        return f"{self.top + 1}-{last} of {len(self._lines)} Tab" if self.too_long else ""

    def fill(self, about: object, lines: Sequence[Text]) -> None:
        """Show these lines; if the topic changes, scroll to the beginning."""
        self._lines = list(lines)
        self.can_focus = self.too_long
        if about != self._about:
            self._about, self.top = about, 0
        self._show(self.top)

    def action_move(self, by: int) -> None:
        self._scroll(self.top + by)

    def action_page(self, by: int) -> None:
        self._scroll(self.top + by * max(1, self.room - 1))

    def action_jump(self, end: int) -> None:
        self._scroll(end * len(self._lines))

    def on_mouse_scroll_down(self) -> None:
        """Scroll with the wheel if there are more lines than are visible."""
        self._scroll(self.top + WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self._scroll(self.top - WHEEL)

    def _scroll(self, top: int) -> None:
        self._show(top)
        self.screen.call_later(getattr(self.screen, "panel_moved", lambda: None))

    def _show(self, top: int) -> None:
        self.top = max(0, min(top, len(self._lines) - self.room))
        self.say(Text("\n", end="").join(self._lines[self.top : self.top + self.room]))
