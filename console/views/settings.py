"""What a person has chosen for the console, as values and as the JSON of its file. Pure.

A file that another version wrote may have keys that this one does not know: they stay. A value of another kind than the
console writes makes the whole file one that is not used, so that nothing of it is half believed.
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
"""Bytes of a settings file at most."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
"""A theme, a screen or a column: what is shown on a screen is never what somebody else wrote."""
_MOST_NAMES = 100


@dataclass(slots=True)
class Settings:
    """`theme` without its prefix, `span` of graphs and `window` of errors in seconds; "" and 0 are not chosen.

    `columns` and `orders` are by the name of a screen's class.
    """

    theme: str = ""
    columns: dict[str, Chosen] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    span: int = 0
    window: int = 0


def raw_from(text: bytes) -> dict[str, Any]:
    """The file's object; raises ValueError where it is none."""
    try:
        found = json.loads(text)  # UnicodeDecodeError is a ValueError, too
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def settings_from(raw: Mapping[str, Any]) -> Settings:
    """The settings of a file's object; raises ValueError where one is not as the console writes it.

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
    """Set one value of a file's object and leave the others; None takes it away.

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
    """A value as it stands in the file; None for one that is as if nothing was chosen."""
    if isinstance(value, Chosen):
        return {"shown": sorted(value.shown), "hidden": sorted(value.hidden)}
    if isinstance(value, Order):
        return {"column": value.column, "reverse": value.reverse} if value != Order() else None
    return value or None


def text_of(raw: Mapping[str, Any]) -> bytes:
    """The file's text."""
    return (json.dumps(raw, indent=2, sort_keys=True) + "\n").encode()


def _objects(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = raw.get(key, {})
    if not isinstance(found, dict) or len(found) > _MOST_NAMES:
        raise ValueError(f"{key} is not an object")
    return found


def _name(value: object) -> str:
    if value == "" or (isinstance(value, str) and _NAME.fullmatch(value)):
        return str(value)
    raise ValueError("a name is letters, digits, _ and -")


def _names(value: object) -> frozenset[str]:
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        raise ValueError("columns are a list")
    return frozenset(_name(one) for one in value)


def _chosen(value: object) -> Chosen:
    if not isinstance(value, dict):
        raise ValueError("columns are an object")
    return Chosen(_names(value.get("shown", [])), _names(value.get("hidden", [])))


def _order(value: object) -> Order:
    if not isinstance(value, dict) or not isinstance(value.get("reverse", False), bool):
        raise ValueError("an order is an object")
    return Order(_name(value.get("column", "")), value.get("reverse", False))


def _seconds(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 31_536_000:
        raise ValueError("seconds are a whole number")
    return value
