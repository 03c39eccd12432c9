"""Fit content to a width: size columns according to their values, and wrap sentences over several rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from slotkeeper.console.views.rows import Column, Row, plain

MEASURED = 60
"""The maximum number of rows to measure, as many as the tallest terminal shows, to limit the cost of long tables."""
MOST = 400
LEAST_FLEXIBLE = 10
MOST_GAP = 6
"""The maximum number of blank cells between two columns: across a wider gap, a row is hard to follow."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns that a user shows or hides, by their keys, independent of the width."""

    shown: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()

    def turned(self, key: str, visible: bool) -> Chosen:
        """Hide a visible column, or show a hidden one.

        >>> one = Chosen().turned("pid", False)
        >>> one.shown, one.turned("pid", True).hidden
        (frozenset({'pid'}), frozenset({'pid'}))
        """
        if visible:
            return Chosen(self.shown - {key}, self.hidden | {key})
        return Chosen(self.shown | {key}, self.hidden - {key})

    def of(self, columns: Iterable[Column]) -> list[Column]:
        """Return the columns that are not hidden; chosen columns are shown at every width.

        The glyph column and the flexible column cannot be hidden.
        """
        return [
            replace(one, least=0) if one.key in self.shown else one
            for one in columns
            if one.key not in self.hidden or not one.label or one.width == 0
        ]


def needs(
    rows: Sequence[Row], columns: Iterable[Column], before: Mapping[str, int], ascii_only: bool = False
) -> dict[str, int]:
    """Return the width that each column needs to show all values. Widths never shrink, so that columns do not jitter.

    Labels are not included, because they can change, as `WORST LANE` does once a job has reported what its lanes read.
    """
    found = dict(before)
    for one in columns:
        texts = (plain(row.cells.get(one.key, ""), ascii_only) for row in rows[:MEASURED])
        widest = max((len(text) if text.isascii() else cell_len(text) for text in texts), default=0)
        found[one.key] = min(MOST, max(found.get(one.key, 0), widest))
    return found


def fitted(columns: Sequence[Column], needed: Mapping[str, int], room: int) -> tuple[Column, ...]:
    """Return the columns in `room` cells, each as wide as its label and values, with equal gaps between them.

    If there is too little room, each column gets its own width at most, and the rest goes to the columns that lack the
    least, a column that `grows` last. Width that no column needs widens all gaps alike; what remains stays blank at the
    right. A column without a label belongs to its right neighbor.

    >>> mark, job, state = Column("mark", "", 1), Column("job", "JOB", 0), Column("state", "STATE", 4)
    >>> [(one.width, one.gap) for one in fitted([mark, job, state], {"mark": 1, "job": 10, "state": 11}, 30)]
    [(1, 1), (10, 6), (11, 1)]
    >>> [(one.width, one.gap) for one in fitted([mark, job, state], {"mark": 1, "job": 18, "state": 11}, 28)]
    [(1, 1), (13, 1), (11, 1)]
    """
    least = {one.key: max(needed.get(one.key, one.width), len(one.label)) for one in columns}
    widths = {one.key: min(one.width or LEAST_FLEXIBLE, least[one.key]) for one in columns}
    left = room - sum(widths.values()) - len(columns)
    for one in sorted(columns, key=lambda one: (one.grows, least[one.key] - widths[one.key])):
        given = max(0, min(left, least[one.key] - widths[one.key]))
        widths[one.key] += given
        left -= given
    apart = sum(bool(one.label) for one in columns[:-1])
    wider = max(0, min(MOST_GAP - 1, left // apart)) if apart else 0
    return tuple(
        replace(one, width=widths[one.key], gap=1 + wider * bool(one.label and one is not columns[-1]))
        for one in columns
    )


_BREAK = re.compile(r"(?<=[^ ]) (?=[^ ])")
"""A single space between two words; several spaces in a row are preserved."""
GOES_ON = "\\"


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap text to rows of at most `width` columns. The first row starts with `first`, the others with `rest`.

    >>> wrapped("do `slots reset t --on-existing replace`", 20, " ", "   ")
    [' do `slots reset t', '   --on-existing', '   replace`']
    >>> wrapped("in /a/long/path", 10, "", " ")
    ['in /a/lon\\\\', ' g/path']
    """
    rows: list[str] = []
    row = first
    empty = True
    for word in _BREAK.split(text.rstrip()):
        if not empty and cell_len(row) + 1 + cell_len(word) <= width:
            row += f" {word}"
            continue
        if not empty and cell_len(rest) + cell_len(word) <= width:
            rows.append(row)
            row = rest + word
            continue
        row = row if empty else f"{row} "
        *full, row = _broken(row, word, width, rest)
        rows += full
        empty = False
    return [*rows, row] if row.strip() else rows


def _broken(row: str, word: str, width: int, rest: str) -> Iterator[str]:
    """Yield the rows that result from appending a word to `row`; a long word is split over several rows."""
    room = width - cell_len(GOES_ON)
    while cell_len(row) + cell_len(word) > width:
        taken = 0
        while taken < len(word) and cell_len(row) + cell_len(word[: taken + 1]) <= room:
            taken += 1
        if not taken and row.strip() == "":
            taken = 1  # show at least one character, even if the row is narrower
        if taken:
            yield f"{row}{word[:taken]}{GOES_ON}"
        else:
            yield row.rstrip()
        row, word = rest, word[taken:]
    yield row + word
