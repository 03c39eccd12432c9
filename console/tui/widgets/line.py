"""One or more lines of text that are drawn only where they differ, and what is typed before a line to type in is there.

Next door: `console.tui.widgets.panel` adds scrolling; `console.tui.screens.base` has most of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.strip import Strip
from textual.widgets import Input

from console.tui.widgets.diff_widget import Drawn


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
