"""A decoder compiled for one layout of a table: rows of an event become tuples. Pure.

A row is a bitmap of its NULLs and the other columns' values without gaps, so where each value lies follows from the
bitmap and from the lengths before it. For each bitmap that is seen often a function is compiled in which neighbouring
values of fixed size are one `struct` call; bitmaps that are rare go through one function with a branch per column.
Bits of a bitmap beyond its last column are padding: MariaDB writes 0, MySQL writes 1 (sql/rpl_record.cc, pack_row), and
only the bits of columns count.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.sources.mysql import values
from slotkeeper.core.sources.mysql.columns import Column
from slotkeeper.core.sources.mysql.errors import BinlogError, Damaged, Unsupported
from slotkeeper.core.sources.mysql.events import Action, Rows

Row = tuple[Any, ...]
_Read = Callable[[bytes, int, Callable[[Row], None]], int]
_ReadAny = Callable[[bytes, int, Callable[[Row], None], int], int]
OFTEN = 200
"""A bitmap that was seen so often gets a function of its own: compiling takes as long as it saves on so many rows."""
MOST_FUNCTIONS = 1024
_MOST_COUNTED = 65_536


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of one event: `before` of an update or a delete, `after` of an insert or an update; pairs by place."""

    action: Action
    before: Sequence[Row]
    after: Sequence[Row]


class Decoder:
    """Decodes the rows of one layout; not shared between threads.

    `wanted` are the places of the columns that rows shall have, all in their order where it is None.
    """

    def __init__(self, columns: Sequence[Column], wanted: Sequence[int] | None = None) -> None:
        self.columns = tuple(columns)
        self.wanted = tuple(range(len(self.columns))) if wanted is None else tuple(wanted)
        self._bitmap_bytes = (len(self.columns) + 7) // 8
        self._every = (1 << len(self.columns)) - 1
        self._functions: dict[bytes, _Read] = {}
        self._seen: dict[bytes, int] = {}
        self._any = _compile_any(self.columns, self.wanted)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what rows have."""
        return tuple(self.columns[place].name for place in self.wanted)

    def changes(self, event: Rows) -> Changes:
        """The rows of an event.

        Raises Unsupported where it has not all columns, Damaged where its bytes do not fit the table's description.
        """
        if event.width != len(self.columns):
            raise Damaged(f"rows of {event.width} columns for a table of {len(self.columns)}")
        for present in (event.before, event.after):
            if int.from_bytes(present, "little") & self._every != self._every:
                raise Unsupported(
                    "rows without all columns: binlog_row_image was not FULL where they were written",
                    "set binlog_row_image = FULL at the source, and take a new snapshot of this table",
                )
        rows = self.rows(event.body, event.begin, event.stop)
        if event.action is Action.UPDATE:
            if len(rows) % 2:
                raise Damaged("an update has a row without its other half")
            return Changes(event.action, rows[::2], rows[1::2])
        return Changes(event.action, (), rows) if event.action is Action.INSERT else Changes(event.action, rows, ())

    def rows(self, body: bytes, at: int, stop: int) -> list[Row]:
        """All rows in body[at:stop]. Raises Damaged, with the column's name where a value is no such value."""
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
            raise Damaged("rows do not end where their event does")
        return found

    def _seldom(self, bitmap: bytes, body: bytes, at: int, append: Callable[[Row], None]) -> int:
        """A row of a bitmap without a function of its own; it gets one once it was seen often."""
        count = self._seen.get(bitmap, 0) + 1
        if len(self._seen) >= _MOST_COUNTED:
            self._seen.clear()
        self._seen[bitmap] = count
        if count == OFTEN and len(self._functions) < MOST_FUNCTIONS:
            self._functions[bitmap] = _compile(self.columns, self.wanted, bitmap)
        return self._any(body, at, append, int.from_bytes(bitmap, "little"))

    def _reason(self, body: bytes, at: int, stop: int) -> str:
        """Which column cannot be read; never a value."""
        nulls = int.from_bytes(body[at : at + self._bitmap_bytes], "little")
        for count, column in enumerate(self.columns):
            try:
                read = _compile_any(self.columns[: count + 1], (count,))
                end = read(body, at + self._bitmap_bytes, lambda row: None, nulls)
            except BinlogError as error:
                return f"column {column.name} ({column.shown}): {error.message}"
            except UnicodeDecodeError:
                return f"column {column.name} ({column.shown}): holds bytes that are no such characters"
            except (struct.error, ValueError, IndexError, OverflowError, TypeError):
                return f"column {column.name} ({column.shown}) cannot be read"
            if end > stop:
                return f"column {column.name} ({column.shown}) ends beyond its event"
        return "a row cannot be read"


class _Writer:
    """The text of one compiled function, and the names that it uses."""

    def __init__(self, columns: Sequence[Column], wanted: Sequence[int]) -> None:
        self.columns = columns
        self.wanted = frozenset(wanted)
        self.names: dict[str, Any] = {"number": int.from_bytes, "DAYS": values.DAYS, "TIMES": values.TIMES}
        self.names |= values.DIGITS
        self.lines: list[str] = []
        self._structs: dict[str, str] = {}

    def unpack(self, codes: Sequence[str]) -> tuple[str, int]:
        """The name of a struct's unpack_from, and its bytes."""
        packed = struct.Struct("<" + "".join(codes))
        name = self._structs.setdefault(packed.format, f"u{len(self._structs)}")
        self.names[name] = packed.unpack_from
        return name, packed.size

    def value(self, place: int, names: Sequence[str]) -> str:
        """The expression of a value of fixed size."""
        form = self.columns[place].form
        text = form.expression.format(*names)
        if form.convert is None:
            return text
        self.names[f"f{place}"] = form.convert
        if form.inline:
            return f"({form.inline.replace('RAW', text)})"
        return f"f{place}({text})"

    def sized(self, place: int, begin: str, end: str) -> str:
        """The expression of a value whose length was read."""
        convert = self.columns[place].form.convert
        if convert is None:
            return f"b[{begin}:{end}]"
        if convert is bytes.decode:
            return f"b[{begin}:{end}].decode()"
        self.names[f"f{place}"] = convert
        return f"f{place}(b[{begin}:{end}])"

    def made(self, name: str) -> Any:
        """The compiled function `name`."""
        scope = dict(self.names)
        exec("\n".join(self.lines), scope)  # noqa: S102  made of types and places, never of names or values
        return scope[name]


def _compile(columns: Sequence[Column], wanted: Sequence[int], bitmap: bytes) -> _Read:
    """A function for rows of one bitmap: neighbours of fixed size are read by one call, a length with those before."""
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
    """A function for rows of any bitmap, with a branch for each column."""
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
