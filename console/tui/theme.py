"""Colors by role. Color alone never conveys a state; a symbol and text always show it as well.

There are four themes, and `mono` for NO_COLOR, which uses only bold, dim, underline and reverse in the terminal's own
colors. `ansi` uses the terminal's 16 colors as configured by the user. Widgets use a role through console.tcss
(`$role-...`, and `$role-...-style` for text attributes); text and cells use it through `style_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Palette:
    """The colors of a theme. Text backgrounds are `ground`, `bar` (first and last row) and `cursor`."""

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
    """The color of environments, and of unknown values."""
    dark: bool = True

    @property
    def inks(self) -> dict[str, str]:
        """All text colors, by role."""
        kinds = {"ok": self.ok, "warn": self.warn, "crit": self.crit, "busy": self.info, "accent": self.accent}
        return {"text": self.text, "dim": self.dim, "rest": self.dim, "unknown": self.place, **kinds}

    @property
    def filled(self) -> dict[str, tuple[str, str, str]]:
        """Text on a background color, as (attributes, text, background), by role."""
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
"""The themes with fixed colors; those of `ansi` are defined by the terminal."""
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
    """Return the style of a role; "" for the default style."""
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
    if ansi:  # Textual's own rules use these variables without defining them
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
    """Removes colors from drawn text and keeps its attributes."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without colors."""
        return [
            Segment(text, style.without_color if style is not None else None, control)
            for text, style, control in segments
        ]
