"""The ways into actions: a menu for jobs, for a slot, for rows in quarantine, and the list of what was set going.

What is acted upon is given here, at the key press; rows may move afterwards. Next door: `act_menu`, `act_actions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.monitor.snapshot import Level
from console.tui.screens.actions.history import ActionsScreen
from console.tui.screens.actions.menu import JobMenu, SlotMenu
from console.tui.screens.actions.quarantine import HeldMenu
from console.views.quarantine import Choice
from console.views.slots import SlotFacts

if TYPE_CHECKING:
    from console.tui.app import ConsoleApp

ONE_SLOT = "one slot at a time: u unmarks, then a acts on the row under the cursor"


def open_job_menu(app: ConsoleApp, names: Sequence[str]) -> None:
    """What can be done to these jobs."""
    if names:
        app.push_screen(JobMenu(names))
    else:
        app.say("no job is chosen", Level.WARNING)


def open_slot_menu(app: ConsoleApp, slots: Sequence[SlotFacts]) -> None:
    """What can be done to this slot; several are refused."""
    if len(slots) == 1:
        app.push_screen(SlotMenu(slots[0]))
    else:
        app.say(ONE_SLOT if slots else "no slot is chosen", Level.WARNING)


def open_held_menu(app: ConsoleApp, choice: Choice) -> None:
    """What can be done to these rows in quarantine."""
    app.push_screen(HeldMenu(choice))


def open_actions(app: ConsoleApp) -> None:
    """What is on its way, and what ended lately."""
    app.push_screen(ActionsScreen())
