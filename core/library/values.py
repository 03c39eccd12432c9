"""Values of a row in Python's types, from the text of a server and to the text that a sink parses. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.type_name import FieldKind, field_type
from slotkeeper.core.errors import Refused

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Code points that UTF-8 does not have (Unicode, "Surrogates")."""
_READ: dict[FieldKind, Callable[[str], object]] = {
    FieldKind.BOOLEAN: lambda text: text in ("t", "true"),
    FieldKind.SHORT: int,
    FieldKind.INTEGER: int,
    FieldKind.LONG: int,
    FieldKind.FLOAT: float,
    FieldKind.DOUBLE: float,
    FieldKind.DECIMAL: Decimal,
    FieldKind.DATE: date.fromisoformat,
    FieldKind.LOCAL_TIME: datetime.fromisoformat,
    FieldKind.INSTANT: datetime.fromisoformat,
    FieldKind.BYTES: lambda text: bytes.fromhex(text.removeprefix("\\x")),
}


def reader_of(spelled: str) -> Callable[[str], object]:
    """Return the function that parses the text of a column of this type; text of any other type is returned unchanged.

    A value that Python's type cannot represent, such as the date `infinity` or a year before 1, stays text.

    >>> reader_of("bigint")("7"), reader_of("numeric")("1.50"), reader_of("date")("infinity"), reader_of("json")("{}")
    (7, Decimal('1.50'), 'infinity', '{}')
    >>> reader_of("numeric_kind")("a")
    'a'
    """
    read = Decimal if spelled.startswith("numeric") and "[" not in spelled else _READ.get(field_type(spelled).kind)
    if read is None:
        return lambda text: text

    def parse(text: str) -> object:
        try:
            return read(text)
        except (ValueError, ArithmeticError):
            return text

    return parse


def text_of(column: str, value: Any) -> str | None:
    """Return the text of a value for a sink, None for NULL; raises Refused for a value without a common text form.

    >>> text_of("a", True), text_of("a", b"\\x01"), text_of("a", {"k": [1]}), text_of("a", date(2026, 1, 2))
    ('true', '\\\\x01', '{"k": [1]}', '2026-01-02')
    """
    kind = f"a value of type {type(value).__name__}"
    match value:
        case None:
            return None
        case str():
            if not _SURROGATE.search(value):
                return value
            kind = "a text with a lone surrogate"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            try:
                return json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                kind = "a dictionary with a value that JSON lacks"
    what = f"column {safe(column, 60)}: {kind} has no common text form"
    raise Refused(what, "pass the text that the column's type parses", where="sink")
