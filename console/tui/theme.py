"""The colours by their roles; a colour is never all that tells a state: a sign and a word say the same.

Four themes, and `mono` for NO_COLOR: bold, dim, underline and reverse only, the terminal's own colours otherwise.
`ansi` uses the 16 colours of the terminal, as the person who uses it has chosen them. A role is used by widgets
through console.tcss (`$role-...`, and `$role-...-style` for how text stands), and for words and cells through
`style_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a theme. Text stands on `ground`, on `bar` (first and last row) and on `cursor`."""

    ground: str
    bar: str
    cursor: str
    frame: str
    text: str
    dim: str
    ok: str
    warn: str
    crit: str
    info: str
    accent: str
    place: str
    """The environment, and what is unknown."""
    dark: bool = True

    @property
    def inks(self) -> dict[str, str]:
        """Every colour that text has, by its role."""
        kinds = {"ok": self.ok, "warn": self.warn, "crit": self.crit, "busy": self.info, "accent": self.accent}
        return {"text": self.text, "dim": self.dim, "rest": self.dim, "unknown": self.place, **kinds}

    @property
    def filled(self) -> dict[str, tuple[str, str, str]]:
        """Text on a colour, as (how it stands, text, ground), by its role."""
        return {
            "brand": ("bold", self.ground, self.accent),
            "badge": ("bold", self.ground, self.crit),
            "badge-stage": ("", self.ground, self.warn),
            "badge-calm": ("", self.place, self.bar),
            "armed": ("bold", self.ground, self.warn),
            "safe": ("", self.text, self.cursor),
            "ok-sign": ("bold", self.ground, self.ok),
            "warn-sign": ("bold", self.ground, self.warn),
            "crit-sign": ("bold", self.ground, self.crit),
            "unknown-sign": ("bold", self.ground, self.place),
            "rest-sign": ("", self.text, self.cursor),
        }


PALETTES = {
    "dark": Palette(
        ground="#1a1b26", bar="#24283b", cursor="#2f3549", frame="#3b4261", text="#c0caf5", dim="#9aa5ce",
        ok="#9ece6a", warn="#e0af68", crit="#f7768e", info="#7aa2f7", accent="#7dcfff", place="#bb9af7",
    ),
    "light": Palette(
        ground="#f7f8fc", bar="#e6e9f3", cursor="#d5dbec", frame="#a5adc8", text="#1f2335", dim="#484f6e",
        ok="#2c5a12", warn="#6f4400", crit="#a3123a", info="#1c4aa8", accent="#0a5570", place="#5f2d9e", dark=False,
    ),
    "contrast": Palette(
        ground="#000000", bar="#101010", cursor="#242424", frame="#c8c8c8", text="#ffffff", dim="#dcdcdc",
        ok="#7dff7d", warn="#ffd75f", crit="#ff9c9c", info="#9cd0ff", accent="#6ff2ff", place="#e3b8ff",
    ),
}  # fmt: skip
"""The themes whose colours are known to us; those of `ansi` are the terminal's."""
_SIXTEEN = Palette(
    ground="default", bar="default", cursor="blue", frame="bright_black", text="default", dim="default",
    ok="green", warn="yellow", crit="red", info="blue", accent="cyan", place="magenta",
)  # fmt: skip
_NONE = replace(PALETTES["contrast"], bar="#000000", cursor="#000000", dim="#ffffff", accent="#ffffff")


def _styles(one: Palette) -> dict[str, str]:
    styles = {role: ink for role, ink in one.inks.items() if role != "text"}
    styles |= {role: f"{how} {ink} on {under}".strip() for role, (how, ink, under) in one.filled.items()}
    loud = {"here": f"bold underline {one.text}", "marked": f"bold {one.accent}", "key": f"bold {one.accent}"}
    loud |= {f"{role}-word": f"bold {ink}" for role, ink in one.inks.items() if role != "text"}
    loud |= {"strong": f"bold {one.text}", "frame": one.frame}
    return styles | loud


_ANSI = {
    role: style.replace("default on", "black on").replace(" default", "")
    for role, style in _styles(_SIXTEEN).items()
    if style.strip() != "default"
}
_ANSI |= dict.fromkeys(("dim", "rest", "frame", "dim-word", "rest-word"), "dim")
_ANSI |= {
    "safe": "reverse",
    "rest-sign": "reverse",
    "badge-calm": "magenta",
    "here": "bold underline",
    "strong": "bold",
}
_MONO = {
    "crit": "bold reverse",
    "warn": "bold",
    "unknown": "underline",
    "rest": "dim",
    "dim": "dim",
    "accent": "underline",
    "here": "bold underline",
    "marked": "bold",
    "key": "bold",
    "strong": "bold",
    "crit-word": "bold",
    "warn-word": "bold",
    "unknown-word": "bold underline",
    "ok-word": "bold",
    "busy-word": "bold",
    "rest-word": "dim",
    "dim-word": "dim",
    "accent-word": "bold",
    "frame": "dim",
    "brand": "bold",
    "badge": "bold reverse",
    "badge-stage": "reverse",
    "badge-calm": "bold",
    "armed": "bold reverse",
    "ok-sign": "bold",
    "warn-sign": "bold reverse",
    "crit-sign": "bold reverse",
    "unknown-sign": "bold reverse",
    "rest-sign": "reverse",
}
STYLES: dict[str, dict[str, str]] = {
    **{f"slotkeeper-{name}": _styles(one) for name, one in PALETTES.items()},
    "slotkeeper-ansi": _ANSI,
    "slotkeeper-mono": _MONO,
}


def style_of(theme: str, role: str) -> str:
    """How words of that role look; "" where they look like all others."""
    return STYLES[theme].get(role, "")


def _theme(name: str, one: Palette, cursor_style: str = "none", ansi: bool = False) -> Theme:
    colours = {"bar": one.bar, "cursor": one.cursor, "dim": one.dim, "accent": one.accent, "frame": one.frame}
    colours |= {"ok": one.ok, "warn": one.warn, "crit": one.crit, "unknown": one.place}
    if ansi:
        colours = {role: f"ansi_{colour}" for role, colour in colours.items()}
    styles = STYLES[name]
    plain = {role: style if style in ("dim", "underline") else "none" for role, style in styles.items()}
    variables = {f"role-{role}": colour for role, colour in colours.items()}
    variables |= {f"role-{role}-style": plain[role] for role in ("dim", "accent", "frame")}
    if ansi:  # Textual's own rules use them without a value of their own
        variables |= {"ansi-background": "ansi_default", "ansi-foreground": "ansi_default"}
    ground, words = (f"ansi_{one.ground}", f"ansi_{one.text}") if ansi else (one.ground, one.text)
    return Theme(
        name,
        variables["role-accent"],
        foreground=words,
        background=ground,
        surface=ground,
        panel=ground,
        dark=one.dark,
        variables=variables | {"role-cursor-style": cursor_style},
        ansi=ansi,
    )


DARK, LIGHT, CONTRAST = (_theme(f"slotkeeper-{name}", one) for name, one in PALETTES.items())
ANSI = _theme("slotkeeper-ansi", _SIXTEEN, cursor_style="bold", ansi=True)
MONO = _theme("slotkeeper-mono", _NONE, cursor_style="reverse")
THEMES = (DARK, LIGHT, CONTRAST, ANSI, MONO)


class NoColour(LineFilter):
    """Takes the colours out of what is drawn and leaves how the text stands."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours."""
        return [
            Segment(text, style.without_color if style is not None else None, control)
            for text, style, control in segments
        ]
