"""The codec of all records: converts frozen dataclasses to and from JSON and plain values, and reads their docstrings.

A record defines each field once: name, type, default, and a docstring below it with its meaning and unit. JSON, stored
columns and schemas are generated from these. An unknown key is ignored and a missing key gets its default, so that
records written by other versions can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

_Record = TypeVar("_Record")


def values_of(record: object) -> dict[str, Any]:
    """Return the record's fields as JSON values: enumerations by value, times as RFC 3339 in UTC."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


def text_of(record: object) -> str:
    return msgspec.json.encode(record).decode("utf-8")


def record_of(kind: type[_Record], values: object) -> _Record:
    """Return the record with these values; raises ValueError with the field's name if a value is invalid.

    A time can also be a number of seconds since 1970.
    """
    return msgspec.convert(values, kind, strict=False)


def record_from(kind: type[_Record], text: str | bytes) -> _Record:
    """Return the record that this JSON represents; raises ValueError if it is not valid."""
    return msgspec.json.decode(text, type=kind, strict=False)


def aware(*moments: datetime | None) -> None:
    """Raise ValueError if a time lacks its UTC offset, without which it cannot be compared."""
    if any(one is not None and one.tzinfo is None for one in moments):
        raise ValueError("a time needs an offset from UTC")


def shown(record: Any) -> dict[str, Any]:
    """Return the record's fields for display: a `Moment` as a datetime, an empty `TextOrNull` as None."""
    return {name: show(getattr(record, name)) for name, show in _shown(cast(Hashable, type(record)))}


@cache
def _shown(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple((each.name, _show(getattr(hints[each.name], "__metadata__", ()))) for each in fields(kind))


def _show(marks: tuple[object, ...]) -> Callable[[Any], Any]:
    if datetime in marks:
        return lambda seconds: None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return (lambda text: text or None) if None in marks else lambda value: value


@cache
def field_texts(kind: type) -> Mapping[str, str]:
    """Return the docstring of each field; raises ValueError if a field has none."""
    found = attribute_texts(kind)
    lacking = [each.name for each in fields(kind) if each.name not in found]
    if lacking:
        raise ValueError(f"{kind.__name__}: no docstring for {', '.join(lacking)}")
    return found


@cache
def attribute_texts(kind: type) -> Mapping[str, str]:
    """Return the docstrings of a class's attributes; attributes without a docstring are left out."""
    import ast  # only schema and documentation generators read source code
    import inspect
    import textwrap

    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(made, ast.ClassDef)
        for field, below in zip(made.body, made.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(said))),
                ):
                    found[name] = " ".join(said.split())
    return found
