"""The keys that the console has, so that no own command takes one of them. Loads every screen."""

from __future__ import annotations

import importlib
import pkgutil

import slotkeeper.console.tui.screens as package
from slotkeeper.console.tui.keymap import own
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable


def every_screen() -> list[type]:
    """Every class of a screen of the console."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found: list[type] = []
    waiting: list[type] = [Frame]
    while waiting:
        kind = waiting.pop()
        waiting += [one for one in kind.__subclasses__() if one.__module__.startswith("slotkeeper.console.")]
        found.append(kind)
    return found


def taken(app: type) -> dict[str, str]:
    """What each key does somewhere: on a screen, in a table, in a menu, or everywhere."""
    kinds = [*every_screen(), LiveTable, Panel, *app.__mro__]
    return {key: one.description for kind in kinds for one in own(kind) for key in one.key.split(",")}
