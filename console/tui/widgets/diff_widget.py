"""A widget of lines of which only what differs is drawn again: the fewest bytes, and no work for what is not seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

GAP = 16
"""So many equal cells between two that differ are drawn with them: to go there and to set colours costs more."""
_NOTHING = Strip([])
Cell = tuple[str, Style | None]


class Drawn(Widget, inherit_bindings=False):
    """Lines from top to bottom; what is missing is blank."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._strips: list[Strip] = []

    def put(self, strips: list[Strip]) -> None:
        """These lines from now on."""
        before, self._strips = self._strips, strips
        room, gutter = self.size, self.gutter
        regions = [one.translate((gutter.left, gutter.top)) for one in differing(before, strips, room)]
        if regions or not room:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """One line in the style of this widget, as wide as it is."""
        base = self.rich_style
        strip = self._strips[y] if y < len(self._strips) else _NOTHING
        drawn = strip.apply_style(base).adjust_cell_length(self.size.width, base)
        if not self.allow_select:
            return drawn
        span = self.text_selection.get_span(y) if self.text_selection else None
        return (self._selected(drawn, *span) if span else drawn).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """What of it is selected with the mouse."""
        return selection.extract("\n".join(strip.text.rstrip() for strip in self._strips)), "\n"

    def _selected(self, strip: Strip, first: int, end: int) -> Strip:
        style = self.screen.get_component_rich_style("screen--selection")
        before, inside, behind = strip.divide([first, strip.cell_length if end < 0 else end, strip.cell_length])
        return Strip.join([before, inside.apply_style(style), behind])

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as there are lines."""
        return len(self._strips)


def differing(before: Sequence[Strip], now: Sequence[Strip], room: Size) -> list[Region]:
    """Where two sets of lines differ.

    >>> old, new = [Strip([Segment("a b")]), Strip([Segment("c")])], [Strip([Segment("a c")])]
    >>> differing(old, new, Size(80, 24))
    [Region(x=2, y=0, width=1, height=1), Region(x=0, y=1, width=1, height=1)]
    """
    regions: list[Region] = []
    for y in range(min(max(len(before), len(now)), room.height)):
        old = before[y] if y < len(before) else _NOTHING
        new = now[y] if y < len(now) else _NOTHING
        if old is not new:
            regions += (Region(first, y, end - first, 1) for first, end in _runs(_cells(old), _cells(new)))
    return regions


def _cells(strip: Strip) -> list[Cell]:
    """A cell after the other; a wide character is itself and what it covers."""
    found: list[Cell] = []
    for text, style, _ in strip:
        found += ((character, style) for character in text)
        if not text.isascii():
            found[len(found) - len(text) :] = _wide(text, style)
    return found


def _wide(text: str, style: Style | None) -> Iterator[Cell]:
    for character in text:
        yield character, style
        for _ in range(Segment(character).cell_length - 1):
            yield character, style


def _runs(old: list[Cell], new: list[Cell]) -> list[tuple[int, int]]:
    """The columns that differ, as (first, end)."""
    blank = (" ", None)
    length = max(len(old), len(new))
    old += [blank] * (length - len(old))
    new += [blank] * (length - len(new))
    runs: list[tuple[int, int]] = []
    for column in range(length):
        if old[column] == new[column]:
            continue
        if runs and column - runs[-1][1] <= GAP:
            runs[-1] = runs[-1][0], column + 1
        else:
            runs.append((column, column + 1))
    return runs
