"""Typed verbs need the same confirmations as the menu; a jump always opens the list; columns can be chosen."""

from __future__ import annotations

from datetime import timedelta

from textual.pilot import Pilot

from slotkeeper.console.tui.screens.columns import ColumnsScreen
from slotkeeper.console.tui.screens.table import TableScreen
from tests.tui.filled import LARGE, Filled, driven, on_screen, press, screen
from tests.tui.planted import until
from tests.tui.test_history_mode import recorded


async def typed(pilot: Pilot[int], text: str) -> None:
    await press(pilot, "colon", *("space" if one == " " else one for one in text), "enter")


async def on_row(made: Filled, pilot: Pilot[int], key: str) -> None:
    await pilot.pause()
    on_screen(made.app, TableScreen).table.move_to(key)
    await pilot.pause()


@driven()
async def test_a_verb_asks_what_the_menu_asks_about_the_job_of_the_row(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "2")
    await on_row(made, pilot, "orders_rt")
    await typed(pilot, "pause")
    await until(pilot, made.app, "PAUSE JOB orders_rt", "y do it")


@driven()
async def test_a_verb_that_cannot_be_had_says_why(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "2")
    await typed(pilot, "start orders_rt")
    await until(pilot, made.app, "g: the job is RUNNING")
    await press(pilot, "escape")
    await typed(pilot, "resume orders_rt")
    await until(pilot, made.app, "resume is not available here")


@driven()
async def test_a_verb_of_a_slot_is_about_the_one_of_the_row_or_the_one_that_is_named(
    made: Filled, pilot: Pilot[int]
) -> None:
    await press(pilot, "1")
    await typed(pilot, "reset")
    await until(pilot, made.app, "no slot is selected: :reset TABLE SLOT")
    await press(pilot, "3", "r")
    await typed(pilot, "reset ods.orders orders_slot")
    await until(pilot, made.app, "RESET SLOT", "ods.orders/orders_slot")


@driven(recorded)
async def test_nothing_is_done_by_a_verb_in_the_past(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "R")
    await until(pilot, made.app, "HISTORY")
    await typed(pilot, "stop orders_rt")
    assert "actions are not available in history" in screen(made.app)


@driven()
async def test_completion_offers_verbs_and_the_names_of_jobs(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "colon", *"ver")
    assert ":verify" in screen(made.app) and "compare all rows of source and target" in screen(made.app)
    await press(pilot, "tab", *"inv")
    assert ":verify invoice_rt" in screen(made.app)


@driven()
async def test_a_digit_and_a_typed_name_always_reach_the_list(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "2", "enter", "l", "6", "2")
    assert len(made.app.screen_stack) == 1 and "[2 Jobs]" in screen(made.app)
    await press(pilot, "enter", "3")
    await typed(pilot, "jobs")
    assert len(made.app.screen_stack) == 1 and "[2 Jobs]" in screen(made.app)


@driven(size=LARGE)
async def test_c_chooses_columns_which_stay_chosen(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "1", "c")
    on_screen(made.app, ColumnsScreen)
    assert "[x] WORST DN" in screen(made.app) and "[ ] PID" in screen(made.app) and "always" in screen(made.app)
    while "\u2500" not in screen(made.app):
        await pilot.pause()
    chooser = on_screen(made.app, ColumnsScreen)
    chooser._place = [one.key for one in chooser._all].index("worst")
    await press(pilot, "space", "escape")
    assert "WORST DN" not in screen(made.app)
    await press(pilot, "2", "1")
    assert "WORST DN" not in screen(made.app)
    await press(pilot, "c", "r", "escape")
    assert "WORST DN" in screen(made.app)


@driven()
async def test_the_counter_follows_the_cursor(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "2")
    assert "1 of 6" in screen(made.app)
    await press(pilot, "j", "j")
    assert "3 of 6" in screen(made.app)
    made.clock.at += timedelta(seconds=1)
