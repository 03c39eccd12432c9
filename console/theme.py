"""The colours by their roles; a colour is never the only carrier of a state: glyph and word say the same.

Next door: `console.tcss` uses the roles for widgets, `console.widgets.live_table` for cells.
"""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="slotkeeper-dark",
    primary="#5fafd7",
    background="#101014",
    surface="#101014",
    panel="#101014",
    foreground="#d0d0d0",
    dark=True,
    variables={
        "role-crit": "#ff6b6b",
        "role-warn": "#e5c07b",
        "role-unknown": "#c792ea",
        "role-busy": "#61afef",
        "role-rest": "#808080",
        "role-dim": "#808080",
        "role-accent": "#56b6c2",
        "role-bar": "#24242c",
        "role-cursor": "#3a3a48",
        "role-badge": "#ffffff on #af0000",
        "role-badge-calm": "#000000 on #87af5f",
    },
)
