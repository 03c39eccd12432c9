"""The baselines: a Textual app that shows one word; with `--table`, an app with two screens of a table each.

The first is the baseline for first paint, idling and memory; the second for the time that Textual itself takes to
move the cursor of its own table (`j`, `k`) and to switch screens (`1`, `2`). Both run with the console's settings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.screen import Screen
from textual.widgets import Static

WORD = "Overview"
ROWS, COLUMNS = 12, 8


class EmptyApp(App[None]):
    """An app that shows one word."""

    def compose(self) -> ComposeResult:
        yield Static(WORD)


class One(Screen[None]):
    """A screen with a word and a table as large as the first table of the console."""

    BINDINGS: ClassVar = [("j", "move(1)"), ("k", "move(-1)")]
    word = WORD

    def compose(self) -> ComposeResult:
        from textual.widgets import DataTable

        yield Static(self.word)
        yield DataTable[str](cursor_type="row")

    def on_mount(self) -> None:
        """Fill the table."""
        from textual.widgets import DataTable

        table = self.query_one(DataTable)
        for column in range(COLUMNS):
            table.add_column(f"COLUMN {column}", width=10)
        for row in range(ROWS):
            table.add_row(*(f"cell {row} {column}" for column in range(COLUMNS)))

    def action_move(self, by: int) -> None:
        """Move the cursor of the table."""
        from textual.widgets import DataTable

        table = self.query_one(DataTable)
        table.move_cursor(row=(table.cursor_row + by) % ROWS)


class Two(One):
    """The same screen with another word."""

    word = "Another"


class TableApp(App[None]):
    """An app with two screens."""

    BINDINGS: ClassVar = [("1", "switch_mode('one')"), ("2", "switch_mode('two')")]
    MODES: ClassVar[dict[str, str | Callable[[], Screen[None]]]] = {"one": One, "two": Two}
    DEFAULT_MODE = "one"


if __name__ == "__main__":
    (TableApp if "--table" in sys.argv else EmptyApp)().run(mouse=False)
