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
LEAST_FLEXIBLE = 12


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


def fitted(columns: Sequence[Column], needed: Mapping[str, int], flexible: str = "") -> tuple[Column, ...]:
    """Return the columns in the same total width; unused width goes to columns that are too narrow.

    The column that lacks the least comes first. Text columns give up width; numeric columns keep theirs, so that they
    do not move when values change. Width that no column needs stays blank at the right, not between the flexible column
    and the others.

    >>> job, state, lag = Column("job", "JOB", 24), Column("state", "STATE", 4), Column("lag", "LAG", 6, True)
    >>> [one.width for one in fitted([job, state], {"job": 10, "state": 11})]
    [17, 11]
    >>> [one.width for one in fitted([job, state, lag], {"job": 22, "state": 11, "lag": 2}, "job")]
    [22, 6, 6]
    >>> [one.width for one in fitted([job, lag], {"job": 5, "lag": 2}, "job")]
    [12, 6]
    """
    widths = {one.key: one.width for one in columns}
    lacks = {one.key: _least(one, needed) - one.width for one in columns}
    for one in sorted((one for one in columns if lacks[one.key] > 0), key=lambda one: lacks[one.key]):
        for other in sorted(columns, key=lambda other: (not other.grows, lacks[other.key])):
            if (other.right and other.key != flexible) or not other.label:
                continue
            given = max(0, min(_least(one, needed) - widths[one.key], widths[other.key] - _least(other, needed)))
            widths[one.key] += given
            widths[other.key] -= given
    if flexible in widths and not any(one.grows for one in columns):
        least = max(LEAST_FLEXIBLE, needed.get(flexible, widths[flexible]))
        widths[flexible] = min(widths[flexible], least)
    return tuple(replace(one, width=widths[one.key]) for one in columns)


def _least(one: Column, needed: Mapping[str, int]) -> int:
    return max(needed.get(one.key, one.width), len(one.label))


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
