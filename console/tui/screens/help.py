"""Help: the keys and commands of the screen below. Typing searches; Enter runs the entry on that screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.tui.commands import COMMANDS
from slotkeeper.console.tui.keymap import Bound, bindings_of, keys_of
from slotkeeper.console.tui.screens.base import Frame, Line
from slotkeeper.console.tui.widgets.line import catch
from slotkeeper.console.views.fitting import wrapped
from slotkeeper.console.views.rows import plain

HEADINGS = {"screen": "THIS SCREEN", "table": "TABLE", "everywhere": "EVERYWHERE", "own commands": "OWN COMMANDS"}
ACTS = "THESE CAN CHANGE JOBS, SLOTS OR SESSIONS; EACH ASKS FIRST"
CHANGING = frozenset({"act", "pause", "end-session"})
"""The ids of these keys."""
LEGEND = (
    ("STATES", ("x critical   ! warning   ? unknown", "~ in progress   - stopped   (blank) fine")),
    (
        "OVER SSH",
        (
            "select text with the mouse; if it is on (m): Shift+drag",
            "y copies with OSC 52, in tmux to the tmux buffer,",
            "and always to clip.txt in the state folder",
        ),
    ),
    (
        "10 MIN",
        (
            "events per second: each bar step is a factor of ten;",
            "--ascii: number of digits, . below 1, _ none, ? unknown",
        ),
    ),
    (
        "CHANGES",
        (
            "read-only at start; `:rw REASON` allows changes for",
            "ten minutes, or until `:ro`; a read-only console stops",
            "at an action's preview; --read-only forbids changes",
        ),
    ),
)
"""Lines that fit the narrowest screen."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of help; `run` executes it, or is None if the line is only text."""

    key: str
    words: str
    run: Callable[[], Awaitable[object]] | None = None
    heading: bool = False

    def fits(self, wanted: str) -> bool:
        """Return whether a search finds the entry."""
        return wanted.casefold() in f"{self.key} {self.words}".casefold()

    def begins(self, wanted: str) -> bool:
        """Return whether the entry's text or command starts with the search text, or its key equals it."""
        return wanted in self.key.split() or self.words.casefold().startswith(wanted.casefold())


class HelpScreen(Frame):
    """The keys of the screen below, taken from its bindings."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "choose(1)", "down", id="help-down", key_display="Down"),
        Binding("up", "choose(-1)", "up", id="help-up", key_display="Up"),
        Binding("pagedown", "page(1)", "page down", id="help-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="help-page-up", key_display="PgUp"),
    ]
    its_place = "Help   Enter runs the key on the screen below"
    subject = False
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "help-page-down", "help-page-up")

    def __init__(self, of: Frame) -> None:
        super().__init__()
        self._of = of
        self._wanted = ""
        self._chosen = 0
        self._top = 0
        self.number = of.number

    def body(self) -> Iterator[Widget]:
        yield Line("title")
        yield Input(id="search", placeholder="type to search, Enter runs the key", select_on_focus=False)
        yield Line("body")

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).focus()
        legend = [
            entry
            for heading, lines in LEGEND
            for entry in (Entry("", heading, heading=True), *(Entry("", line) for line in lines))
        ]
        self._every = [*self._keys_of_screen(), *self._commands(), *legend]
        self._choose(1, -1)
        super().on_mount()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.redraw)

    def draw(self) -> None:
        armed = self.console.armed
        state = (
            f"armed: {armed.reason}" if armed else "read-only (--read-only)" if self.console.read_only else "read-only"
        )
        crumb = self._of.crumb().partition("   ")[0]
        self.say("title", self.rule(f"Help: {crumb}", state))
        self.say("body", self._drawn())

    def action_choose(self, step: int) -> None:
        self._choose(self._chosen + step, step)
        self.redraw()

    def action_page(self, step: int) -> None:
        """Move one page, with an overlap of one line; a long entry takes several lines."""
        found, top = self._found(), self._top
        if step > 0:
            self._top = max(top + 1, self._end(found, top) - 1)
            self._choose(self._top + 1, step)
        else:
            while top > 0 and self._end(found, top - 1) >= self._top:
                top -= 1
            self._top = top
            self._choose(top + 1, step)
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        catch(self.query_one(Input), event)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._wanted, self._top = event.value.strip(), 0
        self._choose(0, 1)
        self.redraw()

    def on_input_submitted(self) -> None:
        found = self._found()
        run = found[self._chosen].run if self._chosen < len(found) else None
        if run is not None and self.close_screen():
            self.app.call_later(run)

    # Internal

    @property
    def _room(self) -> int:
        return max(1, self.query_one("#body").size.height)

    def _keys_of_screen(self) -> Iterator[Entry]:
        every = [one for one in bindings_of(self._of) if one.binding.description]
        changing = [one for one in every if one.binding.id in CHANGING]
        groups = [(ACTS, changing)] + [
            (heading, [one for one in every if one.where == where and one not in changing])
            for where, heading in HEADINGS.items()
        ]
        for heading, here in groups:
            yield from [Entry("", heading, heading=True), *map(self._entry, here)] if here else []

    def _entry(self, one: Bound) -> Entry:
        more = f": {one.binding.tooltip}" if one.binding.tooltip else ""

        async def run() -> None:
            await self.app.run_action(one.binding.action, one.node)

        return Entry(" or ".join(keys_of(one.binding)), f"{one.binding.description}{more}", run)

    def _commands(self) -> Iterator[Entry]:
        yield Entry("", "COMMANDS", heading=True)
        for command in COMMANDS.values():
            typed = f"{command.name} " if command.argument else command.name

            async def run(typed: str = typed) -> None:
                self.console.action_palette(typed)

            yield Entry(f":{command.usage}", command.help, run)

    def _found(self) -> list[Entry]:
        if not self._wanted:
            return self._every
        found = [one for one in self._every if not one.heading and one.fits(self._wanted)]
        return sorted(found, key=lambda one: not one.begins(self._wanted))

    def _choose(self, place: int, step: int) -> None:
        found = self._found()
        place = max(0, min(place, len(found) - 1))
        if found and found[place].heading:
            place = min(place + 1, len(found) - 1) if step > 0 or place == 0 else place - 1
        self._chosen = place
        self._top = max(0, min(self._top, place - 1))

    def _end(self, found: Sequence[Entry], top: int) -> int:
        """Return the index after the last entry that is completely visible if `top` is the first."""
        left, width = self._room, self.query_one("#body").size.width or self.app.size.width
        for place, one in enumerate(found[top:], top):
            left -= len(self._lines_of(one, False, width))
            if left < 0:
                return max(place, top + 1)
        return len(found)

    def _drawn(self) -> Text:
        found = self._found()
        if all(one.heading for one in found[: self._chosen]):
            self._top = 0  # with its heading, also after the screen was drawn before it had its height
        while self._top < self._chosen and self._end(found, self._top) <= self._chosen:
            self._top += 1
        while self._top > 0 and self._end(found, self._top - 1) == len(found):
            self._top -= 1  # fill the last page
        width = self.query_one("#body").size.width or self.app.size.width
        lines = [
            line
            for place, one in enumerate(found[self._top : self._top + self._room], self._top)
            for line in self._lines_of(one, place == self._chosen, width)
        ]
        return Text("\n", end="").join(lines[: self._room] or [self.text("no key or command matches")])

    def _lines_of(self, entry: Entry, chosen: bool, width: int) -> list[Text]:
        """Return the lines of an entry; continuation lines are indented below its text."""
        style = self.style("here") if entry.heading else "reverse" if chosen else ""
        key = "" if entry.heading else f"  {entry.key:<18} " if entry.key else "  "
        rows = wrapped(plain(entry.words, self.console.ascii_only), width, key, " " * len(key))
        lines = [Text(row, style, no_wrap=True, overflow="crop", end="") for row in rows]
        if entry.key and lines:
            lines[0].stylize(self.style("accent"), 0, len(key))
        return lines
