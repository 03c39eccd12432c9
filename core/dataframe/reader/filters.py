"""Conditions of a Spark program that the source can meet: those over columns of the key, whose values are always there.

They only leave rows out that Spark would leave out as well, and Spark applies every one of them again. So what is
not certain to be compared alike at both ends is not sent: of texts equality alone, as a collation orders them, and
floats not at all.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.domain.type_name import Condition, FieldKind, FieldType

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
MOST = 1_000
"""Values of an IN that are sent: a longer list is Spark's alone."""


def of_key(filters: Iterable[Filter], layout: Layout) -> tuple[Condition, ...]:
    """What of the conditions is sent."""
    types = {field.name: field.type for field in layout.fields if field.name in layout.key}
    found = []
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) == 1 and path[0] in types and (made := _condition(one, path[0], types[path[0]])) is not None:
            found.append(made)
    return tuple(found)


def _condition(one: Filter, name: str, field: FieldType) -> Condition | None:
    sign = "=" if isinstance(one, In) else _SIGNS.get(type(one), "")
    if not sign or not (field.ranged or (sign == "=" and field.kind is FieldKind.TEXT)):
        return None
    given: Any = getattr(one, "value", None)
    values = [_text(value) for value in (given if isinstance(one, In) else (given,))]
    if not values or len(values) > MOST or any(value is None for value in values):
        return None
    return Condition(name, sign, tuple(value for value in values if value is not None))


def _text(value: object) -> str | None:
    """The value as both ends spell it; None where that is not certain."""
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ") if value.tzinfo is None else value.astimezone(datetime.timezone.utc).isoformat(" ")
    if isinstance(value, int | datetime.date):
        return str(value)
    return value if isinstance(value, str) and "\0" not in value else None
