"""The keys of the current screen and their actions.

Bindings are declared in the classes that handle them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode

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
    "down": "Down",
    "up": "Up",
    "home": "Home",
    "end": "End",
    "space": "Space",
    "shift+tab": "Shift+Tab",
    "pageup": "PgUp",
    "pagedown": "PgDn",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A key that is currently active. `where` is screen, table or everywhere; `node` runs its action."""

    where: str
    node: DOMNode
    binding: Binding


def shown_key(binding: Binding) -> str:
    """Return the key as displayed on screens."""
    return binding.key_display or keys_of(binding)[0]


def keys_of(binding: Binding) -> list[str]:
    """Return all keys of a binding as displayed on screens.

    >>> keys_of(Binding("colon,ctrl+p", "x"))
    [':', 'ctrl+p']
    """
    return [_NAMES.get(key, key) for key in binding.key.split(",")]


def own(kind: type) -> list[Binding]:
    """Return the bindings declared in the class itself."""
    return [one for one in vars(kind).get("BINDINGS", ()) if isinstance(one, Binding)]


def bindings_of(screen: DOMNode) -> Iterator[Bound]:
    """Yield the keys that have an effect on a screen, each key once."""
    taken: set[str] = set()
    places: list[tuple[str, DOMNode, type]] = [
        *(("table", table, kind) for table in screen.query("LiveTable") for kind in _ours(table)),
        *((vars(kind).get("keys_work", "screen"), screen, kind) for kind in _ours(screen)),
        *(("everywhere", screen.app, kind) for kind in _ours(screen.app)),
    ]
    bound = [(where, node, own(kind)) for where, node, kind in places]
    bound.append(("own commands", screen.app, getattr(screen.app, "own_bindings", [])))
    for where, node, bindings in bound:
        for binding in bindings:
            keys = set(binding.key.split(","))
            if keys & taken or not node.check_action(binding.action.partition("(")[0], ()):
                continue
            taken |= keys
            yield Bound(where, node, binding)


def _ours(node: DOMNode) -> list[type]:
    return [kind for kind in type(node).__mro__ if kind.__module__.startswith("slotkeeper.console.")]
