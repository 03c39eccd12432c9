"""How each column of a table map is read: joined with what information_schema says, where it fits. Pure.

What the binlog says goes before; what it does not say (`binlog_row_metadata` is not FULL; MySQL 5.7 says nothing)
comes from information_schema as long as the table map fits it, else the table is refused: a wrong sign or a wrong
label is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.sources.mysql import binary_json, values
from slotkeeper.core.sources.mysql.errors import BinlogError, Damaged, Unsupported
from slotkeeper.core.sources.mysql.table_map import CHARACTER, PhysicalColumn, TableMap, Type

FULL = "set binlog_row_metadata = FULL at the source"
MOST_COLUMNS = 4096
"""Of a table (MySQL, "Limits on Table Column Count and Row Size"; MariaDB, "InnoDB Limitations", has fewer)."""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as information_schema.COLUMNS has it now; numbers are None where they do not apply."""

    name: str
    kind: str
    full_type: str
    nullable: bool
    charset: str | None = None
    most_bytes: int | None = None
    precision: int | None = None
    scale: int | None = None
    fraction: int | None = None


Described = tuple[SchemaColumn, ...]
"""A table's columns in their order."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is read: struct codes, and an expression over what they unpack ({0}, {1}).

    Where `sized`, the expression is the number of bytes that follow, and `convert` reads those; else `convert`, where
    there is one, reads the expression's value. `inline` is the same as a Python expression over RAW, without a call:
    it may use `number` (int.from_bytes), DAYS, TIMES and DIGITS of `values.py`.
    """

    codes: tuple[str, ...]
    convert: Callable[[Any], Any] | None = None
    expression: str = "{0}"
    sized: bool = False
    inline: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name, with how its values are read; `shown` is its type in words."""

    name: str
    form: Form
    nullable: bool
    shown: str


def columns_of(table: TableMap, described: Described | None, charsets: Mapping[int, str]) -> tuple[Column, ...]:
    """The columns of a table map; `charsets` are character sets by collation.

    Raises Unsupported with the column's name where one cannot be read, or is not known well enough, Damaged where its
    description is none that a server writes.
    """
    place = f"{table.schema}.{table.table}"
    if table.unread:
        raise Unsupported(f"{place}: {table.unread}")
    if len(table.columns) > MOST_COLUMNS:
        raise Damaged(f"{place}: {len(table.columns):,} columns, and a table has at most {MOST_COLUMNS:,}")
    fits = described is not None and not (why := misfit(table, described))
    if not table.named and not fits:
        said = f"{why}: it was changed since" if described is not None else "the table is gone since"
        raise Unsupported(
            f"{place}: the binlog has no column names, and information_schema does not fit: {said}",
            f"{FULL}, and take a new snapshot of this table",
        )
    known = described if fits and described is not None else (None,) * len(table.columns)
    native = {one.name: one for one in described or ()}
    found = []
    for place_of, (one, other) in enumerate(zip(table.columns, known, strict=True)):
        name = one.name if one.name is not None else other.name if other else f"column {place_of + 1}"
        try:
            form, shown = _form(one, other or native.get(name), charsets, bool(other))
        except BinlogError as error:
            raise type(error)(f"{place}, column {name}: {error.message}", error.cure) from None
        found.append(Column(name, form, one.nullable, shown))
    return tuple(found)


# -- does information_schema fit --------------------------------------------------------------------------------------

_KINDS: Mapping[str, tuple[int, ...]] = {
    "tinyint": (Type.TINY,),
    "smallint": (Type.SHORT,),
    "mediumint": (Type.INT24,),
    "int": (Type.LONG,),
    "bigint": (Type.LONGLONG,),
    "decimal": (Type.NEWDECIMAL,),
    "float": (Type.FLOAT,),
    "double": (Type.DOUBLE,),
    "bit": (Type.BIT,),
    "year": (Type.YEAR,),
    "date": (Type.DATE,),
    "time": (Type.TIME2, Type.TIME),
    "datetime": (Type.DATETIME2, Type.DATETIME),
    "timestamp": (Type.TIMESTAMP2, Type.TIMESTAMP),
    "char": (Type.STRING,),
    "binary": (Type.STRING,),
    "uuid": (Type.STRING,),
    "inet6": (Type.STRING,),
    "inet4": (Type.STRING,),
    "varchar": (Type.VARCHAR, Type.VARCHAR_COMPRESSED, Type.VAR_STRING),
    "varbinary": (Type.VARCHAR, Type.VARCHAR_COMPRESSED, Type.VAR_STRING),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), (Type.BLOB, Type.BLOB_COMPRESSED)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), (Type.BLOB, Type.BLOB_COMPRESSED)),
    "enum": (Type.ENUM,),
    "set": (Type.SET,),
    "json": (Type.JSON,),
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint"), (Type.GEOMETRY,)),
    **dict.fromkeys(("multilinestring", "multipolygon", "geometrycollection", "geomcollection"), (Type.GEOMETRY,)),
}
_BLOB_BYTES = {"tiny": 1, "text": 2, "blob": 2, "medi": 3, "long": 4}
_NATIVE_BYTES = {"uuid": 16, "inet6": 16, "inet4": 4}


def misfit(table: TableMap, described: Described) -> str:
    """What tells that a table map is not of the table as information_schema has it; "" where all fits."""
    if len(table.columns) != len(described):
        return f"it has {len(table.columns)} columns in the binlog, {len(described)} now"
    for one, other in zip(table.columns, described, strict=True):
        if one.name is not None and one.name != other.name:
            return f"column {one.name} in the binlog is {other.name} now"
        if one.code not in _KINDS.get(other.kind, ()) or not _same_size(one, other) or one.nullable != other.nullable:
            return f"column {other.name} is {other.full_type} now, and was something else"
    return ""


def _same_size(one: PhysicalColumn, other: SchemaColumn) -> bool:
    if other.kind in _NATIVE_BYTES:
        return one.first == _NATIVE_BYTES[other.kind]
    if one.code in (Type.VARCHAR, Type.STRING, Type.VAR_STRING):
        return one.first == other.most_bytes
    if one.code in (Type.BLOB, Type.BLOB_COMPRESSED):
        return one.first == _BLOB_BYTES[other.kind[:4]]
    if one.code == Type.NEWDECIMAL:
        return (one.first, one.second) == (other.precision, other.scale)
    if one.code == Type.BIT:
        return one.second == other.precision
    if one.code in (Type.TIME2, Type.DATETIME2, Type.TIMESTAMP2):
        return one.first == (other.fraction or 0)
    return True


# -- forms ------------------------------------------------------------------------------------------------------------

_INTEGERS = {Type.TINY: "b", Type.SHORT: "h", Type.LONG: "i", Type.LONGLONG: "q"}
_LENGTHS: Mapping[int, tuple[tuple[str, ...], str]] = {
    1: (("B",), "{0}"),
    2: (("H",), "{0}"),
    3: (("H", "B"), "({0} | {1} << 16)"),
    4: (("I",), "{0}"),
}
_MOST_FRACTION, _MOST_BITS = 6, 64
"""Digits of a second's fraction, and bits of a BIT (MySQL, "Date and Time Data Types", "Bit-Value Type")."""
_OLD = "is stored in the form of before MySQL 5.6 (mysql56_temporal_format = OFF), which does not say its fraction"


def _form(one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str], fits: bool) -> tuple[Form, str]:
    """How a column is read, and its type in words; `other` is only trusted for what the binlog does not say."""
    code = one.code
    if code in _INTEGERS or code == Type.INT24:
        return _integer(one, other)
    if code in (Type.TIMESTAMP, Type.DATETIME, Type.TIME):
        raise Unsupported(_OLD, "rebuild the table with mysql56_temporal_format = ON (ALTER TABLE ... FORCE)")
    if code in _PLAIN:
        return _PLAIN[code]
    if code in _TEMPORAL:
        shown, whole, reader = _TEMPORAL[code]
        if one.first > _MOST_FRACTION:
            raise Damaged(f"{shown}({one.first}) is not a type that a server has")
        inline = values.datetime_inline(one.first) if code == Type.DATETIME2 else ""
        form = Form((f"{whole + values.fraction_bytes(one.first)}s",), reader(one.first), inline=inline)
        return form, f"{shown}({one.first})" if one.first else shown
    if code == Type.NEWDECIMAL:
        size = values.decimal_bytes(one.first, one.second)
        inline = values.decimal_inline(one.first, one.second)
        form = Form((f"{size}s",), values.decimal_reader(one.first, one.second), inline=inline)
        return form, f"decimal({one.first},{one.second})"
    if code == Type.BIT:
        if not 1 <= one.second <= _MOST_BITS:
            raise Damaged(f"bit({one.second}) is not a type that a server has")
        return Form((f"{one.first}s",), values.big_endian), f"bit({one.second})"
    if code in (Type.ENUM, Type.SET):
        return _labelled(one, other if fits else None, charsets)
    if code == Type.JSON:
        return _sized(one.first, binary_json.text_of), "json"
    if code == Type.GEOMETRY:
        return _sized(one.first, None), "geometry"
    if code in CHARACTER:
        return _characters(one, other, charsets, fits)
    raise Unsupported(f"has type {code}, which is not read", "leave the table out of the job")


def _sized(length_bytes: int, convert: Callable[[bytes], Any] | None) -> Form:
    """Bytes behind a length of so many bytes."""
    if length_bytes not in _LENGTHS:
        raise Damaged(f"a length of {length_bytes} bytes is not one that a server writes")
    codes, expression = _LENGTHS[length_bytes]
    return Form(codes, convert, expression, sized=True)


def _integer(one: PhysicalColumn, other: SchemaColumn | None) -> tuple[Form, str]:
    unsigned = one.unsigned
    if unsigned is None:
        if other is None:
            raise Unsupported("the binlog does not say its sign", FULL)
        unsigned = "unsigned" in other.full_type
    if one.code == Type.INT24:
        form = Form(("H", "B" if unsigned else "b"), None, "({0} | {1} << 16)")
    else:
        code = _INTEGERS[one.code]
        form = Form((code.upper() if unsigned else code,))
    name = {Type.TINY: "tinyint", Type.SHORT: "smallint", Type.INT24: "mediumint", Type.LONG: "int"}
    return form, name.get(one.code, "bigint") + (" unsigned" if unsigned else "")


def _read_date(number: int) -> str:
    return values.DATES[number]


_PLAIN: Mapping[int, tuple[Form, str]] = {
    Type.FLOAT: (Form(("f",), values.shortest_float), "float"),
    Type.DOUBLE: (Form(("d",)), "double"),
    Type.YEAR: (Form(("B",), lambda number: number and number + 1900), "year"),
    Type.DATE: (Form(("H", "B"), _read_date, "({0} | {1} << 16)"), "date"),
}
_TEMPORAL: Mapping[int, tuple[str, int, Callable[[int], Callable[[bytes], str]]]] = {
    Type.TIMESTAMP2: ("timestamp", 4, values.timestamp_reader),
    Type.DATETIME2: ("datetime", 5, values.datetime_reader),
    Type.TIME2: ("time", 3, values.time_reader),
}


def _labelled(one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str]) -> tuple[Form, str]:
    labels: tuple[str, ...] | None = None
    if one.labels is not None:
        read = _reader(_charset(one, other, charsets))
        try:
            labels = tuple(read(label) for label in one.labels)
        except UnicodeDecodeError as error:
            raise Damaged("a label holds bytes that are no such characters") from error
    elif other is not None:
        labels = labels_of(other.full_type)
    if labels is None:
        raise Unsupported("the binlog does not say its labels", FULL)
    if one.code == Type.ENUM:
        return Form(("B" if one.first == 1 else "H",), values.label_reader(labels)), "enum"
    return Form((f"{one.first}s",), values.set_reader(labels)), "set"


_LABELS = re.compile(r"(?:enum|set)\(('(?:[^']|'')*'(?:,'(?:[^']|'')*')*)\)", re.IGNORECASE)


def labels_of(full_type: str) -> tuple[str, ...] | None:
    """The labels in a COLUMN_TYPE; None where they hold what servers write in more than one way.

    >>> labels_of("enum('a','it''s','x,y')"), labels_of("set('a\\\\\\\\b')")
    (('a', "it's", 'x,y'), None)
    """
    found = _LABELS.fullmatch(full_type)
    if found is None or "\\" in full_type:
        return None
    return tuple(text.replace("''", "'") for text in re.findall(r"'((?:[^']|'')*)'", found[1]))


def _charset(one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str]) -> str:
    if one.collation is not None:
        if one.collation not in charsets:
            raise Unsupported(f"has collation {one.collation}, which the server does not list")
        return charsets[one.collation]
    if other is None:
        raise Unsupported("the binlog does not say its character set", FULL)
    return other.charset or "binary"


def _reader(charset: str) -> Callable[[bytes], Any]:
    read = values.text_reader(charset)
    if read is None:
        raise Unsupported(
            f"has character set {charset}, which is not read", "convert the column to utf8mb4, or leave it out"
        )
    return read


_NATIVE: Mapping[str, Callable[[bytes], str]] = {"uuid": values.uuid, "inet6": values.inet6, "inet4": values.inet4}


def _characters(
    one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str], fits: bool
) -> tuple[Form, str]:
    zipped = one.code in (Type.BLOB_COMPRESSED, Type.VARCHAR_COMPRESSED)
    in_blob = one.code not in (Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.VARCHAR_COMPRESSED)
    length_bytes = one.first if in_blob else 2 if one.first > 255 else 1
    if one.code == Type.STRING and other is not None and other.kind in _NATIVE and _same_size(one, other):
        return _sized(length_bytes, _NATIVE[other.kind]), other.kind
    charset = _charset(one, other, charsets)
    read: Callable[[bytes], Any] | None
    if charset == "binary":
        read, shown = (values.padded(one.first), "binary") if one.code == Type.STRING else (None, "bytes")
    else:
        read, shown = _reader(charset), f"characters {charset}"
        if not zipped and charset in values.UTF8:
            read = bytes.decode
    if zipped:
        then = read
        read = values.unzipped if then is None else lambda raw: then(values.unzipped(raw))
    return _sized(length_bytes, read), shown
