"""Source types that fit a target column without changing values, and types that write equal values as equal text.

Values are transferred as text (COPY), so a source type fits if the target type reads that text and writes it unchanged.
"""

from __future__ import annotations

import re
from decimal import Decimal

_EXACT = frozenset(
    {
        "smallint",
        "integer",
        "bigint",
        "tinyint",
        "oid",
        "boolean",
        "text",
        "character varying",
        "character",
        '"char"',
        "name",
        "bytea",
        "uuid",
        "date",
        "time without time zone",
        "time with time zone",
        "timestamp without time zone",
        "timestamp with time zone",
        "smalldatetime",
        "nvarchar2",
        "clob",
        "money",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "bit",
        "bit varying",
    }
)
_LENGTH = re.compile(r"\([-\d,]+\)")
_SIZED = re.compile(r"(character varying|bit varying|numeric)\(([-\d]+)(?:,([-\d]+))?\)")

DWS_ONLY = {
    "tinyint": "smallint",
    "smalldatetime": "timestamp(0) without time zone",
    "nvarchar2": "character varying",
    "clob": "text",
}
"""Types of DWS that PostgreSQL lacks, each with the PostgreSQL type that has the same text (DWS: "Data Types")."""

_NOT_AS_TEXT = ("boolean", "inet", "character", "bpchar")
"""Types whose cast to text differs from their output: a text column would not compare equal."""

_WHOLE = ("smallint", "integer", "bigint")


def exact(type_: str) -> bool:
    """Return whether equal values of this type always have the same text; a numeric only with a fixed scale.

    >>> exact("numeric(12,2)"), exact("numeric"), exact("text[]"), exact("interval")
    (True, False, True, False)
    """
    plain = type_.removesuffix("[]")
    return bool(_SIZED.fullmatch(plain)) or _LENGTH.sub("", plain) in _EXACT


def at_postgres(type_: str) -> str:
    """Return a source type as PostgreSQL writes it.

    >>> at_postgres("nvarchar2(20)"), at_postgres("tinyint[]"), at_postgres("bigint")
    ('character varying(20)', 'smallint[]', 'bigint')
    """
    for theirs, ours in DWS_ONLY.items():
        if re.fullmatch(rf"{theirs}(\(\d+\))?(\[\])?", type_):
            return type_.replace(theirs, ours, 1)
    return type_


def fits(target: str, source: str) -> bool:
    """Return whether every value of the source's type fits the target's type and has the same text there.

    >>> fits("bigint", "integer"), fits("integer", "bigint"), fits("text", "character varying(20)")
    (True, False, True)
    >>> fits("numeric(10,2)", "numeric(12,2)"), fits("numeric", "numeric(12,2)"), fits("text", "kinds.mood")
    (False, True, True)
    >>> fits("jsonb", "json"), fits("text", "boolean"), fits("timestamp without time zone", "smalldatetime")
    (False, False, True)
    """
    if target == source:
        return True
    source = at_postgres(source)
    plain = _LENGTH.sub("", source)
    if target == source or (target == plain and plain not in ("character", "bit")):
        return True
    if target == "text":
        return plain not in _NOT_AS_TEXT
    if source in _WHOLE and target in _WHOLE:
        return _WHOLE.index(target) >= _WHOLE.index(source)
    if (target == "numeric" and source in _WHOLE) or (target, source) == ("double precision", "real"):
        return True
    return (target, source) == ("character varying", "text") or _wider(target, source)


def _wider(target: str, source: str) -> bool:
    """Return whether `target` is the same sized type with at least as many characters, or digits at the same scale.

    >>> _wider("character varying(30)", "character varying(20)"), _wider("numeric(14,2)", "numeric(12,2)")
    (True, True)
    >>> _wider("numeric(14,3)", "numeric(12,2)"), _wider("bit varying(3)", "bit varying(4)")
    (False, False)
    """
    wide, narrow = _SIZED.fullmatch(target), _SIZED.fullmatch(source)
    if not wide or not narrow or wide[1] != narrow[1]:
        return False
    return int(wide[2]) >= int(narrow[2]) and (wide[3] or "0") == (narrow[3] or "0")


def float_text(value: float, single: bool = False) -> str:
    """Format a number as PostgreSQL writes a value of type double precision, or of type real if `single`.

    PostgreSQL, src/common/d2s.c and f2s.c: no exponent is used from 1e-4 to below 1e15, or to below 1e6 for a real.

    >>> float_text(1e15), float_text(1e14), float_text(1.5), float_text(-0.0), float_text(1e-5)
    ('1e+15', '100000000000000', '1.5', '-0', '1e-05')
    >>> float_text(1e6, True), float_text(123456.0, True), float_text(1234567.0, True)
    ('1e+06', '123456', '1.234567e+06')
    """
    plain = repr(float(value))
    if "e" not in plain and abs(value) < (1e6 if single else 1e15):  # nearly all: Python also writes the fewest digits
        return plain.removesuffix(".0")
    sign, digits, exponent = Decimal(plain).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    if text == "0" or not isinstance(exponent, int):
        return "-0" if sign else "0"
    leading = len(digits) + exponent - 1
    dash = "-" if sign else ""
    if -4 <= leading < (6 if single else 15):
        if leading < 0:
            return f"{dash}0.{'0' * (-leading - 1)}{text}"
        whole = text[: leading + 1].ljust(leading + 1, "0")
        return f"{dash}{whole}{'.' + text[leading + 1 :] if len(text) > leading + 1 else ''}"
    rest = f".{text[1:]}" if len(text) > 1 else ""
    return f"{dash}{text[0]}{rest}e{'-' if leading < 0 else '+'}{abs(leading):02d}"


def plain_number(text: str) -> str:
    """Remove trailing zeros of the fraction from a number, so that equal numbers have the same text.

    >>> plain_number("1.500"), plain_number("-0.0"), plain_number("100")
    ('1.5', '0', '100')
    """
    value = Decimal(text)
    return "0" if not value else f"{value:f}".rstrip("0").rstrip(".") if "." in text else text


TEXT, NUMBER, FLOAT, SINGLE, SPAN = "text", "number", "float", "single", "span"
"""Conversions after which equal values of a key column have the same text; TEXT changes nothing
(`text_staging.one_text`).

A float is written as the sink writes it: the text of a real differs from that of a double with the same value (1e+06
and 1000000), and the text of floats differs between servers before PostgreSQL 12 and later servers.
"""

_FORMS = {"numeric": NUMBER, "real": FLOAT, "double precision": FLOAT, "interval": SPAN}


def form_of(type_: str, kind: str = "") -> str:
    """Return the form of a key column's type (not a domain), or ""; `kind` is the typtype of a user-defined type.

    >>> form_of("bigint"), form_of("numeric"), form_of("numeric(12,2)"), form_of("interval day to second")
    ('text', 'number', 'number', 'span')
    >>> form_of("kinds.mood", "e"), form_of("jsonb")
    ('text', '')
    """
    if kind == "e":
        return TEXT
    if type_.startswith("numeric") and not type_.endswith("[]"):
        return NUMBER
    if type_.startswith("interval") and not type_.endswith("[]"):
        return SPAN
    return _FORMS.get(type_, TEXT if exact(type_) else "")


def form_at(target: str, form: str) -> str:
    """Return the form of a source's key column in a target column of this type (a domain's base type).

    A text column distinguishes values that are equal in the source's own type: 1.0 and 1.00 are two rows there.

    >>> form_at("text", "number"), form_at("real", "float"), form_at("double precision", "float")
    ('text', 'single', 'float')
    """
    if target == "text":
        return TEXT
    return SINGLE if (target, form) == ("real", FLOAT) else form
