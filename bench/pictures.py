"""A picture of a screen: what is wrong with it, the names of this machine taken out, and it as text
and as SVG. Pure.
"""

from __future__ import annotations

import io
import re
import unicodedata

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_CUT_HEADER = re.compile(r"\b[A-Z]{2,}\.\.")
_HEADER = re.compile(r"^[ A-Z0-9./()%#]+$")
_BAD = ("too small", "Traceback", "Error:", "a defect", "not built")
_PLAIN = [(18, 18, 18), (215, 95, 95), (135, 175, 95), (215, 175, 95), (95, 135, 175), (175, 135, 175), (95, 175, 175)]
_BRIGHT = [(98, 98, 98), (255, 135, 135), (175, 215, 135), (255, 215, 135), (135, 175, 215), (215, 175, 215)]
_THEME = TerminalTheme(
    (18, 18, 18), (198, 198, 198), [*_PLAIN, (198, 198, 198)], [*_BRIGHT, (135, 215, 215), (255, 255, 255)]
)
"""Black, and the eight colours plain and bright; the console itself uses those of 256 that every terminal has."""


def wrong(text: str, size: tuple[int, int]) -> list[str]:
    """What a picture of that size must not hold.

    >>> wrong(" x  read-only \\n  JOB   STA..", (12, 2))
    ['wider than 12: JOB   STA..', 'a cut header: JOB   STA..']
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
        found.append("the first row does not say whether it only reads")
    return found


def renamed(text: str, names: dict[str, str]) -> str:
    """The text with names of this machine replaced, each by as many characters, so that nothing moves.

    >>> renamed("on anna@build-7 now", {"anna@build-7": "dba@ops"})
    'on dba@ops      now'
    """
    for name, new in names.items():
        text = text.replace(name, new[: len(name)].ljust(len(name)))
    return text


def svg(coloured: str, size: tuple[int, int], title: str) -> str:
    """The picture as SVG, with fonts that are on every machine."""
    console = Console(
        width=size[0], height=size[1], record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for line in coloured.rstrip("\n").split("\n"):
        console.print(Text.from_ansi(line, no_wrap=True, end=""), soft_wrap=True)
    made = console.export_svg(title=title, theme=_THEME, unique_id="console")
    made = _FONT.sub("", made).replace(
        "Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
    )
    return "\n".join(line.rstrip() for line in made.split("\n")) + "\n"
