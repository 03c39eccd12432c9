"""Signs and colours of states, and that text is readable in every colour."""

from __future__ import annotations

import itertools

import pytest
from textual.color import Color

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.theme import PALETTES, STYLES, Palette
from slotkeeper.console.views.signs import ROLES, coloured, heat, mark, verdict_sign

LEAST = {"dark": 4.5, "light": 4.5, "contrast": 7.0}


def contrast(one: str, other: str) -> float:
    """The contrast of two colours (WCAG 2.2, 1.4.3)."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [each / 255 for each in Color.parse(colour).rgb]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def pairs(one: Palette) -> dict[str, tuple[str, str]]:
    grounds = {"ground": one.ground, "bar": one.bar, "cursor": one.cursor}
    found = {f"{role} on {name}": (ink, grounds[name]) for role, ink in one.inks.items() for name in grounds}
    return found | {role: (ink, under) for role, (_, ink, under) in one.filled.items()}


@pytest.mark.parametrize("theme", PALETTES)
def test_every_pair_that_carries_text_can_be_read(theme: str) -> None:
    found = {name: round(contrast(*pair), 2) for name, pair in pairs(PALETTES[theme]).items()}
    assert {name: each for name, each in found.items() if each < LEAST[theme]} == {}
    assert round(contrast("#000000", "#ffffff"), 1) == 21.0


def test_every_theme_has_every_role_that_another_has() -> None:
    roles = set(STYLES["slotkeeper-dark"])
    without = {"ok", "busy", "safe"}  # without colours, the word and the sign are enough
    assert {name: roles - set(each) for name, each in STYLES.items() if roles - set(each) - without} == {}


def test_every_severity_has_a_sign_of_its_own_in_both_alphabets() -> None:
    for ascii_only in (False, True):
        marks = [mark(level, ascii_only) for level in Level]
        assert len(set(marks)) == len(Level) and all(len(one) == 1 for one in marks)
        verdicts = [verdict_sign(level, ascii_only)[0] for level in (Level.FINE, *list(ROLES)[:3])]
        assert len(set(verdicts)) == 4


def test_of_many_dns_the_worst_of_a_cell_is_seen_and_unknown_is_never_fine() -> None:
    lags: list[float | None] = [0.1] * 64
    lags[40] = 75.0
    strip = heat(lags, 10, True)
    assert len(strip) == 10 and strip.count("#") == 1 and strip[6] == "#"
    assert heat([0.1, None], 1, True) == "?"
    assert heat([], 5, True) == ""
    assert [role for _, role in coloured(heat([0.1, 12.0, 90.0], 3, False))] == ["ok", "warn", "crit"]
    for cells, number in itertools.product((1, 7, 64), (1, 17, 63)):
        assert len(heat([0.1] * number, cells, False)) == min(cells, number)
