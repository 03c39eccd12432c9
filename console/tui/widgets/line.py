"""One or more lines of text that are drawn only where they differ, and what is typed before a line to type in is there.

A panel of them can be scrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widgets import Input

from slotkeeper.console.tui.widgets.diff_widget import Drawn


class Line(Drawn):
    """Text that is drawn only where it differs; a line that is too long is wrapped, or cut where it must not be."""

    DEFAULT_CSS = "Line { height: auto; }"

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self._now: Text | None = None

    def say(self, text: Text, layout: bool = False) -> None:
        """Show it; `layout` where this is as high as its text."""
        now = self._now
        if now is None or text != now or text.spans != now.spans or text.style != now.style:
            self._now = text
            self._made(layout)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap anew."""
        self._made(False)

    def _made(self, layout: bool) -> None:
        height = len(self._strips)
        self.put(list(self._lines_of(self._now)) if self._now is not None else [])
        if layout and len(self._strips) != height:
            self.refresh(layout=True)

    def _lines_of(self, text: Text) -> Iterator[Strip]:
        console, width = self.app.console, self.size.width or self.app.size.width
        for line in text.split("\n", allow_blank=True):
            too_long = not text.no_wrap and cell_len(line.plain) > width
            for part in line.wrap(console, width) if too_long else [line]:
                yield Strip(part.render(console))


def catch(line: Input, event: events.Key) -> None:
    """Give the line a letter that came to its screen; other keys find their way by themselves.

    Keys that were typed before a line was there to take them must neither be lost nor mean anything else: a screen gets
    them itself until its line has the focus.
    """
    if event.is_printable and event.character:
        event.stop()
        line.insert_text_at_cursor(event.character)


class Panel(Line):
    """As many lines as there is room for, from `top` on."""

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
        """Which lines are shown of how many; "" where that is all of them."""
        last = min(self.top + self.room, len(self._lines))
        return f"{self.top + 1}-{last} of {len(self._lines)} Tab" if self.too_long else ""

    def fill(self, about: object, lines: Sequence[Text]) -> None:
        """These lines; about another thing than before they begin at their beginning."""
        self._lines = list(lines)
        self.can_focus = self.too_long
        if about != self._about:
            self._about, self.top = about, 0
        self._show(self.top)

    def action_move(self, by: int) -> None:
        """Lines up or down."""
        self._scroll(self.top + by)

    def action_page(self, by: int) -> None:
        """Pages up or down."""
        self._scroll(self.top + by * max(1, self.room - 1))

    def action_jump(self, end: int) -> None:
        """To the beginning or the end."""
        self._scroll(end * len(self._lines))

    def _scroll(self, top: int) -> None:
        self._show(top)
        self.screen.call_later(getattr(self.screen, "panel_moved", lambda: None))

    def _show(self, top: int) -> None:
        self.top = max(0, min(top, len(self._lines) - self.room))
        self.say(Text("\n", end="").join(self._lines[self.top : self.top + self.room]))
