"""Which keys do what: of a screen that is seen, and of all screens as a page.

`python -m console.tui.keymap > docs/keymap.md` makes the page; a test compares them. A key means the same wherever it
works, except those of EXCEPTIONS. Next door: the bindings stand at the classes that act on them; `console.tui.commands`
has what is typed; `console.tui.screens.help` shows both.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode

EXCEPTIONS = {
    "u": "takes back what was marked: rows, and on Errors and Alerts the acknowledgement",
    "y": "copies, and is the only answer to a question that means yes",
}
MENUS = "console.tui.screens.actions."
"""In a menu of actions, and while an action is confirmed, letters choose and mean nothing else."""
_BASES = ("console.tui.screens.base", "console.tui.screens.table")
_NAMES = {
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "slash": "/",
    "colon": ":",
    "plus": "+",
    "minus": "-",
    "comma": ",",
    "enter": "Enter",
    "escape": "Esc",
    "backspace": "Backspace",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A key that works now: `where` is screen, table or everywhere; `node` acts on it."""

    where: str
    node: DOMNode
    binding: Binding


def shown_key(binding: Binding) -> str:
    """The key as it is written on screens."""
    return binding.key_display or keys_of(binding)[0]


def keys_of(binding: Binding) -> list[str]:
    """All keys of a binding as they are written.

    >>> keys_of(Binding("colon,ctrl+p", "x"))
    [':', 'ctrl+p']
    """
    return [_NAMES.get(key, key) for key in binding.key.split(",")]


def own(kind: type) -> list[Binding]:
    """The bindings that stand at a class itself."""
    return [one for one in vars(kind).get("BINDINGS", ()) if isinstance(one, Binding)]


def bindings_of(screen: DOMNode) -> Iterator[Bound]:
    """The keys that work on a screen and do something there, each once."""
    taken: set[str] = set()
    for where, node, kind in _places(screen):
        for binding in own(kind):
            keys = set(binding.key.split(","))
            if keys & taken or not _acts(node, binding):
                continue
            taken |= keys
            yield Bound(where, node, binding)


def _places(screen: DOMNode) -> Iterator[tuple[str, DOMNode, type]]:
    for table in screen.query("LiveTable"):
        yield from (("table", table, kind) for kind in _ours(table))
    for kind in _ours(screen):
        where = "screen" if kind.__module__ not in _BASES else "table" if "table" in kind.__module__ else "everywhere"
        yield where, screen, kind
    yield from (("everywhere", screen.app, kind) for kind in _ours(screen.app))


def _ours(node: DOMNode) -> list[type]:
    return [kind for kind in type(node).__mro__ if kind.__module__.startswith("console.")]


def _acts(node: DOMNode, binding: Binding) -> bool:
    action = binding.action.partition("(")[0]
    return bool(node.check_action(action, ()))


# -- the page --------------------------------------------------------------------------------------------------------


def screens() -> list[type]:
    """Every class of a screen of the console."""
    import pkgutil

    import console.tui.screens as package
    from console.tui.screens.base import Frame

    for module in pkgutil.walk_packages(package.__path__, "console.tui.screens."):
        importlib.import_module(module.name)
    found, waiting = [], [Frame]
    while waiting:
        kind = waiting.pop()
        waiting += [one for one in kind.__subclasses__() if one.__module__.startswith("console.")]
        found.append(kind)
    return sorted(found, key=lambda kind: (kind.__module__ not in _BASES, kind.__module__, kind.__qualname__))


def two_meanings() -> list[str]:
    """Keys that do another thing on a screen than elsewhere, the documented ones left out."""
    from console.tui.app import ConsoleApp
    from console.tui.screens.table import TableScreen
    from console.tui.widgets.live_table import LiveTable

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
    """`docs/keymap.md`."""
    from console.tui.app import ConsoleApp
    from console.tui.commands import COMMANDS
    from console.tui.screens.base import Frame
    from console.tui.screens.table import TableScreen
    from console.tui.widgets.live_table import LiveTable

    lines = [_INTRODUCTION]
    everywhere = [one for kind in (*reversed(_lineage(ConsoleApp)), Frame) for one in own(kind)]
    lines += _section("Everywhere", everywhere)
    lines += _section("In a table", [*own(LiveTable), *own(TableScreen)])
    for screen in screens():
        if screen.__module__ not in _BASES and own(screen):
            lines += _section(f"On {', '.join(_names_of(screen))}", own(screen))
    lines += ["## Commands", "", "| Typed | Does |", "| --- | --- |"]
    lines += [f"| `:{one.usage}` | {one.help} |" for one in COMMANDS.values()]
    lines += ["", "## Two meanings", ""]
    lines += [f"- `{key}` {why}" for key, why in EXCEPTIONS.items()]
    lines += ["- In the menu of actions (`a`) letters choose an action and mean nothing else."]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """\
# Keymap

Made from the bindings (`python -m console.tui.keymap > docs/keymap.md`) and compared with them by a test. `?` shows the
keys of the screen that is seen and runs them. The last column is the name of a binding; it does not change.
"""


def _section(title: str, bindings: list[Binding]) -> list[str]:
    rows = [f"| {_spelled(one)} | {one.description}{_more(one)} | {one.id} |" for one in bindings]
    return [f"## {title}", "", "| Key | Does | Name |", "| --- | --- | --- |", *rows, ""]


def _spelled(binding: Binding) -> str:
    return " ".join(f"`{key}`" for key in keys_of(binding))


def _more(binding: Binding) -> str:
    return f": {binding.tooltip}" if binding.tooltip else ""


def _lineage(kind: type) -> list[type]:
    return [one for one in reversed(kind.__mro__) if one.__module__.startswith("console.")]


def _names_of(kind: type) -> list[str]:
    """The screens of a class: those made of it, where it is only their beginning."""
    kinds: list[type] = kind.__subclasses__()
    below = [name for one in kinds for name in _names_of(one)]
    return sorted(set(below)) or [_words(kind.__name__)]


def _words(name: str) -> str:
    return "".join(f" {one}" if one.isupper() else one for one in name.removesuffix("Screen")).strip()


if __name__ == "__main__":
    from console.cli import output

    output.block(page().rstrip("\n"))
