"""Verbs that are typed: `:pause`, `:verify`, `:reset` do what the menu of the row does, through the same gates.

A command opens the menu of the jobs or the slot that are meant and chooses its line: what the menu refuses is refused,
and what it asks is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.slots import SlotFacts, all_slots

if TYPE_CHECKING:
    from slotkeeper.console.tui.host import Host

JOB_VERBS = {
    "start": "start the job of this row, or those that are named",
    "stop": "stop it: goes on later where it was",
    "restart": "restart it with the configuration as it is now",
    "pause": "its process lives and applies nothing",
    "resume": "it applies again",
    "drain": "wait until nothing is unread; changes nothing",
    "verify": "compare source and target, all rows of both; changes nothing",
    "cancel": "for good: it can never be started again",
}
SLOT_VERBS = {
    "reset": "reset the slot of this row: plan first, backed up, can be undone",
    "undo": "plan the way back of its last reset",
    "register": "register a full-sync point: skips what is unread",
    "drop": "drop it",
    "create": "create it",
    "preflight": "may a VACUUM FULL, scaling out or an ALTER begin?",
}
PAST = "a moment of the past cannot be acted upon; R leaves history"


def jobs_known(app: Host) -> list[str]:
    """The names of all jobs."""
    return [one.name for one in app.shown.local.jobs]


def slots_known(app: Host) -> dict[str, SlotFacts]:
    """Every slot that was seen, by table and name."""
    return {f"{one.seen.table} {one.slot.name}": one for one in all_slots(app.shown.tables.values())}


def slots_called(app: Host, name: str) -> list[SlotFacts]:
    """The slots that a text names, with or without their table."""
    return [one for words, one in slots_known(app).items() if name in (words, words.split(" ", 1)[-1])]


def on_jobs(verb: str) -> Callable[[Host, str], object]:
    """Do it to the jobs that are named, else to those of the screen that is seen."""

    def act(app: Host, typed: str) -> None:
        known = jobs_known(app)
        named = typed.split()
        unknown = [one for one in named if one not in known]
        names = named or (app.frame.jobs_meant() if app.frame is not None else [])
        if app.in_history:
            app.say(PAST, Level.WARNING)
        elif unknown:
            app.say(f"there is no job {unknown[0]}", Level.WARNING)
        elif not names:
            app.say(f"no job is chosen: :{verb} JOB", Level.WARNING)
        else:
            app.open_job_menu(names, verb)

    return act


def on_slot(verb: str) -> Callable[[Host, str], object]:
    """Do it to the slot that is named, else to that of the screen that is seen."""

    def act(app: Host, typed: str) -> None:
        meant = app.frame.slot_meant() if app.frame is not None else None
        found = slots_called(app, typed) if typed else [meant] if meant is not None else []
        if app.in_history:
            app.say(PAST, Level.WARNING)
        elif len(found) == 1:
            app.open_slot_menu(found, verb)
        elif typed:
            app.say(f"there are {len(found)} slots {typed}" if found else f"there is no slot {typed}", Level.WARNING)
        else:
            app.say(f"no slot is chosen: :{verb} TABLE SLOT, or 3 and its row", Level.WARNING)

    return act


def values_of_jobs(app: Host) -> Iterable[str]:
    """What can follow a verb for jobs."""
    return jobs_known(app)


def values_of_slots(app: Host) -> Iterable[str]:
    """What can follow a verb for slots."""
    return slots_known(app)
