"""Every form: the first empty field has the focus, Tab moves to the action, Esc closes the form and reports this."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from slotkeeper.console.tui.screens.actions.base import FieldsScreen, Typing
from slotkeeper.console.tui.screens.actions.menu import TargetForm
from slotkeeper.console.tui.screens.actions.preview import SlotPlan
from tests.tui.filled import Filled, drive, press, screen
from tests.tui.planted import Planted, arm, plant, until, until_asked
from tests.tui.quarantined import entries, holding
from tests.tui.test_act_slots import in_history, made_with, opened, planned, skipping, to_fields, verb_plan

Opens = Callable[[Filled, Pilot[int]], Awaitable[None]]


async def _reset(made: Filled, pilot: Pilot[int]) -> None:
    await opened(pilot, made.app, "r", "l")
    await to_fields(pilot, made.app)


async def _drop(made: Filled, pilot: Pilot[int]) -> None:
    made.app.services.runs.answers = planned(verb_plan("drop", 7))  # type: ignore[attr-defined]
    await opened(pilot, made.app, "d")
    await until(pilot, made.app, "DROP SLOT", "planned again")
    await press(pilot, "enter")


async def _cancel(made: Filled, pilot: Pilot[int]) -> None:
    made.app.screen.table.move_to("stock_rt")  # type: ignore[attr-defined]
    await press(pilot, "a", "c")


async def _stop_several(made: Filled, pilot: Pilot[int]) -> None:
    for job in ("invoice_rt", "ledger_full"):
        made.app.screen.table.move_to(job)  # type: ignore[attr-defined]
        await press(pilot, "space")
    await press(pilot, "a", "s")


async def _register(made: Filled, pilot: Pilot[int]) -> None:
    made.app.services.runs.answers = planned(verb_plan("register", 7, None))  # type: ignore[attr-defined]
    await opened(pilot, made.app, "f")
    await until(pilot, made.app, "REGISTER", "planned again")
    await press(pilot, "enter")


async def _discard(made: Filled, pilot: Pilot[int]) -> None:
    await press(pilot, "4", "j", "enter")
    await until(pilot, made.app, " 4809 ")
    await press(pilot, "a", "d")


FORMS: dict[str, tuple[Opens, list[str]]] = {
    "reset": (_reset, ["reason", "name", "rows"]),
    "drop": (_drop, ["reason", "name", "table", "rows"]),
    "register": (_register, ["reason", "name", "rows"]),
    "cancel": (_cancel, ["reason", "name"]),
    "several": (_stop_several, ["number"]),
    "discard": (_discard, ["reason", "name", "rows"]),
}


def made_for(folder: Path, form: str) -> tuple[Filled, Planted]:
    if form == "discard":
        made, _ = holding(folder, *entries())
        return made, plant(made)
    job = None if form == "drop" else "orders_rt"
    return made_with(folder, planned(skipping(7)), job)


OF_SLOTS = frozenset({"reset", "drop", "register"})
"""Forms that follow a plan; Esc returns to the plan."""


def focus(made: Filled) -> str:
    return (made.app.screen.focused.id or "") if made.app.screen.focused else ""


@pytest.mark.parametrize("armed", [False, True], ids=["read-only", "armed"])
@pytest.mark.parametrize("form", FORMS)
def test_the_first_empty_field_has_the_keys_and_tab_leads_through_the_fields_to_the_action(
    form: str, armed: bool, tmp_path: Path
) -> None:
    made, runs = made_for(tmp_path, form)
    opens, fields = FORMS[form]

    async def do(pilot: Pilot[int]) -> None:
        if armed:
            await arm(pilot, made.app)
        await opens(made, pilot)
        await until_asked(pilot, lambda: isinstance(made.app.screen.focused, Typing))
        assert isinstance(made.app.screen, FieldsScreen)
        assert [one.want.part.value.lower() for one in made.app.screen.query(Typing)] == fields
        first = 1 if armed and fields[0] == "reason" else 0
        order = [*(f"act-{field}" for field in fields[first:]), "act-apply", "act-cancel"]
        for expected in order:
            assert focus(made) == expected
            shown = screen(made.app).splitlines()[-1]
            typing = "Tab next field" if form in OF_SLOTS else "Esc cancel  Tab next"
            assert (typing in shown) is (expected not in order[-2:]), shown
            await press(pilot, "tab")
        await press(pilot, "shift+tab", "shift+tab")
        assert focus(made) == "act-apply"
        await press(pilot, "enter")
        assert not runs.done, "the text to type is missing"

    drive(made, do)


@pytest.mark.parametrize("way", ["escape", "button"])
@pytest.mark.parametrize("form", FORMS)
def test_leaving_a_form_says_what_was_not_done_and_does_nothing(form: str, way: str, tmp_path: Path) -> None:
    made, runs = made_for(tmp_path, form)
    opens, _ = FORMS[form]

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await opens(made, pilot)
        if way == "button":
            while focus(made) != "act-cancel":
                await press(pilot, "tab")
            await press(pilot, "enter")
        else:
            await press(pilot, "x", "escape")
        if form in OF_SLOTS:
            assert isinstance(made.app.screen, SlotPlan)
            await press(pilot, "escape")
        assert not isinstance(made.app.screen, FieldsScreen)
        closed = f" {form} not executed: its plan was closed" if form in OF_SLOTS else " cancelled"
        assert screen(made.app).splitlines()[-2] == closed
        assert not runs.done

    drive(made, do)


def test_the_lines_scroll_from_a_field_and_a_value_of_a_target_has_the_keys_at_once(tmp_path: Path) -> None:
    made, _ = made_with(tmp_path, planned(in_history(notes=[f"note {number}" for number in range(24)])))

    async def do(pilot: Pilot[int]) -> None:
        await _reset(made, pilot)
        assert " note 23 " not in screen(made.app)
        await press(pilot, "pagedown", "pagedown", "pagedown", "pagedown")
        assert " note 23 " in screen(made.app) and focus(made) == "act-reason"
        await press(pilot, "pageup", "pageup", "pageup", "pageup", "escape", "escape")
        await press(pilot, "a", "r", "p")
        assert isinstance(made.app.screen, TargetForm)
        assert made.app.screen.focused is made.app.screen.query_one(Input)
        await press(pilot, "escape", "escape")
        assert screen(made.app).splitlines()[-2] == " cancelled"

    drive(made, do)
