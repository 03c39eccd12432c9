"""The user's settings of the console, as values and as the JSON of their file. Pure.

A file written by another version may have unknown keys, which are preserved. If a value has a type that the console
does not write, the whole file is ignored, so that it is never applied in part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slotkeeper.console.views.fitting import Chosen
from slotkeeper.console.views.rows import Order

MOST = 65_536
"""The maximum size of a settings file in bytes."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
"""The name of a theme, a screen or a column. The pattern ensures that arbitrary text from a file is never shown."""
_MOST_NAMES = 100


@dataclass(slots=True)
class Settings:
    """The user's settings; "" and 0 mean not set.

    `theme` is stored without its prefix; `span` of graphs and `window` of errors are in seconds. The keys
    of `columns` and `orders` are names of screen classes.
    """

    theme: str = ""
    columns: dict[str, Chosen] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    span: int = 0
    window: int = 0


def raw_from(text: bytes) -> dict[str, Any]:
    """Return the file's JSON object. Raises ValueError if it is not an object."""
    try:
        found = json.loads(text)  # UnicodeDecodeError is also a ValueError
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def settings_from(raw: Mapping[str, Any]) -> Settings:
    """Return the settings from a file's object. Raises ValueError if one has a form that the console does not write.

    >>> settings_from({"theme": "light", "orders": {"JobsScreen": {"column": "lag", "reverse": True}}}).orders
    {'JobsScreen': Order(column='lag', reverse=True)}
    """
    return Settings(
        theme=_name(raw.get("theme", "")),
        columns={_name(screen): _chosen(one) for screen, one in _objects(raw, "columns").items()},
        orders={_name(screen): _order(one) for screen, one in _objects(raw, "orders").items()},
        span=_seconds(raw.get("span", 0)),
        window=_seconds(raw.get("window", 0)),
    )


def put(raw: dict[str, Any], keys: tuple[str, ...], value: object) -> None:
    """Set one value in a file's object and preserve the others; None removes the value.

    >>> raw = {"orders": {"a": 1}}
    >>> put(raw, ("orders", "b"), 2); put(raw, ("orders", "a"), None); raw
    {'orders': {'b': 2}}
    """
    *above, last = keys
    for key in above:
        raw = raw.setdefault(key, {})
    if value is None:
        raw.pop(last, None)
    else:
        raw[last] = value


def plain_of(value: object) -> object:
    """Return a value in the file's format; None for the default."""
    if isinstance(value, Chosen):
        return {"shown": sorted(value.shown), "hidden": sorted(value.hidden)}
    if isinstance(value, Order):
        return {"column": value.column, "reverse": value.reverse} if value != Order() else None
    return value or None


def text_of(raw: Mapping[str, Any]) -> bytes:
    """Return the content of the settings file."""
    return (json.dumps(raw, indent=2, sort_keys=True) + "\n").encode()


def _objects(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = raw.get(key, {})
    if not isinstance(found, dict) or len(found) > _MOST_NAMES:
        raise ValueError(f"{key} must be an object")
    return found


def _name(value: object) -> str:
    if value == "" or (isinstance(value, str) and _NAME.fullmatch(value)):
        return str(value)
    raise ValueError("a name can contain only letters, digits, _ and -")


def _names(value: object) -> frozenset[str]:
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        raise ValueError("columns must be a list")
    return frozenset(_name(one) for one in value)


def _chosen(value: object) -> Chosen:
    if not isinstance(value, dict):
        raise ValueError("columns must be an object")
    return Chosen(_names(value.get("shown", [])), _names(value.get("hidden", [])))


def _order(value: object) -> Order:
    if not isinstance(value, dict) or not isinstance(value.get("reverse", False), bool):
        raise ValueError("an order must be an object")
    return Order(_name(value.get("column", "")), value.get("reverse", False))


def _seconds(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 31_536_000:
        raise ValueError("seconds must be a whole number")
    return value
