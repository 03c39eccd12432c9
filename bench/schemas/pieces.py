"""The words that schemas are written in: each function is one kind of value, with what it means and its unit.

An object has all of its keys, and no others. Null is "not known" or "there is none", as its description says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from slotkeeper.core.domain.text import see

Schema = Mapping[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"
"""RFC 3339, in UTC, with Z."""


def text(about: str) -> Schema:
    """A text."""
    return {"type": "string", "description": about}


def word(about: str, *values: str | None) -> Schema:
    """One of these texts; None among them is null."""
    return {"enum": list(values), "description": about}


def word_of(about: str, kind: type[Enum]) -> Schema:
    """One of an enumeration's values."""
    return word(about, *(str(one.value) for one in kind))


def flag(about: str) -> Schema:
    """True or false."""
    return {"type": "boolean", "description": about}


def whole(about: str, least: int | None = 0) -> Schema:
    """A whole number, not below `least`."""
    return {"type": "integer", "description": about} | ({} if least is None else {"minimum": least})


def number(about: str, least: float | None = 0) -> Schema:
    """A number; its unit is in its description."""
    return {"type": "number", "description": about} | ({} if least is None else {"minimum": least})


def moment(about: str) -> Schema:
    """A time: RFC 3339, in UTC."""
    return {"type": "string", "format": "date-time", "pattern": UTC, "description": f"{about} (RFC 3339, UTC)"}


def maybe(schema: Schema, null: str = "") -> Schema:
    """The same or null; `null` says what that means where it is not "not known"."""
    about = f"{schema['description']}; null: {null or 'not known'}" if "description" in schema else ""
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None], "description": about}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"], "description": about}
    return {"anyOf": [schema, {"type": "null", "description": null or "not known"}]}


def listed(about: str, of: Schema) -> Schema:
    """An array of any length."""
    return {"type": "array", "items": of, "description": about}


def row(about: str, *of: Schema) -> Schema:
    """An array of exactly these."""
    return {"type": "array", "prefixItems": list(of), "items": False, "minItems": len(of), "description": about}


def by_name(about: str, of: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": of, "description": about}


def thing(about: str, fields: Mapping[str, Schema], optional: Iterable[str] = ()) -> Schema:
    """An object with all of these keys, but for the `optional` ones, and no others."""
    left_out = set(optional)
    return {
        "type": "object",
        "description": about,
        "properties": dict(fields),
        "required": [name for name in fields if name not in left_out],
        "additionalProperties": False,
    }


def either(about: str, *of: Schema) -> Schema:
    """Exactly one of these."""
    return {"oneOf": list(of), "description": about}


SQLSTATE = text("the server's SQLSTATE, or Slotkeeper's own word for what no server said")
POSITION = maybe(text("a place of the binlog, as the dialect writes it"))
TROUBLE = text(f"a name of trouble ({see('states')}), empty where there is none")
SAFE = text("what is safe to do, empty where nothing needs to be done")
REASON = text("why, for people; empty where there is nothing to say")
