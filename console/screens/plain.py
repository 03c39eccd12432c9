"""Screens of text: help, made from the bindings, and those that are not built yet.

Next door: `console.screens.frame` is around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.widget import Widget

from console.rows import plain
from console.screens.frame import Frame, Line

NOT_YET = {
    "4": "Errors by signature are not built yet: `slotkeeper jobs show JOB` lists the errors of a job",
    "5": "The binlog inspector is not built yet",
    "6": "Alerts are not built yet: `slotkeeper status --exit-code` is the answer for monitoring",
}
READ_ONLY = "This console only reads so far: jobs and slots are changed with `slotkeeper jobs` and `slotkeeper slots`."


class NotYetScreen(Frame):
    """One line that says what is missing, and what does it meanwhile."""

    def __init__(self, number: str) -> None:
        super().__init__()
        self.number = number

    def body(self) -> Iterator[Widget]:
        """The line."""
        yield Line("body")

    def draw(self) -> None:
        """The line."""
        self.say("body", Text(NOT_YET[self.number]))

    def crumb(self) -> str:
        """Where one is."""
        return self.console.SCREEN_KEYS[self.number][1]


class HelpScreen(Frame):
    """The keys of the screen below, from its bindings."""

    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "quit")

    def __init__(self, of: Frame) -> None:
        super().__init__()
        self._of = of
        self.number = of.number

    def body(self) -> Iterator[Widget]:
        """The list."""
        yield Line("body")

    def draw(self) -> None:
        """Two columns of keys, then what a glyph means."""
        entries = [f"{_key(one):<9}{one.description}" for one in self.console.bindings_of(self._of) if one.description]
        half = (len(entries) + 1) // 2
        left, right = entries[:half], [*entries[half:], ""]
        words = [f"{a:<36}  {b}".rstrip() for a, b in zip(left, right, strict=False)]
        words += ["", "x critical   ! warning   ? unknown   ~ on its way   - at rest", "", READ_ONLY]
        self.say("body", Text(plain("\n".join(words), self.console.ascii_only)))

    def crumb(self) -> str:
        """Where one is."""
        return "Help"

    def action_back(self) -> None:
        """Close it."""
        self.app.pop_screen()


def _key(binding: Binding) -> str:
    return binding.key_display or binding.key
