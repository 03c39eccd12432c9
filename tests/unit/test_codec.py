"""A record's fields are defined once: JSON, plain values, documentation and schema derive from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated

import pytest

from bench.schemas.records import fields_of, record
from slotkeeper.core import codec
from slotkeeper.core.domain.field import Moment, MomentOrNone, Positive, Signed, SignedOrNone, TextOrNull

AT = datetime(2026, 1, 31, 8, 30, tzinfo=timezone.utc)


class Colour(Enum):
    RED = "dark red"


@dataclass(frozen=True, slots=True)
class Part:
    """A part."""

    name: str
    """What it is called."""
    number: Signed = 0
    """GTIDs, or other numbers; negative: none."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole with parts. It exists only in these tests."""

    at: datetime
    """When."""
    colour: Colour
    """How it
    looks."""
    since: Moment = 0.0
    """Since when."""
    ended: MomentOrNone = None
    """Until when; null: it has not ended."""
    pid: Positive = 1
    """A process."""
    code: SignedOrNone = None
    """A code."""
    seconds: float = 0.0
    """How long, seconds."""
    fine: bool = True
    """Whether it is fine."""
    word: Annotated[str, ("a", "b")] = "a"
    """One of two."""
    said: TextOrNull = ""
    """What was said; null: nothing."""
    parts: tuple[Part, ...] = ()
    """Its parts."""
    names: tuple[str, ...] = ()
    """Its names; each: a name."""
    left: Mapping[str, int | None] = field(default_factory=dict)
    """What is left, by name; each: rows; null: not counted."""


WHOLE = Whole(AT, Colour.RED, AT.timestamp(), parts=(Part("a", -1), Part("b")), names=("x",), left={"a": 3, "b": None})


def test_a_record_is_read_as_it_was_written() -> None:
    assert codec.record_from(Whole, codec.text_of(WHOLE)) == WHOLE
    assert codec.record_of(Whole, codec.values_of(WHOLE)) == WHOLE


def test_what_another_version_wrote_is_read_an_unknown_key_passed_over_and_a_missing_one_its_default() -> None:
    found = codec.record_of(Part, {"name": "a", "later": [1]})
    assert found == Part("a")


def test_a_moment_may_be_a_number() -> None:
    assert codec.record_of(Whole, {"at": AT.timestamp(), "colour": "dark red"}).at == AT


@pytest.mark.parametrize(
    "values",
    [[], {"name": 1}, {"number": 1}, {"name": "a", "number": "x"}, {"name": None}, {"name": "a", "number": 1.5}],
)
def test_values_that_no_record_has_are_an_error(values: object) -> None:
    with pytest.raises(ValueError, match=r"name|number|object"):
        codec.record_of(Part, values)


def test_a_text_that_is_not_json_is_an_error() -> None:
    with pytest.raises(ValueError, match="truncated"):
        codec.record_from(Part, "{")


def test_others_read_moments_and_null_for_an_empty_text() -> None:
    found = codec.shown(WHOLE)
    assert (found["since"], found["ended"], found["said"]) == (AT, None, None)


def test_the_schema_says_of_each_field_what_its_type_and_the_text_below_it_say() -> None:
    found = fields_of(Whole)
    assert found["colour"] == {"enum": ["dark red"], "description": "how it looks"}
    assert found["since"]["format"] == "date-time" and found["at"]["type"] == "string"
    assert found["ended"]["description"] == "until when (RFC 3339, UTC); null: it has not ended"
    assert (found["pid"]["minimum"], found["seconds"]["minimum"], "minimum" in found["code"]) == (1, 0, False)
    assert found["code"] == {"type": ["integer", "null"], "description": "a code; null: unknown"}
    assert found["word"]["enum"] == ["a", "b"]
    assert found["said"] == {"type": ["string", "null"], "description": "what was said; null: nothing"}
    assert found["names"]["items"] == {"type": "string", "description": "a name"}
    assert found["left"]["additionalProperties"]["description"] == "rows; null: not counted"
    parts = found["parts"]["items"]
    assert parts["description"] == "a part" and parts["required"] == ["name", "number"]
    assert parts["properties"]["number"] == {
        "type": "integer", "description": "GTIDs, or other numbers; negative: none",
    }  # fmt: skip


def test_a_schema_may_have_fields_besides_and_only_some_of_the_record() -> None:
    assert list(fields_of(Whole, "at", "fine", more={})) == ["at", "fine", "more"]
    assert record(Whole)["description"] == "a whole with parts"


def test_a_field_without_a_text_is_an_error() -> None:
    @dataclass(frozen=True)
    class Bare:
        name: str

    with pytest.raises(ValueError, match="Bare: no docstring for name"):
        codec.field_texts(Bare)
