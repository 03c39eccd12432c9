"""A reset by its keys at 80x24, over a connection with a round trip of 300 ms: the number of keys, and that none is
lost.

A user of such a connection types ahead of the screen: keys arrive while a screen opens, while a plan is made, or
while a value is checked. Each key waits for the screen that it was typed for; none of them executes a plan that was
not shown yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from slotkeeper.console.actions.runner import Order
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.base_app import MOST_KEYS as MOST_WAITING
from slotkeeper.console.tui.screens.actions.menu import TargetForm
from slotkeeper.console.tui.screens.actions.preview import SlotConfirm, SlotPlan
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import Filled, drive, driven, flowing, press, screen
from tests.tui.planted import Answer, Planted, arm, until, until_asked
from tests.tui.test_act_slots import SLOT, in_history, made_with, of_snapshots, planned, skipping

ONE_WAY = 0.15
MOST_KEYS = 12
NAMES = {"_": "underscore", ":": "colon", "=": "equals_sign", "-": "minus"}
UNDO = {"resets": [{"backup": "B1", "step": "done"}]}


class SlowLine:
    """A remote terminal: keys arrive late and together, and the user waits for the screen only to read it.

    `keys` counts the keys, except those of texts that are typed into fields.
    """

    def __init__(self, app: ConsoleApp) -> None:
        self._app = app
        self.keys = 0

    def press(self, *keys: str) -> None:
        self.keys += len(keys)
        self._send(keys)

    def type(self, text: str) -> None:
        self._send(text)

    async def reads(self, *words: str) -> str:
        """Wait until the far end shows these words."""
        async with asyncio.timeout(20):
            while not all(word in flowing(screen(self._app)) for word in words):
                await self._later(0.01)
        await self._later(ONE_WAY)
        return screen(self._app)

    def _send(self, keys: Sequence[str]) -> None:
        for key in keys:
            event = events.Key(NAMES.get(key, key), key if len(key) == 1 else None)
            asyncio.get_running_loop().call_later(ONE_WAY, self._app.post_message, event)

    async def _later(self, seconds: float) -> None:
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(seconds, done.set_result, None)
        await done


def answered(order: Order) -> Answer | None:
    """The answer to each dry run, by its goal."""
    if order.listed:
        return None
    if "history" in order.words:
        return 0, UNDO, ""
    if "--to=latest" in order.words:
        return 0, skipping(7), ""
    return of_snapshots(order) if "--to=snapshot" in order.words else (0, in_history(), "")


FLOWS: dict[str, tuple[str, str, str, Sequence[str]]] = {
    # its key, the text typed as its value, the text typed as the number, the words of its dry run
    "earliest": ("r e", "", "", ["--to=earliest"]),
    "by default": ("r enter", "", "", ["--to=earliest"]),
    "point": ("r p", "dn_1=10500", "", ["--to=point", "--point=dn_1=10500"]),
    "time": ("r t", "2026-01-31T08:30:00Z", "", ["--to=time", "--time=2026-01-31T08:30:00Z"]),
    "time at once": ("t", "2026-01-31T08:30:00Z", "", ["--to=time", "--time=2026-01-31T08:30:00Z"]),
    "latest": ("r l", "", "7", ["--to=latest"]),
    "snapshot": ("r s", "", "130707", ["--to=snapshot", "--on-existing=replace"]),
    "snapshot at once": ("r s o", "", "130707", ["--to=snapshot", "--on-existing=replace"]),
    "undo": ("u", "", "", ["B1"]),
}


@pytest.mark.parametrize(
    ("flow", "trouble"),
    [*((flow, "") for flow in FLOWS), *((flow, "SLOT LOST") for flow in ("by default", "snapshot", "undo"))],
)
def test_a_reset_takes_twelve_keys_at_most_and_loses_none_at_300_ms_a_round_trip(
    flow: str, trouble: str, tmp_path: Path
) -> None:
    chosen, at, rows, words = FLOWS[flow]
    if trouble and flow == "by default":
        chosen, rows, words = "r enter", "130707", FLOWS["snapshot"][3]
    made, runs = made_with(tmp_path, answered)
    if trouble:
        made.store.set_state("orders_rt", JobState.FAILED, "dn_1: gone", trouble, "copy it again")

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app, "INC-1")
        line = SlowLine(made.app)
        line.press("3")
        await line.reads("EXPIRES")
        made.app.action_renew()  # a running console polls the source at once
        await line.reads(SLOT)
        await press(pilot, "g")
        line.press("a", *chosen.split())
        if at:
            line.type(at)
            line.press("enter")
        await line.reads("plan 7f3a9c0d1e2f", "Effect")
        line.press("enter")
        line.type(SLOT)
        line.press("enter")
        if rows:
            line.type(rows)
            line.press("enter")
        line.press("enter")
        await until_asked(pilot, lambda: bool(runs.done))
        (order,) = runs.done
        assert [one for one in words if one not in (runs.orders[-2].words)] == []
        assert f"--confirm={SLOT}" in order.words and "--reason=INC-1" in order.words
        assert (f"--rows={rows}" in order.words) is bool(rows)
        print(f"{flow}{' after ' + trouble if trouble else ''}: {line.keys} keys beside the texts")
        assert line.keys <= MOST_KEYS

    drive(made, do)


@pytest.mark.parametrize("letter", ["e", "p", "t", "l"])
def test_of_a_lost_slot_no_key_leads_to_what_would_lose_changes(letter: str, tmp_path: Path) -> None:
    made, runs = made_with(tmp_path, answered)
    made.store.set_state("orders_rt", JobState.FAILED, "dn_1: gone", "SLOT LOST", "copy it again")

    async def do(pilot: Pilot[int]) -> None:
        await press(pilot, "3", "r", "g", "a", "r", letter)
        assert isinstance(made.app.screen, TargetForm) and not runs.orders
        assert "not possible: the slot is lost" in screen(made.app)

    drive(made, do)


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_what_is_typed_before_the_plan_is_there_waits_for_it_and_carries_nothing_out(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "INC-1")
    await press(pilot, "3", "r", "g")
    line = SlowLine(made.app)
    line.press("a", "r", "e", "enter")
    line.type(SLOT)
    line.press("enter", "enter")
    await until_asked(pilot, lambda: len(runs.orders) == 1 and len(made.app._keys) == len(SLOT) + 3)
    runs.end(next(iter(runs.actions)), 0, in_history())
    await until_asked(pilot, lambda: isinstance(made.app.screen, SlotConfirm))
    await until(pilot, made.app, f"Name     {SLOT}", "Enter was pressed before the plan was shown: press it again")
    assert not runs.done
    await press(pilot, "enter")
    assert f"--confirm={SLOT}" in runs.done[0].words


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_what_is_typed_for_a_plan_that_fails_is_dropped_and_acts_on_nothing(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "INC-1")
    await press(pilot, "3", "r", "g", "a", "r", "e", "enter", "s", "y", "n")
    failed = [{"name": "job not running", "ok": False, "sentence": "job orders_rt is RUNNING; stop it first"}]
    runs.end(next(iter(runs.actions)), 3, in_history(checks=failed))
    await until(pilot, made.app, "FAIL     job not running", "4 keys typed ahead discarded")
    assert isinstance(made.app.screen, SlotPlan) and len(runs.orders) == 1


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_esc_leaves_a_plan_that_does_not_come_and_drops_what_waits_for_it(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await press(pilot, "3", "r", "g", "a", "r", "e", "enter", "x", "escape")
    assert "reset not executed: its plan was closed" in screen(made.app) and not made.app._keys
    await press(pilot, "a")
    assert "reset: shows a plan first" in screen(made.app), "the next key acts at once"


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_a_click_on_back_drops_what_waits_for_the_plan_as_esc_does(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "INC-1")
    await press(pilot, "3", "r", "g", "a", "r", "e", "enter", "p", "y")
    row = next(line for line in screen(made.app).splitlines() if "Esc" in line)
    await pilot.click("#keys", offset=(row.index("Esc") + 1, 0))
    await until_asked(pilot, lambda: not isinstance(made.app.screen, SlotPlan))
    await press(pilot, "j")
    assert not made.app._keys and not runs.done, "keys typed for the plan have no effect on another screen"
    assert len(made.app.screen_stack) == 1


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_a_value_that_is_left_before_it_was_taken_plans_nothing(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await press(pilot, "3", "r", "g", "a", "r", "p", "1")
    for key in ("enter", "escape", "escape"):
        made.app.post_message(events.Key(key, None))
    await until_asked(pilot, lambda: not isinstance(made.app.screen, TargetForm))
    await press(pilot, "j")
    assert len(made.app.screen_stack) == 1 and not runs.orders


def test_however_the_keys_come_they_say_the_same(tmp_path: Path, seed: int) -> None:
    """Keys arrive in pieces of any size, at any time; the result is the same."""
    print(f"seed {seed}")
    draw = Random(seed)
    left_again = ["a", "r", "p", *"xy", "escape", "escape"]
    whole: list[Any] = [*left_again, "a", "r", "p", *"dn_1=10500", "enter"]
    for round in range(6):
        folder = tmp_path / str(round)
        folder.mkdir()
        made, runs = made_with(folder, planned(in_history()))

        async def do(pilot: Pilot[int], made: Filled = made, runs: Planted = runs) -> None:
            await press(pilot, "3", "r", "g")
            left = list(whole)
            while left:
                piece = [left.pop(0) for _ in range(min(len(left), draw.randint(1, 7)))]
                for key in piece:
                    made.app.post_message(events.Key(NAMES.get(key, key), key if len(key) == 1 else None))
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
            await until(pilot, made.app, "plan 7f3a9c0d1e2f")
            assert "--point=dn_1=10500" in runs.orders[0].words

        drive(made, do)


@driven(lambda folder: made_with(folder, lambda order: None))
async def test_a_paste_that_comes_as_keys_while_a_plan_is_made_does_not_grow_without_end(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, "INC-1")
    await press(pilot, "3", "r", "g")
    line = SlowLine(made.app)
    line.press("a", "r", "e", "enter")
    await until_asked(pilot, lambda: len(runs.orders) == 1)
    line.type("x" * (3 * MOST_WAITING))
    await until_asked(pilot, lambda: len(made.app._keys) == MOST_WAITING)
    line.press("escape")
    await until_asked(pilot, lambda: not made.app._keys)
    assert not runs.done
