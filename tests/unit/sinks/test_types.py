"""Which types fit into which, and which have only one text for equal values; real values are in the type zoo."""

from __future__ import annotations

import pytest

from slotkeeper.core.drivers.pg_types import at_postgres, exact, fits


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("bigint", "integer"),
        ("numeric", "bigint"),
        ("numeric", "numeric(12,2)"),
        ("numeric(14,2)", "numeric(12,2)"),
        ("text", "character varying(20)"),
        ("character varying", "text"),
        ("character varying(30)", "character varying(20)"),
        ("character varying", "character varying(20)"),
        ("bit varying", "bit varying(5)"),
        ("timestamp without time zone", "timestamp(3) without time zone"),
        ("timestamp without time zone", "smalldatetime"),
        ("smallint", "tinyint"),
        ("character varying(20)", "nvarchar2(20)"),
        ("double precision", "real"),
        ("text", "json"),
        ("text", "integer[]"),
        ("character(12)", "character(12)"),
        ("integer[]", "integer[]"),
    ],
)
def test_fits(target: str, source: str) -> None:
    assert fits(target, source)


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("integer", "bigint"),
        ("numeric(10,2)", "numeric(12,2)"),
        ("numeric(14,3)", "numeric(12,2)"),
        ("numeric(12,2)", "numeric"),
        ("numeric(20,0)", "bigint"),
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "text"),
        ("character(14)", "character(12)"),
        ("character", "character(12)"),
        ("bit", "bit(5)"),
        ("timestamp(3) without time zone", "timestamp without time zone"),
        ("timestamp with time zone", "timestamp without time zone"),
        ("jsonb", "json"),
        ("json", "jsonb"),
        ("text", "boolean"),
        ("text", "inet"),
        ("text", "character(12)"),
        ("real", "double precision"),
        ("bigint[]", "integer[]"),
    ],
)
def test_does_not_fit(target: str, source: str) -> None:
    assert not fits(target, source)


@pytest.mark.parametrize(
    "type_", ["bigint", "numeric(12,2)", "text", "text[]", "timestamp(3) without time zone", "bytea"]
)
def test_equal_values_have_one_text(type_: str) -> None:
    assert exact(type_)


@pytest.mark.parametrize(
    "type_", ["numeric", "interval", "jsonb", "double precision", "real", "bpchar", "numrange", "a.b"]
)
def test_equal_values_may_have_two(type_: str) -> None:
    assert not exact(type_)


def test_types_that_only_a_dws_has() -> None:
    assert [at_postgres(one) for one in ("tinyint[]", "clob", "nvarchar2(3)", "raw")] == [
        "smallint[]",
        "text",
        "character varying(3)",
        "raw",
    ]
