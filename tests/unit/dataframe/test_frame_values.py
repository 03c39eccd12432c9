"""COPY text is converted as docs/dataframes.md says for each type; errors name values that do not fit."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, LessThanOrEqual, Not, StringStartsWith

from slotkeeper.core.dataframe import changelog
from slotkeeper.core.dataframe.reader import read, schema
from slotkeeper.core.dataframe.reader.schema import Layout, spark_type
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.type_name import TEXT, Condition, Field, FieldKind, FieldType, field_type
from slotkeeper.core.errors import Defect, RowRefused

UTC = datetime.timezone.utc
VALUES = [
    ("boolean", "t", True),
    ("boolean", "false", False),
    ("smallint", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("bigint", "-9223372036854775808", -9223372036854775808),
    ("real", "0.5", 0.5),
    ("double precision", "-Infinity", -math.inf),
    ("double precision", "5e-324", 5e-324),
    ("numeric(12,2)", "-0.01", Decimal("-0.01")),
    ("numeric(38,0)", "9" * 38, Decimal("9" * 38)),
    ("numeric", "1e-400", "1e-400"),
    ("numeric(40,2)", "1.00", "1.00"),
    ("numeric(5,-2)", "12300", "12300"),
    ("date", "0001-01-01", datetime.date(1, 1, 1)),
    ("timestamp(3) without time zone", "9999-12-31 23:59:59.999", datetime.datetime(9999, 12, 31, 23, 59, 59, 999000)),
    ("timestamp with time zone", "2024-01-01 00:00:00.5+00", datetime.datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)),
    ("bytea", r"\\x00ff5c090a", b"\x00\xff\\\t\n"),
    ("bytea", r"\\x", b""),
    ("text", r"tab\there, line\n, \\N and \\", "tab\there, line\n, \\N and \\"),
    ("text", r"\\N", "\\N"),
    ("text", "", ""),
    ("text", "NULL", "NULL"),
    ("text", 'äöü 漢字 🦒 "quoted"', 'äöü 漢字 🦒 "quoted"'),
    ("integer[]", "{1,NULL}", "{1,NULL}"),
    ("time without time zone", "24:00:00", "24:00:00"),
]


def layout_of(*types: FieldType, form: str = "", key: tuple[str, ...] = ()) -> Layout:
    fields = tuple(Field(f"c{number}", one) for number, one in enumerate(types))
    return Layout(tuple(Column(field.name, "text") for field in fields), fields, form, "", key)


@pytest.mark.parametrize(("spelled", "text", "value"), VALUES)
def test_a_value_arrives_as_documented(spelled: str, text: str, value: object) -> None:
    layout = layout_of(field_type(spelled))
    (batch,) = read.copied([f"{text}\n\\N\n".encode()], layout)
    assert batch.schema.equals(layout.arrow)
    assert [row["c0"] for row in batch.to_pylist()] == [value, None]


@pytest.mark.parametrize(
    ("spelled", "text"),
    [
        ("numeric(12,2)", "NaN"),
        ("date", "infinity"),
        ("date", "0044-03-15 BC"),
        ("date", "10000-01-01"),
        ("timestamp without time zone", "-infinity"),
        ("timestamp with time zone", "294276-12-31 23:59:59+00"),
    ],
)
def test_a_value_that_spark_has_not_is_named_by_its_column_alone(spelled: str, text: str) -> None:
    with pytest.raises(RowRefused) as raised:
        list(read.copied([f"secret\t{text}\n".encode()], layout_of(TEXT, field_type(spelled))))
    assert "'c1'" in raised.value.message
    assert '.option("as_text", "c1")' in raised.value.hint
    assert text not in f"{raised.value.message}{raised.value.hint}"


def test_rows_of_a_changelog_have_their_place_first() -> None:
    layout = layout_of(TEXT, form="raw", key=("c0",))
    (batch,) = read.changes([b"10516\t2\td\tx\n"], layout, "dn_1")
    assert list(batch.to_pylist()[0].values()) == ["d", "dn_1", 10516, 2, "x"]
    (batch,) = read.copied([b"x\n"], layout)
    assert list(batch.to_pylist()[0].values()) == ["S", "", -1, -1, "x"]
    assert layout.spark["c0"].metadata == changelog.marks(["c0"], "")["c0"]


def test_an_event_of_another_type_is_not_passed_on() -> None:
    with pytest.raises(Defect, match="not I, d, B or U"):
        list(read.changes([b"1\t0\tT\tx\n"], layout_of(TEXT, form="raw"), "dn_1"))


LONG, WORD = FieldType(FieldKind.LONG), TEXT
SENT: list[tuple[Filter, Condition | None]] = [
    (EqualTo(("c0",), 7), Condition("c0", "=", ("7",))),
    (In(("c0",), (7, 8)), Condition("c0", "=", ("7", "8"))),
    (GreaterThan(("c0",), 7), Condition("c0", ">", ("7",))),
    (LessThanOrEqual(("c0",), 7), Condition("c0", "<=", ("7",))),
    (EqualTo(("c1",), "a'b"), Condition("c1", "=", ("a'b",))),
    (GreaterThan(("c1",), "a"), None),
    (EqualTo(("c2",), 7), None),
    (Not(EqualTo(("c0",), 7)), None),
    (StringStartsWith(("c1",), "a"), None),
    (In(("c0",), tuple(range(2000))), None),
    (EqualTo(("c0", "part"), 7), None),
]


@pytest.mark.parametrize(("asked", "sent"), SENT)
def test_conditions_that_both_ends_compare_alike_are_sent(asked: Filter, sent: Condition | None) -> None:
    layout = layout_of(LONG, WORD, LONG, key=("c0", "c1"))
    assert schema.of_key([asked], layout) == ((sent,) if sent else ())


@pytest.mark.parametrize("type_", ["uuid", "integer", "json", '"char"'])
def test_a_key_that_spark_reads_as_text_but_that_is_none_gets_no_condition(type_: str) -> None:
    layout = replace(layout_of(TEXT, key=("c0",)), columns=(Column("c0", type_),))
    assert schema.of_key([EqualTo(("c0",), "no value of the type")], layout) == ()


def test_spark_has_a_type_for_every_kind() -> None:
    for kind in FieldKind:
        assert spark_type(FieldType(kind, 5, 2)).simpleString()
