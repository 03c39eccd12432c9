"""The keys of a table: order, marks, columns, panes, neighbours, copies and files."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import LARGE, Filled, console, drive, driven, flowing, press, screen
from tests.tui.things import thing, things


async def later(made: Filled, pilot: Pilot[int], seconds: int = 4) -> None:
    """Let time pass without a key."""
    made.clock.at += timedelta(seconds=seconds)
    made.app.tick()
    await pilot.pause()


@driven()
async def test_s_goes_through_the_columns_and_back_and_S_turns_round(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    seen = []
    for key in ("s", "s", "S", "s", "S"):
        await press(pilot, key)
        seen.append((shown.order.title(shown.columns, "worst first"), "".join(shown.table.keys())))
    assert seen == [
        ("sort NAME ^", "abcd"),
        ("sort LAG v", "cdab"),
        ("sort LAG ^", "adcb"),
        ("worst first", "abcd"),
        ("worst first, reversed", "dcba"),
    ]
    await press(pilot, "s", "s")
    assert "sort LAG v" in screen(made.app)
    await press(pilot, "escape")
    assert "sort LAG v" in screen(made.app)  # Esc does not reset the order


@driven()
async def test_rows_do_not_move_for_three_seconds_after_a_key_though_they_come_and_go(
    made: Filled, pilot: Pilot[int]
) -> None:
    shown = await things(made, pilot)
    await press(pilot, "j")
    shown.given = [thing("e", 9), shown.given[3], shown.given[2], shown.given[0]]
    shown.redraw()
    assert shown.table.keys() == ["a", "c", "d", "e"]
    assert shown.table.cursor_key is None  # its row is gone; no other row gets the cursor
    await later(made, pilot)
    assert shown.table.keys() == ["e", "d", "c", "a"]


@driven()
async def test_order_that_is_asked_for_is_there_at_once(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    await press(pilot, "s", "s")
    assert shown.table.keys() == ["c", "d", "a", "b"]


@driven()
async def test_space_marks_by_key_and_u_takes_all_marks_back(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    await press(pilot, "space", "space")
    assert shown.marked == ["a", "b"] and shown.table.cursor_key == "c"
    assert " *a " in screen(made.app) and "marked 2" in screen(made.app)
    shown.given = [shown.given[2], thing("b", 7), shown.given[0]]
    shown.redraw()
    assert shown.marked == ["b", "a"]
    await press(pilot, "slash", "c", "enter")
    assert "marked 2 (2 not shown)" in screen(made.app)
    await press(pilot, "escape", "g", "k", "u")
    assert shown.marked == [] and "*a" not in screen(made.app)


@driven()
async def test_a_acts_on_the_marked_rows_or_on_the_one_under_the_cursor(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    await press(pilot, "j", "a", "space", "space", "a")
    assert shown.acted == [["b"], ["b", "c"]]
    shown.given = []
    await press(pilot, "u", "a")
    assert len(shown.acted) == 2 and "no row is selected" in screen(made.app)


@driven()
async def test_where_there_are_no_actions_there_is_no_key_for_them(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    assert "a actions" in screen(made.app)
    shown.has_actions = False
    await press(pilot, "a")
    shown.redraw()
    assert "a actions" not in screen(made.app) and shown.acted == []


@driven()
async def test_w_shows_what_the_width_hides_and_drops_from_the_right_what_does_not_fit(
    made: Filled, pilot: Pilot[int]
) -> None:
    shown = await things(made, pilot)
    await press(pilot, "w")
    assert "MORE" in screen(made.app) and "MOST" not in screen(made.app) and "wide" in screen(made.app)
    assert shown.table.max_scroll_x == 0
    await press(pilot, "w")
    assert "MORE" not in screen(made.app)


@driven()
async def test_tab_goes_to_a_panel_that_has_more_than_is_shown(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    await press(pilot, "tab")
    assert shown.focused is shown.table  # all of it is visible
    shown.words = 9
    shown.redraw()
    assert "1-4 of 9 Tab" in screen(made.app)
    await press(pilot, "tab", "j")
    assert "2-5 of 9" in screen(made.app) and "line 5 of a" in screen(made.app)
    assert shown.table.cursor_key == "a"
    for key, where in (("G", "6-9"), ("pageup", "3-6"), ("k", "2-5"), ("pagedown", "5-8"), ("g", "1-4")):
        await press(pilot, key)
        assert f"{where} of 9" in screen(made.app)
    shown.words = 3
    shown.redraw()
    await press(pilot, "j")
    assert shown.focused is shown.table and shown.table.cursor_key == "b"
    shown.words = 9
    shown.redraw()
    await press(pilot, "shift+tab", "G", "shift+tab", "j")
    assert shown.table.cursor_key == "c" and shown.query_one(Panel).top == 0  # another row's panel starts at its top


@driven()
async def test_a_scrolled_panel_returns_to_its_top_for_another_row(
    made: Filled, pilot: Pilot[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = await things(made, pilot)
    shown.words = 9
    shown.redraw()
    await press(pilot, "tab", "G")
    shown.redraw()
    assert "6-9 of 9" in screen(made.app)
    monkeypatch.setattr(shown, "subject_of", lambda key: "start it")
    shown.redraw()
    assert "1-4 of 9" in screen(made.app)


@driven()
async def test_tab_in_a_filter_keeps_it_and_goes_to_the_table(made: Filled, pilot: Pilot[int]) -> None:
    shown = await things(made, pilot)
    await press(pilot, "slash", "b", "tab")
    assert shown.focused is shown.table and shown.wanted == "b" and not shown.query_one(Input).display


@driven()
async def test_brackets_go_to_the_neighbours_of_the_list_that_was_left(made: Filled, pilot: Pilot[int]) -> None:
    first = list(_table(made.app).table.keys())
    await press(pilot, "right_square_bracket")
    assert made.app.screen is made.app.screen_stack[0]  # a list has no neighbours
    await press(pilot, "enter", "Z", "s", "right_square_bracket")
    assert f"> {first[1]}" in screen(made.app)
    assert _table(made.app).faults_only and _table(made.app).order.column
    await press(pilot, "left_square_bracket", "left_square_bracket")
    assert f"> {first[-1]}" in screen(made.app) and len(made.app.screen_stack) == 2
    await press(pilot, "escape")
    assert _table(made.app).table.cursor_key == first[-1]


def _table(app: ConsoleApp) -> TableScreen:
    assert isinstance(app.screen, TableScreen)
    return app.screen


async def copied(made: Filled, pilot: Pilot[int]) -> str:
    """The content of the file once the copy has ended."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return (made.app.services.folder / "clip.txt").read_text("utf-8")


def test_y_copies_the_row_and_Y_the_marked_ones_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    made = console(tmp_path)

    async def do(pilot: Pilot[int]) -> None:
        await things(made, pilot)
        await press(pilot, "j", "y")
        assert await copied(made, pilot) == f"b  ?  {'x' * 40}"
        assert "copied 46 characters: OSC 52, clip.txt" in screen(made.app)
        await press(pilot, "Y")
        assert json.loads(await copied(made, pilot))["name"] == "b"
        await press(pilot, "space", "space", "Y")
        assert [one["severity"] for one in json.loads(await copied(made, pilot))] == ["fine", "fine"]

    drive(made, do, LARGE)


@driven()
async def test_e_writes_all_rows_that_the_filter_leaves_in_the_order_that_is_shown(
    made: Filled, pilot: Pilot[int]
) -> None:
    await things(made, pilot)
    await press(pilot, "slash", *"a|c|d", "enter", "s", "s", "e")
    shown = flowing(screen(made.app))
    assert "exported 3 rows" in shown
    written = next((made.app.services.folder / "exports").glob("things-*.json"))
    assert [one["key"] for one in json.loads(written.read_text("utf-8"))["rows"]] == ["c", "d", "a"]
    assert "more" in json.loads(written.read_text("utf-8"))["rows"][0]  # including hidden columns


@driven()
async def test_a_state_that_changes_under_a_mark_keeps_it(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "space")
    made.store.set_state("stock_rt", JobState.RUNNING, "")
    await press(pilot, "r")
    assert _table(made.app).marked == ["stock_rt"] and "*stock_rt" in screen(made.app)
