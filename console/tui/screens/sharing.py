"""How the rows of a screen are shared: above its table, the table, and the panel that explains a row. Pure.

Nothing is hidden for good at any size: where a terminal is small the table scrolls before the panel goes, because a
panel says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

FULL = (80, 24)
"""A usual terminal, in columns and rows: one that is smaller in either is a small one."""
USUAL_ROWS = 30
TABS = (72, 18)
"""From so many columns and rows on the names of the screens are shown."""
LEAST_TABLE = 3
"""The least height of a table, also in console.tcss."""
LEAST_PANEL = 3
_AROUND = 4
"""The rows that every table has around it: identity, its title, the place, the keys."""
MOST_ABOVE = 8
"""The most rows above a table, also in console.tcss."""
_WRAPPED = 1
"""So many rows more than it has parts are given to what stands above, whatever the table needs."""


@dataclass(frozen=True, slots=True)
class Share:
    """Rows: `above` the table, and of the `panel` without its title; no panel where that is 0."""

    above: int
    panel: int


def is_small(width: int, height: int) -> bool:
    """Whether it is less than a usual terminal."""
    return width < FULL[0] or height < FULL[1]


def has_tabs(width: int, height: int) -> bool:
    """Whether there is room for the names of the screens."""
    return width >= TABS[0] and height >= TABS[1]


def share(width: int, height: int, rows: int, above: tuple[int, int], least_panel: int) -> Share:
    """The rows of a screen whose table has so many rows; `above`: the least and the most that stands above it.

    >>> share(80, 24, 6, (3, 4), 7), share(80, 24, 40, (3, 4), 7)
    (Share(above=4, panel=7), Share(above=4, panel=7))
    >>> share(80, 23, 2, (3, 4), 7), share(60, 15, 2, (3, 4), 7), share(60, 15, 40, (3, 4), 7)
    (Share(above=4, panel=10), Share(above=3, panel=4), Share(above=1, panel=3))
    """
    needed = max(LEAST_TABLE, rows + 1)
    free = height - _AROUND - has_tabs(width, height)
    if not is_small(width, height):
        panel = least_panel + max(0, (height - USUAL_ROWS) // 2)
        taken = min(above[1], MOST_ABOVE, above[0] + max(_WRAPPED, free - 1 - panel - needed - above[0]))
        return Share(taken, max(panel, free - 1 - taken - needed))
    panel = max(LEAST_PANEL, min(least_panel, free // 3))
    spare = free - 1 - panel - needed
    few = 3 if free >= 14 else 1
    taken = min(above[1], max(few, min(spare, spare // 2 + few)))
    return Share(taken, max(min(panel, free - 1 - taken - LEAST_TABLE), free - 1 - taken - needed))


def rows_of(parts: Sequence[tuple[int, Sequence[Text]]], most: int) -> list[int]:
    """How many of its rows each part gets: one at least as far as there are any, the rest by rank, the least first.

    >>> some = [Text("a")] * 3
    >>> rows_of([(2, some), (0, some), (2, some[:1])], 5), rows_of([(2, some), (0, some)], 1)
    ([1, 3, 1], [1, 0])
    """
    given = [int(place < most) for place in range(len(parts))]
    left = most - sum(given)
    for place in sorted(range(len(parts)), key=lambda place: parts[place][0]):
        more = min(max(0, len(parts[place][1]) - given[place]), max(0, left)) if given[place] else 0
        given[place] += more
        left -= more
    return given
