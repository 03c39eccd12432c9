"""The column selection of a table: one line per column, toggled with space. The selection is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from slotkeeper.console.tui.theme import style_of
from slotkeeper.console.tui.widgets.line import Line
from slotkeeper.console.views.fitting import Chosen
from slotkeeper.console.views.rows import Column, plain

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host
    from slotkeeper.console.tui.settings_file import SettingsFile

HEAD = " columns   space shows or hides, r resets, Esc or Enter closes"
_MOST = 16


class ColumnsScreen(ModalScreen[None]):
    """The columns of the screen below; `changed` redraws that screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace,enter,c", "close", "close"),
        Binding("j,down", "choose(1)", "next"),
        Binding("k,up", "choose(-1)", "previous"),
        Binding("space", "turn", "show or hide"),
        Binding("r", "again", "reset"),
    ]

    def __init__(self, name: str, columns: Sequence[Column], changed: Callable[[], Sequence[Column]]) -> None:
        super().__init__()
        self._table = name
        self._all = [one for one in columns if one.label]
        self._changed = changed
        self._seen = {one.key for one in changed()}
        self._place = 0

    def compose(self) -> ComposeResult:
        yield Line("offered")

    def on_mount(self) -> None:
        self._draw()

    def action_close(self) -> None:
        if self.app.screen is self:
            self.dismiss(None)

    def action_choose(self, step: int) -> None:
        self._place = (self._place + step) % len(self._all)
        self._draw()

    def action_turn(self) -> None:
        one = self._all[self._place]
        if one.width:
            chosen = self._settings.now.columns.get(self._table, Chosen())
            self._settings.change(chosen.turned(one.key, one.key in self._seen), "columns", self._table)
            self._renew()

    def action_again(self) -> None:
        self._settings.forget("columns", self._table)
        self._renew()

    @property
    def _settings(self) -> SettingsFile:
        return cast("Host", self.app).services.settings

    def _renew(self) -> None:
        self._seen = {one.key for one in self._changed()}
        self._draw()

    def _draw(self) -> None:
        theme, ascii_only = self.app.theme, cast("Host", self.app).ascii_only
        room = max(3, min(_MOST, self.app.size.height - 6))
        first = max(0, min(self._place - room // 2, len(self._all) - room))
        shown = self._settings.now.columns.get(self._table, Chosen()).shown
        lines = [Text(HEAD, style_of(theme, "accent"), end="")]
        for place, one in enumerate(self._all[first : first + room], first):
            mark = "x" if one.key in self._seen else " "
            why = "" if one.width else "  always" if mark == "x" else ""
            if mark == " " and one.key in shown:
                why = "  does not fit"
            elif mark == " " and one.least > self.app.size.width:
                why = f"  from width {one.least}"
            words = plain(f" [{mark}] {one.label}", ascii_only)
            line = Text(f"{words:<24}", "reverse" if place == self._place else "", end="")
            lines.append(line.append(why, style_of(theme, "dim")))
        self.query_one("#offered", Line).say(Text("\n", no_wrap=True, overflow="crop", end="").join(lines), layout=True)
