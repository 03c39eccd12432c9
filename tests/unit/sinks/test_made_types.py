"""Printed statements create exactly the same types, and the types that a composite needs come before it."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from slotkeeper.core.domain.slot import TableIdentity, UserType
from slotkeeper.core.domain.text import safe
from slotkeeper.core.sinks.postgres.check.made_types import MANUAL, cure, literal, pasteable, same


def read_back(token: str) -> str:
    """The value of a literal in PostgreSQL, with or without U& (PostgreSQL, Lexical Structure, 4.1.2.3)."""
    text = token.removeprefix("U&")[1:-1].replace("''", "'")
    if not token.startswith("U&"):
        return text
    return re.sub(
        r"\\(\\|\+[0-9a-f]{6}|[0-9a-f]{4})",
        lambda found: "\\" if found[1] == "\\" else chr(int(found[1].lstrip("+"), 16)),
        text,
    )


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
@example("\\001b\x1b'")
@example("e\u0301\u0301\u0301\u0301")
@example("\U000f0000\ue000\u202e")
def test_a_literal_is_the_same_text_and_fit_for_a_terminal(text: str) -> None:
    spelled = pasteable(literal(text))
    assert read_back(spelled) == text
    assert safe(spelled, 10_000) == spelled


IDENTITY = TableIdentity(
    1,
    (),
    (),
    "db1",
    (
        UserType("a.mood", "e", parts=("x",)),
        UserType("a.price", "d", "a.amount"),
        UserType("a.amount", "d", "nvarchar2(4)"),
        UserType("a.pair", "c", parts=('"A b" a.price[]', "m a.mood[]")),
        UserType("a.both", "c", parts=("p a.pair", "q a.pair", "h a.store")),
        UserType("a.store", "b"),
    ),
)


def _type(name: str) -> UserType:
    found = IDENTITY.user_type(name)
    assert found is not None
    return found


def test_what_a_type_needs_is_made_before_it_and_once() -> None:
    mood = "CREATE TYPE a.mood AS ENUM ('x')"
    pair = 'CREATE TYPE a.pair AS ("A b" character varying(4)[], m a.mood[])'
    both = "CREATE TYPE a.both AS (p a.pair, q a.pair, h a.store)"
    there = {"a.store"}
    assert cure(_type("a.both"), IDENTITY, lambda name: name not in there) == "; ".join((mood, pair, both))
    there.add("a.mood")
    assert cure(_type("a.pair"), IDENTITY, lambda name: name not in there) == pair


def test_a_type_with_functions_of_its_own_has_no_statement() -> None:
    assert cure(_type("a.both"), IDENTITY, lambda name: True) == MANUAL


def test_a_composite_is_the_same_with_domains_or_with_their_bases() -> None:
    pair, base = _type("a.pair"), UserType("a.pair", "c", parts=('"A b" character varying(4)[]', "m a.mood[]"))
    assert same(pair, base, IDENTITY, ())
    assert same(pair, pair, IDENTITY, IDENTITY.user_types)
    assert not same(pair, UserType("a.pair", "c", parts=('"A b" text[]', "m a.mood[]")), IDENTITY, ())
    assert not same(pair, _type("a.mood"), IDENTITY, ())
