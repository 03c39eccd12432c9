"""A user's choices are restored at the next start; a settings file that cannot be used is reported in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from slotkeeper.console.tui.screens.graphs import GraphsScreen
from slotkeeper.console.tui.screens.jobs import OverviewScreen
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.tui.settings_file import SettingsFile
from slotkeeper.console.views.rows import Order
from tests.tui.filled import Filled, console, drive, on_screen, press, screen
from tests.tui.planted import typed, until


def started(folder: Path, name: str) -> Filled:
    """A console with its own state and this user's settings."""
    (folder / name).mkdir()
    made = console(folder / name)
    made.app.services.settings = SettingsFile(folder / "config" / "console.json")
    return made


def test_theme_order_columns_span_and_window_are_there_at_the_next_start(tmp_path: Path) -> None:
    made = started(tmp_path, "first")

    async def choose(pilot: Pilot[int]) -> None:
        await press(pilot, "T", "s", "S", "c", "j", "space", "escape", "h", "t", "escape", "4", "t")
        assert "errors: of the last 1 h" in screen(made.app)

    drive(made, choose)
    found: dict[str, Any] = json.loads((tmp_path / "config" / "console.json").read_bytes())
    assert (found["theme"], found["span"], found["window"]) == ("light", 21_600, 3_600)
    assert found["orders"] == {"OverviewScreen": {"column": "job", "reverse": True}} and found["columns"]
    again = started(tmp_path, "second")
    assert again.app.services.settings.now == made.app.services.settings.now

    async def see(pilot: Pilot[int]) -> None:
        overview = on_screen(again.app, OverviewScreen)
        assert overview.order == Order("job", True) and "sort JOB" in screen(again.app)
        assert len(overview.columns_now()) < len(overview.every_column())
        await press(pilot, "h")
        assert "last 6 h" in on_screen(again.app, GraphsScreen).about()
        await press(pilot, "escape", "4")
        screen_of_errors = again.app.screen
        assert isinstance(screen_of_errors, TableScreen) and "last 1 h" in screen_of_errors.about()

    drive(again, see)


def test_a_file_that_is_not_used_is_one_line_and_the_console_is_as_at_first(tmp_path: Path) -> None:
    file = tmp_path / "config" / "console.json"
    file.parent.mkdir(mode=0o700)
    file.write_text('{"theme": "\\u001b[31m"}')
    made = started(tmp_path, "first")

    async def see(pilot: Pilot[int]) -> None:
        await until(pilot, made.app, "has an invalid format")
        assert on_screen(made.app, OverviewScreen).order == Order()
        await press(pilot, "colon")
        await typed(pilot, "settings reset")
        await press(pilot, "enter")
        assert "settings deleted" in screen(made.app)
        await press(pilot, "s")

    drive(made, see)
    assert json.loads(file.read_bytes()) == {"orders": {"OverviewScreen": {"column": "job", "reverse": False}}}
