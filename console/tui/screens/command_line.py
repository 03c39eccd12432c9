"""The line into which commands are typed, with what they can become above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from slotkeeper.console.tui import commands
from slotkeeper.console.tui.theme import style_of
from slotkeeper.console.tui.widgets.line import Line, catch
from slotkeeper.console.views.rows import plain

if TYPE_CHECKING:
    from slotkeeper.console.tui.host import Host

_MOST = 8


class PaletteScreen(ModalScreen[str]):
    """Ends with what was typed; "" where nothing is to be done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+p", "close", "close"),
        Binding("down", "choose(1)", "next"),
        Binding("up", "choose(-1)", "before"),
        Binding("tab", "complete", "complete"),
    ]

    def __init__(self, typed: str = "") -> None:
        super().__init__()
        self._typed = typed
        self._chosen = -1

    def compose(self) -> ComposeResult:
        """What it can become, then the line."""
        yield Line("offered")
        yield Input(f":{self._typed}", id="command", select_on_focus=False)

    def on_mount(self) -> None:
        """Nothing blinks."""
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).focus()
        self._offer()

    def on_key(self, event: events.Key) -> None:
        """What was typed faster than this came up."""
        catch(self.query_one(Input), event)

    def on_input_changed(self) -> None:
        """Other completions."""
        self._chosen = -1
        self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run what is chosen, else what is typed; where that is wrong say so and stay."""
        offered = commands.completions(self._owner, event.value)
        typed = offered[self._chosen][0] if 0 <= self._chosen < len(offered) else event.value
        said = commands.wrong(typed) if typed.strip(": ") else ""
        if not said:
            self._end(typed.strip(": "))
        elif self._chosen >= 0:
            self._fill(typed)
        else:
            self._offer(said)

    def action_close(self) -> None:
        """Do nothing."""
        self._end("")

    def _end(self, typed: str) -> None:
        """Close, unless a key that was typed twice has closed it already."""
        if self.app.screen is self:
            self.dismiss(typed)

    def action_choose(self, step: int) -> None:
        """Another completion."""
        number = len(commands.completions(self._owner, self.query_one(Input).value))
        self._chosen = (
            (self._chosen + step) % number if number and self._chosen >= 0 else (0 if step > 0 else number - 1)
        )
        self._offer()

    def action_complete(self) -> None:
        """The chosen completion, else the first."""
        offered = commands.completions(self._owner, self.query_one(Input).value)
        if offered:
            self._fill(offered[max(0, self._chosen)][0])

    @property
    def _owner(self) -> Host:
        return cast("Host", self.app)

    def _fill(self, typed: str) -> None:
        line = self.query_one(Input)
        line.value = f":{typed}"
        line.cursor_position = len(line.value)

    def _offer(self, said: str = "") -> None:
        offered = commands.completions(self._owner, self.query_one(Input).value)
        first = max(0, self._chosen - _MOST + 1)
        theme, ascii_only = self.app.theme, self._owner.ascii_only
        lines = []
        for place, (typed, does) in enumerate(offered[first : first + _MOST], first):
            words = Text(plain(f" :{typed:<16}", ascii_only), style="reverse" if place == self._chosen else "", end="")
            lines.append(words.append(f"  {does}", style_of(theme, "dim")))
        said = said or ("" if lines else "nothing begins so; Esc closes")
        lines += [Text(plain(f" {said}", ascii_only), style=style_of(theme, "warn"), end="")] if said else []
        text = Text("\n", no_wrap=True, overflow="crop", end="").join(lines)
        self.query_one("#offered", Line).say(text, layout=True)
