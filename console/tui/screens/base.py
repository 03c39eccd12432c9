"""The base of all screens: identity and tabs at the top, crumb and keys at the bottom, and the layout in between.

No content is lost at any size. On a small terminal, the table scrolls before the panel disappears, because the panel
shows problems and actions. A screen draws the app's state when the app calls it. It has no timer, so a
hidden screen uses no CPU time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.cli.context import with_config
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import AROUND, framed
from slotkeeper.console.tui.keymap import bindings_of, shown_key
from slotkeeper.console.tui.output import Near
from slotkeeper.console.tui.theme import style_of
from slotkeeper.console.tui.widgets.line import Line as Line
from slotkeeper.console.views.detail import split
from slotkeeper.console.views.fitting import wrapped
from slotkeeper.console.views.header import MOST_BADGE, Identity, parts, tabs
from slotkeeper.console.views.rows import WIDE, age, plain
from slotkeeper.console.views.signs import ROLES
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host
    from slotkeeper.console.views.slots import SlotFacts

FULL = (80, 24)
"""The usual size of a terminal in columns and rows; with fewer of either, a terminal counts as small."""
USUAL_ROWS = 30
TABS = (72, 18)
"""The minimum numbers of columns and rows for tabs."""
LEAST_TABLE = 3
"""The minimum height of a table, also set in console.tcss."""
LEAST_PANEL = 3
_AROUND = 4
"""The number of rows around every table: identity, title, crumb, and keys."""
_FOOTS = 2
"""The number of rows for the lower edges of two frames."""
MOST_ABOVE = 8
"""The maximum number of rows above a table, also set in console.tcss."""
_WRAPPED = 1
"""The number of rows above a table that are guaranteed in addition to one per part, whatever the table needs."""


@dataclass(frozen=True, slots=True)
class Share:
    """The layout in rows: `above` the table, and in the `panel` without its title; 0 means no panel."""

    above: int
    panel: int


def is_small(width: int, height: int) -> bool:
    """Return whether the terminal is smaller than the usual size."""
    return width < FULL[0] or height < FULL[1]


def has_tabs(width: int, height: int) -> bool:
    """Return whether there is room for the tabs."""
    return width >= TABS[0] and height >= TABS[1]


def share(width: int, height: int, rows: int, above: tuple[int, int], least_panel: int) -> Share:
    """Return the layout of a screen whose table has `rows` rows. `above`: the minimum and maximum rows above it.

    >>> share(80, 24, 4, (3, 4), 7), share(80, 24, 40, (3, 4), 7)
    (Share(above=4, panel=7), Share(above=4, panel=7))
    >>> share(80, 23, 2, (3, 4), 7), share(60, 15, 2, (3, 4), 7), share(60, 15, 40, (3, 4), 7)
    (Share(above=4, panel=8), Share(above=3, panel=4), Share(above=1, panel=3))
    """
    needed = max(LEAST_TABLE, rows + 1)
    free = height - _AROUND - has_tabs(width, height) - _FOOTS * framed(width, height)
    if not is_small(width, height):
        panel = least_panel + max(0, (height - USUAL_ROWS) // 2)
        taken = min(above[1], MOST_ABOVE, above[0] + max(_WRAPPED, free - 1 - panel - needed - above[0]))
        return Share(taken, max(panel, free - 1 - taken - needed))
    panel = max(LEAST_PANEL, min(least_panel, free // 3))
    spare = free - 1 - panel - needed
    few = 3 if free >= 14 else 1
    taken = min(above[1], max(few, min(spare, spare // 2 + few)))
    return Share(taken, max(min(panel, free - 1 - taken - LEAST_TABLE), free - 1 - taken - needed))


def rows_of(parts: Sequence[tuple[int, Sequence[Text]]], most: int) -> list[int]:
    """Return the number of rows of each part: one each as far as possible, the remaining rows by rank, lowest first.

    >>> some = [Text("a")] * 3
    >>> rows_of([(2, some), (0, some), (2, some[:1])], 5), rows_of([(2, some), (0, some)], 1)
    ([1, 3, 1], [1, 0])
    """
    given = [int(place < most) for place in range(len(parts))]
    left = most - sum(given)
    for place in sorted(range(len(parts)), key=lambda place: parts[place][0]):
        more = min(max(0, len(parts[place][1]) - given[place]), max(0, left)) if given[place] else 0
        given[place] += more
        left -= more
    return given


SMALLEST = (60, 15)
TINY = "terminal too small (minimum 60x15): enlarge it, or use `slotkeeper status`"
Lines = Iterable[tuple[Level, str]]
OUTERMOST = "nothing to close here; q quits the console"
ONE_PANE = "everything is visible: there is no other pane"
ALERTS = "6"
SELECTS = "Shift+drag selects text "
"""Shown above the keys until the mouse is used: while a program uses the mouse, a terminal selects only with Shift."""
HISTORY_KEYS = {"help": "", "earlier": "", "later": "", "freeze": "play", "history": "leave history", "palette": ""}
"""The keys shown in history mode, with a label if their action differs there."""


class Frame(Screen[None]):
    """A screen; `number` is the key that opens it, "" if it has none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "back", id="back", key_display="Esc", tooltip="close, clear or leave"),
        Binding(
            "tab", "pane(1)", "pane", id="pane", key_display="Tab", tooltip="go to the next pane that has hidden lines"
        ),
        Binding("shift+tab", "pane(-1)", "previous pane", id="pane-before", key_display="Shift+Tab"),
        Binding("left_square_bracket", "sibling(-1)", "previous", id="previous", key_display="["),
        Binding("right_square_bracket", "sibling(1)", "next", id="next", key_display="]"),
    ]
    keys_work = "everywhere"
    """The scope of a class's keys, for help; "screen" if a class does not set it."""
    number = ""
    its_place = ""
    """The crumb, if it is fixed."""
    subject = True
    """Whether the screen has its own content; otherwise help describes the screen below it."""
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "freeze", "refresh", "quit")

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[str, dict[str, int]] = {"tabs": {}, "keys": {}}
        """The column at which each name ends in the clickable rows, by the name of the key's action."""
        self._compositor = Near()

    @property
    def console(self) -> Host:
        """The app, typed as `Host`."""
        return cast("Host", self.app)

    def compose(self) -> ComposeResult:
        """Yield the rows from top to bottom; `body` is the screen's own part."""
        yield Line("identity")
        yield Line("tabs")
        yield from self.body()
        yield Line("crumb")
        yield Line("keys")
        yield Line("tiny")

    def body(self) -> Iterator[Widget]:
        """Yield the widgets between tabs and crumb."""
        raise NotImplementedError

    def draw(self) -> None:
        """Draw the app's state."""
        raise NotImplementedError

    @property
    def without_parts(self) -> bool:
        """Whether the screen has no widgets, because it is opening or was closed; it can still be mounted."""
        return not self.children

    @property
    def awaits(self) -> bool:
        """Whether the screen waits for data that its keys act on; keys are queued until the data arrives."""
        return False

    async def on_event(self, event: events.Event) -> None:
        """Ignore keys and mounting while the screen has no widgets, because it is opening or was closed."""
        if self.children or not isinstance(event, events.Mount | events.Key):
            await super().on_event(event)

    def crumb(self) -> str:
        """Return the text that shows the current location."""
        return self.its_place

    def panes(self) -> list[Widget]:
        """Return the widgets that Tab cycles through."""
        return []

    def jobs_meant(self) -> list[str]:
        """Return the jobs to which a typed verb without job names applies."""
        job = str(getattr(self, "job", ""))
        return [job] if job else []

    def slot_meant(self) -> SlotFacts | None:
        """Return the slot to which a typed verb without a slot name applies."""
        return None

    def row_meant(self) -> dict[str, str]:
        """Return the selected row's values for an own command. Raises ValueError with the reason if there are none."""
        slot, jobs, loaded = self.slot_meant(), self.jobs_meant(), self.console.services.loaded
        if slot is not None:
            return {"JOB": slot.slot.job or "", "TABLE": slot.seen.table, "SLOT": slot.slot.name}
        if len(jobs) != 1:
            raise ValueError(
                "select one row only: press u to unmark" if jobs else "no row of a job or slot is selected"
            )
        spec = loaded.jobs.get(jobs[0]) if loaded is not None else None
        if spec is None:
            return {"JOB": jobs[0]}
        tables = [one.source_table for one in spec.channels]
        return {"JOB": jobs[0], "TABLE": tables[0] if len(tables) == 1 else "", "SLOT": spec.slot}

    def neighbours(self) -> list[str]:
        """Return the keys of all objects of the kind that this screen shows, in list order."""
        return []

    def action_sibling(self, step: int) -> None:
        """Show the next or the previous object of this kind."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self._css_update_count = (
            self.app._css_update_count
        )  # its widgets already have the current theme: see `slotkeeper.console.tui.base_app`
        self.redraw()
        self.console.release_keys()

    def on_screen_resume(self) -> None:
        """Redraw a screen that was hidden, and collect its data."""
        self.console.arrived()
        self.redraw()

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size.width, event.size.height
        self.set_class(width < SMALLEST[0] or height < SMALLEST[1], "-tiny")
        self.set_class(not has_tabs(width, height), "-untabbed")
        self.redraw()

    def redraw(self) -> None:
        """Redraw everything if this is the current screen."""
        if not self.is_current or not self._is_composed:
            return
        self.draw_identity()
        self._line("tabs").say(self._tabs())
        self._line("keys").say(self._keys())
        self._line("tiny").say(Text(TINY))
        self.draw()
        self.draw_crumb()

    def renewed(self) -> None:
        """Read this screen's own data again, after `r` or after an action."""

    def tick(self) -> None:
        """Update the ages, every second."""
        self.draw_identity()

    def draw_identity(self) -> None:
        """Draw the first row."""
        if self._is_composed:
            self._line("identity").say(self._identity())

    def draw_crumb(self) -> None:
        """Draw the location or the last message."""
        if self._is_composed:
            level, words = self.console.said or (Level.FINE, self.crumb())
            text = self.text(self.cut(f" {words}"), level)
            room = self._width - cell_len(text.plain)
            if self.console.mouse_on and not self.console.mouse_used and room > len(SELECTS):
                text.append(f"{SELECTS:>{room}}", self.style("dim"))
            self._line("crumb").say(text)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key has an effect here; other keys are hidden.

        No key has an effect while the screen opens.
        """
        if self.without_parts:
            return False
        if action == "pane":
            return bool(self.panes())
        return bool(self.neighbours()) if action == "sibling" else True

    def on_click(self, event: events.Click) -> None:
        """Run the action of the clicked tab or key name."""
        ends = self._ends.get(str(event.widget.id) if event.widget is not None else "", {})
        name = next((name for name, end in ends.items() if event.screen_x < end), "")
        if name:
            self.console.press(name)

    def action_back(self) -> None:
        self.close_screen()

    def close_screen(self) -> bool:
        """Close this screen if it is the current one and there is one below it; return whether it was closed.

        A key typed twice, faster than screens change, closes only one screen.
        """
        app = self.app
        if app.screen is not self:
            return False
        if len(app.screen_stack) < 2:
            self.console.say(OUTERMOST)
            return False
        if self.awaits:
            self.console.drop_keys()  # a click precedes queued keystrokes, which must not act on another screen
        app.pop_screen()
        return True

    def action_pane(self, step: int) -> None:
        panes = [one for one in self.panes() if one.display and one.can_focus]
        if len(panes) < 2:
            self.console.say(ONE_PANE)
        if not panes:
            return
        place = panes.index(self.focused) + step if self.focused in panes else 0
        self.set_focus(panes[place % len(panes)])

    # Texts

    def style(self, role: str) -> str:
        """Return the style of a role in the current theme."""
        return style_of(self.app.theme, role)

    def text(self, words: str, level: Level = Level.FINE) -> Text:
        """Return text in the color of a severity; it is never parsed as markup."""
        role = ROLES.get(level)
        style = self.style(role) if role else ""
        return Text(plain(words, self.console.ascii_only), style=style, no_wrap=True, overflow="crop", end="")

    def wrapped(self, lines: Lines, boxed: bool = False, width: int = 0) -> list[Text]:
        """Return lines, wrapped to the width of the screen or of their box."""
        made: list[Text] = []
        width, first = (width or self.inner, "") if boxed and self.framed else (self._width - 1, " ")
        for level, words in lines:
            shown = plain(with_config(words, self.console.services.config), self.console.ascii_only)
            label, said = split(shown)
            rows = wrapped(said, width, first + label, first + " " * (len(label) or 2))
            made += [self.text(line, level) for line in rows]
            if label and rows and not label.strip().isupper():  # a label in capital letters is drawn like its text
                made[-len(rows)].stylize(self.style("dim"), 0, len(first + label))
        return made

    def paragraph(self, lines: Lines, most: int) -> Text:
        """Return lines, wrapped, at most `most` rows."""
        return Text("\n", no_wrap=True, end="").join(self.wrapped(lines)[:most])

    def rule(self, words: str, right: str = "", style: str = "") -> Text:
        """Return a title in a rule across the screen, with text at its right end if there is room."""
        line = "-" if self.console.ascii_only else "\u2500"
        start = self.cut(f"{line} {plain(words, self.console.ascii_only)} ")
        end = f" {plain(right, self.console.ascii_only)} {line}" if right else ""
        room = self._width - cell_len(start) - cell_len(end)
        if room < 1:
            end, room = "", self._width - cell_len(start)
        return Text(start + line * max(0, room) + end, style=style, no_wrap=True, end="")

    def say(self, id: str, text: Text, layout: bool = False) -> None:
        """Show a text in a widget of this screen."""
        self._line(id).say(text, layout)

    @property
    def framed(self) -> bool:
        """Whether there is room for frames."""
        return framed(*self.app.size)

    @property
    def inner(self) -> int:
        """The width of a line in the panel, inside its frame if there is one."""
        return self._width - (AROUND if self.framed else 0)

    @property
    def _width(self) -> int:
        return max(SMALLEST[0], self.app.size.width)

    def cut(self, words: str, most: int = 0) -> str:
        """Return the text truncated to `most` cells or the screen's width; a truncated text ends with two dots."""
        shown, most = plain(words, self.console.ascii_only), most or self._width
        if cell_len(shown) <= most:
            return shown
        while cell_len(shown) > most - 2:
            shown = shown[: min(len(shown) - 1, most)]
        return shown + ".."

    def _line(self, id: str) -> Line:
        return self.query_one(f"#{id}", Line)

    @property
    def _is_composed(self) -> bool:
        """Whether the widgets exist. Keys and ticks can arrive before a screen is composed and after it was closed."""
        return self.is_mounted and bool(self.query("#identity")) and bool(self.query("#crumb"))

    def _identity(self) -> Text:
        app = self.console
        at, armed = app.shown.local.at, app.armed
        one = Identity(
            environments=app.environments,
            who=app.services.who,
            armed=armed.countdown(app.instant()) if armed else "",
            every=app.every,
            seen="? (not read yet)" if at is None else age(at, app.now),
            stale=at is not None and app.is_stale(at),
            now=app.now,
            paused=app.paused,
            history=app.in_history,
            stand_in=app.stand_in,
            route=self._route(),
        )
        text = Text(no_wrap=True, end="")
        for role, words in parts(one, self._width):
            text.append(plain(words, app.ascii_only), style=self.style(role) if role else "")
        return text

    def _route(self) -> str:
        """Return the names of source and sink in the configuration; their number if there are several."""
        kinds = zip(("sources", "sinks"), self.console.ends, strict=True)
        ends = [safe(names[0], 16) if len(names) == 1 else f"{len(names)} {kind}" for kind, names in kinds if names]
        return (" -> " if self.console.ascii_only else " \u2192 ").join(ends)

    def _tabs(self) -> Text:
        text = Text(no_wrap=True, end="")
        app, wide = self.console, self._width >= WIDE
        names = {number: label for number, (_, label) in app.SCREEN_KEYS.items()}
        ends = self._ends["tabs"] = {}
        for number, label in tabs(names, app.counts, self.number, self._width).items():
            mine, some = number == self.number, app.counts.get(number, 0)
            left, right = ("[", "]") if mine else (" ", " ")
            text.append(left, self.style("frame")).append(number, self.style("key" if mine else "dim")).append(" ")
            text.append(label, self.style("here" if mine else "strong" if some else "dim"))
            if some:
                role = "crit" if number == ALERTS and app.critical else "warn"
                text.append(" ").append(str(min(some, MOST_BADGE)), self.style(f"{role}-word"))
            text.append(right, self.style("frame")).append("  " if wide and int(number) < len(app.SCREEN_KEYS) else "")
            ends[app.SCREEN_KEYS[number][0]] = cell_len(text.plain)
        return text

    def keys_now(self) -> Mapping[str, str]:
        """Return the keys to show at the bottom, each with its label if that differs from the usual label."""
        return dict.fromkeys(self.keys_shown, "")

    def _keys(self) -> Text:
        text = Text(" ", no_wrap=True, end="")
        every = {each.binding.id: each.binding for each in bindings_of(self)}
        said = HISTORY_KEYS if self.console.in_history else self.keys_now()
        ends = self._ends["keys"] = {}
        for binding in (every[name] for name in said if name in every):
            key, does = shown_key(binding), said[str(binding.id)] or binding.description
            if cell_len(text.plain) + len(key) + 1 + len(does) > self._width:
                break
            text.append(key, style=self.style("key")).append(f" {does}  ")
            ends[str(binding.id)] = cell_len(text.plain)
        return text


class Filtered(Frame):
    """A screen with a filter for its lines, applied while it is typed. Esc clears it, then leaves the screen."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""

    def unfiltered(self) -> Widget | None:
        """Return the widget that has the focus while no filter is being typed."""
        return None

    def rearranged(self) -> None:
        """Redraw after the filter has changed."""
        self.redraw()

    def leave(self) -> None:
        """Return to the screen below, if there is one."""
        self.close_screen()

    def action_filter(self) -> None:
        self.show_filter(True)

    def action_back(self) -> None:
        if self.query_one(Input).display or self.wanted:
            self.query_one(Input).value = self.wanted = ""
            self.end_filter()
        else:
            self.leave()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.wanted = event.value
        self.rearranged()

    def end_filter(self) -> None:
        """Keep the typed filter, and return the focus to the lines."""
        self.show_filter(False)
        self.rearranged()

    def show_filter(self, shown: bool) -> None:
        """Show or hide the filter immediately, not at the next refresh: text typed next must not act as keys."""
        self.query_one(Input).display = shown
        self.query_one("#crumb").display = not shown
        self.set_focus(self.query_one(Input) if shown else self.unfiltered())
