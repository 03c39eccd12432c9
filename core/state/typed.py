"""Whether what was read of a store is what a value of ours may be: one that cannot be ends in one clear line.

The columns' types are kept by SQLite (STRICT tables, https://www.sqlite.org/stricttables.html); states, times and JSON
are not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from slotkeeper.core.domain.text import safe
from slotkeeper.core.state.faults import WAY_OUT, StateError

_Value = TypeVar("_Value")
_IMPOSSIBLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, OSError, RecursionError)
"""What making a value raises: of an unknown state, a time beyond the calendar, JSON of another shape."""


def values(file: Path, what: str, make: Callable[[sqlite3.Row], _Value], rows: Iterable[sqlite3.Row]) -> list[_Value]:
    """The values of these rows; StateError, which names the file and `what`, where one of them cannot be."""
    try:
        return [make(row) for row in rows]
    except _IMPOSSIBLE as error:
        text = safe(str(error), 120) or type(error).__name__
        raise StateError(f"state file {file} holds {what} that cannot be: {text}", WAY_OUT, cause=text) from error


def checked(value: _Value) -> _Value:
    """The value itself, each of whose fields is of the type that it is written with; ValueError where one is not."""
    for name, kinds in kinds_of(cast(Hashable, type(value))):
        found = getattr(value, name)
        if not isinstance(found, kinds):
            raise ValueError(f"{name} is {found!r}")
    return value


@cache
def kinds_of(kind: Hashable) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """The fields of a dataclass with the classes that each may be of; none where it is no dataclass."""
    if not hasattr(kind, "__dataclass_fields__"):
        return ()
    return tuple((name, _classes(hint)) for name, hint in get_type_hints(cast(type, kind)).items())


def _classes(hint: Any) -> tuple[type, ...]:
    """
    >>> _classes(float | None), _classes(tuple[int, ...])
    ((<class 'float'>, <class 'int'>, <class 'NoneType'>), (<class 'tuple'>,))
    """
    if isinstance(hint, UnionType):
        return tuple(one for part in get_args(hint) for one in _classes(part))
    if hint is float:
        return float, int
    return (get_origin(hint) or hint,)
