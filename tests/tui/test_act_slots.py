"""Actions on slots: the plan, the typed confirmation, the number of keys, and the observed result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.actions.record import Stage
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.screens.actions.base import LETTERS, NOT_HERE
from slotkeeper.console.tui.screens.actions.confirm import JobConfirm
from slotkeeper.console.tui.screens.actions.preview import SlotConfirm, SlotPlan
from slotkeeper.console.tui.screens.actions.progress import SlotProgress
from slotkeeper.console.tui.screens.slots import SlotsScreen
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset import TargetKind
from tests.tui.filled import Filled, console, drive, driven, flowing, on_screen, polled, press, screen, slot
from tests.tui.planted import Answer, Planted, arm, lane_move, plant, reset_plan, snapshot_plan, typed, until

SLOT = "order_slot"
REASON = "INC-2304 restored"


def made_with(
    folder: Path, plan: Callable[[Order], Answer | None], job: str | None = "orders_rt", name: str = SLOT
) -> tuple[Filled, Planted]:
    """Return a console over one slot of a stopped job, with planted answers to its dry runs."""
    made = console(folder, ascii_only=True)
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot(name, 23.2, 12_403_118, job))
    made.store.set_state("orders_rt", JobState.STOPPED, "stopped")
    made.store.begin_run("orders_rt", "run-2")  # a run without a process
    made.store.set_state("orders_rt", JobState.STOPPED, "stopped")
    return made, plant(made, plan)


def planned(plan: dict[str, Any], code: int = 0) -> Callable[[Order], Answer | None]:
    return lambda order: None if order.listed else (code, plan, "")


def skipping(*numbers: int) -> dict[str, Any]:
    moves = [lane_move(f"dn_{place}", 88_120_441, 88_512_330, skipped=each) for place, each in enumerate(numbers, 1)]
    return reset_plan(*moves, slot=SLOT, kind=TargetKind.LATEST)


def in_history(**more: Any) -> dict[str, Any]:
    return reset_plan(lane_move("dn_1", 88_512_330, 88_120_441, again=7), slot=SLOT, **more)


async def opened(pilot: Pilot[int], app: ConsoleApp, *keys: str) -> None:
    """Open the slot's menu, then press these keys."""
    await press(pilot, "3", "r", "g")
    await press(pilot, "a", *keys)


async def to_fields(pilot: Pilot[int], app: ConsoleApp) -> None:
    """Wait for the plan, then go to the confirmation fields."""
    await until(pilot, app, "plan 7f3a")
    await press(pilot, "enter")


async def paste(pilot: Pilot[int], text: str) -> None:
    pilot.app.screen.post_message(events.Paste(text))
    await pilot.pause()


def value(app: ConsoleApp, part: str) -> str:
    return app.screen.query_one(f"#act-{part}", Input).value


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_a_typical_reset_takes_at_most_eighteen_keys_beside_its_reason(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, REASON)
    made.app.screen.query_one("#table").focus()
    keys = 0

    async def count(*pressed: str) -> None:
        nonlocal keys
        keys += len(pressed)
        await press(pilot, *pressed)

    await count("3")
    made.app.action_renew()
    await until(pilot, made.app, SLOT)
    await press(pilot, "g")  # the cursor is on the slot
    await count("a", "r", "enter")
    await to_fields(pilot, made.app)
    keys += await typed(pilot, SLOT)
    await count("enter", "enter")
    assert len(SLOT) == 10 and keys <= 18, keys
    (order,) = runs.done
    assert list(order.words[1:]) == [
        "slots",
        "reset",
        "--json",
        "--execute",
        "--plan=7f3a9c0d1e2f",
        f"--reason={REASON}",
        f"--confirm={SLOT}",
        "ods.orders",
        SLOT,
    ]


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_what_comes_over_a_slow_line_in_one_piece_goes_where_it_was_typed_for(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "abc")
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    for key in ["shift+tab", *"xy", "enter", *SLOT]:
        name = "underscore" if key == "_" else key
        made.app.post_message(events.Key(name, key if len(key) == 1 else None))
    await until(pilot, made.app, f"Name     {SLOT}")
    assert (value(made.app, "reason"), value(made.app, "name")) == ("abcxy", SLOT)
    assert runs.done == []


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_the_reason_of_arming_is_there_already(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await arm(pilot, made.app, "INC-7")
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    assert value(made.app, "reason") == "INC-7"


@driven(lambda folder: made_with(folder, planned(skipping(7, 12_403_118))))
async def test_the_plan_says_what_is_skipped_how_it_is_undone_and_how_long_it_is_valid(
    made: Filled, _: object, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app, "r", "l")
    shown = await until(pilot, made.app, "plan 7f3a9c0d1e2f valid 10m00s", "ok job not running")
    for text in (
        "RESET SLOT order_slot to latest                    1 Plan  2 Confirm  3 Result",
        "2 lanes, job orders_rt STOPPED",
        "! dn_2              88120441/3   88512330/-1 12,403,118 skipped     88120441",
        "Effect   12,403,125 changes on 2 lanes are SKIPPED: they never reach the",
        "Undo     restores positions, not rows; possible while the source retains",
        "Safer    reset to a snapshot",
        "ok job not running",
    ):
        assert text in shown, (text, shown)
    made.clock.at += timedelta(seconds=2)
    made.app.screen.tick()  # type: ignore[attr-defined]
    await until(pilot, made.app, "valid 9m58s")
    await press(pilot, "v")
    assert "pass     job not running: STOPPED, no running process" in screen(made.app)
    assert "sql      source dn_1: SELECT pgxc_register_binlog_sync_point(..)" in screen(made.app)
    await press(pilot, "enter")
    assert "type 12403125 to confirm: rows lost or skipped" in screen(made.app)


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
def test_twenty_four_dns_fit_by_scrolling_while_the_rest_stays_in_sight(size: tuple[int, int], tmp_path: Path) -> None:
    made, _ = made_with(tmp_path, planned(skipping(*range(24, 0, -1))))

    async def do(pilot: Pilot[int]) -> None:
        await opened(pilot, made.app, "r", "l")
        shown = await until(pilot, made.app, "lines 1-", "of 24, j k", "24 lanes, ", "dn_1 ", " ok job not running")
        assert max(map(len, shown.splitlines())) <= size[0] and len(shown.splitlines()) == size[1]
        assert "dn_24 " not in shown and " ok job not running" in shown
        await press(pilot, "pagedown", "pagedown", "pagedown", "pagedown")
        assert "dn_24 " in screen(made.app) and "-24 of 24" in screen(made.app) and "Effect   300" in screen(made.app)
        await press(pilot, "enter")
        shown = screen(made.app)
        assert "[ Reset on 24 lanes ]" in shown and "type 300 to confirm" in shown

    drive(made, do, size)


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_a_read_only_console_rehearses_to_the_button(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await until(pilot, made.app, "read-only: `:rw REASON`")
    await typed(pilot, "rehearsal")
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    assert "read-only: `:rw REASON` allows changes for ten minutes" in screen(made.app)
    assert isinstance(made.app.screen, SlotConfirm) and not runs.done


@pytest.mark.parametrize(
    ("name", "rows", "missing"),
    [("order_slo", "7", "name"), (SLOT, "8", "rows"), ("ORDER_SLOT", "", "name, rows"), (SLOT, "07", "rows")],
)
@driven(lambda folder: made_with(folder, planned(skipping(7))))
async def test_a_wrong_name_or_number_changes_nothing(
    made: Filled, runs: Planted, pilot: Pilot[int], name: str, rows: str, missing: str
) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "l")
    await to_fields(pilot, made.app)
    await typed(pilot, name)
    await press(pilot, "enter")
    await typed(pilot, rows)
    await press(pilot, "enter", "enter", "enter")
    assert f"still required: {missing}" in screen(made.app)
    assert not runs.done


@driven(lambda folder: made_with(folder, planned(skipping(7))))
async def test_a_name_and_a_number_are_typed_not_pasted(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "l")
    await to_fields(pilot, made.app)
    await press(pilot, "shift+tab")
    await paste(pilot, " pasted")
    assert value(made.app, "reason") == "INC-2304 pasted"
    for part, text in (("name", SLOT), ("rows", "7")):
        await press(pilot, "enter")
        made.app._clipboard = text
        await paste(pilot, text)
        assert value(made.app, part) == "" and "type the text: pasted text is not accepted" in screen(made.app)
        await press(pilot, "ctrl+v")
        assert value(made.app, part) == "" and "type the text: pasted text is not accepted" in screen(made.app)
    await press(pilot, "enter", "enter")
    assert not runs.done


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_letters_act_on_the_plan_and_are_text_in_the_fields_that_come_after_it(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "abc")
    await opened(pilot, made.app, "r", "enter")
    await until(pilot, made.app, "plan 7f3a")
    await press(pilot, "q", "3")
    assert isinstance(made.app.screen, SlotPlan) and LETTERS in screen(made.app)
    await press(pilot, "v")
    assert "sql      source dn_1:" in screen(made.app)
    await press(pilot, "v", "enter", "v", "n", "y", "q", "3")
    assert value(made.app, "name") == "vnyq3" and len(runs.orders) == 1
    await press(pilot, "escape")
    assert isinstance(made.app.screen, SlotPlan) and len(runs.orders) == 1, "the same plan is shown again"
    await press(pilot, "enter")
    assert value(made.app, "name") == "", "each confirmation is typed again"
    await typed(pilot, "vnyq3")
    await press(pilot, "enter", "enter")
    assert value(made.app, "name") == "vnyq3" and not runs.done
    assert "`vnyq3` is not `order_slot`" in screen(made.app)


@driven(lambda folder: made_with(folder, planned(skipping(7))))
async def test_tab_goes_from_the_plan_through_the_fields_to_the_button_that_they_are_typed_for(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app, "r", "l")
    await to_fields(pilot, made.app)
    where = []
    for _ in range(7):
        where.append(made.app.screen.focused.id if made.app.screen.focused else None)
        await press(pilot, "tab")
    expected = ["act-reason", "act-name", "act-rows", "act-apply", "act-cancel", "act-sheet", "act-reason"]
    assert where == expected, "first the empty field, then down, then the button"
    await press(pilot, "shift+tab", "shift+tab", "shift+tab", "enter")
    assert isinstance(made.app.screen, SlotPlan) and not runs.done, "the button leads back to the plan"
    await press(pilot, "escape")
    assert on_screen(made.app, SlotsScreen) and "reset not executed: its plan was closed" in screen(made.app)


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_what_was_observed_is_shown_dn_by_dn(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter", "enter", "enter")
    assert isinstance(made.app.screen, SlotProgress) and len(runs.done) == 1
    result = {
        "reset": "20261121T023341-abcdef",
        "outcome": "done",
        "sentence": "reset to earliest",
        "lanes": {"dn_1": "requested 88120441/88120441, observed 88120441/88120441"},
    }
    runs.end(list(runs.actions)[-1], 0, result)
    shown = await until(pilot, made.app, "observed 88120441/88120441")
    assert "done: reset to earliest   at 02:31:14Z, 6.2 s" in shown
    assert "Backup   20261121T023341-abcdef" in shown


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_the_key_that_the_result_names_plans_the_way_back(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    await press(pilot, "u")
    assert isinstance(made.app.screen, SlotProgress), "nothing to undo yet"
    done: dict[str, Any] = {
        "reset": "B7",
        "outcome": "done",
        "sentence": "reset to earliest",
        "lanes": {},
        "start": None,
    }
    runs.end(list(runs.actions)[-1], 0, done)
    await until(pilot, made.app, "Undo     u  restores positions, not rows")
    await press(pilot, "u")
    await until(pilot, made.app, "plan 7f3a9c0d1e2f valid")
    assert runs.orders[-1].words[1:] == ("slots", "undo", "--json", "B7") and not runs.orders[-1].listed
    await press(pilot, "escape")
    await until(pilot, made.app, "g  start the job now", "undo not executed: its plan was closed")
    await press(pilot, "u")
    await to_fields(pilot, made.app)
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    runs.end(list(runs.actions)[-1], 0, {**done, "reset": None, "outcome": "done", "sentence": "undone"})
    await until(pilot, made.app, "done: undone")
    await press(pilot, "escape")
    assert on_screen(made.app, SlotsScreen), "the result of the reset is no longer valid"


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_a_reset_that_was_rolled_back_offers_no_key_to_undo_it(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    back: dict[str, Any] = {"reset": "B7", "outcome": "rolled back", "sentence": "a lock", "lanes": {}, "start": None}
    runs.end(list(runs.actions)[-1], 3, back)
    shown = await until(pilot, made.app, "rolled back: a lock")
    assert "Undo" not in shown
    await press(pilot, "u")
    assert isinstance(made.app.screen, SlotProgress)


@driven(lambda folder: made_with(folder, planned(skipping(7))))
async def test_a_typed_reason_outlives_another_plan_its_confirmations_do_not_and_nothing_lands_nowhere(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "l")
    await until(pilot, made.app, "plan 7f3a")
    await typed(pilot, "r")
    assert LETTERS in screen(made.app)
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter")
    await typed(pilot, "7")
    await press(pilot, "escape", "n")
    await to_fields(pilot, made.app)
    assert (value(made.app, "reason"), value(made.app, "name"), value(made.app, "rows")) == ("INC-2304", "", "")
    assert len(runs.orders) == 2 and not runs.done


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_the_command_that_a_read_only_confirmation_names_can_be_typed_on_each_of_its_screens(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app, "r", "enter")
    await until(pilot, made.app, "plan 7f3a")
    await press(pilot, "colon", *"ro", "escape", "enter")
    assert "read-only: `:rw REASON` allows changes for ten minutes (in a field: ctrl+p)" in screen(made.app)
    await typed(pilot, "INC-7")
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter", "q")
    assert NOT_HERE in screen(made.app), "the button has the focus"
    await press(pilot, "enter", "colon", *"rw")
    await typed(pilot, " INC-8")
    await press(pilot, "enter")
    assert made.app.armed and (value(made.app, "reason"), value(made.app, "name")) == ("INC-7", SLOT)
    await press(pilot, "enter")
    assert len(runs.done) == 1 and "--reason=INC-7" in runs.done[0].words


@pytest.mark.parametrize("keys", [("ctrl+p",), ("escape", "colon")], ids=["from a field", "from the plan"])
@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_arming_before_the_reason_was_typed_fills_it_in(
    made: Filled, runs: Planted, pilot: Pilot[int], keys: tuple[str, ...]
) -> None:
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await press(pilot, *keys, *"rw")
    await typed(pilot, " INC-8")
    await press(pilot, "enter")
    if "escape" in keys:
        await press(pilot, "enter")
    assert made.app.armed and value(made.app, "reason") == "INC-8" and "read-only: " not in screen(made.app)


FAILS = [
    {"name": "slot exists", "ok": True, "sentence": "both points are registered on every DN"},
    {"name": "job not running", "ok": False, "sentence": "job orders_rt is RUNNING; stop it first"},
]


@driven(lambda folder: made_with(folder, planned(in_history(checks=FAILS), code=3)))
async def test_what_fails_is_the_first_of_all_words(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "enter")
    await until(pilot, made.app, "FAIL     job not running")
    await press(pilot, "v")
    lines = [line.strip() for line in screen(made.app).splitlines()]
    fails, holds = (
        next(number for number, line in enumerate(lines) if line.startswith(word)) for word in ("FAIL", "pass")
    )
    assert fails < holds and not [line for line in lines if line.startswith(("Effect", "Undo"))]


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_no_letter_is_listed_while_a_value_is_typed(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "t")
    shown = screen(made.app)
    assert "> time" in shown and "Esc  back to the other targets" in shown and " snapshot  the next start" not in shown
    await typed(pilot, "es")
    assert made.app.screen.query_one(Input).value == "es"
    await press(pilot, "escape")
    assert " s  snapshot  the next start" in screen(made.app)


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_a_stale_plan_says_what_moved_and_is_planned_again(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app)
    await opened(pilot, made.app, "r", "enter")
    await to_fields(pilot, made.app)
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    err = "slotkeeper: plan 7f3a9c0d1e2f is stale; changed: dn_1: epoch 3 -> 4\n  make a new one\n"
    runs.end(list(runs.actions)[-1], 3, None, err)
    await until(pilot, made.app, "dn_1: epoch 3 -> 4", "press n to plan again")
    await press(pilot, "n")
    await until(pilot, made.app, "plan 7f3a9c0d1e2f valid")
    assert [one.listed for one in runs.orders] == [False, True, False]
    assert runs.orders[2].words == runs.orders[0].words


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_an_expired_plan_is_not_carried_out(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "enter")
    await until(pilot, made.app, "plan 7f3a")
    made.clock.at += timedelta(minutes=11)
    await arm(pilot, made.app)
    await typed(pilot, "abc")
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    assert "the plan has expired" in screen(made.app) and not runs.done


def test_a_living_job_is_stopped_as_a_step_of_its_own_then_it_is_planned_again(tmp_path: Path) -> None:
    checks = [{"name": "job not running", "ok": False, "sentence": "job orders_rt is RUNNING; stop it first"}]
    made, runs = made_with(tmp_path, planned(in_history(checks=checks), code=3))
    made.store.set_state("orders_rt", JobState.RUNNING)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app)
        shown = screen(made.app)
        assert "s  stop job orders_rt first" in shown and "job orders_rt is RUNNING; press s to stop it first" in shown
        await press(pilot, "d")
        assert "d: job orders_rt is RUNNING; press s to stop it first" in screen(made.app)
        await press(pilot, "r", "enter")
        await until(
            pilot, made.app, "FAIL     job not running: job orders_rt is RUNNING", "not possible now: job not running"
        )
        await press(pilot, "enter")
        assert isinstance(made.app.screen, SlotPlan) and not runs.done, "a failed check cannot be confirmed"
        await press(pilot, "s")
        assert isinstance(made.app.screen, JobConfirm)
        await press(pilot, "y")
        assert runs.done[0].words[1:] == ("jobs", "stop", "--json", "--reason=INC-2304", "orders_rt")
        runs.end(list(runs.actions)[-1], 0, {"job": "orders_rt", "state": "STOPPED"})
        runs.answers = planned(in_history())
        await until(pilot, made.app, "observed STOPPED")
        await press(pilot, "escape")
        await until(pilot, made.app, "ok job not running")
        assert runs.orders[-1].words == runs.orders[0].words

    drive(made, do)


@pytest.mark.parametrize(
    ("letter", "text", "expected"),
    [
        ("e", "", ["--to=earliest"]),
        ("l", "", ["--to=latest"]),
        ("s", "", ["--to=snapshot"]),
        ("p", "dn_1=5 dn_2=7", ["--to=point", "--point=dn_1=5", "--point=dn_2=7"]),
        ("t", "2026-01-31T08:30:00Z", ["--to=time", "--time=2026-01-31T08:30:00Z"]),
        ("b", "20260101T000000-abcdef", ["--to=backup", "--backup=20260101T000000-abcdef"]),
    ],
)
@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_each_target_has_a_letter_and_those_with_a_value_ask_for_it(
    made: Filled, runs: Planted, pilot: Pilot[int], letter: str, text: str, expected: list[str]
) -> None:
    await opened(pilot, made.app, "r", letter)
    if text:
        await press(pilot, "enter")
        assert not runs.orders, "no value, no plan"
        await paste(pilot, text)
        await press(pilot, "enter")
    (order,) = runs.orders
    assert list(order.words[4:]) == [*expected, "ods.orders", SLOT] and not order.listed


def test_the_last_finished_reset_is_undone_by_its_backup(tmp_path: Path) -> None:
    resets = [{"backup": "20261121T000002-bbbbbb", "step": "rolled back"}, {"backup": "B1", "step": "done"}]

    def answers(order: Order) -> Answer | None:
        if order.listed:
            return None
        return 0, {"resets": resets} if "history" in order.words else in_history(), ""

    made, runs = made_with(tmp_path, answers)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "u")
        await to_fields(pilot, made.app)
        assert runs.orders[1].words[1:] == ("slots", "undo", "--json", "B1")
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter")
        assert runs.done[0].words[-1] == "B1" and "--plan=7f3a9c0d1e2f" in runs.done[0].words
        resets.clear()
        await press(pilot, "escape", "a", "u")
        await until(pilot, made.app, "this slot has no finished reset to undo")

    drive(made, do)


def verb_plan(verb: str, rows: int | None, table: str | None = "ods.orders") -> dict[str, Any]:
    shard = {"shard": "dn_1", "live": 5, "durable": 4, "registered_at": None, "xmin": 1, "unread": rows}
    plan = {
        "verb": verb,
        "source": "dws1",
        "table": "ods.orders",
        "slot": SLOT,
        "owner": None,
        "highest": table is not None,
        "before": {"name": SLOT, "job": None, "exists": True, "shards": [shard]},
        "rows": rows,
        "effects": ["a consumer of it loses its unread changes"],
        "sql": ["SELECT pgxc_binlog_clear_target_slot('ods.orders', 'order_slot')"],
    }
    asked = None if rows == 0 else "unknown" if rows is None else str(rows)
    to_type = {"confirm": SLOT, "confirm_table": table, "rows": asked}
    return {"executed": False, "plan": plan, "done": None, "to_type": to_type, "undo": "none"}


@pytest.mark.parametrize(
    ("key", "verb", "rows", "typing"),
    [("d", "drop", 7, "7"), ("f", "register", None, "unknown"), ("d", "abandon", 0, "")],
)
def test_an_external_slot_asks_for_the_table_and_what_is_lost(
    key: str, verb: str, rows: int | None, typing: str, tmp_path: Path
) -> None:
    made, runs = made_with(tmp_path, planned(verb_plan(verb, rows)), job=None)

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r")
        assert "no configured job owns this slot" in screen(made.app) and not runs.orders
        await press(pilot, key)
        await until(pilot, made.app, f"{verb.upper()} SLOT", "external: no configured job")
        await press(pilot, "enter")
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter", "enter")
        assert not runs.done, "the table's name is missing"
        for _ in range(4):
            if made.app.screen.focused and made.app.screen.focused.id == "act-table":
                break
            await press(pilot, "shift+tab")
        await typed(pilot, "ods.orders")
        await press(pilot, "enter")
        if typing:
            assert not runs.done
            await typed(pilot, typing)
            await press(pilot, "enter")
        await press(pilot, "enter")
        (order,) = runs.done
        assert order.words[2] == ("drop" if key == "d" else "register")
        assert "--confirm-table=ods.orders" in order.words
        assert (f"--rows={typing}" in order.words) is bool(typing)
        result = {"dn_1": "gone", "dn_2": "still present"}
        done = {"outcome": "still present on dn_2", "result": result, "missed": ["dn_2"]}
        runs.end(list(runs.actions)[-1], 1, {"executed": True, "plan": {}, "done": done})
        await until(pilot, made.app, "still present on dn_2", "dn_1  gone")

    drive(made, do)


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_preflight_changes_nothing_and_shows_its_answers_to_a_read_only_console(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app, "p")
    assert runs.orders[0].words[1:] == ("slots", "preflight", "--json", "--source=dws1", "ods.orders")
    verdicts = {"VACUUM FULL": {"answer": "no", "reason": "order_slot holds back 7 rows"}}
    found = {"clear": False, "verdicts": verdicts, "drain": "about 3 s", "notes": ["vendor texts differ"]}
    runs.end(list(runs.actions)[-1], 3, found)
    await until(pilot, made.app, "VACUUM FULL no: order_slot holds back 7 rows", "drain: about 3 s")
    assert not runs.done and "to plan again" not in screen(made.app)


def test_several_slots_at_once_are_refused(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, lambda order: None)
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot("a1", 23, 5, "orders_rt"), slot("b1", 22, 5))

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "g", "space", "space", "a")
        assert "select one slot only" in screen(made.app) and isinstance(made.app.screen, SlotsScreen)
        assert not runs.orders

    drive(made, do)


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_the_slot_of_the_key_press_is_acted_upon_though_rows_move(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app)
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot("other", 23.9, 5, "orders_rt"), slot(SLOT, 1, 5))
    made.app.action_renew()
    await press(pilot, "r", "enter")
    assert [order.words[-1] for order in runs.orders] == [SLOT]


def test_an_unfinished_reset_is_offered_to_be_ended(tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, lambda order: None)
    folder = made.store.folder.path / "resets"
    folder.mkdir(mode=0o700)
    text = f'{{"id": "R1", "job": "orders_rt", "source": "dws1", "table": "ods.orders", "slot": "{SLOT}"}}'
    (folder / "R1.json").write_text(text, "utf-8")

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r")
        assert "a reset of this slot is unfinished; press e to end it" in screen(made.app) and not runs.orders
        await press(pilot, "e")
        await until(pilot, made.app, "END UNFINISHED RESET")
        await press(pilot, "enter", "tab", "enter")
        assert runs.done[0].words[1:] == ("slots", "reset", "--json", "--resume", "ods.orders", SLOT)

    drive(made, do)


def test_the_copied_command_has_placeholders_for_what_is_not_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = made_with(tmp_path, planned(skipping(7)))
    copied: list[str] = []
    monkeypatch.setattr(made.app, "copy_to_clipboard", copied.append)

    async def do(pilot: Pilot[int]) -> None:
        await opened(pilot, made.app, "r", "l")
        await until(pilot, made.app, "plan 7f3a")
        await press(pilot, "y")
        assert copied[0] == (
            "slotkeeper slots reset --execute --plan=7f3a9c0d1e2f --reason=REASON --confirm=NAME --rows=N"
            f" ods.orders {SLOT}"
        ), "without --config if the default file is used"

    drive(made, do)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((5, None, "slotkeeper: dws1 does not answer\n  see doctor\n"), "no plan: dws1 does not answer; see doctor"),
        ((0, {"moves": [{}]}, ""), "the command returned no plan (exit 0)"),
        ((0, ["x"], ""), "the command returned no plan (exit 0)"),
        ((-9, None, ""), "the command returned no plan (exit -9)"),
    ],
)
def test_a_failed_plan_is_reported_with_its_reason(answer: Answer, words: str, tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, lambda order: answer)

    async def do(pilot: Pilot[int]) -> None:
        await opened(pilot, made.app, "r", "enter")
        await until(pilot, made.app, words)
        runs.answers = planned(in_history())
        await press(pilot, "n")
        await until(pilot, made.app, "plan 7f3a9c0d1e2f valid")

    drive(made, do)


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_the_seconds_of_planning_are_counted(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "enter")
    await until(pilot, made.app, "planning, 0s; dry run, no position is moved")
    made.clock.at += timedelta(seconds=3)
    await until(pilot, made.app, "planning, 3s")
    id = next(iter(runs.actions))
    runs.actions[id] = replace(runs.actions[id], stage=Stage.GONE)
    await until(pilot, made.app, "the command returned no plan")


def test_what_children_write_is_text_and_nothing_else(tmp_path: Path) -> None:
    nasty = "\x1b]52;c;aGFjaw==\x07[@click=app.quit]x[/]\u202e\x9b31m"
    plan = in_history(source=nasty, notes=[nasty], sql=[nasty], undo=nasty, job=nasty)
    plan["checks"] = [{"name": nasty, "ok": None, "sentence": nasty}]
    plan["moves"][0]["seen"]["row"]["key"]["shard"] = nasty
    made, runs = made_with(tmp_path, planned(plan))

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opened(pilot, made.app, "r", "enter")
        shown = await until(pilot, made.app, "plan 7f3a")
        await press(pilot, "v")
        shown += screen(made.app)
        await press(pilot, "enter")
        shown += screen(made.app)
        await typed(pilot, SLOT)
        await press(pilot, "enter", "enter")
        err = f"slotkeeper: {nasty}\n  {nasty}\n"
        runs.end(list(runs.actions)[-1], 3, {"outcome": nasty, "sentence": nasty, "lanes": {nasty: nasty}}, err)
        shown += await until(pilot, made.app, "refused")
        assert made.app.is_running
        assert not [one for one in shown if one != "\n" and not 0x20 <= ord(one) < 0x7F]
        assert "[@click=app.quit]x[/]" in shown

    drive(made, do)


TRUNCATED = "TRUNCATE at the source is likely: it has far fewer rows"


def of_snapshots(order: Order) -> Answer | None:
    """The answers to the dry runs of a snapshot, by the requested mode for the target's rows."""
    if order.listed:
        return None
    how = next((word.partition("=")[2] for word in order.words if word.startswith("--on-existing=")), "")
    return (0 if how else 3), snapshot_plan(how, 174, 130_881, TRUNCATED), ""


@driven(lambda folder: made_with(folder, of_snapshots))
async def test_a_snapshot_that_would_shrink_its_target_asks_for_the_number(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, REASON)
    await opened(pilot, made.app, "r", "s")
    shown = flowing(await until(pilot, made.app, "order_slot to snapshot (replace)"))
    for text in (
        "Effect the target would shrink by 130707 rows: source 174, target 130881",
        TRUNCATED,
        "Safer first find out why the source has fewer rows; merge (key o) removes no rows",
    ):
        assert text in shown, shown
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter")
    assert "still required: rows" in screen(made.app)
    await typed(pilot, "130707")
    await press(pilot, "enter", "enter")
    (order,) = runs.done
    assert "--rows=130707" in order.words and "--plan=7f3a9c0d1e2f" in order.words


@driven(lambda folder: made_with(folder, of_snapshots))
async def test_a_key_goes_through_what_a_snapshot_does_with_the_targets_rows(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await opened(pilot, made.app, "r", "s")
    await until(pilot, made.app, "snapshot (replace)", "nothing has changed yet; o: merge instead; Enter continues")
    await press(pilot, "o")
    await until(pilot, made.app, "snapshot (merge)", "nothing has changed yet; o: replace instead; Enter continues")
    await press(pilot, "enter")
    assert "130707" not in screen(made.app), "merged, no row goes"
    await press(pilot, "escape", "o")
    await until(pilot, made.app, "snapshot (replace)")
    assert len(runs.orders) == 4, "only the first plan asks whether the target has rows"


@driven(lambda folder: made_with(folder, of_snapshots))
async def test_where_a_copy_cannot_replace_rows_it_is_planned_to_merge_into_them(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    loaded = made.app.services.loaded
    assert loaded is not None
    options = replace(loaded.jobs["orders_rt"].sink_options, write_mode="update")
    made.app.services.loaded = replace(
        loaded, jobs={**loaded.jobs, "orders_rt": replace(loaded.jobs["orders_rt"], sink_options=options)}
    )
    await opened(pilot, made.app, "r", "s")
    await until(pilot, made.app, "snapshot (merge)")
    assert all("--on-existing=replace" not in order.words for order in runs.orders)


@driven(lambda folder: made_with(folder, planned(in_history())))
async def test_other_resets_have_no_such_key(made: Filled, _: object, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "e")
    shown = await until(pilot, made.app, "plan 7f3a9c0d1e2f")
    assert "old rows" not in shown
    await press(pilot, "o")
    assert isinstance(made.app.screen, SlotPlan)
