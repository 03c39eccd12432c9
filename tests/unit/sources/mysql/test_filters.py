"""A row filter as a stream evaluates it: unknown where SQL has NULL, and rejected by name if it cannot be evaluated."""

from __future__ import annotations

import pytest

from slotkeeper.core import row_filter
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql.filters import compiled
from slotkeeper.core.sources.mysql.tables import Image

IMAGES = [
    Image("id", "bigint", "integer", str),
    Image("name", "text", "text"),
    Image("price", "numeric(10,2)", "numeric"),
    Image("at", "timestamp(6) without time zone", "timestamp"),
    Image("raw", "bytea", "bytea", bytes.hex),
]
ROW = (7, "ann", "1.50", "2024-01-02 03:04:05.500000", b"x")
EMPTY = (8, None, None, None, None)


def accepted(typed: str, row: tuple[object, ...]) -> bool:
    return compiled(row_filter.read(typed).text, IMAGES)(row)


@pytest.mark.parametrize(
    "typed",
    [
        "id = 7 and name = 'ann'",
        "price = 1.5 and price > -3",
        "id in (1, 7) or name is null",
        "id between 5 and 7",
        "name like 'a%' and name like '_nn' and not name like 'A%'",
        "at >= '2024-01-02' and at < '2024-01-02 03:04:05.6'",
        "not (id <> 7)",
        "name is not null",
        "id not in (1, 2) and name not like 'b%' and id not between 8 and 9",
        "price is distinct from 2",
        "id > price",
    ],
)
def test_a_condition_that_holds_is_accepted(typed: str) -> None:
    assert accepted(typed, ROW)


@pytest.mark.parametrize(
    "typed", ["name = 'ann'", "name <> 'ann'", "not name = 'ann'", "price > 0 and id = 8", "name in ('a')"]
)
def test_what_is_unknown_is_not_accepted(typed: str) -> None:
    assert not accepted(typed, EMPTY)


@pytest.mark.parametrize("typed", ["name = 'x' or id = 8", "name is null", "name is distinct from 'ann'"])
def test_what_holds_without_a_value_is_accepted(typed: str) -> None:
    assert accepted(typed, EMPTY)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lower(name) = 'ann'", "lower"),
        ("name > 5", "does not support"),
        ("raw = 'x'", "'raw'"),
        ("gone = 1", "'gone'"),
        ("id + 1 = 8", "does not support"),
        ("name like 'a!%' escape '!'", "does not support"),
        ("at > 'some day'", "does not support"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(typed: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        compiled(row_filter.read(typed).text, IMAGES)
