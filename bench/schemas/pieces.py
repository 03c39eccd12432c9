"""Building blocks of the schemas: each function returns the schema of one kind of value, with its meaning and unit.

An object has all of its keys, and no others. Null means "unknown" or "none", as the description states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from slotkeeper.core.domain.text import see

Schema = Mapping[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"
"""The pattern of a time: RFC 3339, in UTC, with Z."""


def text(about: str) -> Schema:
    """A string."""
    return {"type": "string", "description": about}


def word(about: str, *values: str | None) -> Schema:
    """One of these strings; None among them represents null."""
    return {"enum": list(values), "description": about}


def word_of(about: str, kind: type[Enum]) -> Schema:
    """One of the values of an enumeration."""
    return word(about, *(str(one.value) for one in kind))


def flag(about: str) -> Schema:
    """True or false."""
    return {"type": "boolean", "description": about}


def whole(about: str, least: int | None = 0) -> Schema:
    """An integer, at least `least`."""
    return {"type": "integer", "description": about} | ({} if least is None else {"minimum": least})


def number(about: str, least: float | None = 0) -> Schema:
    """A number, with its unit in the description."""
    return {"type": "number", "description": about} | ({} if least is None else {"minimum": least})


def moment(about: str) -> Schema:
    """A time: RFC 3339, in UTC."""
    return {"type": "string", "format": "date-time", "pattern": UTC, "description": f"{about} (RFC 3339, UTC)"}


def maybe(schema: Schema, null: str = "") -> Schema:
    """The same schema or null; `null` is the meaning of null, by default "unknown"."""
    about = f"{schema['description']}; null: {null or 'unknown'}" if "description" in schema else ""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None], "description": about}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"], "description": about}
    return {"anyOf": [schema, {"type": "null", "description": null or "unknown"}]}


def listed(about: str, of: Schema) -> Schema:
    """An array of any length."""
    return {"type": "array", "items": of, "description": about}


def row(about: str, *of: Schema) -> Schema:
    """An array of exactly these items."""
    return {"type": "array", "prefixItems": list(of), "items": False, "minItems": len(of), "description": about}


def by_name(about: str, of: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": of, "description": about}


def thing(about: str, fields: Mapping[str, Schema], optional: Iterable[str] = ()) -> Schema:
    """An object with all of these keys except the `optional` ones, and no others."""
    left_out = set(optional)
    return {
        "type": "object",
        "description": about,
        "properties": dict(fields),
        "required": [name for name in fields if name not in left_out],
        "additionalProperties": False,
    }


def either(about: str, *of: Schema) -> Schema:
    """Exactly one of these schemas."""
    return {"oneOf": list(of), "description": about}


SQLSTATE = text("the server's SQLSTATE, or Slotkeeper's own code if no server gave one")
POSITION = maybe(text("a binlog position, in the source's format"))
TROUBLE = text(f"the class of the problem ({see('states')}); empty if there is none")
SAFE = text("the safe action; empty if no action is needed")
REASON = text("the reason, as text; empty if there is none")
