"""Decode the rows of an event to tuples, with a decoder compiled for one layout of a table. Pure.

Metadata in the binlog takes precedence. Missing metadata (`binlog_row_metadata` is not FULL; MySQL 5.7 writes none)
comes from information_schema if that matches the table map; otherwise the table is rejected, because signedness and
labels are never guessed.

A row is a bitmap of its NULLs and the other columns' values without gaps, so the offset of each value follows from the
bitmap and from the lengths before it. Each frequent bitmap gets a compiled function that reads adjacent values of fixed
size with one `struct` call; rare bitmaps share one function with a branch for each column. Bits of a bitmap beyond its
last column are padding and are ignored: MariaDB writes 0, MySQL writes 1 (sql/rpl_record.cc, pack_row).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.sources.mysql import kernel, values
from slotkeeper.core.sources.mysql.events import Action, Rows
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged, Unsupported
from slotkeeper.core.sources.mysql.kernel import Op
from slotkeeper.core.sources.mysql.table_map import CHARACTER, PhysicalColumn, TableMap, Type

FULL = "set binlog_row_metadata = FULL on the source"
MOST_COLUMNS = 4096
"""Maximum number of columns in a table (MySQL, "Limits on Table Column Count and Row Size"; MariaDB, "InnoDB
Limitations", has a lower limit)."""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as currently described in information_schema.COLUMNS; numbers are None if they do not apply."""

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
"""A table's columns in order."""


@dataclass(frozen=True, slots=True)
class Form:
    """The decoding of a value: struct codes, and an expression over the unpacked values ({0}, {1}).

    If `sized`, the expression is the number of bytes that follow, and `convert` decodes those bytes; otherwise
    `convert`, if set, decodes the expression's value. `inline` does the same as a Python expression over RAW, without a
    function call; it can use `number` (int.from_bytes) and DAYS, TIMES and DIGITS of `values`. `op` is the decoding by
    the kernel, None if it does not take the type.
    """

    codes: tuple[str, ...]
    convert: Callable[[Any], Any] | None = None
    expression: str = "{0}"
    sized: bool = False
    inline: str = ""
    op: Op | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name and the decoding of its values; `shown` is its type for messages."""

    name: str
    form: Form
    nullable: bool
    shown: str


def columns_of(table: TableMap, described: Described | None, charsets: Mapping[int, str]) -> tuple[Column, ...]:
    """Return the columns of a table map; `charsets` are character sets by collation.

    Raises Unsupported with the column's name if a column cannot be decoded or lacks metadata, Damaged if a server
    cannot have written its description.
    """
    place = f"{table.schema}.{table.table}"
    if table.unread:
        raise Unsupported(f"{place}: {table.unread}")
    if len(table.columns) > MOST_COLUMNS:
        raise Damaged(f"{place}: {len(table.columns):,} columns (a table has at most {MOST_COLUMNS:,})")
    fits = described is not None and not (why := misfit(table, described))
    if not table.named and not fits:
        said = f"{why}: the table has been altered" if described is not None else "the table has been dropped"
        raise Unsupported(
            f"{place}: the binlog has no column names and information_schema does not match: {said}",
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


# -- match with information_schema ------------------------------------------------------------------------------------

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
    """Return the reason why a table map does not match the table in information_schema; "" if it matches."""
    if len(table.columns) != len(described):
        return f"{len(table.columns)} columns in the binlog, {len(described)} now"
    for one, other in zip(table.columns, described, strict=True):
        if one.name is not None and one.name != other.name:
            return f"column {one.name} of the binlog is now {other.name}"
        if one.code not in _KINDS.get(other.kind, ()) or not _same_size(one, other) or one.nullable != other.nullable:
            return f"column {other.name} is now {other.full_type}, but had another type"
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
"""Maximum fractional-second digits, and bits in a BIT (MySQL, "Date and Time Data Types", "Bit-Value Type")."""
_OLD = "has the storage format of MySQL before 5.6 (mysql56_temporal_format = OFF), which lacks fractional seconds"


def _form(one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str], fits: bool) -> tuple[Form, str]:
    """Return a column's decoding and its type for messages; `other` only supplies metadata that the binlog omits."""
    code = one.code
    if code in _INTEGERS or code == Type.INT24:
        return _integer(one, other)
    if code in (Type.TIMESTAMP, Type.DATETIME, Type.TIME):
        raise Unsupported(_OLD, "rebuild the table with mysql56_temporal_format = ON (ALTER TABLE ... FORCE)")
    if code in _PLAIN:
        return _PLAIN[code]
    if code in _TEMPORAL:
        shown, whole, reader, letter = _TEMPORAL[code]
        if one.first > _MOST_FRACTION:
            raise Damaged(f"{shown}({one.first}) is not a valid server type")
        inline = values.datetime_inline(one.first) if code == Type.DATETIME2 else ""
        size = whole + values.fraction_bytes(one.first)
        form = Form((f"{size}s",), reader(one.first), inline=inline, op=(letter, size, one.first, 0, None))
        return form, f"{shown}({one.first})" if one.first else shown
    if code == Type.NEWDECIMAL:
        size = values.decimal_bytes(one.first, one.second)
        inline = values.decimal_inline(one.first, one.second)
        op = ("n", size, one.first, one.second, None)
        form = Form((f"{size}s",), values.decimal_reader(one.first, one.second), inline=inline, op=op)
        return form, f"decimal({one.first},{one.second})"
    if code == Type.BIT:
        if not 1 <= one.second <= _MOST_BITS:
            raise Damaged(f"bit({one.second}) is not a valid server type")
        return Form((f"{one.first}s",), values.big_endian, op=("b", one.first, 0, 0, None)), f"bit({one.second})"
    if code in (Type.ENUM, Type.SET):
        return _labelled(one, other if fits else None, charsets)
    if code == Type.JSON:
        return _sized(one.first, values.text_of, "c"), "json"
    if code == Type.GEOMETRY:
        return _sized(one.first, None, "r"), "geometry"
    if code in CHARACTER:
        return _characters(one, other, charsets, fits)
    raise Unsupported(f"has the unsupported type {code}", "remove the table from the job")


def _sized(length_bytes: int, convert: Callable[[bytes], Any] | None, letter: str, first: int = 0) -> Form:
    """Return the form of a value whose bytes follow a length field of `length_bytes` bytes; `letter` is its `Op`."""
    if length_bytes not in _LENGTHS:
        raise Damaged(f"a length of {length_bytes} bytes, which no server writes")
    codes, expression = _LENGTHS[length_bytes]
    return Form(codes, convert, expression, sized=True, op=(letter, length_bytes, first, 0, convert))


def _integer(one: PhysicalColumn, other: SchemaColumn | None) -> tuple[Form, str]:
    unsigned = one.unsigned
    if unsigned is None:
        if other is None:
            raise Unsupported("the binlog does not record its signedness", FULL)
        unsigned = "unsigned" in other.full_type
    if one.code == Type.INT24:
        form = Form(("H", "B" if unsigned else "b"), None, "({0} | {1} << 16)", op=("i", 3, not unsigned, 0, None))
    else:
        code = _INTEGERS[one.code]
        op = ("i", struct.calcsize(f"<{code}"), not unsigned, 0, None)
        form = Form((code.upper() if unsigned else code,), op=op)
    name = {Type.TINY: "tinyint", Type.SHORT: "smallint", Type.INT24: "mediumint", Type.LONG: "int"}
    return form, name.get(one.code, "bigint") + (" unsigned" if unsigned else "")


_PLAIN: Mapping[int, tuple[Form, str]] = {
    Type.FLOAT: (Form(("f",), values.shortest_float, op=("f", 4, 0, 0, None)), "float"),
    Type.DOUBLE: (Form(("d",), op=("d", 8, 0, 0, None)), "double"),
    Type.YEAR: (Form(("B",), lambda number: number and number + 1900, op=("y", 1, 0, 0, None)), "year"),
    Type.DATE: (
        Form(("H", "B"), lambda number: values.DATES[number], "({0} | {1} << 16)", op=("D", 3, 0, 0, None)),
        "date",
    ),
}
_TEMPORAL: Mapping[int, tuple[str, int, Callable[[int], Callable[[bytes], str]], str]] = {
    Type.TIMESTAMP2: ("timestamp", 4, values.timestamp_reader, "S"),
    Type.DATETIME2: ("datetime", 5, values.datetime_reader, "M"),
    Type.TIME2: ("time", 3, values.time_reader, "T"),
}


def _labelled(one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str]) -> tuple[Form, str]:
    labels: tuple[str, ...] | None = None
    if one.labels is not None:
        read = _reader(_charset(one, other, charsets))
        try:
            labels = tuple(read(label) for label in one.labels)
        except UnicodeDecodeError as error:
            raise Damaged("a label has bytes that are invalid in its character set") from error
    elif other is not None:
        labels = labels_of(other.full_type)
    if labels is None:
        raise Unsupported("the binlog does not record its labels", FULL)
    if one.code == Type.ENUM:
        op = ("e", 1 if one.first == 1 else 2, 0, 0, ("", *labels))
        return Form(("B" if one.first == 1 else "H",), values.label_reader(labels), op=op), "enum"
    return Form((f"{one.first}s",), values.set_reader(labels), op=("s", one.first, 0, 0, labels)), "set"


_LABELS = re.compile(r"(?:enum|set)\(('(?:[^']|'')*'(?:,'(?:[^']|'')*')*)\)", re.IGNORECASE)


def labels_of(full_type: str) -> tuple[str, ...] | None:
    """Return the labels in a COLUMN_TYPE; None if they contain characters that servers write in different ways.

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
        raise Unsupported("the binlog does not record its character set", FULL)
    return other.charset or "binary"


def _reader(charset: str) -> Callable[[bytes], Any]:
    read = values.text_reader(charset)
    if read is None:
        raise Unsupported(f"has the unsupported character set {charset}", "convert the column to utf8mb4, or omit it")
    return read


_NATIVE: Mapping[str, tuple[Callable[[bytes], str], str]] = {
    "uuid": (values.uuid, "U"),
    "inet6": (values.inet6, "c"),
    "inet4": (values.inet4, "4"),
}
_ASCII = bytes(range(128))


def _characters(
    one: PhysicalColumn, other: SchemaColumn | None, charsets: Mapping[int, str], fits: bool
) -> tuple[Form, str]:
    zipped = one.code in (Type.BLOB_COMPRESSED, Type.VARCHAR_COMPRESSED)
    in_blob = one.code not in (Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.VARCHAR_COMPRESSED)
    length_bytes = one.first if in_blob else 2 if one.first > 255 else 1
    if one.code == Type.STRING and other is not None and other.kind in _NATIVE and _same_size(one, other):
        return _sized(length_bytes, *_NATIVE[other.kind]), other.kind
    charset = _charset(one, other, charsets)
    read: Callable[[bytes], Any] | None
    if charset == "binary":
        fixed = one.code == Type.STRING
        read, shown, letter = (values.padded(one.first), "binary", "p") if fixed else (None, "bytes", "r")
    else:
        read, shown = _reader(charset), f"characters {charset}"
        letter = "a" if _same_ascii(read) else "c"
        if not zipped and charset in values.UTF8:
            read, letter = bytes.decode, "u"
    if zipped:
        then, letter = read, "c"
        read = values.unzipped if then is None else lambda raw: then(values.unzipped(raw))
    return _sized(length_bytes, read, letter, one.first if letter == "p" else 0), shown


def _same_ascii(read: Callable[[bytes], Any]) -> bool:
    """Whether a character set has ASCII's characters at ASCII's codes."""
    try:
        return bool(read(_ASCII) == _ASCII.decode())
    except UnicodeDecodeError:
        return False


Row = tuple[Any, ...]
_Read = Callable[[bytes, int, Callable[[Row], None]], int]
_ReadAny = Callable[[bytes, int, Callable[[Row], None], int], int]
OFTEN = 200
"""Number of uses after which a function is compiled for a bitmap: compiling takes as long as it saves on these rows."""
MOST_FUNCTIONS = 1024
_MOST_COUNTED = 65_536


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of one event: `before` for updates and deletes, `after` for inserts and updates; paired by index."""

    action: Action
    before: Sequence[Row]
    after: Sequence[Row]


class Decoder:
    """Decodes the rows of one layout. Not thread-safe.

    `wanted` are the indexes of the columns to return; None returns all columns in their order.
    """

    def __init__(self, columns: Sequence[Column], wanted: Sequence[int] | None = None) -> None:
        self.columns = tuple(columns)
        self.wanted = tuple(range(len(self.columns))) if wanted is None else tuple(wanted)
        self._bitmap_bytes = (len(self.columns) + 7) // 8
        self._every = (1 << len(self.columns)) - 1
        self._functions: dict[bytes, _Read] = {}
        self._seen: dict[bytes, int] = {}
        self._any = _compile_any(self.columns, self.wanted)
        ops = [None if one.form.op is None else (*one.form.op, False, None) for one in self.columns]
        self._plan = kernel.plan_of(ops, self.wanted, [True] * len(self.wanted))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns[place].name for place in self.wanted)

    def check(self, event: Rows) -> None:
        """Raise Unsupported if an event's rows lack columns, Damaged if they do not match the table's description."""
        if event.width != len(self.columns):
            raise Damaged(f"rows have {event.width} columns, but the table has {len(self.columns)}")
        for present in (event.before, event.after):
            if int.from_bytes(present, "little") & self._every != self._every:
                raise Unsupported(
                    "incomplete rows: binlog_row_image was not FULL when they were written",
                    "set binlog_row_image = FULL on the source, and take a new snapshot of this table",
                )

    def changes(self, event: Rows) -> Changes:
        """Return the rows of an event; raises the errors of `check` and `rows`."""
        self.check(event)
        rows = self.rows(event.body, event.begin, event.stop)
        if event.action is Action.UPDATE:
            if len(rows) % 2:
                raise Damaged("an update row lacks its before- or after-image")
            return Changes(event.action, rows[::2], rows[1::2])
        return Changes(event.action, (), rows) if event.action is Action.INSERT else Changes(event.action, rows, ())

    def rows(self, body: bytes, at: int, stop: int) -> list[Row]:
        """Return all rows in body[at:stop]; raises Damaged, which names the column of an invalid value."""
        if self._plan is not None and (read_by_kernel := self._plan.values(body, at, stop)) is not None:
            return read_by_kernel
        found: list[Row] = []
        width, function_of, append, row_at = self._bitmap_bytes, self._functions.get, found.append, at
        try:
            while at < stop:
                row_at = at
                bitmap = body[at : at + width]
                read = function_of(bitmap)
                begin = at + width
                at = read(body, begin, append) if read is not None else self._seldom(bitmap, body, begin, append)
        except BinlogError:
            raise
        except (struct.error, ValueError, IndexError, OverflowError, TypeError) as error:
            raise Damaged(self._reason(body, row_at, stop)) from error
        if at != stop:
            raise Damaged("the rows do not end at the end of their event")
        return found

    def _seldom(self, bitmap: bytes, body: bytes, at: int, append: Callable[[Row], None]) -> int:
        """Decode a row whose bitmap has no function of its own; compile a function once the bitmap is frequent."""
        count = self._seen.get(bitmap, 0) + 1
        if len(self._seen) >= _MOST_COUNTED:
            self._seen.clear()
        self._seen[bitmap] = count
        if count == OFTEN and len(self._functions) < MOST_FUNCTIONS:
            self._functions[bitmap] = _compile(self.columns, self.wanted, bitmap)
        return self._any(body, at, append, int.from_bytes(bitmap, "little"))

    def _reason(self, body: bytes, at: int, stop: int) -> str:
        """Return the error text, which names the column that cannot be decoded but never contains a value."""
        nulls = int.from_bytes(body[at : at + self._bitmap_bytes], "little")
        for count, column in enumerate(self.columns):
            try:
                read = _compile_any(self.columns[: count + 1], (count,))
                end = read(body, at + self._bitmap_bytes, lambda row: None, nulls)
            except BinlogError as error:
                return f"column {column.name} ({column.shown}): {error.message}"
            except UnicodeDecodeError:
                return f"column {column.name} ({column.shown}) has bytes that are invalid in its character set"
            except (struct.error, ValueError, IndexError, OverflowError, TypeError):
                return f"cannot decode column {column.name} ({column.shown})"
            if end > stop:
                return f"column {column.name} ({column.shown}) ends past its event"
        return "cannot decode a row"


class _Writer:
    """The source code of one compiled function, and the names that the code uses."""

    def __init__(self, columns: Sequence[Column], wanted: Sequence[int]) -> None:
        self.columns = columns
        self.wanted = frozenset(wanted)
        self.names: dict[str, Any] = {"number": int.from_bytes, "DAYS": values.DAYS, "TIMES": values.TIMES}
        self.names |= values.DIGITS
        self.lines: list[str] = []
        self._structs: dict[str, str] = {}

    def unpack(self, codes: Sequence[str]) -> tuple[str, int]:
        """Return the name that the generated code uses for a struct's `unpack_from`, and the struct's size in bytes."""
        packed = struct.Struct("<" + "".join(codes))
        name = self._structs.setdefault(packed.format, f"u{len(self._structs)}")
        self.names[name] = packed.unpack_from
        return name, packed.size

    def value(self, place: int, names: Sequence[str]) -> str:
        form = self.columns[place].form
        text = form.expression.format(*names)
        if form.convert is None:
            return text
        self.names[f"f{place}"] = form.convert
        if form.inline:
            return f"({form.inline.replace('RAW', text)})"
        return f"f{place}({text})"

    def sized(self, place: int, begin: str, end: str) -> str:
        convert = self.columns[place].form.convert
        if convert is None:
            return f"b[{begin}:{end}]"
        if convert is bytes.decode:
            return f"b[{begin}:{end}].decode()"
        self.names[f"f{place}"] = convert
        return f"f{place}(b[{begin}:{end}])"

    def made(self, name: str) -> Any:
        scope = dict(self.names)
        exec("\n".join(self.lines), scope)  # noqa: S102 built from types and indexes, never from names or values
        return scope[name]


def _compile(columns: Sequence[Column], wanted: Sequence[int], bitmap: bytes) -> _Read:
    """Compile a function for rows with one bitmap; one call reads adjacent fixed-size values and the next length."""
    nulls = int.from_bytes(bitmap, "little")
    writer = _Writer(columns, wanted)
    writer.lines.append("def row(b, o, add):")
    found: dict[int, str] = dict.fromkeys(range(len(columns)), "None")
    codes: list[str] = []
    names: list[str] = []
    for place, column in enumerate(columns):
        if nulls >> place & 1:
            continue
        own = [f"v{place}_{number}" for number in range(len(column.form.codes))]
        codes += column.form.codes
        names += own
        if not column.form.sized:
            found[place] = writer.value(place, own)
            continue
        _unpacked(writer, codes, names)
        writer.lines.append(f"    e = o + {column.form.expression.format(*own)}")
        if place in writer.wanted:
            writer.lines.append(f"    s{place} = {writer.sized(place, 'o', 'e')}")
        found[place] = f"s{place}"
        writer.lines.append("    o = e")
        codes, names = [], []
    if codes:
        _unpacked(writer, codes, names)
    made_of = "".join(f"{found[place]}, " for place in wanted)
    writer.lines += [f"    add(({made_of}))", "    return o"]
    made: _Read = writer.made("row")
    return made


def _unpacked(writer: _Writer, codes: Sequence[str], names: Sequence[str]) -> None:
    unpack, size = writer.unpack(codes)
    writer.lines.append(f"    {', '.join(names)}, = {unpack}(b, o)")
    writer.lines.append(f"    o += {size}")


def _compile_any(columns: Sequence[Column], wanted: Sequence[int]) -> _ReadAny:
    """Compile a function for rows with any bitmap; the function has a branch for each column."""
    writer = _Writer(columns, wanted)
    writer.lines.append("def row(b, o, add, nulls):")
    for place, column in enumerate(columns):
        form = column.form
        own = [f"v{place}_{number}" for number in range(len(form.codes))]
        unpack, size = writer.unpack(form.codes)
        writer.lines += [f"    if nulls & {1 << place}:", f"        c{place} = None", "    else:"]
        writer.lines += [f"        {', '.join(own)}, = {unpack}(b, o)", f"        o += {size}"]
        if form.sized:
            writer.lines.append(f"        e = o + {form.expression.format(*own)}")
            kept = writer.sized(place, "o", "e") if place in writer.wanted else "None"
            writer.lines += [f"        c{place} = {kept}", "        o = e"]
        else:
            kept = writer.value(place, own) if place in writer.wanted else "None"
            writer.lines.append(f"        c{place} = {kept}")
    writer.lines += [f"    add(({''.join(f'c{place}, ' for place in wanted)}))", "    return o"]
    made: _ReadAny = writer.made("row")
    return made
