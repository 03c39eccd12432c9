"""Cutting a table into chunks of its key, and reading one: by the server's own order, with bounds in its own text.

Each chunk is read as it is then; what changes meanwhile is in the stream behind the place at which the copy began.
Next door: `image.py` says how a column is ordered and how a bound is written, `source.py` sends these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from core.ports.source import Chunk
from core.sources.mysql.image import Image, bound_text
from core.sources.mysql.tables import TableSeen, quoted

Ask = Callable[[str, Sequence[object]], list[Any]]
Bound = tuple[str, ...]


def plan(table: TableSeen, rows: int, ask: Ask) -> list[Chunk]:
    """Chunks of about `rows` rows, each bound found behind the one before it: one pass over the key's index."""
    bounds: list[Bound] = []
    while True:
        found = ask(*_bound_statement(table, bounds[-1] if bounds else (), max(1, rows) - 1))
        if not found:
            break
        bounds.append(_bound(table, found[0]))
    last = ask(*_last_statement(table, bounds[-1] if bounds else ()))
    if last:
        bounds.append(_bound(table, last[0]))
    lows: list[Bound] = [(), *bounds]
    return [Chunk(number, lo, hi) for number, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def read_statement(table: TableSeen, images: Sequence[Image], chunk: Chunk) -> tuple[str, list[object]]:
    """These columns of the rows with lo < key <= hi, and the values of the statement."""
    values: list[object] = []
    parts = [_beyond(table.key, chunk.lo, ">", values)] if chunk.lo else []
    parts.append(_beyond(table.key, chunk.hi, "<", values))
    return f"SELECT {selected(images)} FROM {table.quoted} WHERE {' AND '.join(parts)}", values


def selected(images: Sequence[Image]) -> str:
    """Columns as the stream gives them."""
    return ", ".join(image.selected.format(quoted(image.name)) for image in images)


def _bound(table: TableSeen, row: Sequence[Any]) -> Bound:
    return tuple(bound_text(image, value) for image, value in zip(table.key, row, strict=True))


def _bound_statement(table: TableSeen, lo: Bound, offset: int) -> tuple[str, list[object]]:
    values: list[object] = []
    where = f" WHERE {_beyond(table.key, lo, '>', values)}" if lo else ""
    return f"SELECT {_names(table)} FROM {table.quoted}{where} ORDER BY {_names(table)} LIMIT 1 OFFSET {offset}", values


def _last_statement(table: TableSeen, lo: Bound) -> tuple[str, list[object]]:
    values: list[object] = []
    where = f" WHERE {_beyond(table.key, lo, '>', values)}" if lo else ""
    down = ", ".join(f"{_ordered(image)} DESC" for image in table.key)
    return f"SELECT {_names(table)} FROM {table.quoted}{where} ORDER BY {down} LIMIT 1", values


def _names(table: TableSeen) -> str:
    return ", ".join(map(_ordered, table.key))


def _ordered(image: Image) -> str:
    return image.ordered.format(quoted(image.name))


def _beyond(key: Sequence[Image], bound: Bound, sign: str, values: list[object]) -> str:
    """key > bound, or key <= bound, column by column; the first column's own bound lets its index serve."""
    lead = ""
    if len(key) > 1:
        lead = f"{_ordered(key[0])} {sign}= {_value(key[0], bound[0], values)} AND "
    return f"({lead}{_nested(key, bound, sign, values)})"


def _nested(key: Sequence[Image], bound: Bound, sign: str, values: list[object]) -> str:
    name = _ordered(key[0])
    if len(key) == 1:
        return f"{name} {'>' if sign == '>' else '<='} {_value(key[0], bound[0], values)}"
    strict = f"{name} {sign} {_value(key[0], bound[0], values)}"
    equal = f"{name} = {_value(key[0], bound[0], values)}"
    return f"({strict} OR ({equal} AND {_nested(key[1:], bound[1:], sign, values)}))"


def _value(image: Image, text: str, values: list[object]) -> str:
    """A bound in a statement: what would be compared as something else as a string is written as what it is."""
    if image.literal is not None:
        return image.literal(text)
    values.append(text)
    return "%s"
