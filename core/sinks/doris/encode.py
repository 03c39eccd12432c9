"""A batch as the body of a load: the last row of each key, as JSON lines. Pure except for the file that holds them.

One row per key, because inside one load Doris promises no order among the rows of a key (Doris, "Sequence Column").
JSON lines, not CSV: a text of `\\N` is not NULL, and no byte of a value can be a separator.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import IO

from slotkeeper.core.ports.sink import Fields

SIGN, SEQUENCE = "__DORIS_DELETE_SIGN__", "__DORIS_SEQUENCE_COL__"
IN_MEMORY = 8 << 20
"""Bytes above which a body waits in a file."""
_GONE = frozenset({"d", "B"})
"""Kinds of event that end a row."""
_EVENT = 3
"""Fields before the columns of an event: point, sequence, kind."""


def backquoted(name: str) -> str:
    """A name as Doris reads any name.

    >>> backquoted("order"), backquoted("a`b")
    ('`order`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows become lines: the columns' names in order, and the positions of the key among them.

    `booleans`: positions of columns whose text is `t` or `f`. `filled`: a text for NOT NULL columns of a deleted row,
    which only its key identifies. `sequenced`: the target has a sequence column, of LARGEINT.
    """

    columns: tuple[str, ...]
    key: tuple[int, ...]
    booleans: frozenset[int] = frozenset()
    filled: tuple[tuple[int, str], ...] = ()
    sequenced: bool = False

    @property
    def header(self) -> str:
        """Return the header `columns` of a load: SQL to the FE, so a keyword or an odd name needs quotes.

        apache/doris, `NereidsStreamLoadTask.setColumnToColumnExpr` and `quotedIdentifier` of `DorisParser.g4`.
        """
        return ",".join(map(backquoted, (*self.columns, SIGN, *((SEQUENCE,) if self.sequenced else ()))))


@dataclass(frozen=True, slots=True)
class Body:
    """A file to be sent, from its beginning, and the rows and bytes in it."""

    file: IO[bytes]
    rows: int
    size: int


def body_of(layout: Layout, rows: Callable[[], Iterator[Fields]], chunk: bool = False, packed: bool = False) -> Body:
    """The last row of each key; `rows` is gone through twice. A chunk's rows have columns alone; `packed`: by gzip."""
    skip = 0 if chunk else _EVENT
    keep = _last(layout, rows, skip)
    file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - its sender closes it
    line = _line(layout)
    with ExitStack() as ends:
        into = ends.enter_context(gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0)) if packed else file
        for number, row in enumerate(rows()):
            if number in keep:
                order = None if chunk else (row[0], row[1])
                into.write(line(row[skip:], "" if chunk else row[2] or "", order).encode())
    size = file.tell()
    file.seek(0)
    return Body(file, len(keep), size)


def _last(layout: Layout, rows: Callable[[], Iterator[Fields]], skip: int) -> set[int]:
    """The numbers of the last row of each key: by point and sequence, for a source gives a range in any order.

    DWS documents none for pgxc_get_binlog_changes, and sorts none.
    """
    places = [skip + one for one in layout.key]
    last: dict[tuple[str | None, ...], tuple[int, int, int]] = {}
    for number, row in enumerate(rows()):
        key = tuple(row[place] for place in places)
        order = (int(row[0] or 0), int(row[1] or 0), number) if skip else (0, 0, number)
        if key not in last or order > last[key]:
            last[key] = order
    return {number for _, _, number in last.values()}


def _line(layout: Layout) -> Callable[[Sequence[str | None], str, tuple[str | None, str | None] | None], str]:
    """Makes a line of a row's values, its kind, and the two numbers that order it."""
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
    """The two numbers that order an event as one that fits LARGEINT; below all of them that of a copied row.

    >>> sequence_of(None), sequence_of(("0", "0")) < sequence_of(("0", "1")) < sequence_of(("1", "-1"))
    (0, True)
    """
    if order is None:
        return 0
    return (int(order[0] or 0) << 63) + int(order[1] or 0) + 2
