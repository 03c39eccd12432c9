"""Parse a TABLE_MAP event: the name of a table, the physical types of its columns, and optional metadata. Pure.

Names, signedness, character sets and labels are optional fields, which MySQL since 8.0.1 and MariaDB since 10.5 write
according to `binlog_row_metadata`. Sources: MySQL, Table_map_event in the server's Doxygen pages. A YEAR also has a
signedness: `has_signedess_information_type` in sql/field_common_properties.h; MariaDB does the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged, Unsupported

BINARY = 63
"""Number of the binary collation."""


class Type:
    """Codes of column types (enum_field_types)."""

    DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = range(14)
    NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2, TYPED_ARRAY = range(14, 21)
    BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
    VECTOR = 242
    JSON, NEWDECIMAL, ENUM, SET, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = range(245, 256)


NUMERIC = frozenset(
    {Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.NEWDECIMAL, Type.FLOAT, Type.DOUBLE, Type.YEAR}
)
_LENGTH_BLOBS = frozenset(
    {Type.BLOB, Type.TINY_BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB, Type.GEOMETRY, Type.JSON, Type.BLOB_COMPRESSED}
)
CHARACTER = frozenset(
    {
        *(Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.BLOB, Type.TINY_BLOB, Type.MEDIUM_BLOB, Type.LONG_BLOB),
        *(Type.BLOB_COMPRESSED, Type.VARCHAR_COMPRESSED),
    }
)


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """A column in the form that rows contain. `code` is the real type (the event encodes ENUM and SET as STRING);
    `first` and `second` are the type's parameters, see `_metadata`. Metadata that the event lacks is None.
    """

    code: int
    first: int
    second: int
    nullable: bool
    name: str | None = None
    unsigned: bool | None = None
    collation: int | None = None
    labels: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table map. `layout` is everything except the number of the table: equal layouts have equal decoders. `unread`
    is the reason why the columns cannot be parsed, or ""; other tables are not affected.
    """

    number: int
    schema: str
    table: str
    columns: tuple[PhysicalColumn, ...]
    key: tuple[int, ...] | None
    layout: bytes
    unread: str = ""

    @property
    def named(self) -> bool:
        """Whether the event contains the column names, and with them all other metadata."""
        return bool(self.columns) and all(one.name is not None for one in self.columns)


def length_encoded(body: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded integer and the offset after it. Raises IndexError past the end.

    >>> length_encoded(bytes([250]), 0), length_encoded(bytes([252, 1, 2]), 0)
    ((250, 1), (513, 3))
    """
    first = body[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}.get(first)
    if size is None or at + 1 + size > len(body):
        raise Damaged(f"cannot parse a length that starts with byte {first}")
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size


def parse_table_map(body: bytes, at: int, stop: int) -> TableMap:
    """Parse the table map in body[at:stop]. Raises IndexError if even the table's name is missing."""
    number = int.from_bytes(body[at : at + 6], "little")
    start = at = at + 8
    schema = body[at + 1 : at + 1 + body[at]].decode()
    at += body[at] + 2
    table = body[at + 1 : at + 1 + body[at]].decode()
    at += body[at] + 2
    layout = body[start:stop]
    try:
        return TableMap(number, schema, table, *_columns(body, at, stop), layout)
    except BinlogError as error:
        return TableMap(number, schema, table, (), None, layout, error.message)
    except (struct.error, IndexError, ValueError):
        return TableMap(number, schema, table, (), None, layout, "cannot parse the description of its columns")


def _columns(body: bytes, at: int, stop: int) -> tuple[tuple[PhysicalColumn, ...], tuple[int, ...] | None]:
    count, at = length_encoded(body, at)
    codes = body[at : at + count]
    at += count
    size, at = length_encoded(body, at)
    physical = _metadata(codes, body[at : at + size])
    at += size
    nulls = body[at : at + (count + 7) // 8]
    at += len(nulls)
    if at > stop or len(codes) != count:
        raise Damaged("the description of its columns is truncated")
    columns = [
        PhysicalColumn(*column, nullable=bool(nulls[i // 8] >> (i % 8) & 1)) for i, column in enumerate(physical)
    ]
    return _described(columns, dict(_fields(body, at, stop)))


def _metadata(codes: bytes, meta: bytes) -> Iterator[tuple[int, int, int]]:
    """Return (real type, first, second) for each column.

    Meaning of (first, second) by type: FLOAT, DOUBLE, BLOB and similar (bytes of the value or of its length, 0);
    VARCHAR and STRING (maximum bytes of the value, 0); ENUM, SET (bytes, 0); NEWDECIMAL (precision, scale); BIT (bytes,
    bits); TIMESTAMP2, DATETIME2 and TIME2 (digits of the fraction, 0).
    """
    at = 0
    for code in codes:
        if code in _LENGTH_BLOBS or code in (Type.FLOAT, Type.DOUBLE, Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2):
            yield code, meta[at], 0
            at += 1
        elif code in (Type.VARCHAR, Type.VARCHAR_COMPRESSED):
            yield code, struct.unpack_from("<H", meta, at)[0], 0
            at += 2
        elif code == Type.BIT:
            yield code, meta[at + 1] + bool(meta[at]), meta[at + 1] * 8 + meta[at]
            at += 2
        elif code == Type.NEWDECIMAL:
            yield code, meta[at], meta[at + 1]
            at += 2
        elif code in (Type.STRING, Type.VAR_STRING, Type.ENUM, Type.SET):
            yield _string(meta[at], meta[at + 1])
            at += 2
        elif code in (Type.TYPED_ARRAY, Type.VECTOR) or code in (Type.NULL, Type.NEWDATE) or 20 < code < 245:
            # the column's metadata cannot be skipped, so nothing after it can be read either
            raise Unsupported(f"a column has the unsupported type {code}", "remove the table from the job")
        else:
            yield code, 0, 0


def _string(first: int, second: int) -> tuple[int, int, int]:
    """Return the real type and the length of a STRING; two bits of the length are stored in the type byte.

    >>> _string(0xFE, 0x28), _string(0xEE, 0xFC), _string(0xF7, 1)
    ((254, 40, 0), (254, 508, 0), (247, 1, 0))
    """
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4, 0
    return first, second, 0


def _fields(body: bytes, at: int, stop: int) -> Iterator[tuple[int, bytes]]:
    while at < stop:
        kind = body[at]
        size, at = length_encoded(body, at + 1)
        if at + size > stop:
            raise Damaged("the description of a table's columns is truncated")
        yield kind, body[at : at + size]
        at += size


def _described(
    columns: list[PhysicalColumn], fields: dict[int, bytes]
) -> tuple[tuple[PhysicalColumn, ...], tuple[int, ...] | None]:
    bits = (bool(byte >> (7 - bit) & 1) for byte in fields.get(1, b"") for bit in range(8))
    signs = dict(zip(_places(columns, NUMERIC), bits, strict=False))
    collations = _collations(columns, CHARACTER, fields.get(2), fields.get(3))
    collations |= _collations(columns, frozenset({Type.ENUM, Type.SET}), fields.get(10), fields.get(11))
    names = [text.decode() for text in _strings(fields[4])] if 4 in fields else []
    labels = _labels(columns, Type.SET, fields.get(5)) | _labels(columns, Type.ENUM, fields.get(6))
    if names and len(names) != len(columns):
        raise Damaged(f"{len(names)} names for {len(columns)} columns")
    said = tuple(
        PhysicalColumn(
            *(one.code, one.first, one.second, one.nullable, names[i] if names else None),
            *(signs.get(i), collations.get(i), labels.get(i)),
        )
        for i, one in enumerate(columns)
    )
    # indexes of whole columns, or pairs (index, prefix length): a key over a prefix of a column is also a key
    key = _numbers(fields[8]) if 8 in fields else _numbers(fields[9])[::2] if 9 in fields else None
    return said, None if key is None else tuple(key)


def _places(columns: list[PhysicalColumn], codes: frozenset[int]) -> list[int]:
    return [i for i, one in enumerate(columns) if one.code in codes]


def _numbers(value: bytes) -> list[int]:
    found, at = [], 0
    while at < len(value):
        number, at = length_encoded(value, at)
        found.append(number)
    return found


def _strings(value: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(value):
        size, at = length_encoded(value, at)
        found.append(value[at : at + size])
        at += size
    return found


def _collations(
    columns: list[PhysicalColumn], codes: frozenset[int], default: bytes | None, each: bytes | None
) -> dict[int, int]:
    """Return collations by column index, from either a default and numbered exceptions, or one for each column.

    Servers differ in whether they count a geometry column as a (binary) character column. If both ways of counting are
    plausible and give different collations, the result is empty, and the collations have to come from
    information_schema.
    """
    own = _places(columns, codes)
    wider = _places(columns, codes | {Type.GEOMETRY}) if Type.STRING in codes else own
    countings = [_counted(places, default, each) for places in ({tuple(own), tuple(wider)})]
    geometries = set(wider) - set(own)
    kept = [
        {place: way[place] for place in own}
        for way in countings
        if way and all(way.get(place, BINARY) == BINARY for place in geometries)
    ]
    return kept[0] if kept and all(way == kept[0] for way in kept) else {}


def _counted(places: tuple[int, ...], default: bytes | None, each: bytes | None) -> dict[int, int]:
    """Return collations by column index; empty if the field does not have a collation for each of these columns."""
    if each is not None:
        numbers = _numbers(each)
        return dict(zip(places, numbers, strict=True)) if len(numbers) == len(places) else {}
    if default is None:
        return {}
    first, *rest = _numbers(default)
    if any(number >= len(places) for number in rest[::2]):
        return {}
    exceptions = zip(rest[::2], rest[1::2], strict=True)
    return dict.fromkeys(places, first) | {places[number]: collation for number, collation in exceptions}


def _labels(columns: list[PhysicalColumn], code: int, value: bytes | None) -> dict[int, tuple[bytes, ...]]:
    found: dict[int, tuple[bytes, ...]] = {}
    at = 0
    for place in _places(columns, frozenset({code})) if value is not None else []:
        count, at = length_encoded(value or b"", at)
        labels = []
        for _ in range(count):
            size, at = length_encoded(value or b"", at)
            labels.append((value or b"")[at : at + size])
            at += size
        found[place] = tuple(labels)
    return found
