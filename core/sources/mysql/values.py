"""Convert the bytes of a value to the value that a SELECT on the server returns, for the compiled decoders. Pure.

Numbers become int or float, characters become str, and bytes stay bytes; decimals, dates, times, sets and JSON become
strings in the server's format, because Python's types do not support all their values (0000-00-00, -838:59:59.5,
DECIMAL(65,30)). TIMESTAMPs are in UTC. Sources for the formats: MySQL, decimal2bin in strings/decimal.cc;
my_datetime_packed_to_binary, my_time_packed_to_binary in mysys/my_time.cc. Only MySQL has binary JSON (MariaDB's JSON
columns are text): sql-common/json_binary.h (the grammar), json_dom.cc (the text: ", " between members, ": " after a
key, keys in the stored order: by length, then by bytes).
"""

from __future__ import annotations

import base64
import codecs
import ipaddress
import struct
import zlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID

from slotkeeper.core.drivers.my import ROW_BYTES
from slotkeeper.core.sources.mysql.faults import Damaged, Unsupported

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LEFT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Number of bytes, by the number of digits of a decimal that do not fill a group of nine."""
_MOST_KEPT = 100_000
"""Maximum number of cached strings for dates and for times; there are 86,400 times of day."""


MOST_DIGITS, MOST_SCALE = 65, 38
"""Limits of a DECIMAL (MariaDB, "DECIMAL"; MySQL, "DECIMAL Data Type Characteristics", has a scale of at most 30)."""


def decimal_bytes(precision: int, scale: int) -> int:
    """Return the number of bytes of a DECIMAL(precision, scale). Raises Damaged if no server has such a type."""
    if not 1 <= precision <= MOST_DIGITS or not 0 <= scale <= min(precision, MOST_SCALE):
        raise Damaged(f"decimal({precision},{scale}) is not a valid server type")
    whole = precision - scale
    return whole // 9 * 4 + _LEFT_BYTES[whole % 9] + scale // 9 * 4 + _LEFT_BYTES[scale % 9]


DIGITS = {f"D{count}": tuple(f"{number:0{count}d}" for number in range(10**count)) for count in range(1, 5)}
"""Strings for groups of up to four digits: a lookup takes a fifth of the time of formatting."""


@cache
def decimal_reader(precision: int, scale: int) -> Callable[[bytes], str]:
    """Return a reader of a DECIMAL(precision, scale) that writes all digits after the point.

    >>> decimal_reader(4, 2)(bytes([0x8C, 0x22])), decimal_reader(4, 2)(bytes([0x73, 0xDD]))
    ('12.34', '-12.34')
    """
    top, text = _decimal_text(precision, scale)
    every = 2 * top - 1
    source = (
        "def read(raw, number=int.from_bytes):\n    x = number(raw, 'big')\n"
        f"    if x & {top}:\n        x ^= {top}\n        return f'{text}'\n"
        f"    x ^= {every ^ top}\n    return f'-{text}'\n"
    )
    made: dict[str, Any] = dict(DIGITS)
    exec(source, made)  # noqa: S102  made of two numbers
    read: Callable[[bytes], str] = made["read"]
    return read


def decimal_inline(precision: int, scale: int) -> str:
    """Return a Python expression that reads a DECIMAL. In a negative number, all bits are inverted."""
    top, text = _decimal_text(precision, scale)
    negative = f"f'-{text}' if (x := x ^ {2 * top - 1}) >= 0 else ''"
    return f"f'{text}' if (x := number(RAW, 'big') ^ {top}) < {top} else {negative}"


def _decimal_text(precision: int, scale: int) -> tuple[int, str]:
    """Return the sign bit, and the content of an f-string that formats the number x without its sign."""
    size = decimal_bytes(precision, scale)
    digits = [9] * (scale // 9) + ([scale % 9] if scale % 9 else [])
    whole = [(precision - scale) % 9] * bool((precision - scale) % 9) + [9] * ((precision - scale) // 9)
    shift = size * 8
    terms = []
    for number, count in enumerate(whole):
        shift -= _LEFT_BYTES[count] * 8
        term = f"(x >> {shift} & {(1 << _LEFT_BYTES[count] * 8) - 1})"
        terms.append(f"{term} * {10 ** (9 * (len(whole) - number - 1))}" if number < len(whole) - 1 else term)
    text = "{" + (" + ".join(terms) or "0") + "}"
    for number, count in enumerate(digits):
        shift -= _LEFT_BYTES[count] * 8
        group = f"x >> {shift} & {(1 << _LEFT_BYTES[count] * 8) - 1}"
        text += ("." if not number else "") + (f"{{D{count}[{group}]}}" if count <= 4 else f"{{({group}):0{count}d}}")
    return 1 << size * 8 - 1, text


class _Texts(dict[int, str]):
    """Cached strings for packed dates or times, created on first use."""

    def __init__(self, make: Callable[[int], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, packed: int) -> str:
        if len(self) >= _MOST_KEPT:
            self.clear()
        text = self[packed] = self._make(packed)
        return text


def _packed_day(packed: int) -> str:
    months = packed >> 5
    return f"{months // 13:04d}-{months % 13:02d}-{packed & 31:02d}"


DAYS = _Texts(_packed_day)
"""Strings for year * 13 + month, and day: the upper bits of a DATETIME."""
TIMES = _Texts(lambda packed: f"{packed >> 12:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}")
"""Strings for hour, minute and second: the lower 17 bits of a DATETIME."""
DATES = _Texts(lambda packed: f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}")
"""Strings for the three bytes of a DATE, including zero dates and partly zero dates."""
_UNIX_DAYS = _Texts(lambda days: (_EPOCH + timedelta(days=days)).strftime("%Y-%m-%d"))
_UNIX_TIMES = _Texts(lambda second: f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}")


def fraction_bytes(digits: int) -> int:
    return (digits + 1) // 2


@cache
def datetime_reader(digits: int) -> Callable[[bytes], str]:
    """Return a reader of a DATETIME with this number of fractional-second digits."""
    bits, step = fraction_bytes(digits) * 8, 10 ** (digits % 2)
    mask, form = (1 << bits) - 1, f"0{digits}d"

    def read(raw: bytes, number: Callable[..., int] = int.from_bytes) -> str:
        packed = number(raw, "big") >> bits & 0x7FFFFFFFFF
        return f"{DAYS[packed >> 17]} {TIMES[packed & 0x1FFFF]}"

    def read_fraction(raw: bytes, number: Callable[..., int] = int.from_bytes) -> str:
        whole = number(raw, "big")
        packed = whole >> bits & 0x7FFFFFFFFF
        return f"{DAYS[packed >> 17]} {TIMES[packed & 0x1FFFF]}.{(whole & mask) // step:{form}}"

    return read_fraction if digits else read


def datetime_inline(digits: int) -> str:
    """Return a Python expression that reads a DATETIME; "" if no expression can."""
    if digits not in (0, 6):
        return ""
    bits = fraction_bytes(digits) * 8
    text = f"{{DAYS[(x := number(RAW, 'big')) >> {bits + 17} & 0x3FFFFF]}} {{TIMES[x >> {bits} & 0x1FFFF]}}"
    return f'f"{text}' + ('.{D3[(x := x & 0xFFFFFF) // 1000]}{D3[x % 1000]}"' if digits else '"')


@cache
def timestamp_reader(digits: int) -> Callable[[bytes], str]:
    """Return a reader of a TIMESTAMP in UTC; 0 is the server's zero value, not a point in time."""
    bits, step = fraction_bytes(digits) * 8, 10 ** (digits % 2)
    mask = (1 << bits) - 1

    def read(raw: bytes, number: Callable[..., int] = int.from_bytes) -> str:
        whole = number(raw, "big")
        seconds, fraction = whole >> bits, (whole & mask) // step
        text = "0000-00-00 00:00:00"
        if whole:
            text = f"{_UNIX_DAYS[seconds // 86400]} {_UNIX_TIMES[seconds % 86400]}"
        return f"{text}.{fraction:0{digits}d}" if digits else text

    return read


@cache
def time_reader(digits: int) -> Callable[[bytes], str]:
    """Return a reader of a TIME: a negative TIME is the complement of all its bytes, including the fraction.

    >>> time_reader(0)(bytes([0x80, 0x10, 0x83])), time_reader(2)(bytes([0x7F, 0xEF, 0x7C, 0xE7]))
    ('01:02:03', '-01:02:03.25')
    """
    bits, step = fraction_bytes(digits) * 8, 10 ** (digits % 2)
    zero, mask = 0x800000 << bits, (1 << bits) - 1

    def read(raw: bytes, number: Callable[..., int] = int.from_bytes) -> str:
        whole = number(raw, "big") - zero
        sign, whole = ("-", -whole) if whole < 0 else ("", whole)
        packed = whole >> bits
        text = f"{sign}{packed >> 12 & 1023:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        return f"{text}.{(whole & mask) // step:0{digits}d}" if digits else text

    return read


_pack_float = struct.Struct("<f").pack
_SMALLEST_WHOLE = 2.0**-126
"""The smallest FLOAT with all its bits."""


def shortest_float(value: float) -> float:
    """Return the shortest decimal number that identifies the same FLOAT.

    >>> shortest_float(1.100000023841858), shortest_float(16777216.0)
    (1.1, 16777216.0)
    """
    wanted = _pack_float(value)
    # the smallest numbers have fewer than six significant digits
    for digits in range(6 if abs(value) >= _SMALLEST_WHOLE else 1, 9):
        found = float(f"{value:.{digits}g}")
        try:
            if _pack_float(found) == wanted:
                return found
        except OverflowError:  # rounded up beyond the largest FLOAT
            continue
    return float(f"{value:.9g}")


def big_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def label_reader(labels: tuple[str, ...]) -> Callable[[int], str]:
    """Return a reader of an ENUM; 0 is the number of '', which the server stores for an invalid label."""
    texts = ("", *labels)

    def read(number: int) -> str:
        if number >= len(texts):
            raise Damaged(f"label {number} of {len(labels)}")
        return texts[number]

    return read


def set_reader(labels: tuple[str, ...]) -> Callable[[bytes], str]:
    """Return a reader of a SET: the value's labels in the order of their declaration; '' if it has none."""

    def make(number: int) -> str:
        if number >> len(labels):
            raise Damaged(f"a set with more values than its {len(labels)} labels")
        return ",".join(label for place, label in enumerate(labels) if number >> place & 1)

    texts = _Texts(make)
    return lambda raw: texts[int.from_bytes(raw, "little")]


def padded(size: int) -> Callable[[bytes], bytes]:
    """Return a reader of a BINARY(size); the binlog omits trailing zero bytes."""
    return lambda raw: raw.ljust(size, b"\0")


_groups = struct.Struct(">8H").unpack
_GAPS = tuple(bytes(size) for size in range(8, 0, -1))


def inet6(raw: bytes) -> str:
    """Format an INET6 as the server does (MariaDB, plugin/type_inet/sql_type_inet.cc, Inet6::to_string).

    "::" replaces the longest run of zero groups, the first of equally long runs, even if it is a single group, which
    RFC 5952 and Python write as 0. The last 32 bits are dotted after six zero groups, and after five zero groups and
    ffff.

    >>> inet6(bytes.fromhex("20010db8")), inet6(bytes(10) + b"\\xff\\xff\\x01\\x02\\x03\\x04")
    ('2001:db8::', '::ffff:1.2.3.4')
    >>> inet6(bytes.fromhex("00010002000300040005000600000008"))
    '1:2:3:4:5:6::8'
    """
    whole = raw.ljust(16, b"\0")
    groups = _groups(whole)
    zeros = bytes(map(bool, groups))
    for gap in _GAPS:
        at = zeros.find(gap)
        if at >= 0:
            break
    else:
        return _hex_groups(groups)
    size = len(gap)
    if at == 0 and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        dotted = inet4(whole[12:])
        return f"::{dotted}" if size == 6 else f"::ffff:{dotted}"
    return f"{_hex_groups(groups[:at])}::{_hex_groups(groups[at + size :])}"


def _hex_groups(groups: Iterable[int]) -> str:
    return ":".join([f"{one:x}" for one in groups])


def inet4(raw: bytes) -> str:
    return str(ipaddress.IPv4Address(raw.ljust(4, b"\0")))


def uuid(raw: bytes) -> str:
    return str(UUID(bytes=raw.ljust(16, b"\0")))


def unzipped(raw: bytes) -> bytes:
    """Return a value of a COMPRESSED column, which is stored unchanged after one byte, or deflated.

    MariaDB, sql/field.cc: compress_zlib and uncompress_zlib. Inflates at most one byte more than the size that the
    value contains. Raises Unsupported for another method, Damaged for invalid bytes.
    """
    if not raw:
        return raw
    method, length_bytes = raw[0] >> 4, raw[0] & 7
    if not method:
        return raw[1:]
    if method != 8:
        raise Unsupported(f"unsupported method {method} of a COMPRESSED value (supported: zlib)")
    wanted = int.from_bytes(raw[1 : 1 + length_bytes], "big")
    if wanted > ROW_BYTES:
        raise Damaged(f"a COMPRESSED value claims {wanted} bytes, more than a row can hold")
    inflate = zlib.decompressobj(-zlib.MAX_WBITS if raw[0] & 8 else zlib.MAX_WBITS)
    try:
        found = inflate.decompress(raw[1 + length_bytes :], wanted + 1)
    except zlib.error as error:
        raise Damaged("cannot decompress a COMPRESSED value") from error
    if len(found) > wanted:
        raise Damaged(f"a COMPRESSED value claims {wanted} bytes, but has more")
    if len(found) < wanted or not inflate.eof:
        raise Damaged(f"a COMPRESSED value claims {wanted} bytes, but is truncated")
    return found


CODECS = {
    "ascii": "ascii",
    "big5": "big5",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "sjis": "shift_jis",
    "tis620": "tis_620",
    "ucs2": "utf_16_be",
    "ujis": "euc_jp",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "utf8": "utf_8",
    "utf8mb3": "utf_8",
    "utf8mb4": "utf_8",
}
"""Python codecs for the server's character sets, if the codec decodes every character as the server does.

Verified with MariaDB 10.11 for every byte and every pair of bytes; `_OTHERWISE` has the few exceptions. eucjpms differs
in two thousand characters; MariaDB lacks gb18030. armscii8, dec8, geostd8, hp8, keybcs2 and swe7 have no codec: the
source rejects their columns.
"""
UTF8 = frozenset({"ascii", "utf8", "utf8mb3", "utf8mb4"})
"""Character sets that are decoded as UTF-8."""
_OTHERWISE = {
    "cp866": {"\u2116": "\u207f", "\u00a4": "\u00b2"},
    "greek": {"\u2018": "\u02bd", "\u2019": "\u02bc"},
    "hebrew": {"\u00af": "\u203e"},
    "koi8u": {"\u2219": "\u2022"},
    "sjis": {"\uff3c": "\\"},
    "ujis": {"\uff3c": "\\"},
}
"""Characters that the server decodes differently from the codec."""
_LATIN1 = "".join(bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(256))
"""The server's latin1: cp1252 plus its five undefined codes as control characters (MySQL, "West European Character
Sets")."""


def text_reader(charset: str) -> Callable[[bytes], str] | None:
    """Return a reader of text in a character set; None if no codec is known to decode it in the same way as the server.

    The reader raises UnicodeDecodeError for invalid bytes, which are not expected: a server checks the text that it
    stores.
    """
    if charset == "latin1":
        return lambda raw: raw.decode("ascii") if raw.isascii() else codecs.charmap_decode(raw, "strict", _LATIN1)[0]
    codec = CODECS.get(charset)
    if codec is None:
        return None
    if charset in _OTHERWISE:
        instead = str.maketrans(_OTHERWISE[charset])
        return lambda raw: raw.decode(codec).translate(instead)
    return lambda raw: raw.decode(codec)


_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_NUMBERS = {5: struct.Struct("<h"), 6: struct.Struct("<H"), 7: struct.Struct("<i"), 8: struct.Struct("<I")}
_NUMBERS |= {9: struct.Struct("<q"), 10: struct.Struct("<Q")}
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DEEPEST = 100
"""Maximum nesting depth of a JSON document (MySQL, "The JSON Data Type")."""
_NEWDECIMAL, _DATE, _DATETIME, _TIMESTAMP, _TIME = 246, 10, 12, 7, 11
_PLAIN = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({**{chr(code): f"\\u{code:04x}" for code in range(32)}, **_PLAIN})


def text_of(raw: bytes) -> str:
    """Return a binary JSON document as text; an empty document is the JSON value null (MySQL, Field_json::val_json).

    Raises Damaged if the bytes are not a document, Unsupported for an opaque value whose text is unknown.
    """
    if not raw:
        return "null"
    try:
        return _value(raw[0], raw, 1, _Room(len(raw)), 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise Damaged("a JSON document is truncated") from error


class _Room:
    """The number of bytes that can still be read from a JSON document. Values do not overlap, so together they cannot
    exceed the document's size.

    Without this limit, reading a few bytes that refer to one another, each twice, would never end.
    """

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Subtract the size of a value, a key or a string; raises Damaged if fewer bytes are left."""
        self._left -= size
        if self._left < 0:
            raise Damaged("a JSON document has overlapping values")


def _value(kind: int, body: bytes, at: int, room: _Room, depth: int) -> str:
    room.take(1)
    if depth > _DEEPEST:
        raise Damaged(f"a JSON document is nested deeper than {_DEEPEST} levels")
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
        raise Damaged("a JSON document is truncated")
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
    """Return a member as text. Its value is in the entry if it fits, else at an offset from the container's start."""
    kind = body[entry]
    if kind in (_LITERAL, 5, 6) or (size == 4 and kind in (7, 8)):
        return _value(kind, body, entry + 1, room, depth + 1)
    offset = int.from_bytes(body[entry + 1 : entry + 1 + size], "little")
    if at + offset >= stop:
        raise Damaged("a JSON document has a value past its end")
    return _value(kind, body, at + offset, room, depth + 1)


def _slice(body: bytes, at: int, size: int) -> bytes:
    if at + size > len(body):
        raise Damaged("a JSON document is truncated")
    return body[at : at + size]


def _length(body: bytes, at: int) -> tuple[int, int]:
    """Return a length of up to five bytes of seven bits, lowest bits first, and the offset of the value after it."""
    size = 0
    for number in range(5):
        size |= (body[at + number] & 0x7F) << 7 * number
        if not body[at + number] & 0x80:
            return size, at + number + 1
    raise Damaged("a JSON document has a length of more than five bytes")


def _opaque(kind: int, raw: bytes) -> str:
    if kind == _NEWDECIMAL:
        return decimal_reader(raw[0], raw[1])(raw[2:])
    if kind in _MOMENTS:
        return f'"{_MOMENTS[kind](int.from_bytes(raw[:8], "little", signed=True))}"'
    if kind in _BYTES:
        return quoted(f"base64:type{kind}:{base64.b64encode(raw).decode()}")
    return _unknown(f"opaque type {kind}")


def _unknown(what: str) -> str:
    raise Unsupported(f"a JSON document holds the unsupported {what}", "remove the column from the job")


def _date(packed: int) -> str:
    return DAYS[packed >> 41 & 0x3FFFFF]


def _moment(packed: int) -> str:
    return f"{_date(packed)} {TIMES[packed >> 24 & 0x1FFFF]}.{packed & 0xFFFFFF:06d}"


def _time(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole = packed >> 24
    return f"{sign}{whole >> 12 & 1023:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{packed & 0xFFFFFF:06d}"


_MOMENTS: dict[int, Callable[[int], str]] = {_DATE: _date, _DATETIME: _moment, _TIMESTAMP: _moment, _TIME: _time}
_BYTES = frozenset({15, 16, 249, 250, 251, 252, 253, 254})
"""Types VARCHAR, BIT, BLOBs and binary strings, which the server writes as base64 with the type number."""


def quoted(text: str) -> str:
    """Format a JSON string as the server does: with only the necessary escapes.

    >>> quoted('a"b' + chr(1) + chr(10) + "é")
    '"a\\\\"b\\\\u0001\\\\né"'
    """
    return f'"{text.translate(_ESCAPES)}"'


def double_text(value: float) -> str:
    """Format a double as the server does in JSON: shortest digits, an exponent outside 1e-15 to 1e15 (above 1e15 only
    if all digits are before the decimal point), ".0" after a whole number (my_gcvt in strings/dtoa.cc).

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
