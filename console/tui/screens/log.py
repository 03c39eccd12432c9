"""A job's log on the full screen, which follows the end until the user scrolls up, with text and level filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.monitor.log_tail import LogLine, Tail
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Filtered, Line
from slotkeeper.console.tui.widgets.line import WHEEL
from slotkeeper.console.views.lanes import line_level
from slotkeeper.console.views.rows import Row, kept
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import log_of

LEVELS = ("", "WARN", "ERROR")
_LEAST = {"WARN": (Level.WARNING, Level.CRITICAL), "ERROR": (Level.CRITICAL,)}


class LogScreen(Filtered):
    """The log of one job. `top` is the number of the first visible line, or None while following."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "down", id="log-down", key_display="j"),
        Binding("k,up", "move(-1)", "up", id="log-up", key_display="k"),
        Binding("g,home", "first", "first line", id="log-top", key_display="g"),
        Binding("G,end", "follow", "follow", id="log-follow", key_display="G", tooltip="show new lines as they arrive"),
        Binding("pagedown", "page(1)", "page down", id="log-page-down", key_display="PgDn"),
        Binding("pageup", "page(-1)", "page up", id="log-page-up", key_display="PgUp"),
        Binding("slash", "filter", "filter", id="log-filter", key_display="/", tooltip="text or pattern; ! inverts it"),
        Binding("z", "level", "level", id="log-level", tooltip="all lines, warnings and errors, errors only"),
    ]
    AUTO_FOCUS: ClassVar[str | None] = ""
    """No widget gets the focus automatically; otherwise the filter would receive all keys."""
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "log-filter", "log-level", "log-top", "log-follow")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number
        self.least = ""
        self.top: int | None = None
        self._seen = 0
        self._tail: Tail | None = None
        self._refused = ""

    def body(self) -> Iterator[Widget]:
        yield Line("title")
        yield Line("log")
        yield Input(id="filter", placeholder="filter: text or pattern, ! inverts", select_on_focus=False)

    def on_mount(self) -> None:
        try:
            self._tail = Tail(log_of(self.console.services.folder, self.job))
        except StateError as error:
            self._refused = error.message
        self.query_one("#log").styles.height = "1fr"
        self.query_one(Input).cursor_blink = False
        self.show_filter(False)
        super().on_mount()

    @property
    def room(self) -> int:
        """The number of lines that fit."""
        return max(1, self.app.size.height - 5)

    def listed(self) -> list[LogLine]:
        """Return the lines that match the filter and the level."""
        if self._tail is None:
            return []
        lines = list(self._tail.lines)
        if self.least:
            lines = [line for line in lines if line_level(line.text) in _LEAST[self.least]]
        if not self.wanted:
            return lines
        left = kept([Row(str(line.number), Level.FINE, {"line": line.text}) for line in lines], self.wanted, False)
        numbers = {int(row.key) for row in left}
        return [line for line in lines if line.number in numbers]

    def draw(self) -> None:
        if self._tail is None:
            self.say("log", self.text(f" {self._refused}", Level.CRITICAL))
            return
        self._tail.read()
        listed = self.listed()
        first = len(listed) - self.room if self.top is None else self._place(listed)
        shown = listed[max(0, first) :][: self.room]
        if self.top is None:
            self._seen = self._tail.last
        new = sum(line.number > self._seen for line in listed)
        follow = "follow on" if self.top is None else f"follow off, {new} new"
        how = [f"level >= {self.least}"] if self.least else []
        how += [f"filter {safe(self.wanted, 60)}"] if self.wanted else []
        figures = [f"Log of {safe(self.job, 60)}", many(len(listed), "line"), follow, *how]
        self.say("title", self.rule("   ".join(figures)))
        lines = [self.text(self.cut(f" {line.text}"), line_level(line.text)) for line in shown]
        job = self.console.shown.job(self.job)
        fault = self._tail.fault if job is None or not job.queries else "no log here: the query's program writes it"
        empty = self.text(f" {fault or 'no lines'}", Level.REST)
        self.say("log", Text("\n", end="").join(lines or [empty]))

    def crumb(self) -> str:
        return f"{'Overview' if self.number == '1' else 'Jobs'} > {safe(self.job, 60)} > log"

    def action_move(self, by: int) -> None:
        """Scroll up or down; at the end, follow again."""
        listed = self.listed()
        last = max(0, len(listed) - self.room)
        here = last if self.top is None else self._place(listed)
        there = max(0, here + by)
        self.top = listed[there].number if listed and there < last else None
        self.redraw()

    def on_mouse_scroll_down(self) -> None:
        self.action_move(WHEEL)

    def on_mouse_scroll_up(self) -> None:
        self.action_move(-WHEEL)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.room - 1))

    def action_first(self) -> None:
        self.action_move(-len(self.listed()))

    def action_follow(self) -> None:
        self.top = None
        self.redraw()

    def action_level(self) -> None:
        self.least = LEVELS[(LEVELS.index(self.least) + 1) % len(LEVELS)]
        self.redraw()

    def on_input_submitted(self) -> None:
        self.show_filter(False)

    def _place(self, listed: list[LogLine]) -> int:
        return next((place for place, line in enumerate(listed) if line.number >= (self.top or 0)), len(listed))
