"""What the screens of an action share: nothing below them hears a key, texts scroll, and who may change anything.

An action is a command of the command line, run apart from the console: these screens only collect what it asks for and
show what became of it. Next door: `console.actions` has rules and commands, `console.tui.navigation` opens these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from console.actions.commands import Origin, shell_text
from console.actions.runner import Order, Runner
from console.monitor.snapshot import Level
from console.tui.screens.base import Frame, Line
from console.tui.widgets.panel import Panel
from core.errors import SlotkeeperError

READ_ONLY = "RO: nothing can be applied; `:rw reason` arms for ten minutes"


class Sheet(Panel, inherit_bindings=False):
    """Lines that scroll, as many as there is room for; it has the focus first. Letters of menus are left alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="act-down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="act-up", key_display="k"),
        Binding("home", "jump(0)", "first line", id="act-first", key_display="Home"),
        Binding("end", "jump(1)", "last line", id="act-last", key_display="End"),
        Binding("pagedown", "page(1)", "page down", id="act-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="act-page-up", key_display="PgUp"),
    ]

    class Scrolled(Message):
        """Other lines are shown."""

    def __init__(self) -> None:
        super().__init__("act-sheet", 1)
        self.can_focus = True

    def fill(self, about: object, lines: Iterable[Text]) -> None:
        """These lines; the focus stays where it is, scrolled or not."""
        super().fill(about, list(lines))
        self.can_focus = True

    def on_resize(self, event: events.Resize) -> None:
        """There is room for more or fewer."""
        if event.size.height and event.size.height != self.room:
            self.room = event.size.height
            self.action_move(0)
            self.post_message(self.Scrolled())


class ActScreen(Frame, ModalScreen[None]):
    """A screen over the one that the action was asked for on."""

    DEFAULT_CSS = """
    ActScreen { background: $background; }
    ActScreen #tabs { display: none; }
    ActScreen #act-sheet { height: 1fr; min-height: 2; width: 100%; }
    ActScreen #act-head, ActScreen #act-tail, ActScreen #act-title { width: 100%; height: auto; }
    """

    subject = False

    def body(self) -> Iterator[Widget]:
        """Title and lines."""
        yield Line("act-title")
        yield Sheet()

    def on_mount(self) -> None:
        """Something has the keys first."""
        super().on_mount()
        self.first().focus()

    def first(self) -> Widget:
        """What has the keys first: the lines."""
        return self.sheet

    @property
    def runs(self) -> Runner:
        """What sets commands going."""
        return self.console.services.runs

    @property
    def origin(self) -> Origin:
        """The configuration and the folder that the commands are to use."""
        services = self.console.services
        config = str(services.loaded.path.resolve()) if services.loaded else ""
        return Origin(config, str(Path(services.folder).resolve()))

    @property
    def sheet(self) -> Sheet:
        """The lines that scroll."""
        return self.query_one(Sheet)

    def set_going(self, order: Order) -> str | None:
        """Begin a command; says why where it was refused."""
        try:
            return self.runs.start(order)
        except SlotkeeperError as error:
            self.console.say(f"{error}" + (f"; {error.hint}" if error.hint else ""), Level.CRITICAL)
            return None

    def may_change(self) -> bool:
        """Whether this console is armed; says so where it is not."""
        if self.console.armed is None:
            self.console.say(READ_ONLY, Level.WARNING)
            return False
        return True

    def copied(self, words: Iterable[str]) -> None:
        """Copy a command."""
        self.console.copy_to_clipboard(shell_text(list(words)))

    def panes(self) -> list[Widget]:
        """Lines, fields in the order of typing, Cancel, Apply."""
        return [*self.query(Sheet), *self.query(Input), *self.query(".act-press")]

    def on_descendant_focus(self) -> None:
        """Other keys act now."""
        self.say("keys", self._keys())

    def headline(self, words: str) -> None:
        """The title in a rule."""
        self.say("act-title", self.rule(words))
