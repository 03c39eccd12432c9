"""Control characters in text are made visible; ordinary text is unchanged."""

from __future__ import annotations

import shlex
import unicodedata

import pytest

from slotkeeper.core.domain.text import safe, typed


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


def test_what_is_printable_stays_and_nothing_else_does() -> None:
    every = [chr(code) for code in (*range(0x3000), *range(0xD700, 0x11000), *range(0xE0000, 0xE0200), 0x10FFFF)]
    kept = {one for one in every if safe(one) == one}
    assert kept == {one for one in every if one.isprintable()}
    assert not any(unicodedata.category(one)[0] == "C" or one in "\u00a0\u2028\u2029\u202f" for one in kept)
    assert all(safe(one).isascii() for one in set(every) - kept)


@pytest.mark.parametrize("name", ["ods.orders", "ods.Order Lines", "o'; $(touch x)", '"', "--steal", ""])
def test_a_name_in_a_printed_command_reaches_it_as_one_word(name: str) -> None:
    assert shlex.split(f"slots drop {typed(name, 's')}") == ["slots", "drop", name, "s"]


def test_a_control_character_in_a_name_is_shown_and_still_quoted() -> None:
    assert typed("a\x1b;b") == r"'a\x1b;b'"
