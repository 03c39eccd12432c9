"""The colours by their roles; a colour is never all that tells a state: glyph and word say the same.

`mono` has no colour at all: bold, dim, underline and reverse only, the terminal's own colours otherwise. A role is
used by widgets through console.tcss (`$role-...`, and `$role-...-style` for how text stands), and for words and
cells through `style_of`.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

STYLES: dict[str, dict[str, str]] = {
    "slotkeeper-dark": {
        "crit": "#ff6b6b",
        "warn": "#e5c07b",
        "unknown": "#c792ea",
        "busy": "#61afef",
        "rest": "#808080",
        "dim": "#808080",
        "accent": "#56b6c2",
        "here": "bold #56b6c2",
        "marked": "bold #56b6c2",
        "badge": "bold #ffffff on #af0000",
        "badge-stage": "#000000 on #d7af00",
        "badge-calm": "#000000 on #87af5f",
        "armed": "#000000 on #ffd75f",
    },
    "slotkeeper-light": {
        "crit": "#b00020",
        "warn": "#8a5000",
        "unknown": "#7b1fa2",
        "busy": "#0b57d0",
        "rest": "#707070",
        "dim": "#5f5f5f",
        "accent": "#005f87",
        "here": "bold #005f87",
        "marked": "bold #005f87",
        "badge": "bold #ffffff on #af0000",
        "badge-stage": "#000000 on #ffd700",
        "badge-calm": "#000000 on #afd787",
        "armed": "#000000 on #ffd75f",
    },
    "slotkeeper-mono": {
        "crit": "bold reverse",
        "warn": "bold",
        "unknown": "underline",
        "busy": "",
        "rest": "dim",
        "dim": "dim",
        "accent": "underline",
        "here": "bold underline",
        "marked": "bold",
        "badge": "bold reverse",
        "badge-stage": "reverse",
        "badge-calm": "bold",
        "armed": "bold reverse",
    },
}


def style_of(theme: str, role: str) -> str:
    """How words of that role look; "" where they look like all others."""
    return STYLES[theme].get(role, "")


def _theme(
    name: str, ground: str, words: str, bar: str, cursor: str, dark: bool = True, cursor_style: str = "bold"
) -> Theme:
    styles = STYLES[name]
    variables = {"role-bar": bar, "role-cursor": cursor, "role-cursor-style": cursor_style}
    for role in ("dim", "accent"):
        coloured = styles[role].startswith("#")
        variables[f"role-{role}"] = styles[role] if coloured else words
        variables[f"role-{role}-style"] = "none" if coloured else styles[role]
    variables |= {f"role-{role}": style for role, style in styles.items() if role.startswith(("crit", "warn", "badge"))}
    return Theme(
        name,
        variables["role-accent"],
        foreground=words,
        background=ground,
        surface=ground,
        panel=ground,
        dark=dark,
        variables=variables,
    )


DARK = _theme("slotkeeper-dark", ground="#101014", words="#d0d0d0", bar="#24242c", cursor="#3a3a48")
LIGHT = _theme("slotkeeper-light", ground="#f8f8f8", words="#202020", bar="#e4e4e8", cursor="#cfd8e8", dark=False)
MONO = _theme(
    "slotkeeper-mono", ground="#000000", words="#ffffff", bar="#000000", cursor="#000000", cursor_style="reverse"
)
THEMES = (DARK, LIGHT, MONO)


class NoColour(LineFilter):
    """Takes the colours out of what is drawn and leaves how the text stands."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [
            Segment(text, style.without_color if style is not None else None, control)
            for text, style, control in segments
        ]
