"""One or more lines of text that are drawn only when they differ.

Next door: `console.widgets.panel` adds scrolling; `console.screens.frame` has most of them.
"""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static


class Line(Static):
    """Text that is drawn only when it differs."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._now: Text | None = None

    def say(self, text: Text, layout: bool = False) -> None:
        """Show it."""
        now = self._now
        if now is None or text != now or text.spans != now.spans or text.style != now.style:
            self._now = text
            self.update(text, layout=layout)
