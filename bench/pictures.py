"""Pictures of console screens as text and SVG: their errors, and the replacement of this host's names. Pure
functions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_WIDE, _HIGH, _EDGE = 8.43, 17, 8
"""The size of a cell and the margin around a screen, in pixels."""
_FONTS = "ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace"
_CUT_HEADER = re.compile(r"\b[A-Z]{2,}\.\.")
_HEADER = re.compile(r"^[ A-Z0-9./()%#]+$")
_BAD = ("too small", "Traceback", "Error:", "a defect", "not built")
_PLAIN = [(18, 18, 18), (215, 95, 95), (135, 175, 95), (215, 175, 95), (95, 135, 175), (175, 135, 175), (95, 175, 175)]
_BRIGHT = [(98, 98, 98), (255, 135, 135), (175, 215, 135), (255, 215, 135), (135, 175, 215), (215, 175, 215)]
_THEME = TerminalTheme(
    (18, 18, 18), (198, 198, 198), [*_PLAIN, (198, 198, 198)], [*_BRIGHT, (135, 215, 215), (255, 255, 255)]
)
"""Black, and eight colors, normal and bright; the console itself uses those of the 256 colors that every terminal
supports."""


_CONSOLE = Console(color_system="truecolor", force_terminal=True)


def wrong(text: str, size: tuple[int, int]) -> list[str]:
    """Return the errors of a picture of that size.

    >>> wrong(" x  read-only \\n  JOB        STA..", (15, 2))
    ['wider than 15: JOB        STA..', 'a cut header: JOB        STA..']
    """
    width, height = size
    lines = text.rstrip("\n").split("\n")
    found = [f"more than {height} lines: {len(lines)}"] if len(lines) > height else []
    for line in lines:
        if cell_len(line) > width:
            found.append(f"wider than {width}: {line.strip()}")
        if _CUT_HEADER.search(line) and _HEADER.match(line):
            found.append(f"a cut header: {line.strip()}")
    found += [f"it says {bad!r}" for bad in _BAD if bad in text]
    raw = {c for c in text.replace("\n", "") if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cn")}
    found += [f"control characters: {sorted(map(ascii, raw))}"] if raw else []
    if " read-only " not in lines[0] and " WRITE " not in lines[0]:
        found.append("the first row does not show whether the console is read-only")
    return found


def renamed(text: str, names: dict[str, str]) -> str:
    """Return the text with this host's names replaced by names padded or cut to the same length, so that nothing
    shifts.

    >>> renamed("on anna@build-7 now", {"anna@build-7": "dba@ops"})
    'on dba@ops      now'
    """
    for name, new in names.items():
        text = text.replace(name, new[: len(name)].ljust(len(name)))
    return text


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style in a row of a screen: first column, number of cells, text, and colors."""

    column: int
    cells: int
    text: str
    ink: str
    ground: str
    bold: bool


def rows_of(screen: str) -> list[tuple[Run, ...]]:
    """Return the runs of each row as a terminal colors them; a color continues past the end of a row.

    >>> [[(one.column, one.text, one.bold) for one in row] for row in rows_of("a\\x1b[1mb\\nc")]
    [[(0, 'a', False), (1, 'b', True)], [(0, 'c', True)]]
    """
    return [tuple(_runs(line)) for line in AnsiDecoder().decode(screen.rstrip("\n"))]


def _runs(line: Text) -> list[Run]:
    found, column = list[Run](), 0
    line.end = ""
    for text, style, _ in line.render(_CONSOLE):
        how = style or Style.null()
        ink, ground = (
            (one.get_truecolor(_THEME, foreground).hex if one and not one.is_default else "")
            for one, foreground in ((how.color, True), (how.bgcolor, False))
        )
        if how.reverse:
            ink, ground = ground or _THEME.background_color.hex, ink or _THEME.foreground_color.hex
        found.append(Run(column, cell_len(text), text, ink or _THEME.foreground_color.hex, ground, bool(how.bold)))
        column += found[-1].cells
    return found


def svg(frames: Sequence[tuple[str, float]], size: tuple[int, int], title: str) -> str:
    """Return an SVG of colored screens, each shown for its number of seconds; animated if there are several.

    A row that occurs in several screens is stored once. Fonts are those of the reader's host; nothing is downloaded.
    """
    rows = [rows_of(screen) for screen, _ in frames]
    grounds = Counter(run.ground for row in rows[0] for run in row for _ in range(run.cells))
    ground = grounds.most_common(1)[0][0] or _THEME.background_color.hex
    names: dict[tuple[Run, ...], str] = {}
    drawn: list[str] = []
    for line in dict.fromkeys(line for screen in rows for line in screen):
        names[line] = f"r{len(names)}"
        drawn.append(f'<g id="{names[line]}">{_row(line, ground)}</g>')
    groups = []
    for number, screen in enumerate(rows):
        used = (f'<use href="#{names[line]}" y="{place * _HIGH}"/>' for place, line in enumerate(screen) if line)
        groups.append(f'<g class="f f{number}">{"".join(used)}</g>')
    width, height = round(size[0] * _WIDE + 2 * _EDGE, 1), size[1] * _HIGH + 2 * _EDGE
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" xml:space="preserve" role="img"'
        f' width="{width:g}" height="{height:g}"><title>{escape(title)}</title>',
        f"<style>text{{font:14px {_FONTS}}}.b{{font-weight:bold}}{_timing([seconds for _, seconds in frames])}</style>",
        f'<rect width="100%" height="100%" rx="6" fill="{ground}"/>',
        f"<defs>{''.join(drawn)}</defs>",
        f'<g transform="translate({_EDGE} {_EDGE})">{"".join(groups)}</g>',
        "</svg>\n",
    ))  # fmt: skip


def _timing(seconds: Sequence[float]) -> str:
    """Return the CSS rules that show each screen in its time; only the first one for readers who prefer
    reduced motion.
    """
    if len(seconds) == 1:
        return ""
    whole, at, rules = sum(seconds), 0.0, [".f{visibility:hidden}.f0{visibility:visible}"]
    moves = []
    for number, each in enumerate(seconds):
        start, end = at / whole * 100, (at + each) / whole * 100
        before = "0%{visibility:hidden}" if number else ""
        moves.append(
            f"@keyframes k{number}{{{before}{start:.2f}%{{visibility:visible}}{end:.2f}%,100%{{visibility:hidden}}}}"
            f".f{number}{{animation:k{number} {whole:g}s infinite step-end}}"
        )
        at += each
    return "".join([*rules, "@media(prefers-reduced-motion:no-preference){", *moves, "}"])


def _row(line: Sequence[Run], ground: str) -> str:
    parts = []
    for run in line:
        left, width = f"{run.column * _WIDE:.1f}", f"{run.cells * _WIDE:.1f}"
        if run.ground not in ("", ground):
            parts.append(f'<rect x="{left}" width="{width}" height="{_HIGH}" fill="{run.ground}"/>')
        if run.text.strip():
            bold = ' class="b"' if run.bold else ""
            parts.append(
                f'<text x="{left}" y="13" textLength="{width}"{bold} fill="{run.ink}">{escape(run.text)}</text>'
            )
    return "".join(parts)
