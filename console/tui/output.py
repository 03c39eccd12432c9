"""Screen updates in as few bytes as possible: only the requested cells, and only style changes.

Textual 8.2 renders all widgets for each frame, sends a line from its first to its last requested cell, and resets the
style after each text. The console requests single cells, so most of that output is already on the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

_INK, _GROUND = "ink", "ground"
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29", _INK: "39", _GROUND: "49"}
"""The code that turns off each part of a style; bold and dim are turned off together."""


class Near(Compositor):
    """Renders only the lines between the first and the last requested one, and only widgets with such lines."""

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        for widget, (region, clip) in self.visible_widgets.items():
            rows = clip if crop is None else clip.intersection(Region(clip.x, crop.y, clip.width, crop.height))
            seen = region.intersection(rows)
            if seen:
                yield region, rows, widget.render_lines(seen.translate(-region.offset))


class Sparing(CompositorUpdate):
    """A screen update. It starts and ends in the default style, so that updates are independent of each other."""

    def __init__(self, update: LayoutUpdate | ChopsUpdate) -> None:
        self._update = update

    def render_segments(self, console: Console) -> str:
        """Return the text and control sequences of the update."""
        system = console._color_system or ColorSystem.TRUECOLOR
        found, pen, here = list[str](), "", (-1, -1)
        for x, y, strip in self._pieces():
            if (x, y) != here:
                found.append(f"\x1b[{y + 1};{x + 1}H")
            for text, style, _ in strip:
                if not text:
                    continue
                codes = style._make_ansi_codes(system) if style is not None else ""
                found.append(turn(pen, codes) + (text if text.isprintable() else harmless(text)))
                pen = codes
            here = x + strip.cell_length, y
        return "".join([*found, turn(pen, "")])

    def _pieces(self) -> Iterator[tuple[int, int, Strip]]:
        """Return the drawn pieces as (column, row, cells)."""
        update = self._update
        if isinstance(update, LayoutUpdate):
            for y, line in enumerate(update.strips, update.region.y):
                x = update.region.x
                for strip in line:
                    yield x, y, strip
                    x += strip.cell_length
            return
        for y, first, last in update.spans:
            for (x, chop), end in zip(update.chops[y].items(), update.chop_ends[y], strict=False):
                if chop is not None and x < last and first < end:
                    start = max(x, first)
                    yield start, y, chop.crop(start - x, min(end, last) - x)


def harmless(text: str) -> str:
    """Return the printable text, in the same number of cells. Unescaped control characters become blank.

    >>> harmless("a\\x1b[2J\\u202eb\\u3000c")
    'a[2Jb  c'
    """
    return "".join(one if one.isprintable() else " " * cell_len(one) for one in text)


@lru_cache(1024)
def turn(before: str, now: str) -> str:
    """Return the control sequence that changes one style to another; styles are given as codes.

    >>> [turn("1;38;5;2", now)[1:] for now in ("38;5;2", "1;38;5;2;48;5;3", "1;2", "")]
    ['[22m', '[48;5;3m', '[39;2m', '[m']
    """
    if before == now or not now:
        return "" if before == now else "\x1b[m"
    old, new = parts(before), parts(now)
    off = {_OFF.get(part, "0") for part in old if part not in new}
    stays = [part for part in old if _OFF.get(part) not in off]
    differs = [code for part, code in new.items() if part not in stays or old[part] != code]
    whole = f"0;{now}"
    return f"\x1b[{whole if '0' in off else min(';'.join([*sorted(off), *differs]), whole, key=len)}m"


def parts(codes: str) -> dict[str, str]:
    """Return the attributes and the colors of a style.

    >>> parts("1;38;5;2;42"), parts("38;2;1;2;3")
    ({'1': '1', 'ink': '38;5;2', 'ground': '42'}, {'ink': '38;2;1;2;3'})
    """
    found: dict[str, str] = {}
    left = codes.split(";") if codes else []
    while left:
        number = int(left[0])
        part = _INK if number // 10 in (3, 9) else _GROUND if number // 10 in (4, 10) else left[0]
        taken = (3 if left[1] == "5" else 5) if number in (38, 48) else 1
        found[part] = ";".join(left[:taken])
        left = left[taken:]
    return found
