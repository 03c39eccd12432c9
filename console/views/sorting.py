"""In which order rows are shown: as they come, by a column, or as they stood a moment ago. Pure.

Sorting is stable, and what is unknown is last in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotkeeper.console.views.rows import UNKNOWN, Column, Row

_UNTOLD = ("", "-", UNKNOWN)
CALM_SECONDS = 3.0
"""For so long after a key rows do not change places: they must not move under the finger."""


@dataclass(frozen=True, slots=True)
class Order:
    """By the column of that key; by "" as the rows come, which is the worst first."""

    column: str = ""
    reverse: bool = False

    def title(self, columns: Sequence[Column], usual: str) -> str:
        """What a title says of it.

        >>> Order("lag", True).title([Column("lag", "LAG", 4)], "worst first"), Order().title([], "worst first")
        ('sort LAG v', 'worst first')
        """
        label = next((one.label for one in columns if one.key == self.column), self.column)
        if not self.column:
            return usual + (", reversed" if self.reverse else "")
        return f"sort {label} {'v' if self.reverse else '^'}"


def following(order: Order, columns: Sequence[Column]) -> Order:
    """The next column from left to right, numbers the largest first; after the last one the usual order again.

    >>> columns = [Column("mark", "", 1), Column("job", "JOB", 8), Column("lag", "LAG", 4, right=True)]
    >>> one = following(Order(), columns)
    >>> one, following(one, columns), following(following(one, columns), columns)
    (Order(column='job', reverse=False), Order(column='lag', reverse=True), Order(column='', reverse=False))
    """
    named = [one for one in columns if one.label]
    keys = [one.key for one in named]
    place = keys.index(order.column) + 1 if order.column in keys else 0
    return Order(named[place].key, named[place].right) if place < len(named) else Order()


def turned(order: Order) -> Order:
    """The other way round."""
    return replace(order, reverse=not order.reverse)


def ordered(rows: Sequence[Row], order: Order) -> list[Row]:
    """The rows in that order.

    >>> rows = [Row(name, "", {"n": shown}) for name, shown in (("a", "?"), ("b", "9"), ("c", "10"), ("d", "9"))]
    >>> [[row.key for row in ordered(rows, Order("n", way))] for way in (False, True)]
    [['b', 'd', 'c', 'a'], ['c', 'b', 'd', 'a']]
    """
    if not order.column:
        return list(reversed(rows)) if order.reverse else list(rows)
    known, unknown = [], []
    for row in rows:
        value = _value(row, order.column)
        if value is None:
            unknown.append(row)
        else:
            known.append((value, row))
    known.sort(key=lambda each: each[0], reverse=order.reverse)
    return [row for _, row in known] + unknown


def calmly(rows: Sequence[Row], shown: Sequence[str]) -> list[Row]:
    """The rows in the order in which they are shown already; new ones come last.

    >>> rows = [Row(name, "", {}) for name in "dcba"]
    >>> [row.key for row in calmly(rows, ["a", "x", "b"])]
    ['a', 'b', 'd', 'c']
    """
    places = {key: place for place, key in enumerate(shown)}
    return sorted(rows, key=lambda row: places.get(row.key, len(places)))


def _value(row: Row, column: str) -> tuple[int, float, str] | None:
    if column in row.order:
        number = row.order[column]
        return None if number is None else (0, number, "")
    text = row.cells.get(column, "").strip()
    if text in _UNTOLD:
        return None
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text.casefold()
