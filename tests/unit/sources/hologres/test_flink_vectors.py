"""Rows that Flink's own serializer wrote, and a message that the connector's LZ4 library compressed, are read right.

The bytes are made by `tests/support/flink_rows/FlinkRows.java` with the jars of `apache-flink-libraries` 2.0.0 and
`lz4-java`; the texts beside them are Java's, or written out by hand there. No Hologres had a part in them.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from core.domain.slot import Column
from core.sources.hologres.stream.binary_row import RowReader
from core.sources.hologres.stream.payload import payload
from core.sources.hologres.stream.values import FIXED, VARIABLE

VECTORS = Path(__file__).parents[3] / "support" / "flink_rows" / "vectors.jsonl"


@cache
def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in VECTORS.read_text("utf-8").splitlines()]


def rows() -> list[dict[str, Any]]:
    return [one for one in vectors() if "row" in one]


def test_each_row_of_flinks_serializer_has_the_texts_that_postgresql_has() -> None:
    for one in rows():
        columns = [Column(f"c{place}", type_) for place, type_ in enumerate(one["types"])]
        found = RowReader(columns).row(bytes.fromhex(one["row"]))
        assert (found.lsn, found.event, found.at_us) == (one["lsn"], 5, 1_700_000_000_000_000 + one["lsn"])
        assert list(found.columns) == one["texts"], one["types"]


def test_there_are_rows_of_every_type_that_the_stream_has() -> None:
    plain = {re.sub(r"\([\d,]+\)", "", type_) for one in rows() for type_ in one["types"]}
    assert {*FIXED, *VARIABLE, "numeric", "character"} <= plain
    assert any(len(one["types"]) > 121 for one in rows()), "more NULL bits than two words"


@pytest.mark.parametrize("form", ["message", "compressed"])
def test_a_whole_message_is_cut_into_its_rows(form: str) -> None:
    (one,) = [each for each in vectors() if form in each]
    found = payload(bytes.fromhex(one[form]), compressed=form == "compressed")
    known = {each["row"] for each in rows()}
    assert (found.version, len(found.rows), found.filtered) == (7, one["rows"], 0)
    assert {raw.hex() for raw in found.rows} <= known
