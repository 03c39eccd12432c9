"""Hostile text is made visible, and what people write stays as it is."""

from __future__ import annotations

import pytest

from core.domain.text import safe


@pytest.mark.parametrize(
    "text",
    ["orders", "d\u00e9j\u00e0", "e\u0301te\u0301", "\u8ba2\u5355", "\u0e01\u0e33\u0e49", "\u0644\u064e\u0651\u0627"],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_marks_piled_up_on_one_character_are_shown_from_the_fourth_on() -> None:
    assert safe("a" + "\u0301" * 5 + "b") == "a" + "\u0301" * 3 + "\\u0301" * 2 + "b"
    assert safe("x" + "\ufe0f" * 4) == "x" + "\ufe0f" * 3 + "\\ufe0f"


def test_a_flood_cannot_get_past_the_limit() -> None:
    assert len(safe("a" + "\u0301" * 100_000, 80)) <= 80
