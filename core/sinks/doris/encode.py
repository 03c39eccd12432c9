"""The body of a load: the last row of each key of a batch, as JSON lines. Pure except for the file that contains them.

One row per key, because Doris guarantees no order among the rows of a key within one load (Doris, "Sequence Column").
JSON lines, not CSV: the string `\\N` is not NULL, and no byte of a value can be a separator.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from json.encoder import encode_basestring
from operator import itemgetter
from typing import IO

from slotkeeper.core.ports.sink import Fields

SIGN, SEQUENCE = "__DORIS_DELETE_SIGN__", "__DORIS_SEQUENCE_COL__"
IN_MEMORY = 8 << 20
"""Number of bytes above which a body is stored in a file."""
_GONE = frozenset({"d", "B"})
"""Event kinds that delete a row."""
_EVENT = 3
"""The number of fields before the columns of an event: point, sequence, kind."""


def backquoted(name: str) -> str:
    """Quote a name for Doris.

    >>> backquoted("order"), backquoted("a`b")
    ('`order`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Layout:
    """The conversion of rows to lines: the columns' names in order, and the indexes of the key columns among them.

    `booleans`: indexes of columns whose text is `t` or `f`. `filled`: a placeholder for each NOT NULL column of a
    deleted row, because only the row's key is known. `sequenced`: the target has a sequence column of type LARGEINT.
    `partial`: the target has further columns, which keep their values. `types`: the columns' types.
    """

    columns: tuple[str, ...]
    key: tuple[int, ...]
    booleans: frozenset[int] = frozenset()
    filled: tuple[tuple[int, str], ...] = ()
    sequenced: bool = False
    partial: bool = False
    types: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """The header `columns` of a load: because the FE parses it as SQL, keywords and unusual names are quoted.

        apache/doris, `NereidsStreamLoadTask.setColumnToColumnExpr` and `quotedIdentifier` of `DorisParser.g4`.
        """
        return ",".join(map(backquoted, (*self.columns, SIGN, *((SEQUENCE,) if self.sequenced else ()))))


@dataclass(frozen=True, slots=True)
class Body:
    """A file to send from its beginning, with the number of rows and bytes in it."""

    file: IO[bytes]
    rows: int
    size: int


def body_of(layout: Layout, rows: Callable[[], Iterator[Fields]], chunk: bool = False, packed: bool = False) -> Body:
    """Write the last row of each key to a body; iterates over `rows` twice.

    A chunk's rows have only columns; `packed`: compress the body with gzip.
    """
    skip = 0 if chunk else _EVENT
    keep, count = _last(layout, rows, skip)
    file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - its sender closes it
    line = _line(layout)
    with ExitStack() as ends:
        into = ends.enter_context(gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0)) if packed else file
        for number, row in enumerate(rows()):
            if keep[number]:
                order = None if chunk else (row[0], row[1])
                into.write(line(row[skip:], "" if chunk else row[2] or "", order).encode())
    size = file.tell()
    file.seek(0)
    return Body(file, count, size)


def _last(layout: Layout, rows: Callable[[], Iterator[Fields]], skip: int) -> tuple[bytearray, int]:
    """Return for each row whether it is the last of its key by point and sequence, and the number of such rows.

    A source can return rows in any order: for pgxc_get_binlog_changes, DWS documents no order and does not sort. While
    they come in order, only their keys and numbers are in memory.
    """
    places = [skip + one for one in layout.key]
    key_of = itemgetter(*places)  # of a single column, the value itself
    last: dict[object, int] = {}
    orders: dict[object, tuple[int, int, int]] = {}
    newest, number, ordered = (0, 0, -1), -1, True
    for number, row in enumerate(rows()):
        order = (int(row[0] or 0), int(row[1] or 0), number) if skip else (0, 0, number)
        if order < newest:
            ordered = False
            break
        last[key_of(row)], newest = number, order
    if not ordered:
        last.clear()
        for number, row in enumerate(rows()):
            order = (int(row[0] or 0), int(row[1] or 0), number)
            key = key_of(row)
            if key not in orders or order > orders[key]:
                orders[key] = order
    keep = bytearray(number + 1)
    for one in last.values() if ordered else (found for _, _, found in orders.values()):
        keep[one] = 1
    return keep, len(last) or len(orders)


def _line(layout: Layout) -> Callable[[Sequence[str | None], str, tuple[str | None, str | None] | None], str]:
    """Return a function that creates a line from a row's values, its kind, and the two numbers that order it."""
    names = [f"{encode_basestring(name)}:" for name in layout.columns]
    booleans, filled = layout.booleans, dict(layout.filled)

    def line(values: Sequence[str | None], kind: str, order: tuple[str | None, str | None] | None) -> str:
        gone = kind in _GONE
        parts = []
        for place, text in enumerate(values):
            value = text
            if value is None:
                value = filled.get(place) if gone else None
            elif place in booleans:
                value = "1" if value.startswith("t") else "0"
            parts.append(f"{names[place]}{'null' if value is None else encode_basestring(value)}")
        parts.append(f'"{SIGN}":"{int(gone)}"')
        if layout.sequenced:
            parts.append(f'"{SEQUENCE}":"{sequence_of(order)}"')
        return f"{{{','.join(parts)}}}\n"

    return line


def sequence_of(order: tuple[str | None, str | None] | None) -> int:
    """Combine the two numbers that order an event into one that fits LARGEINT; a copied row gets 0, the lowest.

    >>> sequence_of(None), sequence_of(("0", "0")) < sequence_of(("0", "1")) < sequence_of(("1", "-1"))
    (0, True)
    """
    if order is None:
        return 0
    return (int(order[0] or 0) << 63) + int(order[1] or 0) + 2
