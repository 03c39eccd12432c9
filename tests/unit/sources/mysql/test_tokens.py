"""The one tokenizer of statements: comments, version comments, strings by sql_mode, and names of every character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.sources.mysql.statements import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, Effect, Unread, judge, read

BOTH = ANSI_QUOTES | NO_BACKSLASH_ESCAPES


@pytest.mark.parametrize(
    ("text", "mode", "names"),
    [
        ("`a#b`, t", 0, {"a#b", "t"}),
        ("`a-- b`, t", 0, {"a-- b", "t"}),
        ("`/*`, t, `*/`", 0, {"/*", "t", "*/"}),
        ("`'`, t, `'`", 0, {"'", "t"}),
        ("'#', t", 0, {"t"}),
        ("'-- ', t", 0, {"t"}),
        ("'/*', t, '*/'", 0, {"t"}),
        (r"'\'', t, '\''", 0, {"t"}),
        (r"'\', t, '\'", NO_BACKSLASH_ESCAPES, {"t"}),
        ("'''', t, ''''", 0, {"t"}),
        ('"#", t', 0, {"t"}),
        ('"a""b", t', ANSI_QUOTES, {'a"b', "t"}),
        (r'"a\", t', BOTH, {"a\\", "t"}),
        ("a # b\n, c", 0, {"a", "c"}),
        ("a -- b\n, c", 0, {"a", "c"}),
        ("a --b\n, c", 0, {"a", "b", "c"}),
        ("a /* b */ c", 0, {"a", "c"}),
        ("a /*! b */ c", 0, {"a", "b", "c"}),
        ("a /*!50000 b */ c", 0, {"a", "b", "c"}),
        ("a /*!100100b */ c", 0, {"a", "b", "c"}),
        ("a /*M!100100 b */ c", 0, {"a", "b", "c"}),
        ("a /*! b /* c */ d */ e", 0, {"a", "b", "d", "e"}),
        ("a /* 99999 ' */ , c", 0, {"a", "c"}),
        ("2*/* ' */t", 0, {"2", "t"}),
        ("©, t", 0, {"©", "t"}),
        ("a$1_é", 0, {"a$1_é"}),
    ],
)
def test_a_name_is_read_and_a_literal_or_comment_hides_none(text: str, mode: int, names: set[str]) -> None:
    assert read(text, mode).names == names


def test_a_comment_of_mariadb_alone_is_a_comment_to_a_mysql() -> None:
    assert read("a /*M! b */ c", maria=False).names == {"a", "c"}


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "/*! a", "'a''", r"'a\'"])
def test_a_quote_or_a_comment_without_an_end_is_not_guessed(text: str) -> None:
    with pytest.raises(Unread, match="is not terminated"):
        read(text)


NAMES = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), min_size=1, max_size=12)
BARE = st.text(st.sampled_from("abz_$09éß漢©"), min_size=1, max_size=6)
BETWEEN = st.sampled_from(
    [" ", "\n", "\t", "/* ` ' \" # */", "# ` ' \"\n", "-- ' ` /*\n", "/*! */", "/*!50000 /* ' */ */", "/*M!100100*/"]
)
LITERALS = st.text(st.sampled_from("ab'`\"#-/*\\ \n"), max_size=8)


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, int, set[str]]:
    """(a statement with names and literals, its sql_mode, its names)."""
    mode = draw(st.sampled_from([0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, BOTH]))
    parts, names = ["RENAME", " ", "TABLE"], set()
    for _ in range(draw(st.integers(1, 5))):
        parts.append(draw(BETWEEN))
        way = draw(st.integers(0, 3))
        if way == 0:
            name = draw(BARE)
            parts += [name, " "]
        elif way == 1 or not mode & ANSI_QUOTES:
            name = draw(NAMES)
            parts.append("`" + name.replace("`", "``") + "`")
        else:
            name = draw(NAMES)
            parts.append('"' + name.replace('"', '""') + '"')
        names.add(name.casefold())
        text = draw(LITERALS)
        if not mode & NO_BACKSLASH_ESCAPES:
            text = text.replace("\\", "\\\\")
        quote = "'" if mode & ANSI_QUOTES or draw(st.booleans()) else '"'
        parts += [draw(BETWEEN), ", ", quote + text.replace(quote, quote * 2) + quote, " "]
    return "".join(parts), mode, names


@settings(max_examples=300, deadline=None)
@given(statements())
def test_names_of_any_characters_are_found_and_nothing_else_is(made: tuple[str, int, set[str]]) -> None:
    text, mode, names = made
    found = read(text, mode)
    assert found.names == names | {"rename", "table"}
    for name in names:
        assert judge(found, "s", {("s", name)}) is Effect.EMPTIES
