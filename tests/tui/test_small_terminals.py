"""Small terminals, and names as long as in a real warehouse: the problem and the action stay on screen.

80x23 is an 80x24 terminal with a tmux status line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import Filled, begin, console, drive, driven, flowing, lane, lines, polled, press, screen, slot
from tests.tui.planted import lane_move, plant, reset_plan, until

LONG = "warehouse_orders_line_items_eu_west_rt"
CURE = "`slotkeeper slots reset ods.orders orders_slot --to snapshot` plans it"


def many(folder: Path, number: int = 40) -> Filled:
    """A console with `number` jobs whose names differ at their ends; the first has FAILED."""
    made = console(folder, ascii_only=True, filled=False)
    names = [f"{LONG}_{place:02}" for place in range(number)]
    for name in names:
        begin(made.store, name, *(lane(f"dn_{n}", 88_512_330) for n in range(1, 9)))
    made.store.set_state(names[0], JobState.FAILED, "the point of dn_1 is gone", "SLOT LOST", CURE)
    made.polled["dws1", "ods.orders"] = polled("ods.orders", *(slot(name, 3.0, 7, name) for name in names))
    return made


@pytest.mark.parametrize("number", [1, 40])
@pytest.mark.parametrize("size", [(60, 15), (80, 20), (80, 23)], ids=str)
def test_what_is_wrong_and_what_to_do_is_on_the_first_screen(
    size: tuple[int, int], number: int, tmp_path: Path
) -> None:
    made = many(tmp_path, number)

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "1", "r", "g")
        shown = lines(made.app)
        text = "\n".join(shown)
        assert text.count("the point of dn_1 is gone") == 1 and " Action   reset slot [3 a]" in text
        assert "SLOT LOST: the point" in shown[1 + (size[0] >= 80)], "the verdict"
        assert ("[1 Overview] 2 Jobs" in text) is (size[0] >= 80)
        assert all(len(line) == size[0] for line in shown) and len(shown) == size[1]
        table, panel = made.app.screen.query_one(LiveTable), made.app.screen.query_one("#panel", Panel)
        assert table.size.height >= 3 and panel.room == panel.size.height >= 3
        if number == 1:
            blank = [not line.strip() for line in shown]
            assert sum(blank) <= size[1] // 3, text
        await press(pilot, "enter")
        assert "the point of dn_1 is gone" in screen(made.app)

    drive(made, do, size)


@driven(many)
async def test_names_that_differ_at_their_ends_are_told_apart(made: Filled, pilot: Pilot[int]) -> None:
    for keys, words in ((("1", "r"), "JOB"), (("2",), "JOB"), (("3", "r"), "TABLE/SLOT")):
        await press(pilot, *keys)
        table = made.app.screen.query_one(LiveTable)
        place = [one.label for one in table._fields].index(words)
        drawn = [table.words(row)[place] for row in range(40)]
        assert len(set(drawn)) == 40, drawn
        assert all(one.strip().startswith(("wareh", "ods.o")) and ".." in one for one in drawn)


@driven(many, size=(100, 30))
async def test_of_what_stands_above_a_table_no_part_is_dropped(made: Filled, pilot: Pilot[int]) -> None:
    made.store.set_state(f"{LONG}_01", JobState.FAILED, "x" * 150)
    await press(pilot, "1", "r")
    for width, height in ((100, 30), (80, 24), (72, 20)):
        await pilot.resize_terminal(width, height)
        await pilot.pause()
        shown = lines(made.app)
        title = next(place for place, line in enumerate(shown) if line.startswith("+- Jobs "))
        above = "\n".join(shown[2:title])
        words = (" x ", " 1 of ", *(("STREAMING", "NEXT EXPIRY") if height >= 24 else ()))
        assert [word for word in words if word not in above] == []
        assert all(line.startswith(" ") for line in shown[2:title])


def test_what_a_plan_means_is_read_in_full_where_there_is_room(tmp_path: Path) -> None:
    made = console(tmp_path, ascii_only=True)
    made.store.set_state("orders_rt", JobState.STOPPED, "stopped")
    note = "the target shows older values until the job has caught up (state CATCHING UP)"
    plan = reset_plan(lane_move("dn_1", 88_512_330, 88_120_441, again=7), slot="orders_slot")
    plant(made, lambda order: None if order.listed else (0, plan, ""))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "g", "a", "r", "e")
        shown = await until(pilot, made.app, "plan 7f3a")
        assert note in flowing(shown)
        await pilot.resize_terminal(80, 18)
        await pilot.pause()
        assert "Effect   7 changes" in screen(made.app) and "ok job not running" in screen(made.app)
        await press(pilot, "enter")
        assert "Effect   7 changes" in screen(made.app) and "type orders_slot to confirm" in screen(made.app)

    drive(made, do)
