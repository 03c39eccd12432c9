"""Decode binlog rows in Flink's binary layout, and convert each field to PostgreSQL's text format. Pure.

Sources for the fields: holo-client, HoloBinlogDecoder.convertBinaryRowToRecord (how each type is read) and
RecordBinaryRowOutputStream.convertToBinaryRow (how it is written); the supported types are those listed in "Consume
Binlog via JDBC". Values are formatted as in a session in UTC with DateStyle ISO.

Row layout: one byte for the row kind and one NULL bit for each field from bit 8 on, padded to eight bytes; a slot of
eight bytes for each field; then the data that does not fit in the slots. The first three fields are LSN, event type and
time; the table's columns follow. Source: Flink, BinaryRowData. Hologres has the same layout, because the BinaryRow of
holo-client is Flink's.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.drivers.pg_types import float_text
from slotkeeper.core.errors import Refused, Unclassified
from slotkeeper.core.sources.hologres.changes import Event

_DAY_US = 86_400_000_000
_FIRST_DAY = -2_440_588
_END_DAY = 2_145_042_906
"""The day after PostgreSQL's last date, 5874897-12-31."""
_END_SECONDS = 9_224_318_016_000
"""The second after PostgreSQL's last timestamp, 294276-12-31, in seconds since 1970-01-01."""
_NUMERIC_BYTES = 17
"""Maximum bytes of a numeric: 16 bytes for 38 digits (Hologres, "Data types") and one byte for the sign."""
_SIZE = re.compile(r"\((\d+)(?:,(\d+))?\)")
Text = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class StreamField:
    """Decoding of a column: `code` is the `struct` format of its eight-byte slot. If `variable`, the slot is read as
    "Q" and locates the value's bytes.
    """

    code: str
    text: Text
    variable: bool = False


def garbled(what: str) -> Unclassified:
    """Return the error for bytes that violate the format; a new connection may deliver valid bytes."""
    return Unclassified(
        f"the binlog stream sent {what}", "if this repeats, read the binlog by SQL and report the error", "", "source"
    )


# -- dates and times ------------------------------------------------------------------------------------------------


def _civil(days: int) -> tuple[int, int, int]:
    """Return the Gregorian year, month and day of a day number since 1970-01-01; year 0 is 1 BC."""
    era, day = divmod(days + 719_468, 146_097)
    years = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * years + years // 4 - years // 100
    place = (5 * day + 2) // 153
    month = place + 3 if place < 10 else place - 9
    return years + era * 400 + (month <= 2), month, day - (153 * place + 2) // 5 + 1


def _day(days: int) -> tuple[str, str]:
    year, month, day = _civil(days)
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04d}-{month:02d}-{day:02d}", era


def date(days: int) -> str:
    """Format a DATE given in days since 1970-01-01.

    >>> date(0), date(-719529), date(19782)
    ('1970-01-01', '0002-12-31 BC', '2024-02-29')
    """
    if not _FIRST_DAY <= days < _END_DAY:
        raise garbled("a date outside PostgreSQL's range")
    return "".join(_day(days))


def time(us: int) -> str:
    """Format a TIME given in microseconds of the day.

    >>> time(0), time(45296000001), time(86400000000), time(1500000)
    ('00:00:00', '12:34:56.000001', '24:00:00', '00:00:01.5')
    """
    if not 0 <= us <= _DAY_US:
        raise garbled("a time outside PostgreSQL's range")
    seconds, part = divmod(us, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{part:06d}".rstrip("0") if part else text


def timetz(raw: bytes) -> str:
    """Format a TIMETZ: microseconds of the local day, then the zone in seconds west of UTC, as in PostgreSQL.

    The connector reads it the same way: the sum of time and zone is UTC.

    >>> timetz(struct.pack("<qi4x", 1, -19800)), timetz(struct.pack("<qi", 0, 3601))
    ('00:00:00.000001+05:30', '00:00:00-01:00:01')
    """
    if len(raw) < 12:
        raise garbled(f"a timetz of {len(raw)} bytes")
    us, west = struct.unpack_from("<qi", raw)
    if abs(west) >= 16 * 3600:
        raise garbled("a time zone outside PostgreSQL's range")
    away = abs(west)
    zone = f"{away // 3600:02d}"
    if away % 3600:
        zone += f":{away // 60 % 60:02d}"
    if away % 60:
        zone += f":{away % 60:02d}"
    return f"{time(us)}{'-' if west > 0 else '+'}{zone}"


def timestamp(us: int, zone: str = "") -> str:
    """Format a TIMESTAMP given in microseconds since 1970-01-01.

    >>> timestamp(1_500_000), timestamp(-1), timestamp(-62198755200000000, "+00")
    ('1970-01-01 00:00:01.5', '1969-12-31 23:59:59.999999', '0002-01-01 00:00:00+00 BC')
    """
    days, rest = divmod(us, _DAY_US)
    if days < _FIRST_DAY or us >= _END_SECONDS * 1_000_000:
        raise garbled("a timestamp outside PostgreSQL's range")
    day, era = _day(days)
    return f"{day} {time(rest)}{zone}{era}"


def timestamptz(ms: int) -> str:
    """Format a TIMESTAMPTZ given in milliseconds since 1970-01-01 UTC, the precision of Hologres ("Data types").

    >>> timestamptz(1_583_020_800_250)
    '2020-03-01 00:00:00.25+00'
    """
    return timestamp(ms * 1000, "+00")


# -- numbers --------------------------------------------------------------------------------------------------------


def _endless(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def double(value: float) -> str:
    """Format a DOUBLE PRECISION with the fewest digits that identify it.

    >>> double(0.1), double(1e15), double(100000.0), double(-0.0), double(5e-324), double(float("-inf"))
    ('0.1', '1e+15', '100000', '-0', '5e-324', '-Infinity')
    """
    return float_text(value) if math.isfinite(value) else _endless(value)


def real(value: float) -> str:
    """Format a REAL with the fewest digits that identify it.

    >>> real(struct.unpack("<f", struct.pack("<f", 0.1))[0]), real(1e6), real(123456.0), real(float("nan"))
    ('0.1', '1e+06', '123456', 'NaN')
    """
    if not math.isfinite(value):
        return _endless(value)
    for count in range(9):
        digits = f"{value:.{count}e}"
        try:
            if struct.unpack("<f", struct.pack("<f", float(digits)))[0] == value:
                break
        except OverflowError:  # rounded up past the largest REAL
            continue
    return float_text(float(digits), True)


def numeric(scale: int) -> Text:
    """Return a reader of NUMERIC with this scale: the unscaled value as a little-endian two's complement integer.

    >>> numeric(2)((-5).to_bytes(16, "little", signed=True)), numeric(0)(bytes([0, 1]))
    ('-0.05', '256')
    """

    def text(raw: bytes) -> str:
        if not 0 < len(raw) <= _NUMERIC_BYTES:
            raise garbled(f"a numeric of {len(raw)} bytes")
        number = int.from_bytes(raw, "little", signed=True)
        digits = str(abs(number)).rjust(scale + 1, "0")
        shown = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return f"-{shown}" if number < 0 else shown

    return text


# -- text and bytes -------------------------------------------------------------------------------------------------


def utf8(raw: bytes) -> str:
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        raise garbled("a text that is not UTF-8") from None


def padded(length: int) -> Text:
    """Return a reader of CHAR with this length; the server does not send trailing blanks."""
    return lambda raw: utf8(raw).ljust(length)


def hexed(raw: bytes) -> str:
    """Format a BYTEA.

    >>> hexed(bytes([0, 255]))
    '\\\\x00ff'
    """
    return "\\x" + bytes(raw).hex()


def boolean(value: bool) -> str:
    return "t" if value else "f"


def oid(value: int) -> str:
    """Format an OID, which is sent as a long."""
    if not 0 <= value < 1 << 32:
        raise garbled("an oid outside PostgreSQL's range")
    return str(value)


# -- arrays ---------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[^\s{}\",\\]+")


def element(text: str) -> str:
    """Format a string as an array element, quoted if needed.

    >>> element("a"), element("a b"), element("null"), element('"'), element("")
    ('a', '"a b"', '"null"', '"\\\\""', '""')
    """
    if _PLAIN.fullmatch(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def piece(raw: bytes, slot: int) -> bytes:
    """Return the bytes of a variable field: up to seven are in the slot itself, more at the slot's offset in `raw`."""
    if slot >> 63:
        length = slot >> 56 & 0x7F
        if length > 7:
            raise garbled(f"{length} bytes in a slot of 7 bytes")
        return slot.to_bytes(8, "little")[:length]
    at, length = slot >> 32, slot & 0xFFFF_FFFF
    if at + length > len(raw):
        raise garbled("a field that extends past the end of its row")
    return raw[at : at + length]


def array(code: str, text: Text) -> Text:
    """Return a reader of arrays: a count, one NULL bit for each element, then the elements without gaps.

    Flink, BinaryArrayData: `4 + ((count + 31) / 32) * 4` bytes precede the first element. "Q": a slot that locates
    bytes.
    """
    size = struct.calcsize(f"<{code}")

    def texts(raw: bytes) -> str:
        if len(raw) < 4:
            raise garbled(f"an array of {len(raw)} bytes")
        (count,) = struct.unpack_from("<i", raw)
        first = 4 + (count + 31) // 32 * 4
        if count < 0 or first + count * size > len(raw):
            raise garbled("an array that extends past the end of its field")
        gone = [raw[4 + place // 8] >> place % 8 & 1 for place in range(count)]
        values = struct.unpack_from(f"<{count}{code}", raw, first)
        if code == "Q":
            values = tuple(_pieces(raw, values, gone))
        shown = ["NULL" if null else text(value) for value, null in zip(values, gone, strict=True)]
        return "{" + ",".join(shown) + "}"

    return texts


def _pieces(raw: bytes, slots: Sequence[int], gone: Sequence[int]) -> Iterator[bytes]:
    """Return the bytes of each element; raises an error if elements overlap, which limits their total size."""
    size = 0
    for slot, null in zip(slots, gone, strict=True):
        found = b"" if null else piece(raw, slot)
        size += len(found)
        if size > len(raw):
            raise garbled("overlapping elements of an array")
        yield found


# -- by type --------------------------------------------------------------------------------------------------------

FIXED = {
    "smallint": StreamField("h6x", str),
    "integer": StreamField("i4x", str),
    "bigint": StreamField("q", str),
    "oid": StreamField("q", oid),
    "real": StreamField("f4x", real),
    "double precision": StreamField("d", double),
    "boolean": StreamField("?7x", boolean),
    "date": StreamField("i4x", date),
    "time without time zone": StreamField("q", time),
    "timestamp without time zone": StreamField("q", timestamp),
    "timestamp with time zone": StreamField("q", timestamptz),
}
VARIABLE: dict[str, Text] = {
    "text": utf8,
    "character varying": utf8,
    "json": utf8,
    "jsonb": utf8,
    "bytea": hexed,
    "roaringbitmap": hexed,
    "time with time zone": timetz,
    "integer[]": array("i", str),
    "bigint[]": array("q", str),
    "real[]": array("f", real),
    "double precision[]": array("d", double),
    "boolean[]": array("?", boolean),
    "text[]": array("Q", lambda raw: element(utf8(raw))),
    "character varying[]": array("Q", lambda raw: element(utf8(raw))),
}


def field_of(column: Column) -> StreamField:
    """Return the decoding for a column's `format_type` string; raises Refused with the column's name for other types.

    >>> field_of(Column("a", "numeric(12,2)")).text(bytes([100])), field_of(Column("a", "integer")).code
    ('1.00', 'i4x')
    """
    size, plain = _SIZE.search(column.type), _SIZE.sub("", column.type).rpartition(".")[2]
    if plain in FIXED:
        return FIXED[plain]
    if plain in VARIABLE:
        return StreamField("Q", VARIABLE[plain], variable=True)
    if plain == "numeric" and size:
        return StreamField("Q", numeric(int(size[2] or 0)), variable=True)
    if plain == "character":
        return StreamField("Q", padded(int(size[1]) if size else 1), variable=True)
    what = f"column {column.name!r} is {column.type}: a Hologres binlog stream cannot send this type"
    raise Refused(what, "read the binlog by SQL, which supports every type", where="source")


OWN_FIELDS = 3
"""Number of fields before the table's columns: LSN, event type and time."""


class RowReader:
    """Reads the rows of one table; `columns` are the table's columns in DDL order (or the requested columns)."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._fields = tuple(field_of(column) for column in columns)
        arity = OWN_FIELDS + len(self._fields)
        self._bits = (arity + 63 + 8) // 64 * 8
        self._fixed = struct.Struct(f"<{self._bits}s3q{''.join(one.code for one in self._fields)}")

    def row(self, raw: bytes, bare: frozenset[int] = frozenset()) -> Event:
        """Return the row. If its event type is in `bare`, the columns are not decoded and the row has none."""
        if len(raw) < self._fixed.size:
            raise garbled(f"a row of {len(raw)} bytes, shorter than its fixed part of {self._fixed.size}")
        bits, lsn, event, at_us, *slots = self._fixed.unpack_from(raw)
        gone = int.from_bytes(bits, "little") >> 8
        if gone & 0b111:
            raise garbled("a row without its LSN, event type or time")
        if event in bare:
            return Event(lsn, event, at_us, ())
        gone >>= OWN_FIELDS
        texts: list[str | None] = []
        for place, field in enumerate(self._fields):
            if gone >> place & 1:
                texts.append(None)
                continue
            value = slots[place]
            texts.append(field.text(piece(raw, value) if field.variable else value))
        return Event(lsn, event, at_us, tuple(texts))
