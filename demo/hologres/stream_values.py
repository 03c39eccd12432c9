"""Converts a value's text, as PostgreSQL writes it, to its form in a Hologres stream. Part of the stand-in; pure.

It is written independently of the product's reader, from holo-client (RecordBinaryRowOutputStream.convertToBinaryRow)
and Flink's layout; the same test vectors of Flink's own serializer verify both.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date
from typing import Any

from slotkeeper.demo.hologres.stream_rows import array

_DAY_US = 86_400_000_000
_SIZE = re.compile(r"\((\d+)(?:,(\d+))?\)")
_CLOCK = re.compile(r"(\d+):(\d+):(\d+)(?:\.(\d{1,6}))?")
_ZONE = re.compile(r"([+-])(\d+)(?::(\d+))?(?::(\d+))?$")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)', re.DOTALL)
_CYCLE = 400
"""Years after which the Gregorian calendar repeats, in `_CYCLE_DAYS` days."""
_CYCLE_DAYS = 146_097


def _days(text: str) -> int:
    """Return the days from 1970-01-01 to a DATE; the year before 1 is 1 BC.

    >>> _days("1970-01-01"), _days("0002-12-31 BC"), _days("5874897-12-31")
    (0, -719529, 2145042905)
    """
    day, _, era = text.partition(" ")
    year, month, number = map(int, day.split("-"))
    if era == "BC":
        year = 1 - year
    cycles, year = divmod(year - 2000, _CYCLE)
    return date(2000 + year, month, number).toordinal() - date(1970, 1, 1).toordinal() + cycles * _CYCLE_DAYS


def _time(text: str) -> int:
    """Return the microseconds of a time of day."""
    found = _CLOCK.match(text)
    assert found is not None, text
    hours, minutes, seconds = (int(one) for one in found.groups()[:3])
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((found[4] or "").ljust(6, "0"))


def _west(text: str) -> int:
    """Return the seconds by which a zone is west of UTC.

    >>> _west("12:00:00+05:30"), _west("00:00:00-01:00:01")
    (-19800, 3601)
    """
    found = _ZONE.search(text)
    assert found is not None, text
    hours, minutes, seconds = (int(one or 0) for one in found.groups()[1:])
    size = (hours * 60 + minutes) * 60 + seconds
    return size if found[1] == "-" else -size


def _timetz(text: str) -> bytes:
    return struct.pack("<qi4x", _time(text), _west(text))


def _timestamp(text: str) -> int:
    """Return the microseconds from 1970 to a TIMESTAMP, or to a TIMESTAMPTZ in UTC."""
    day, _, rest = text.partition(" ")
    era = " BC" if rest.endswith(" BC") else ""
    return _days(day + era) * _DAY_US + _time(rest)


def _real(text: str) -> float:
    value = float(text)
    return struct.unpack("<f", struct.pack("<f", value))[0]  # type: ignore[no-any-return]


def _numeric(text: str) -> bytes:
    """Return the digits without the decimal point as an integer of sixteen bytes, lowest byte first."""
    return int(text.replace(".", "")).to_bytes(16, "little", signed=True)


def _elements(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array.

    >>> _elements('{a,NULL,"NULL","b\\\\\\\\\\\\"c",""}')
    ['a', None, 'NULL', 'b\\\\"c', '']
    """
    found: list[str | None] = []
    for one in _ELEMENT.finditer(text[1:-1]):
        if one[1] is not None:
            found.append(re.sub(r"\\(.)", r"\1", one[1], flags=re.DOTALL))
        else:
            found.append(None if one[2] == "NULL" else one[2])
    return found


def _array(code: str, value: Callable[[str], Any]) -> Callable[[str], bytes]:
    return lambda text: array(code, [None if one is None else value(one) for one in _elements(text)])


def _utf8(text: str) -> bytes:
    return text.encode()


def _boolean(text: str) -> bool:
    return text in ("t", "true")


_BY_TYPE: dict[str, Callable[[str], Any]] = {
    "smallint": int,
    "integer": int,
    "bigint": int,
    "oid": int,
    "real": _real,
    "double precision": float,
    "boolean": _boolean,
    "date": _days,
    "time without time zone": _time,
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": lambda text: _timestamp(text) // 1_000,
    "time with time zone": _timetz,
    "numeric": _numeric,
    "text": _utf8,
    "character varying": _utf8,
    "character": lambda text: text.rstrip(" ").encode(),
    "json": _utf8,
    "jsonb": _utf8,
    "bytea": lambda text: bytes.fromhex(text[2:]),
    "roaringbitmap": lambda text: bytes.fromhex(text[2:]),
    "integer[]": _array("i", int),
    "bigint[]": _array("q", int),
    "real[]": _array("f", _real),
    "double precision[]": _array("d", float),
    "boolean[]": _array("?", _boolean),
    "text[]": _array("Q", _utf8),
    "character varying[]": _array("Q", _utf8),
}


def plain(type_: str) -> str:
    """Return a type's name without its sizes.

    >>> plain("timestamp(3) with time zone"), plain("numeric(12,2)")
    ('timestamp with time zone', 'numeric')
    """
    return _SIZE.sub("", type_)


def sendable(type_: str) -> bool:
    """Whether the stream has values of this type (Hologres, "Consume Binlog via JDBC")."""
    return plain(type_) in _BY_TYPE and (plain(type_) != "numeric" or "(" in type_)


def value_of(type_: str, text: str | None) -> Any:
    """Return a value in the form that `stream_rows.row` accepts; None stays None."""
    return None if text is None else _BY_TYPE[plain(type_)](text)
