"""The answers of expressions where Python's own rules differ from PostgreSQL's."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.expressions import Row, compiled, read
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.errors import ExpressionError

TYPES = {"n": "numeric", "i": "integer", "s": "text", "t": "timestamp without time zone"}
COLUMNS = tuple(Column(name, type_) for name, type_ in TYPES.items())
LONG = "12345678901234567890123456789012345678"
"""A number of 38 digits; Python's own decimal context rounds to 28."""


def answer(sql: str, **values: str) -> str | None:
    return compiled(read("x", sql), COLUMNS, "").text(Row([values.get(name) for name in TYPES]))


@pytest.mark.parametrize(
    ("sql", "n", "expected"),
    [
        ("-n", LONG, f"-{LONG}"),
        ("-n", "0.00", "0.00"),
        ("abs(n)", f"-{LONG}.5", f"{LONG}.5"),
        ("n / 1", LONG, LONG),
        ("n / -2", LONG, "-6172839450617283945061728394506172839"),
        ("n::numeric(38,0)", "9" * 38, "9" * 38),
    ],
)
def test_a_number_of_38_digits_keeps_all_of_them(sql: str, n: str, expected: str) -> None:
    assert answer(sql, n=n) == expected


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("i BETWEEN SYMMETRIC 5 AND 1", "BETWEEN with symmetric"),
        ("round(n, 2, 1)", "ROUND with truncate"),
        ("length(s, 'UTF8')", "LENGTH with encoding"),
        ("date_part('month', t)", "must use extract instead of date_part"),
        ("replace(s, 'a')", "REPLACE in this form"),
        ("i = ANY(ARRAY[1])", "ANY in this form"),
        ("s::varchar(max)", "CAST in this form"),
        (f"i + {'9' * 5_000}", "LITERAL in this form"),
    ],
)
def test_a_form_that_the_compiler_does_not_read_is_refused(sql: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read("x", sql)


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("s::integer", {"s": "9" * 5_000}),
        ("n * n", {"n": "9" * 1_500}),
        ("round(n, 2)", {"n": "9" * 1_999 + ".5"}),
    ],
)
def test_a_value_beyond_the_limits_is_an_error_of_the_expression(sql: str, values: dict[str, str]) -> None:
    with pytest.raises(ExpressionError, match="out of range"):
        answer(sql, **values)
