"""A screen with a table that a test fills; it records the calls of its actions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from textual.pilot import Pilot

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.views.rows import Column, Row
from tests.tui.filled import Filled


class Things(TableScreen):
    """A table that a test fills."""

    columns: ClassVar[Sequence[Column]] = (
        Column("mark", "", 1),
        Column("name", "NAME", 10),
        Column("lag", "LAG", 6, right=True),
        Column("more", "MORE", 40, least=200),
        Column("most", "MOST", 40, least=200),
    )
    has_actions = True

    def __init__(self) -> None:
        super().__init__()
        self.given = [thing("a", 1), thing("b", None), thing("c", 3), thing("d", 2)]
        self.acted: list[list[str]] = []
        self.opened_keys: list[str] = []
        self.words = 2

    @property
    def panel_rows(self) -> int:
        return 4  # whatever the table needs: a longer panel is scrolled

    def rows(self) -> list[Row]:
        return self.given

    def heading(self) -> str:
        return "Things"

    def leave(self) -> None:
        """Do nothing, as a first screen does."""

    def panel(self, key: str | None) -> tuple[str, Lines]:
        return "About", [(Level.FINE, f"line {number} of {key}") for number in range(1, self.words + 1)]

    def act(self, keys: list[str]) -> None:
        self.acted.append(keys)

    def opened(self, key: str) -> None:
        self.opened_keys.append(key)


def thing(key: str, lag: float | None, level: Level = Level.FINE) -> Row:
    """A row; None is an unknown lag."""
    shown = "?" if lag is None else f"{lag:g}m"
    return Row(key, level, {"mark": level.value, "name": key, "lag": shown, "more": "x" * 40}, {"lag": lag})


async def things(made: Filled, pilot: Pilot[int]) -> Things:
    """A visible screen of test objects, some time after the last key."""
    shown = Things()
    made.app.push_screen(shown)
    await pilot.pause()
    made.clock.at += timedelta(seconds=10)
    return shown
