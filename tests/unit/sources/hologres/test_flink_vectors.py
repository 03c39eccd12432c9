"""Rows of Flink's own serializer, and a message that the connector's LZ4 library compressed, are read correctly.

`tests/support/flink_rows/FlinkRows.java` makes the bytes with the jars of `apache-flink-libraries` 2.0.0 and
`lz4-java`; the texts next to them are Java's, or literals in that file. No Hologres was involved.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.sources.hologres.stream.shard import payload
from slotkeeper.core.sources.hologres.stream.values import FIXED, VARIABLE, RowReader
from slotkeeper.demo.hologres import stream_rows
from slotkeeper.demo.hologres.stream_values import sendable, value_of

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
        assert (found.lsn, found.type, found.us) == (one["lsn"], 5, 1_700_000_000_000_000 + one["lsn"])
        assert list(found.values) == one["texts"], one["types"]


def test_there_are_rows_of_every_type_that_the_stream_has() -> None:
    plain = {re.sub(r"\([\d,]+\)", "", type_) for one in rows() for type_ in one["types"]}
    assert {*FIXED, *VARIABLE, "numeric", "character"} <= plain
    assert any(len(one["types"]) > 121 for one in rows()), "more NULL bits than two words"


def test_the_stand_in_writes_the_same_bytes_as_flinks_serializer() -> None:
    for one in rows():
        values = [value_of(type_, text) for type_, text in zip(one["types"], one["texts"], strict=True)]
        made = stream_rows.row(one["lsn"], 5, 1_700_000_000_000_000 + one["lsn"], one["types"], values)
        assert made.hex() == one["row"], (one["types"], one["texts"])
        assert all(map(sendable, one["types"]))


def test_the_stand_in_writes_the_same_message_as_the_one_that_lz4_java_compressed() -> None:
    (whole,) = [each for each in vectors() if "message" in each]
    (packed,) = [each for each in vectors() if "compressed" in each]
    pieces = payload(bytes.fromhex(whole["message"])).rows
    assert payload(bytes.fromhex(packed["compressed"]), compressed=True).rows == pieces
    made = stream_rows.message(pieces, version=7)
    read = payload(stream_rows.message(pieces, version=7, compressed=True), compressed=True)
    assert made[24:].hex() == whole["message"][48:] and read.rows == pieces


@pytest.mark.parametrize("form", ["message", "compressed"])
def test_a_whole_message_is_cut_into_its_rows(form: str) -> None:
    (one,) = [each for each in vectors() if form in each]
    found = payload(bytes.fromhex(one[form]), compressed=form == "compressed")
    known = {each["row"] for each in rows()}
    assert (found.version, len(found.rows), found.filtered) == (7, one["rows"], 0)
    assert {raw.hex() for raw in found.rows} <= known
