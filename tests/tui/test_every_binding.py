"""Press every binding of every screen: nothing fails, and the screen changes or a line says why it does not.

Keys that work everywhere, and in every table, are pressed on one screen.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.keymap import Bound, bindings_of
from slotkeeper.console.tui.screens.base import Frame
from tests.tui.filled import Filled, drive, press
from tests.tui.pages import PlantedPeeker, page
from tests.tui.planted import arm, plant, until
from tests.tui.quarantined import entries, holding

OFTEN = ("job", "slots", "log", "job menu")
"""The chaos run covers the other screens."""
WAYS = {
    "overview": "1 g j",
    "job": "1 g j enter",
    "log": "1 g enter l k k",
    "slots": "3 r g j",
    "slot": "3 r enter",
    "errors": "4",
    "quarantine": "4 j enter wait j",
    "held row": "4 j enter wait enter",
    "binlog": "3 r b wait-peek",
    "alerts": "6",
    "help": "1 ? pagedown",
    "job menu": "1 g j a",
    "several jobs": "2 u g space j space a",
    "job form": "1 g j a r",
    "slot menu": "3 r a",
    "targets": "3 r a r",
    "row menu": "4 j enter wait a",
    "row form": "4 j enter wait a d",
}
EVERYWHERE = "overview"
"""The screen on which the global keys are pressed; the key of its own number has no effect there."""
NOT_HERE = ("quit", "interrupt", EVERYWHERE)
WAITS = {"wait": " 4809 ", "wait-peek": "peek"}
TURNS = 100
"""Number of checks for a change, fifty of them a second."""


def signature(app: ConsoleApp) -> object:
    """Everything that a user could notice: texts with their styles, the focus, the polling interval."""
    drawn = [[(part.text, str(part.style)) for part in strip] for strip in app.screen._compositor.render_strips()]
    focused = app.screen.focused
    return type(app.screen), drawn, focused.id if focused else None, app.every, app.theme


def tried_on(screen: Frame, name: str) -> list[Bound]:
    return [
        one
        for one in bindings_of(screen)
        if one.binding.id not in NOT_HERE and (one.where == "screen" or name == EVERYWHERE)
    ]


async def there(made: Filled, pilot: Pilot[int], ways: str) -> None:
    """Go back to the initial first screen, then press these keys."""
    app = made.app
    if app.in_history:
        app.action_history()
    if app.paused:
        app.action_freeze()
    while len(app.screen_stack) > 1:
        app.pop_screen()
    await pilot.pause()
    await press(pilot, "escape")  # close an input line, clear a filter
    for key in ways.split():
        await (until(pilot, app, WAITS[key]) if key in WAITS else press(pilot, key))
    made.clock.at += timedelta(seconds=3)  # data that is read again is younger then
    made.app.screen.tick()  # type: ignore[attr-defined]
    await pilot.pause()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.chaos) for name in WAYS]
)
def test_every_binding_changes_something_or_says_why_not(name: str, tmp_path: Path) -> None:
    made, _ = holding(tmp_path, *entries())
    plant(made)
    made.app.services.peeker = PlantedPeeker(page())
    lines = "".join(f"02:28:{second:02d} line {second}\n" for second in range(60))
    for job in ("orders_rt", "stock_rt"):
        made.store.folder.log(job).write_text(lines, encoding="utf-8")
    dumb: list[str] = []

    async def do(pilot: Pilot[int]) -> None:
        await arm(pilot, made.app)
        await there(made, pilot, WAYS[name])
        assert isinstance(made.app.screen, Frame)
        bindings = [(one.binding.id, key) for one in tried_on(made.app.screen, name) for key in _keys(one)]
        assert bindings
        for id, key in bindings:
            await there(made, pilot, WAYS[name])
            made.app.said = None
            before = signature(made.app)
            await press(pilot, key)
            for _ in range(TURNS):
                if signature(made.app) != before or made.app.said is not None:
                    break
                await pilot.pause(0.02)
            assert made.app.is_running and made.app.defect is None, (id, key)
            if signature(made.app) == before and made.app.said is None:
                dumb.append(f"{key} {id}")

    drive(made, do)
    assert not dumb, dumb


def _keys(one: Bound) -> list[str]:
    return one.binding.key.split(",")[:1]
