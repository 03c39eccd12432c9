"""Large terminals are used fully: a problem is not cut while another column is empty, and a panel gets the free
rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import Filled, begin, console, driven, lane, press, screen
from tests.tui.planted import until
from tests.tui.test_history_mode import recorded

LARGE = (200, 60)
CAUSE = "sink mart: the database system is shutting down, 4 of 4 DNs wait"


def failing(folder: Path) -> Filled:
    made = console(folder, ascii_only=True)
    made.store.set_state("orders_rt", JobState.FAILED, CAUSE)
    return made


@driven(failing, size=LARGE)
async def test_what_is_wrong_is_read_in_full_on_a_wide_terminal(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "r")
    shown = await until(pilot, made.app, CAUSE)
    rows = [line for line in shown.splitlines() if line.startswith("| x orders_rt")]
    assert rows and all(CAUSE in line for line in rows)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (100, 40), LARGE], ids=str)
def test_a_panel_has_all_rows_that_the_table_does_not_need(size: tuple[int, int], tmp_path: Path) -> None:
    @driven(console, size=size)
    async def opened(made: Filled, pilot: Pilot[int]) -> None:
        await press(pilot, "r")
        panel, table = made.app.screen.query_one("#panel", Panel), made.app.screen.query_one(LiveTable)
        assert panel.room == panel.size.height >= 6
        assert table.size.height == table.row_count + 1
        await pilot.resize_terminal(size[0], size[1] + 4)
        await pilot.pause()
        assert panel.room == panel.size.height and table.size.height == table.row_count + 1

    opened(tmp_path)


def many(folder: Path) -> Filled:
    made = console(folder, filled=False)
    for number in range(60):
        begin(made.store, f"job_{number:02}", lane("dn_1", 88_512_330))
    return made


@driven(many, size=LARGE)
async def test_a_long_table_leaves_a_tall_panel_half_of_what_is_beyond_a_usual_terminal(
    made: Filled, pilot: Pilot[int]
) -> None:
    await press(pilot, "r")
    assert made.app.screen.query_one("#panel", Panel).room == 21


@driven(recorded, size=(80, 24))
async def test_history_names_its_own_keys(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "R")
    await until(pilot, made.app, "HISTORY")
    await press(pilot, "less_than_sign")
    foot = screen(made.app).rstrip().splitlines()[-1]
    assert all(word in foot for word in ("< earlier", "> later", "f play", "R leave history")), foot
    assert "actions" not in foot
    await press(pilot, "R")
    await until(pilot, made.app, "a actions")
