"""Sentences over several rows of a screen, so that what is typed can be read back from it word for word. Pure.

A row ends at a blank, never within an option or a name. A word that is longer than a row is the one exception, and its
row says so by a backslash at its end, as a shell does. Nothing is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len

_BREAK = re.compile(r"(?<=[^ ]) (?=[^ ])")
"""One blank between two words; several in a row are wanted as they are."""
GOES_ON = "\\"


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Rows of at most `width` columns, the first behind `first`, the others behind `rest`.

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
    """A word from where the row stands on; where it is too long, over as many rows as it takes."""
    room = width - cell_len(GOES_ON)
    while cell_len(row) + cell_len(word) > width:
        taken = 0
        while taken < len(word) and cell_len(row) + cell_len(word[: taken + 1]) <= room:
            taken += 1
        if not taken and row.strip() == "":
            taken = 1  # a row narrower than a character shows it all the same
        if taken:
            yield f"{row}{word[:taken]}{GOES_ON}"
        else:
            yield row.rstrip()
        row, word = rest, word[taken:]
    yield row + word
