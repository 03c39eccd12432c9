"""The columns as a sink sees them, and the format of their values: PostgreSQL's."""

from __future__ import annotations

import random
import struct

import pytest

from slotkeeper.core.drivers.pg_types import float_text
from slotkeeper.core.sources.mysql.faults import Unsupported
from slotkeeper.core.sources.mysql.rows import SchemaColumn
from slotkeeper.core.sources.mysql.tables import Image, image_of, speller
from slotkeeper.core.sources.mysql.values import shortest_float


def column(kind: str, full: str, **more: int) -> SchemaColumn:
    return SchemaColumn("c", kind, full, True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "type_"),
    [
        (column("tinyint", "tinyint(1)"), "smallint"),
        (column("int", "int(10) unsigned"), "bigint"),
        (column("bigint", "bigint(20) unsigned"), "numeric(20,0)"),
        (column("decimal", "decimal(12,4)", precision=12, scale=4), "numeric(12,4)"),
        (column("bit", "bit(7)", precision=7), "bigint"),
        (column("bit", "bit(64)", precision=64), "numeric(20,0)"),
        (column("datetime", "datetime(3)", fraction=3), "timestamp(3) without time zone"),
        (column("timestamp", "timestamp", fraction=0), "timestamp(0) without time zone"),
        (column("time", "time(6)", fraction=6), "character varying(17)"),
        (column("char", "char(0)"), "character varying(1)"),
        (column("longtext", "longtext"), "text"),
        (column("varbinary", "varbinary(16)"), "bytea"),
        (column("point", "point"), "bytea"),
        (column("uuid", "uuid"), "uuid"),
    ],
)
def test_a_column_has_a_type_that_holds_all_its_values(seen: SchemaColumn, type_: str) -> None:
    assert image_of(seen).type == type_


def test_a_type_that_is_not_known_is_refused_by_the_columns_name() -> None:
    with pytest.raises(Unsupported, match="column c has the unsupported type vector"):
        image_of(column("vector", "vector(3)"))


def test_numbers_are_read_back_as_the_same_numbers(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(2_000):
        (double,) = struct.unpack("<d", chance.randbytes(8))
        (single,) = struct.unpack("<f", chance.randbytes(4))
        if double == double and abs(double) != float("inf"):
            assert float(float_text(double)) == double
        if single == single and abs(single) != float("inf"):
            text = float_text(shortest_float(single), True)
            assert struct.pack("<f", float(text)) == struct.pack("<f", single)


def test_a_row_is_spelled_at_the_places_that_are_wanted() -> None:
    images = [Image("a", "bigint", "integer", str), Image("b", "text", "text"), Image("c", "bytea", "bytea", bytes.hex)]
    spell = speller(images, (2, 0), (True, True, False))
    assert spell((1, "x", b"y")) == (None, "1")
    assert speller(images)((None, "x", b"y")) == (None, "x", "79")
