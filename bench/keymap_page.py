"""The page of all keys and commands, and the keys with two meanings.

`make docs` writes the page; a test compares it with the program. A key has the same meaning on every screen, except
the keys in EXCEPTIONS.
"""

from __future__ import annotations

from textual.binding import Binding

from bench.columns import wrapped
from slotkeeper.console.tui.app import ConsoleApp
from slotkeeper.console.tui.commands import COMMANDS
from slotkeeper.console.tui.keymap import keys_of, own
from slotkeeper.console.tui.own import every_screen
from slotkeeper.console.tui.screens.actions.base import ActScreen
from slotkeeper.console.tui.screens.alerts import AckTable
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.screens.table import TableScreen
from slotkeeper.console.tui.widgets.live_table import LiveTable

EXCEPTIONS = {
    "f": "freezes the screen; on the Binlog and quarantine screens, reads the next page",
    "u": "unmarks rows; on the Errors and Alerts screens, removes the acknowledgement",
    "y": "copies; in a confirmation, the only key that confirms",
}
MENUS = "slotkeeper.console.tui.screens.actions."
"""In a menu of actions, and in the confirmation of an action, letters select an option and have no other meaning."""
BASES = (Frame, TableScreen, ActScreen)
_FIRST = (*BASES, AckTable)
"""The base classes of other screens."""


def screens() -> list[type]:
    """Return every screen class of the console, base classes first."""
    return sorted(every_screen(), key=lambda kind: (kind not in _FIRST, kind.__module__, kind.__qualname__))


def two_meanings() -> list[str]:
    """Return the keys that have different actions on different screens, except the documented ones."""
    found = []
    for screen in screens():
        meant: dict[str, str] = {}
        tables = [LiveTable] if issubclass(screen, TableScreen) else []
        menu = screen.__module__.startswith(MENUS)
        for kind in (*_lineage(ConsoleApp), *tables, *_lineage(screen)):
            for binding in own(kind):
                for key in keys_of(binding):
                    other = meant.setdefault(key, str(binding.id))
                    if other != binding.id and key not in EXCEPTIONS and not menu:
                        found.append(f"{screen.__name__}: {key} is {other} and {binding.id}")
    return found


def page() -> str:
    """Return the text of `docs/keymap.md`."""
    lines = [_INTRODUCTION]
    everywhere = [one for kind in (*reversed(_lineage(ConsoleApp)), Frame) for one in own(kind)]
    lines += _section("Everywhere", everywhere)
    lines += _section("In a table", [*own(LiveTable), *own(TableScreen)])
    for screen in screens():
        if screen not in BASES and own(screen):
            lines += _section(f"On {', '.join(_names_of(screen))}", own(screen))
    lines += ["## Commands", "", "| Command | Action |", "| --- | --- |"]
    lines += [f"| `:{one.usage}` | {one.help} |" for one in COMMANDS.values()]
    lines += ["", "## Keys with two meanings", ""]
    lines += [f"- `{key}` {why}" for key, why in EXCEPTIONS.items()]
    lines += ["- In the menu of actions (`a`), letters only select an action."]
    return wrapped("\n".join(lines) + "\n")


_INTRODUCTION = """\
# Keymap

This page lists every key and every command of the console. In the console, `?` lists the keys of the
current screen; press Enter to run one. The last column is the name of the binding, which never changes.
The page is generated from the bindings (`make docs`), and a test checks that both agree.
"""


def _section(title: str, bindings: list[Binding]) -> list[str]:
    rows = []
    for binding in bindings:
        keys = " ".join(f"`{key}`" for key in keys_of(binding))
        more = f": {binding.tooltip}" if binding.tooltip else ""
        rows.append(f"| {keys} | {binding.description}{more} | {binding.id} |")
    return [f"## {title}", "", "| Key | Action | Name |", "| --- | --- | --- |", *rows, ""]


def _lineage(kind: type) -> list[type]:
    return [one for one in reversed(kind.__mro__) if one.__module__.startswith("slotkeeper.console.")]


def _names_of(kind: type) -> list[str]:
    """Return the names of a class's screens; for a base class, those of the screens derived from it."""
    kinds: list[type] = kind.__subclasses__()
    below = [name for one in kinds for name in _names_of(one)]
    return sorted(set(below)) or [
        "".join(f" {one}" if one.isupper() else one for one in kind.__name__.removesuffix("Screen")).strip()
    ]
