"""The values of expressions: reading and writing them as PostgreSQL does, and its functions and operators. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any

from slotkeeper.core.errors import ExpressionError

INTEGERS = {"smallint": 15, "integer": 31, "bigint": 63}
"""The integer types, narrowest first, with the number of their bits besides the sign."""
NUMERIC, TEXT, BOOLEAN, TIMESTAMP, DATE = "numeric", "text", "boolean", "timestamp without time zone", "date"
EXACT = Context(prec=2_000, traps=[Inexact, InvalidOperation])
"""The context of results; abs() and - of a Decimal would use Python's own, which rounds to 28 digits."""
ROUNDED = Context(prec=2_000, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
EPOCH = datetime(1970, 1, 1)


def spelled(value: Any) -> str | None:
    """Return a value as PostgreSQL writes it with DateStyle ISO.

    >>> spelled(Decimal("-0.0")), spelled(True), spelled(datetime(2026, 1, 2, 3, 4, 5, 600))
    ('0.0', 't', '2026-01-02 03:04:05.0006')
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, Decimal):
        return format(value if value else value.copy_abs(), "f")
    if isinstance(value, datetime):
        whole, _, rest = value.isoformat(" ").partition(".")
        return f"{whole}.{rest.rstrip('0')}" if rest else whole
    return value.isoformat() if isinstance(value, date) else str(value)


_WHOLE = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*")
_DECIMAL = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)[ \t\n\v\f\r]*")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def _integer(text: str, type_: str) -> int:
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise ExpressionError(f"a text is not of type {type_}")
    return fitting(int(found[1]), type_)


def fitting(number: int, type_: str) -> int:
    limit = 1 << INTEGERS[type_]
    if not -limit <= number < limit:
        raise ExpressionError(f"{type_} out of range")
    return number


def decimal_of(text: str) -> Decimal:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise ExpressionError("a text is not a finite numeric")
    number = Decimal(found[1])
    if int(number.as_tuple().exponent) > 0:  # the server's scale is never negative
        number = number.quantize(Decimal(1), context=EXACT)
    return number


def _moment(text: str) -> datetime:
    if not _MOMENT.fullmatch(text):
        raise ExpressionError("a timestamp is not within the years 1 to 9999")
    found: datetime = _valid(datetime.fromisoformat, text.replace("T", " "))
    return found


def _day(text: str) -> date:
    if not _DAY.fullmatch(text):
        raise ExpressionError("a date is not within the years 1 to 9999")
    found: date = _valid(date.fromisoformat, text)
    return found


def _valid(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        raise ExpressionError("a date does not exist") from None


READERS: dict[str, Callable[[str], Any]] = {
    **{name: partial(_integer, type_=name) for name in INTEGERS},
    NUMERIC: decimal_of,
    TEXT: str,
    BOOLEAN: lambda text: text in ("t", "true"),
    TIMESTAMP: _moment,
    DATE: _day,
}


def quotient(a: int, b: int) -> int:
    if b == 0:
        raise ExpressionError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _scale(number: Decimal) -> int:
    return max(0, -int(number.as_tuple().exponent))


def scaled(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-scale), context=ROUNDED)


def sized(number: Decimal, precision: int, scale: int) -> Decimal:
    found = scaled(number, scale)
    if found.copy_abs() >= Decimal(1).scaleb(precision - scale):
        raise ExpressionError("numeric field overflow")
    return found


def _first(number: Decimal) -> tuple[int, int]:
    """Return the weight and the value of the first digit to base 10,000, as PostgreSQL's numeric.c stores a number."""
    if not number:
        return 0, 0
    weight = number.adjusted() // 4
    return weight, int(number.copy_abs().scaleb(-4 * weight, EXACT))


def _divided(a: Decimal, b: Decimal) -> Decimal:
    """Divide with the scale that PostgreSQL chooses: at least 16 significant digits (numeric.c, select_div_scale)."""
    if not b:
        raise ExpressionError("division by zero")
    (weight, first), (other, second) = _first(a), _first(b)
    weight -= other + (first <= second)
    scale = min(1_000, max(16 - 4 * weight, _scale(a), _scale(b), 0))
    top = a.copy_abs().scaleb(scale + 1, context=EXACT)
    digits = int(top.scaleb(_scale(a) + _scale(b), EXACT)) // int(b.copy_abs().scaleb(_scale(a) + _scale(b), EXACT))
    found = Decimal((digits + 5) // 10).scaleb(-scale, context=EXACT)
    return found if (a < 0) == (b < 0) else found.copy_negate()


def _rest(a: Decimal, b: Decimal) -> Decimal:
    if not b:
        raise ExpressionError("division by zero")
    return scaled(ROUNDED.remainder(a, b), max(_scale(a), _scale(b)))


ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": quotient,
    "%": lambda a, b: a - b * quotient(a, b),
}
DECIMALS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": _divided,
    "%": _rest,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
TO_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
TO_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def substring(text: str, start: int, length: int | None = None) -> str:
    if length is None:
        return text[max(start, 1) - 1 :]
    if length < 0:
        raise ExpressionError("negative substring length")
    return text[max(start, 1) - 1 : max(start + length - 1, 0)]


def mask(text: str, left: int, right: int) -> str:
    """Replace each character except the first `left` and the last `right` with `*`; mask a shorter text completely."""
    left, right = max(left, 0), max(right, 0)
    hidden = len(text) - left - right
    return "*" * len(text) if hidden <= 0 else text[:left] + "*" * hidden + (text[-right:] if right else "")


def truncated(it: datetime, unit: str) -> datetime:
    if unit == "week":
        it -= timedelta(days=it.weekday())
    if unit == "quarter":
        it = it.replace(month=it.month - (it.month - 1) % 3)
    fields = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0}
    kept = {"year": 0, "quarter": 1, "month": 1, "week": 2, "day": 2, "hour": 3, "minute": 4, "second": 5}[unit]
    return it.replace(**dict(list(fields.items())[kept:]))  # type: ignore[arg-type]


def from_epoch_ms(ms: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        raise ExpressionError("a timestamp is not within the years 1 to 9999") from None


def from_epoch_us(us: str) -> datetime:
    return EPOCH + timedelta(microseconds=int(us))


def to_epoch_ms(it: datetime) -> int:
    micros = (it - EPOCH) // timedelta(microseconds=1)
    return (abs(micros) + 500) // 1_000 * (1 if micros >= 0 else -1)


_FORM = re.compile("(yyyy|MM|dd|HH|mm|ss|SSS)")


def reader_of(form: str) -> Callable[[str], datetime]:
    """Return the reader of texts in a format of Java's SimpleDateFormat, with exactly these digits.

    Raises ExpressionError for letters besides yyyy, MM, dd, HH, mm, ss and SSS (each at most once) and 'T'.

    >>> reader_of("dd.MM.yyyy'T'HH:mm")("31.12.2025T23:59")
    datetime.datetime(2025, 12, 31, 23, 59)
    """
    parts = _FORM.split(form.replace("'T'", "\0"))
    known = parts[1::2]
    if re.search("[A-Za-z']", "".join(parts[::2])) or len(set(known)) < len(known) or {"yyyy", "MM", "dd"} - {*known}:
        raise ExpressionError("from_text needs a format of yyyy, MM, dd, and of HH, mm, ss, SSS, each once")
    signs = (re.escape(one.replace("\0", "T")) for one in parts[::2])
    groups = (f"([0-9]{{{len(one)}}})" for one in known)
    pattern = re.compile("".join(a + b for a, b in zip(signs, [*groups, ""], strict=True)))

    def read(text: str) -> datetime:
        found = pattern.fullmatch(text)
        if found is None:
            raise ExpressionError("a text is not in the format of from_text")
        at = dict(zip(known, map(int, found.groups()), strict=True))
        day = at["yyyy"], at["MM"], at["dd"], at.get("HH", 0), at.get("mm", 0), at.get("ss", 0)
        moment: datetime = _valid(lambda _: datetime(*day, at.get("SSS", 0) * 1_000), text)
        return moment

    return read
