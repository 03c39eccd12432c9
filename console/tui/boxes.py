"""Frames drawn as text: boxes side by side, each with a title above and a hint below. Pure.

As text, frames cost no more than lines, only their changed cells are redrawn, and names are never parsed as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from slotkeeper.console.views.rows import plain

LEAST = (70, 20)
"""The minimum numbers of columns and rows for frames."""
AROUND = 4
"""The number of cells that a frame takes from a line: two sides, each with a space."""
_ROUND = ("\u256d", "\u256e", "\u2570", "\u256f", "\u2500", "\u2502")
_ASCII = ("+", "+", "+", "+", "-", "|")
StyleOf = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Box:
    """Lines in a frame. `role` selects the frame's color; `hint` is shown at the right end of its lower edge."""

    title: str
    lines: Sequence[Text] = ()
    hint: str = ""
    role: str = "frame"


def framed(width: int, height: int) -> bool:
    """Return whether a terminal of that size has room for frames.

    >>> framed(80, 24), framed(69, 24), framed(80, 19)
    (True, False, False)
    """
    return width >= LEAST[0] and height >= LEAST[1]


def shares(width: int, number: int) -> list[int]:
    """Return the widths of `number` boxes side by side, `width` in total.

    >>> shares(160, 2), shares(200, 3)
    ([80, 80], [66, 67, 67])
    """
    bounds = [place * width // number for place in range(number + 1)]
    return [end - start for start, end in pairwise(bounds)]


def upper(boxes: Sequence[Box], widths: Sequence[int], style: StyleOf, ascii_only: bool) -> Text:
    """Return the upper edges with their titles.

    >>> upper([Box("Jobs"), Box("a" * 20)], [12, 12], lambda role: "", True).plain
    '+- Jobs ---++- aaaa.. -+'
    """
    left, right, _, _, line, _ = _ASCII if ascii_only else _ROUND
    text = Text(no_wrap=True, end="")
    for box, width in zip(boxes, widths, strict=True):
        title = _fitting(plain(box.title, ascii_only), width - 6)
        text.append(f"{left}{line} ", style(box.role)).append(title, style("strong"))
        text.append(f" {line * (width - 5 - cell_len(title))}{right}", style(box.role))
    return text


def lower(boxes: Sequence[Box], widths: Sequence[int], style: StyleOf, ascii_only: bool) -> Text:
    """Return the lower edges with their hints.

    >>> lower([Box("Jobs", hint="1 of 4")], [16], lambda role: "", True).plain
    '+----- 1 of 4 -+'
    """
    _, _, left, right, line, _ = _ASCII if ascii_only else _ROUND
    text = Text(no_wrap=True, end="")
    for box, width in zip(boxes, widths, strict=True):
        hint = f" {_fitting(plain(box.hint, ascii_only), width - 6)} " if box.hint else ""
        text.append(left + line * (width - 3 - cell_len(hint)), style(box.role))
        text.append(hint, style("dim")).append(line + right, style(box.role))
    return text


def between(
    boxes: Sequence[Box], widths: Sequence[int], style: StyleOf, ascii_only: bool, least: int = 0
) -> list[Text]:
    """Return the lines inside the boxes: as many as in the longest box, and at least `least`. Long lines are truncated.

    >>> [each.plain for each in between([Box("a", [Text("b")]), Box("c")], [7, 7], lambda role: "", True, 2)]
    ['| b   ||     |', '|     ||     |']
    """
    side = (_ASCII if ascii_only else _ROUND)[-1]
    found = []
    for place in range(max([least, *(len(box.lines) for box in boxes)])):
        text = Text(no_wrap=True, end="")
        for box, width in zip(boxes, widths, strict=True):
            line = box.lines[place].copy() if place < len(box.lines) else Text()
            line.truncate(width - AROUND, overflow="crop", pad=True)
            text.append(f"{side} ", style(box.role)).append_text(line).append(f" {side}", style(box.role))
        found.append(text)
    return found


def padded(lines: Sequence[Text], least: int) -> list[Text]:
    """Return the lines, padded with blank lines to at least `least` lines."""
    return [*lines, *(Text(end="") for _ in range(least - len(lines)))]


def rows_of_boxes(rows: Sequence[Sequence[Box]]) -> int:
    """Return the number of lines that rows of boxes need below another row, with the edges between them.

    >>> rows_of_boxes([[Box("a", [Text("1")]), Box("b")], [Box("c")]])
    5
    """
    return sum(2 + max(len(box.lines) for box in boxes) for boxes in rows)


def stacked(rows: Sequence[Sequence[Box]], width: int, room: int, style: StyleOf, ascii_only: bool) -> list[Text]:
    """Return rows of boxes one below the other, at least `room` high, without the first upper and last lower edges.

    >>> [each.plain for each in stacked([[Box("a")], [Box("b")]], 10, 3, lambda role: "", True)]
    ['+--------+', '+- b ----+', '|        |']
    """
    found: list[Text] = []
    for place, boxes in enumerate(rows):
        widths = shares(width, len(boxes))
        found += [upper(boxes, widths, style, ascii_only)] if place else []
        is_last = place == len(rows) - 1
        found += between(boxes, widths, style, ascii_only, room - len(found) if is_last else 0)
        found += [] if is_last else [lower(boxes, widths, style, ascii_only)]
    return found


def _fitting(words: str, room: int) -> str:
    if cell_len(words) <= room:
        return words
    return set_cell_size(words, max(0, room - 2)) + ".."[: max(0, room)]
