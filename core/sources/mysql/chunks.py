"""Cutting a table into chunks of its key, and reading one: by the server's own order, with bounds in its own text.

Each chunk is read as it is then; what changes meanwhile is in the stream behind the place at which the copy began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources.mysql.image import Image, bound_text
from slotkeeper.core.sources.mysql.tables import TableSeen, quoted

Ask = Callable[[str, Sequence[object]], list[Any]]
Bound = tuple[str, ...]


def plan(table: TableSeen, rows: int, ask: Ask) -> list[Chunk]:
    """Chunks of about `rows` rows, each bound found after the one before it: one pass over the key's index.

    Raises Refused where a bound comes again: its text is not the key's value, and rows would be left out, or the
    planning would have no end.
    """
    bounds: list[Bound] = []
    known = set[Bound]()

    def add(row: Sequence[Any]) -> None:
        bound = _bound(table, row)
        if bound in known:
            raise _no_growth(table, bound)
        known.add(bound)
        bounds.append(bound)

    while found := ask(*_bound_statement(table, bounds[-1] if bounds else (), max(1, rows) - 1)):
        add(found[0])
    if last := ask(*_last_statement(table, bounds[-1] if bounds else ())):
        add(last[0])
        beyond = ask(*_last_statement(table, bounds[-1]))  # a row that was written meanwhile, or the last one itself
        if beyond and _bound(table, beyond[0]) in known:
            raise _no_growth(table, bounds[-1])
    lows: list[Bound] = [(), *bounds]
    return [Chunk(number, lo, hi) for number, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def _no_growth(table: TableSeen, bound: Bound) -> Refused:
    key = ", ".join(image.name for image in table.key)
    return Refused(
        f"table {table.schema}.{table.name}: key ({key}) cannot be cut into chunks: bound {', '.join(bound)!r} repeats",
        "leave the table out of the job, and report the type of its key and the server's version",
        where="source",
    )


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
    order = ", ".join(map(_ordered, table.key))
    return f"SELECT {_bounds(table)} FROM {table.quoted}{where} ORDER BY {order} LIMIT 1 OFFSET {offset}", values


def _last_statement(table: TableSeen, lo: Bound) -> tuple[str, list[object]]:
    values: list[object] = []
    where = f" WHERE {_beyond(table.key, lo, '>', values)}" if lo else ""
    down = ", ".join(f"{_ordered(image)} DESC" for image in table.key)
    return f"SELECT {_bounds(table)} FROM {table.quoted}{where} ORDER BY {down} LIMIT 1", values


def _bounds(table: TableSeen) -> str:
    return ", ".join((image.bound or image.ordered).format(quoted(image.name)) for image in table.key)


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
