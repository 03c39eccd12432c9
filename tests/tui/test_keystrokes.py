"""The number of keys an on-call engineer presses at 80x24, from an Overview with a fault, for the most frequent
tasks.

The budget: the worst DN 0; the last error and its remedy 1; a restart 4; a reset 18 besides its reason; a comparison
3; an undo after a reset 3. Arming (`:rw reason`) comes before and is not counted.
"""

from __future__ import annotations

from pathlib import Path

from textual.pilot import Pilot

from slotkeeper.console.tui.screens.actions.progress import SlotProgress
from slotkeeper.core.domain.job import JobState
from tests.tui.filled import Filled, begin, console, driven, lane, polled, press, screen, slot
from tests.tui.planted import Planted, arm, plant, typed, until
from tests.tui.test_act_slots import in_history, planned

SLOT = "order_slot"
"""Ten letters, as slots have long names."""
REASON = "INC-2304 restored"


class Keys:
    """Counts the pressed keys; each letter of a text is a key."""

    def __init__(self, pilot: Pilot[int]) -> None:
        self._pilot, self.number = pilot, 0

    async def press(self, *keys: str) -> None:
        self.number += len(keys)
        await press(self._pilot, *keys)

    async def type(self, text: str) -> None:
        self.number += await typed(self._pilot, text)


def faulty(folder: Path) -> Filled:
    """One job of four DNs, one of which has been retrying for a while, and whose slot has a name of ten letters."""
    made = console(folder, ascii_only=True, filled=False)
    bad = lane("dn_3", 88_391_207, retry="retrying 2, next in 4 s", error="dn_3: does not answer", side="source")
    begin(made.store, "orders_rt", *(lane(f"dn_{n}", 88_512_330) for n in (1, 2, 4)), bad)
    made.store.record_error("orders_rt", "source", "57014", "dn_3: canceling statement due to statement timeout")
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot(SLOT, 23.2, 12_403_118, "orders_rt"))
    return made


def ended_job(folder: Path) -> tuple[Filled, Planted]:
    """The same job after its process has ended, with planted plans."""
    made = faulty(folder)
    made.store.set_state("orders_rt", JobState.STOPPED, "stopped")
    made.store.begin_run("orders_rt", "run-2")  # a run without a process
    made.store.set_state("orders_rt", JobState.FAILED, "dn_1: the registered point is gone", "SLOT LOST", "reset it")
    return made, plant(made, planned(in_history()))


def acting(folder: Path) -> tuple[Filled, Planted]:
    made = faulty(folder)
    return made, plant(made)


@driven(faulty)
async def test_the_worst_dn_takes_no_key(made: Filled, pilot: Pilot[int]) -> None:
    assert " ! dn_3 " in screen(made.app)


@driven(faulty)
async def test_the_last_error_and_its_remedy_take_one_key(made: Filled, pilot: Pilot[int]) -> None:
    keys = Keys(pilot)
    await keys.press("4")
    shown = screen(made.app)
    assert "statement timeout" in shown and "57014" in shown
    assert "SK-1404" in shown and "1  `slotkeeper locks " in shown
    assert keys.number == 1


@driven(acting)
async def test_a_restart_takes_four_keys_at_most(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    await arm(pilot, made.app)
    keys = Keys(pilot)
    await keys.press("a", "r", "y")
    assert [one.words[1:3] for one in runs.done] == [("jobs", "restart")] and keys.number <= 4


@driven(acting)
async def test_a_comparison_takes_three_keys_at_most(made: Filled, runs: Planted, pilot: Pilot[int]) -> None:
    keys = Keys(pilot)
    await keys.press("a", "v")
    assert [one.words[1] for one in runs.done] == ["verify"] and keys.number <= 3


@driven(ended_job)
async def test_a_reset_takes_eighteen_keys_at_most_and_its_way_back_three(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, REASON)
    keys = Keys(pilot)
    await keys.press("3")
    made.app.action_renew()  # a running console polls the source at once
    await until(pilot, made.app, SLOT)
    await keys.press("a", "r", "s")
    await until(pilot, made.app, "plan 7f3a")
    await keys.press("enter")
    await keys.type(SLOT)
    await keys.press("enter", "enter")
    (order,) = runs.done
    assert (f"--confirm={SLOT}" in order.words, f"--reason={REASON}" in order.words) == (True, True)
    assert keys.number <= 18, keys.number

    runs.end(list(runs.actions)[-1], 0, {"reset": "B7", "outcome": "done", "sentence": "reset", "lanes": {}})
    await until(pilot, made.app, "Undo     u")
    back = Keys(pilot)
    await back.press("u")
    await until(pilot, made.app, "plan 7f3a")
    await back.press("enter", "enter")
    assert isinstance(made.app.screen, SlotProgress) and len(runs.done) == 2
    assert "undo" in runs.done[1].words and f"--confirm={SLOT}" in runs.done[1].words
    assert back.number == 3


@driven(ended_job)
async def test_a_way_back_that_skips_changes_still_asks_how_many(
    made: Filled, runs: Planted, pilot: Pilot[int]
) -> None:
    await arm(pilot, made.app, REASON)
    await press(pilot, "3", "r", "a", "r", "s")
    await until(pilot, made.app, "plan 7f3a")
    await press(pilot, "enter")
    await typed(pilot, SLOT)
    await press(pilot, "enter", "enter")
    runs.end(list(runs.actions)[-1], 0, {"reset": "B7", "outcome": "done", "sentence": "reset", "lanes": {}})
    await until(pilot, made.app, "Undo     u")
    asked = {"confirm": SLOT, "confirm_table": None, "rows": "7"}
    runs.answers = planned(in_history(to_type=asked))
    await press(pilot, "u")
    await until(pilot, made.app, "plan 7f3a")
    await press(pilot, "enter", "enter", "enter")
    assert len(runs.done) == 1 and "still required: rows" in screen(made.app)
    await press(pilot, "shift+tab", "7", "enter", "enter")
    assert "--rows=7" in runs.done[1].words
