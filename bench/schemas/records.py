"""Schemas of records, built from their fields' types and the attribute docstring of each field: nothing is repeated.

A field's text ends with "; null: MEANING" if null has a meaning other than "unknown", and with "; each: MEANING" if
the field holds several values that are not records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from bench.schemas.pieces import (
    Schema,
    by_name,
    flag,
    listed,
    maybe,
    moment,
    number,
    text,
    thing,
    whole,
    word,
    word_of,
)
from slotkeeper.core.codec import field_texts
from slotkeeper.core.domain.field import SIGNED


def record(kind: type, **apart: Schema) -> Schema:
    """Return the schema of a record; `apart` contains fields that exist only in JSON or differ there."""
    return thing(about(kind), fields_of(kind, **apart))


def about(kind: type) -> str:
    """Return the description of a record: the first sentence of its class docstring."""
    said = " ".join((kind.__doc__ or "").partition("\n\n")[0].split()).partition(". ")[0]
    return _plain(said)


@cache
def _schemas(kind: type) -> Mapping[str, Schema]:
    texts, hints = field_texts(kind), get_type_hints(kind, include_extras=True)
    return {name: _field(hints[name], texts[name]) for name in texts if name in hints}


def fields_of(kind: type, *names: str, **apart: Schema) -> dict[str, Schema]:
    """Return the schemas of all fields of a record, or of these; `apart` replaces fields or adds them at the end."""
    found = _schemas(kind)
    return {name: found[name] for name in names or found} | apart


def _field(hint: Any, said: str) -> Schema:
    said, _, each = said.removesuffix(".").partition("; each: ")
    said, _, null = said.partition("; null: ")
    if each:
        each, _, null_of_each = each.partition("; null: ")
        return _value(hint, _plain(said), null, (_plain(each), null_of_each))
    return _value(hint, _plain(said), null, ("", ""))


def _value(hint: Any, said: str, null: str, each: tuple[str, str], marks: tuple[object, ...] = ()) -> Schema:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _value(args[0], said, null, each, args[1:])
    if origin is UnionType:
        (other,) = (one for one in args if one is not NoneType)
        return maybe(_value(other, said, "", each, marks), null)
    if None in marks:
        return maybe(text(said), null)
    if origin is tuple or origin is list:
        return listed(said, _value(args[0], *each, ("", "")))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return by_name(said, _value(args[1], *each, ("", "")))
    if isinstance(hint, type) and is_dataclass(hint):
        return record(hint)
    return _scalar(hint, said, marks)


def _scalar(hint: type, said: str, marks: tuple[object, ...]) -> Schema:
    for mark in marks:
        if isinstance(mark, type) and issubclass(mark, Enum):
            return word_of(said, mark)
        if isinstance(mark, tuple):
            return word(said, *mark)
    least = None if SIGNED in marks else next((one for one in marks if isinstance(one, int)), 0)
    if issubclass(hint, Enum):
        return word_of(said, hint)
    if hint is datetime or datetime in marks:
        return moment(said)
    if hint is bool:
        return flag(said)
    if hint is int:
        return whole(said, least)
    return number(said, least) if hint is float else text(said)


def _plain(said: str) -> str:
    """Return text with its first letter in lower case, unless it starts with an acronym, and without its full stop.

    >>> _plain("The lanes that wait."), _plain("GTIDs that are done")
    ('the lanes that wait', 'GTIDs that are done')
    """
    said = said.removesuffix(".")
    return said if said[1:2].isupper() else said[:1].lower() + said[1:]
