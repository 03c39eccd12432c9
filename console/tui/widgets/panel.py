"""Lines below a table; where there are more of them than room it can be gone to with Tab, and scrolled.

Next door: `console.tui.screens.table` fills it, `console.tui.widgets.line` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from console.tui.widgets.line import Line


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
