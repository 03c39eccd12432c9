"""A reset from start to end: disabled choices show a reason, the result offers the start, a copy needs consent."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.tui.screens.actions.confirm import JobConfirm
from slotkeeper.console.tui.screens.actions.menu import TargetForm
from slotkeeper.console.tui.screens.actions.progress import SlotProgress
from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.files import StoredConsents
from tests.tui.filled import Filled, drive, press, screen
from tests.tui.planted import Planted, arm, lane_move, reset_plan, snapshot_plan, typed, until
from tests.tui.test_act_jobs import retained
from tests.tui.test_act_slots import SLOT, in_history, made_with, opened, planned, to_fields

ASKED = Consent("4f2c", "orders_rt", "ods.orders", SLOT, "175,700 rows of mart.orders", True)
DONE: dict[str, Any] = {"reset": "B7", "outcome": "done", "sentence": "reset", "lanes": {}, "start": None}


def test_the_result_of_a_snapshot_offers_the_copy_and_its_key_starts_it(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, planned(snapshot_plan("replace", 175_700, 175_700, "")))

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r", "s")
        await to_fields(pilot, made.app)
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter")
        await press(pilot, "g")
        assert len(runs.done) == 1, "nothing to start yet"
        runs.end(list(runs.actions)[-1], 0, DONE)
        await until(pilot, made.app, "Next     g  start the job now")
        await press(pilot, "g")
        assert runs.done[-1].words[1:] == ("jobs", "start", "--json", "orders_rt")

    drive(made, do)


def test_of_a_lost_slot_the_menu_recommends_a_snapshot_and_says_why_nothing_else_is_possible(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, planned(in_history()))
    made.store.set_state("orders_rt", JobState.FAILED, "dn_1: gone", "SLOT LOST", "copy it again")

    async def do(pilot: Pilot[int]) -> None:
        await opened(pilot, made.app, "r")
        shown = screen(made.app)
        assert "> s  snapshot  recommended after SLOT LOST: " in shown
        assert shown.count("not possible: the slot is lost") == 4
        await press(pilot, "e")
        assert isinstance(made.app.screen, TargetForm) and "earliest: not possible" in screen(made.app)
        await press(pilot, "enter")
        assert "--to=snapshot" in runs.orders[-1].words

    drive(made, do)


def test_beside_a_check_that_fails_nothing_reassures(tmp_path: Path) -> None:
    said = "the slot is lost on 4 of 4 DNs (dn_1, dn_2, dn_3, dn_4): changes may be gone"
    checks = [
        {"name": "slot exists", "ok": False, "sentence": said},
        {"name": "sink writable", "ok": True, "sentence": "it is"},
    ]
    made, _ = made_with(tmp_path, planned(in_history(checks=checks), code=3))

    async def do(pilot: Pilot[int]) -> None:
        await opened(pilot, made.app, "r", "enter")
        shown = await until(pilot, made.app, "the slot is lost on 4 of 4 DNs")
        assert not [word for word in ("Undo", "Safer", "Effect", "ok sink", "valid") if word in shown], shown

    drive(made, do)


def awaiting(folder: Path, consent: Consent) -> tuple[Filled, Planted]:
    made, runs = made_with(folder, planned(in_history()))
    made.store.set_state("orders_rt", JobState.AWAITS_COPY, "reset B7")
    StoredConsents(made.store.folder, "orders_rt").keep(consent)
    return made, runs


def test_a_start_without_a_consent_asks_for_the_name_and_gives_it(tmp_path: Path) -> None:
    made, runs = awaiting(tmp_path, ASKED)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "INC-1")
        await press(pilot, "r")
        retained(made.app, "orders_rt")
        await press(pilot, "a", "g")
        assert isinstance(made.app.screen, JobConfirm)
        shown = screen(made.app)
        assert "replaces 175,700 rows of mart.orders" in shown and "readers see the old rows" in shown
        await typed(pilot, "wrong_rt")
        await press(pilot, "enter", "enter")
        assert not runs.orders and "`wrong_rt` is not `orders_rt`" in screen(made.app)
        made.app.screen.query_one("#act-name", Input).value = "orders_rt"
        await press(pilot, "enter")
        assert runs.done[0].words[1:] == (
            *("jobs", "start", "--json"), "--reason=INC-1", "--confirm=orders_rt", "orders_rt",
        )  # fmt: skip

    drive(made, do)


def test_a_start_within_a_day_of_the_reset_asks_for_a_key_alone(tmp_path: Path) -> None:
    made, runs = awaiting(tmp_path, ASKED)
    given = replace(ASKED, name=SLOT, who="dba@h1", reason="INC-1", at=made.clock.at.timestamp())
    StoredConsents(made.store.folder, "orders_rt").keep(given)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "INC-1")
        await press(pilot, "r")
        retained(made.app, "orders_rt")
        await press(pilot, "a", "g")
        shown = screen(made.app)
        assert "replaces 175,700 rows of mart.orders" in shown and "copies the whole table again" in shown
        assert "resumes from the sink's progress rows" not in shown
        await press(pilot, "y")
        assert "--confirm=orders_rt" not in runs.done[0].words

    drive(made, do)


def test_a_result_offers_neither_start_nor_undo_once_somebody_has_started_the_job(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, planned(in_history()))

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r", "e")
        await to_fields(pilot, made.app)
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter")
        runs.end(list(runs.actions)[-1], 0, DONE)
        await until(pilot, made.app, "Next     g", "Undo     u")
        made.store.set_state("orders_rt", JobState.RUNNING)
        made.app.action_renew()
        shown = await until(pilot, made.app, "no action needed: the job has been started")
        assert "Undo" not in shown and " g start" not in shown
        await press(pilot, "g", "u")
        assert len(runs.done) == 1 and isinstance(made.app.screen, SlotProgress)

    drive(made, do)


def test_a_result_whose_undo_cannot_pass_its_checks_offers_none(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, planned(in_history()))

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r", "e")
        await to_fields(pilot, made.app)
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter")
        why = "the slot was lost on 4 of 4 lanes: no binlog holds the old positions"
        runs.end(list(runs.actions)[-1], 0, {**DONE, "no_undo": why})
        shown = await until(pilot, made.app, "Undo     not possible: the slot was lost on 4 of 4 lanes")
        assert "u undo" not in shown
        await press(pilot, "u")
        assert isinstance(made.app.screen, SlotProgress)

    drive(made, do)


LONG = "a_slot_whose_name_is_as_long_as_a_name_can_be_so_that_it_wraps_63"


@pytest.mark.parametrize("size", [(80, 24), (60, 15), (100, 30)])
def test_a_long_name_is_wrapped_in_each_of_the_three_screens_and_never_cut(
    size: tuple[int, int], tmp_path: Path
) -> None:
    plan = reset_plan(lane_move("dn_1", 88_512_330, 88_120_441, again=7), slot=LONG)
    made, runs = made_with(tmp_path, planned(plan), name=LONG)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r", "e")
        await until(pilot, made.app, "plan 7f3a")
        assert LONG in unbroken(screen(made.app))
        await press(pilot, "enter")
        assert unbroken(screen(made.app)).count(LONG) >= 2, "in the title, and below its field"
        await typed(pilot, LONG)
        await press(pilot, "enter", "enter")
        runs.end(list(runs.actions)[-1], 0, DONE)
        await until(pilot, made.app, "done: reset")
        assert LONG in unbroken(screen(made.app))

    drive(made, do, size)


def unbroken(shown: str) -> str:
    """The screen's text with words that continue in the next row joined."""
    return re.sub(r"\\ *[|\u2502]?\n[|\u2502]? +", "", shown)
