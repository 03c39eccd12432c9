"""The one codec of records: a frozen dataclass as JSON, as plain values, and again; its fields' documentation.

A record says its fields once: name, type, default, and a text below it that says what it is, with its unit. JSON,
stored columns and schemas are made of that. A key that this version does not know is passed over, and one that is
missing has its default, so that what another version wrote is read.
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
    """The record's fields as JSON knows them: enumerations by value, moments as RFC 3339 in UTC."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


def text_of(record: object) -> str:
    """The record as JSON."""
    return msgspec.json.encode(record).decode("utf-8")


def record_of(kind: type[_Record], values: object) -> _Record:
    """The record that these values are; raises ValueError, which names the field, where one cannot be.

    A moment may also be a number, in seconds since 1970.
    """
    return msgspec.convert(values, kind, strict=False)


def record_from(kind: type[_Record], text: str | bytes) -> _Record:
    """The record that this JSON is; raises ValueError where it is none."""
    return msgspec.json.decode(text, type=kind, strict=False)


def aware(*moments: datetime | None) -> None:
    """Raise ValueError where a moment that was read does not say its offset from UTC: it cannot be compared."""
    if any(one is not None and one.tzinfo is None for one in moments):
        raise ValueError("a moment has its offset from UTC")


def shown(record: Any) -> dict[str, Any]:
    """The record's own fields for others to read: a `Moment` is a datetime, an empty `TextOrNull` is None."""
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
    """What each field is, by the text below it; raises ValueError where a field has none."""
    found = attribute_texts(kind)
    lacking = [each.name for each in fields(kind) if each.name not in found]
    if lacking:
        raise ValueError(f"{kind.__name__}: no text below {', '.join(lacking)}")
    return found


@cache
def attribute_texts(kind: type) -> Mapping[str, str]:
    """The text below each attribute of a class that has one."""
    import ast  # only who makes schemas or pages reads sources
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
