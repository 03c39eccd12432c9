"""MySQL's binary JSON as its text, spelled as the server's own SELECT does. Pure.

MariaDB has none: its JSON columns are text. Source: MySQL, sql-common/json_binary.h (the grammar), json_dom.cc (the
text: ", " between members, ": " behind a key, keys in the stored order: by length, then by bytes).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from decimal import Decimal

from slotkeeper.core.sources.mysql import values
from slotkeeper.core.sources.mysql.errors import Damaged, Unsupported

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_NUMBERS = {5: struct.Struct("<h"), 6: struct.Struct("<H"), 7: struct.Struct("<i"), 8: struct.Struct("<I")}
_NUMBERS |= {9: struct.Struct("<q"), 10: struct.Struct("<Q")}
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DEEPEST = 100
"""Levels that a document may have (MySQL, "The JSON Data Type")."""
_NEWDECIMAL, _DATE, _DATETIME, _TIMESTAMP, _TIME = 246, 10, 12, 7, 11
_PLAIN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({**{chr(code): f"\\u{code:04x}" for code in range(32)}, **_PLAIN})


def text_of(raw: bytes) -> str:
    """The text of a binary document; an empty one is JSON's null (MySQL, Field_json::val_json).

    Raises Damaged where the bytes are no document, Unsupported for an opaque value whose text is not known.
    """
    if not raw:
        return "null"
    try:
        return _value(raw[0], raw, 1, _Room(len(raw)), 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Damaged("a JSON document is cut short") from error


class _Room:
    """What is left of a document's bytes: no two of its values share one, so all of them have no more than it has.

    Else a few bytes that lead to one another in two ways each would be read for ever.
    """

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """A value, a key or a string takes so many; raises Damaged where there are none left."""
        self._left -= size
        if self._left < 0:
            raise Damaged("a JSON document has values that lie over one another")


def _value(kind: int, body: bytes, at: int, room: _Room, depth: int) -> str:
    room.take(1)
    if depth > _DEEPEST:
        raise Damaged(f"a JSON document is deeper than {_DEEPEST} levels")
    if kind <= _LARGE_ARRAY:
        return _container(kind, body, at, room, depth)
    if kind == _LITERAL:
        return _LITERALS[body[at]] if body[at] in _LITERALS else _unknown(f"literal {body[at]}")
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(body, at)[0])
    if kind == _DOUBLE:
        return double_text(struct.unpack_from("<d", body, at)[0])
    if kind == _STRING:
        size, at = _length(body, at)
        room.take(size)
        return quoted(_slice(body, at, size).decode())
    if kind == _OPAQUE:
        size, start = _length(body, at + 1)
        room.take(size)
        return _opaque(body[at], _slice(body, start, size))
    return _unknown(f"type {kind}")


def _container(kind: int, body: bytes, at: int, room: _Room, depth: int) -> str:
    size, form = (2, "<H") if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else (4, "<I")
    count, total = struct.unpack_from(form + form[1], body, at)
    stop = at + total
    if stop > len(body):
        raise Damaged("a JSON document is cut short")
    is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
    keys_at = at + 2 * size
    entries_at = keys_at + (count * (size + 2) if is_object else 0)
    parts = []
    for number in range(count):
        entry = entries_at + number * (1 + size)
        text = _entry(body, at, entry, size, stop, room, depth)
        if is_object:
            key = keys_at + number * (size + 2)
            start = at + int.from_bytes(body[key : key + size], "little")
            length = int.from_bytes(body[key + size : key + size + 2], "little")
            room.take(length)
            name = _slice(body, start, length).decode()
            text = f"{quoted(name)}: {text}"
        parts.append(text)
    inside = ", ".join(parts)
    return f"{{{inside}}}" if is_object else f"[{inside}]"


def _entry(body: bytes, at: int, entry: int, size: int, stop: int, room: _Room, depth: int) -> str:
    """A member: its value is in the entry itself where it fits there, else at an offset from the container's begin."""
    kind = body[entry]
    if kind in (_LITERAL, 5, 6) or (size == 4 and kind in (7, 8)):
        return _value(kind, body, entry + 1, room, depth + 1)
    offset = int.from_bytes(body[entry + 1 : entry + 1 + size], "little")
    if at + offset >= stop:
        raise Damaged("a JSON document has a value beyond its end")
    return _value(kind, body, at + offset, room, depth + 1)


def _slice(body: bytes, at: int, size: int) -> bytes:
    if at + size > len(body):
        raise Damaged("a JSON document is cut short")
    return body[at : at + size]


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A length of up to five bytes of seven bits, the lowest first, and where its value begins."""
    size = 0
    for number in range(5):
        size |= (body[at + number] & 0x7F) << 7 * number
        if not body[at + number] & 0x80:
            return size, at + number + 1
    raise Damaged("a JSON document has a length of more than five bytes")


def _opaque(kind: int, raw: bytes) -> str:
    if kind == _NEWDECIMAL:
        return values.decimal_reader(raw[0], raw[1])(raw[2:])
    if kind in _MOMENTS:
        return f'"{_MOMENTS[kind](int.from_bytes(raw[:8], "little", signed=True))}"'
    if kind in _BYTES:
        return quoted(f"base64:type{kind}:{base64.b64encode(raw).decode()}")
    return _unknown(f"opaque type {kind}")


def _unknown(what: str) -> str:
    raise Unsupported(f"a JSON document holds {what}, which is not read", "leave the column out of the job")


def _date(packed: int) -> str:
    return values.DAYS[packed >> 41 & 0x3FFFFF]


def _moment(packed: int) -> str:
    return f"{_date(packed)} {values.TIMES[packed >> 24 & 0x1FFFF]}.{packed & 0xFFFFFF:06d}"


def _time(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole = packed >> 24
    return f"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{packed & 0xFFFFFF:06d}"


_MOMENTS: dict[int, Callable[[int], str]] = {_DATE: _date, _DATETIME: _moment, _TIMESTAMP: _moment, _TIME: _time}
_BYTES = frozenset({15, 16, 249, 250, 251, 252, 253, 254})
"""VARCHAR, BIT, the BLOBs and the binary strings: the server writes them as base64 with their type's number."""


def quoted(text: str) -> str:
    """A JSON string as the server writes it: only what has to be is escaped.

    >>> quoted('a"b' + chr(1) + chr(10) + "é")
    '"a\\\\"b\\\\u0001\\\\né"'
    """
    return f'"{text.translate(_ESCAPES)}"'


def double_text(value: float) -> str:
    """A double as the server writes it in JSON: shortest digits, with an exponent outside of 1e-15 to 1e15 (and where
    all digits are before the point), ".0" behind a whole number (my_gcvt in strings/dtoa.cc).

    >>> [double_text(one) for one in (1.5, 2.0, 1e20, 1e-7, -0.0, 123456789012345680.0)]
    ['1.5', '2.0', '1e20', '0.0000001', '-0.0', '1.2345678901234568e17']
    """
    if not value:
        return repr(value)
    shortest = Decimal(repr(value)).normalize()
    sign, digits, _ = shortest.as_tuple()
    if -15 <= shortest.adjusted() < max(15, len(digits) - 1):
        text = f"{shortest:f}"
        return text if "." in text else f"{text}.0"
    behind = "".join(map(str, digits[1:]))
    return f"{'-' * sign}{digits[0]}{'.' * bool(behind)}{behind}e{shortest.adjusted()}"
