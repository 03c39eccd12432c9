"""One word, one meaning: no name, key, column or screen uses a word that only this project used for a common term."""

from __future__ import annotations

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, sources
from tests.architecture.words import gone


def test_words_that_are_gone_stay_gone() -> None:
    found = {str(path.relative_to(ROOT)): gone(path.read_text("utf-8")) for path in sources(ROOT, *PACKAGES)}
    assert not {path: spots for path, spots in found.items() if spots}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def look_at(lane): ...", [(1, "look", "look_at")]),
        ("class StintSpec: ...", [(1, "stint", "StintSpec")]),
        ("def f(wish): ...", [(1, "wish", "wish")]),
        ("lane.seat = 1", [(1, "seat", "seat")]),
        ('KEYS = {"incarnation": 1}', [(1, "incarnation", "incarnation")]),
        ('SAID = "look at the log"', []),
        ('KEYS = {"only_held": 1}', [(1, "held", "only_held")]),
        ('"""A docstring may tell of a stint."""', []),
    ],
)
def test_a_word_that_is_gone_is_found_where_it_stands(text: str, found: list[tuple[int, str, str]]) -> None:
    assert gone(text) == found
