"""What the types of a DWS are to a reader of values.

DWS, "Data Types": the names are those of format_type. What has no like elsewhere (arrays, intervals, times of day,
numerics without limits, made types) stays the server's own text.
"""

from __future__ import annotations

import re

from slotkeeper.core.domain.type_name import TEXT, FieldKind, FieldType

MOST_DIGITS = 38
"""Digits of the widest decimal that readers have (Spark: DecimalType; Arrow: decimal128)."""
_PLAIN = {
    "boolean": FieldKind.BOOLEAN,
    "tinyint": FieldKind.SHORT,
    "smallint": FieldKind.SHORT,
    "integer": FieldKind.INTEGER,
    "bigint": FieldKind.LONG,
    "real": FieldKind.FLOAT,
    "double precision": FieldKind.DOUBLE,
    "date": FieldKind.DATE,
    "bytea": FieldKind.BYTES,
}
_TIMES = re.compile(r"timestamp(\([0-6]\))? (with|without) time zone")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")


def field_type(spelled: str) -> FieldType:
    """The type that format_type spells so; domains are to be given as their base types.

    >>> field_type("numeric(12,2)"), field_type("numeric").kind, field_type("timestamp(3) with time zone").kind
    (FieldType(kind=<FieldKind.DECIMAL: 'decimal'>, precision=12, scale=2), <FieldKind.TEXT: 'text'>, \
<FieldKind.INSTANT: 'timestamp'>)
    """
    if spelled in _PLAIN:
        return FieldType(_PLAIN[spelled])
    if found := _TIMES.fullmatch(spelled):
        return FieldType(FieldKind.INSTANT if found[2] == "with" else FieldKind.LOCAL_TIME)
    if found := _NUMERIC.fullmatch(spelled):
        precision, scale = int(found[1]), int(found[2])
        if precision <= MOST_DIGITS and 0 <= scale <= precision:
            return FieldType(FieldKind.DECIMAL, precision, scale)
    return TEXT
