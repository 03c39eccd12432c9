"""What all screens share: identity and screens above, place and keys below, and what to do at odd sizes.

A screen draws the app's picture when it is told to: it has no timer of its own, so a hidden one costs nothing.
Next door: `console.screens.table` adds a live table; `console.app` tells the screens.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from console.picture import Level
from console.rows import NARROW, WIDE, age, plain
from console.widgets.live_table import ROLES
from core.domain.text import safe

if TYPE_CHECKING:
    from console.app import ConsoleApp

SMALLEST = (60, 15)
FULL = (80, 24)
CALM = ("DEMO", "DEV", "TEST")
TINY = "terminal too small (60x15 at least): make it larger, or use `slotkeeper status`"
Lines = Iterable[tuple[Level, str]]


class Line(Static):
    """Text that is drawn only when it differs."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._now: Text | None = None

    def say(self, text: Text, layout: bool = False) -> None:
        """Show it."""
        if text != self._now or (self._now is not None and text.spans != self._now.spans):
            self._now = text
            self.update(text, layout=layout)


class Frame(Screen[None]):
    """A screen; `number` is its key, `name_of` its name among the screens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back", id="back", key_display="Esc"),
    ]
    number = ""
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "pause", "refresh", "quit")

    @property
    def console(self) -> ConsoleApp:
        """The app, as ours."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        """Rows from top to bottom; `body` is the screen's own."""
        yield Line("identity")
        yield Line("tabs")
        yield from self.body()
        yield Line("crumb")
        yield Line("keys")
        yield Line("tiny")

    def body(self) -> Iterator[Widget]:
        """The widgets between tabs and place."""
        raise NotImplementedError

    def draw(self) -> None:
        """Show the app's picture."""
        raise NotImplementedError

    def crumb(self) -> str:
        """Where one is."""
        return ""

    def on_mount(self) -> None:
        """The first picture."""
        self.redraw()

    def on_screen_resume(self) -> None:
        """The picture may have changed while this was hidden, and another one may be wanted."""
        self.console.arrived()
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        """Choose what a terminal of this size shows."""
        width, height = event.size.width, event.size.height
        self.set_class(width < SMALLEST[0] or height < SMALLEST[1], "-tiny")
        self.set_class(width < FULL[0] or height < FULL[1], "-small")
        self.redraw()

    def redraw(self) -> None:
        """Everything, where this is what is seen."""
        if not self.is_mounted or not self.is_current:
            return
        self.tick()
        self._line("tabs").say(self._tabs())
        self._line("keys").say(self._keys())
        self._line("tiny").say(Text(TINY))
        self.draw()
        self._line("crumb").say(self.text(f" {self.crumb()}"))

    def tick(self) -> None:
        """The first row: where we are, how old this is, what time it is."""
        self._line("identity").say(self._identity())

    def action_back(self) -> None:
        """Nothing to go back to."""

    # Texts

    def text(self, words: str, level: Level = Level.FINE) -> Text:
        """Words in the colour of a severity; never parsed."""
        role = ROLES.get(level)
        style = self.app.theme_variables.get(f"role-{role}", "") if role else ""
        return Text(plain(words, self.console.ascii_only), style=style, no_wrap=True, overflow="crop", end="")

    def paragraph(self, lines: Lines, most: int) -> Text:
        """Several lines, wrapped, at most so many."""
        made: list[Text] = []
        for level, words in lines:
            wrapped = textwrap.wrap(words, self._width - 1, initial_indent=" ", subsequent_indent="   ")
            made += [self.text(self._cut(line), level) for line in wrapped]
        return Text("\n", end="").join(made[:most])

    def rule(self, words: str) -> Text:
        """A title in a rule across the screen."""
        line = "-" if self.console.ascii_only else "\u2500"
        start = self._cut(f"{line} {plain(words, self.console.ascii_only)} ")
        return Text(start + line * max(0, self._width - cell_len(start)), no_wrap=True, end="")

    def say(self, id: str, text: Text, layout: bool = False) -> None:
        """Put a text into a line of this screen."""
        self._line(id).say(text, layout)

    @property
    def _width(self) -> int:
        return max(SMALLEST[0], self.app.size.width)

    def _cut(self, words: str) -> str:
        shown = plain(words, self.console.ascii_only)
        if cell_len(shown) <= self._width:
            return shown
        while cell_len(shown) > self._width - 2:
            shown = shown[: min(len(shown) - 1, self._width)]
        return shown + ".."

    def _line(self, id: str) -> Line:
        return self.query_one(f"#{id}", Line)

    def _identity(self) -> Text:
        app, wide = self.console, self.app.size.width >= WIDE
        local, now = app.shown.local, app.now
        calm = all(one.upper() in CALM for one in app.environments)
        style = app.theme_variables.get("role-badge-calm" if calm else "role-badge", "")
        text = Text(no_wrap=True, end="")
        text.append(f" {safe('+'.join(app.environments) or 'no environment', 20)} ", style=style)
        if app.stand_in:
            text.append(" SOURCE is a stand-in")
        text.append("  RO  ")
        seen = "? (not read yet)" if local is None else age(local.at, now) + (" old" if wide else "")
        old = local is None or app.is_stale(local.at)
        text.append(f"data {seen}", style=app.theme_variables.get("role-warn", "") if old else "")
        if old and local is not None:
            text.append(" STALE", style=app.theme_variables.get("role-warn", ""))
        stamp = f"{now:%Y-%m-%d %H:%M:%S} UTC " if wide else f"{now:%H:%M:%S}Z "
        if app.paused:
            stamp = f"paused {stamp}"
        room = self._width - cell_len(text.plain) - len(stamp)
        return text.append(" " * max(1, room) + stamp)

    def _tabs(self) -> Text:
        text = Text(no_wrap=True, end="")
        accent = self.app.theme_variables.get("role-accent", "")
        gap = "  " if self._width >= NARROW else " "
        for number, (_, label) in self.console.SCREEN_KEYS.items():
            mine = number == self.number
            text.append(
                f"[{number} {label}]" if mine else f" {number} {label} ", style=f"bold {accent}" if mine else ""
            )
            text.append(gap if int(number) < 7 and self._width >= WIDE else "")
        return text

    def _keys(self) -> Text:
        text = Text(" ", no_wrap=True, end="")
        accent = self.app.theme_variables.get("role-accent", "")
        every = {binding.id: binding for binding in self.console.bindings_of(self)}
        for name in self.keys_shown:
            binding = every[name]
            key = binding.key_display or binding.key
            if cell_len(text.plain) + len(key) + 1 + len(binding.description) > self._width:
                break
            text.append(key, style=accent).append(f" {binding.description}  ")
        return text
