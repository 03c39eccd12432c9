"""Every key of every screen runs the action of its binding: no binding hides another, and each has an action."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.keymap import bindings_of
from slotkeeper.console.tui.screens.base import Frame
from tests.tui.filled import Filled, driven, press
from tests.tui.planted import until
from tests.tui.quarantined import entries, holding

WAYS = {
    "overview": "1",
    "jobs": "2",
    "job": "1 enter",
    "log": "1 enter l",
    "describe": "1 enter d",
    "locks": "1 L",
    "locks of the jobs": "2 L",
    "views": "2 V",
    "slots": "3",
    "slot": "3 r enter",
    "slot history": "3 r h",
    "errors": "4",
    "errors of a job": "1 enter E",
    "quarantine": "4 j enter",
    "held row": "4 j enter wait enter",
    "binlog": "5",
    "alerts": "6",
    "audit": "7",
}


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@driven(lambda folder: holding(folder, *entries()))
async def test_every_key_reaches_its_action(made: Filled, _: object, pilot: Pilot[int], ways: str) -> None:
    for key in ways.split():
        await (until(pilot, made.app, " 4809 ") if key == "wait" else press(pilot, key))
    screen = made.app.screen
    assert isinstance(screen, Frame)
    reached: list[str] = []

    async def noted(action: str, *args: object, **more: object) -> bool:
        reached.append(action)
        return True

    made.app.run_action = noted  # type: ignore[method-assign,assignment]
    every = [one.binding for one in bindings_of(screen)]
    assert len(every) > 20
    for binding in every:
        for key in binding.key.split(","):
            reached.clear()
            await pilot.press(key)
            # a selection is copied first; only without one ctrl+c says how to leave
            wanted = "copy_text" if binding.id == "interrupt" else binding.action
            assert wanted in [one.rpartition(".")[2] for one in reached], (key, binding.id, reached)
            assert made.app.screen is screen
