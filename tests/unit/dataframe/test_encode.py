"""Staged CSV lines from which a server reads the original values.

`tests/contract/test_query_sink.py` shows it with a real server.
"""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from slotkeeper.core.dataframe.changelog import COLUMNS, WEIGHT
from slotkeeper.core.dataframe.net import Reduce, matching, net
from slotkeeper.core.dataframe.writer.encode import Lines, encoded, without_old_images
from slotkeeper.core.errors import ConfigError, Refused
from tests.support.oracle import Event
from tests.support.query_effects import batches_of

IMAGE = {"h": 1, "k": 2, "a": None, "b": "", "tags": None, "j": None}


def events() -> list[Event]:
    return [Event(7, 1, "I", (1, 2), IMAGE), Event(-1, -1, "S", (1, 3), {**IMAGE, "k": 3, "b": 'a "b",\n'})]


def test_a_line_has_token_place_kind_and_values_and_a_copied_row_is_an_insert() -> None:
    (batch,) = batches_of(events(), 10)
    lines = encoded(batch, 42, ("h", "k", "b", "a")).decode()
    assert lines == '42,7,1,"I",1,2,"",\n42,-1,-1,"I",1,3,"a ""b"",\n",\n', (
        "an empty text is quoted; NULL is an empty field"
    )


def test_plain_rows_are_upserts_of_one_place() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2}])
    assert encoded(batch, 1, ("id",)) == b'1,0,0,"U",1\n1,0,0,"U",2\n'


@pytest.mark.parametrize("kind", ["x", "", None, "II"])
def test_a_kind_of_change_that_there_is_not_is_refused(kind: str | None) -> None:
    (batch,) = batches_of([Event(7, 1, "I", (1, 2), IMAGE)], 10)
    place = batch.schema.get_field_index("slotkeeper_change")
    odd = batch.set_column(place, batch.schema.field(place), pa.array([kind], pa.string()))
    with pytest.raises(Refused, match="slotkeeper_change is"):
        encoded(odd, 1, ("h",))


@pytest.mark.parametrize("name", ["slotkeeper_point", "slotkeeper_sequence"])
def test_a_change_without_its_position_is_refused_by_the_writer_and_by_net(name: str) -> None:
    (batch,) = batches_of(events(), 10)
    place = batch.schema.get_field_index(name)
    odd = batch.set_column(place, batch.schema.field(place), pa.array([None, 1], pa.int64()))
    with pytest.raises(Refused, match=f"{name} is NULL in a row"):
        encoded(odd, 1, ("h",))
    with pytest.raises(Refused, match=f"{name} is NULL in a row"):
        list(Reduce(("h", "k"))([odd]))


def test_net_and_matching_refuse_a_weighted_changelog() -> None:
    names = [*(name for name, _ in COLUMNS), WEIGHT, "id"]
    changes: Any = SimpleNamespace(schema=SimpleNamespace(fields=[SimpleNamespace(name=name) for name in names]))
    with pytest.raises(ConfigError, match="weighted changelog"):
        net(changes)
    with pytest.raises(ConfigError, match="weighted changelog"):
        matching(changes, "id > 1")


def test_times_of_a_zone_are_written_in_utc_and_bytes_as_hex() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "Asia/Tokyo")), ("raw", pa.binary())])
    values = [pa.array([1_000_001], pa.int64()).cast(schema[0].type), pa.array([b"\x00\xff"], pa.binary())]
    batch = pa.RecordBatch.from_arrays(values, schema=schema)
    (row,) = csv.reader(io.StringIO(encoded(batch, 1, ("at", "raw")).decode()))
    assert row[4:] == ["1970-01-01 00:00:01.000001Z", "\\x00ff"]


def test_a_file_of_lines_counts_them_and_keeps_what_broke() -> None:
    class Broken(Exception):
        pass

    def batches() -> object:
        yield from batches_of(events(), 1)
        raise Broken

    lines = Lines(batches(), 1, ("h",))  # type: ignore[arg-type]
    assert lines.read() and lines.read()
    with pytest.raises(Broken):
        lines.read()
    assert (lines.rows, type(lines.broken)) == (2, Broken)


Place = tuple[str, int, int, int | None]


def changes(*rows: Place) -> pa.RecordBatch:
    names = ("slotkeeper_change", "slotkeeper_point", "slotkeeper_sequence", "id")
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = [pa.array(one, kind) for one, kind in zip(zip(*rows, strict=True), types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names)


def left(*rows: Place) -> list[Place]:
    """The rows between the first and the last one that remain; these two are never left out."""
    batch = without_old_images(changes(("I", 1, 0, 100), *rows, ("I", 9, 9, 900)), ["id"])
    return [tuple(row.values()) for row in batch.to_pylist()[1:-1]]


def test_an_old_image_whose_new_one_of_the_same_key_is_the_next_row_is_not_staged() -> None:
    assert left(("B", 5, 0, 1), ("U", 5, 1, 1), ("B", 5, 2, 2), ("U", 5, 3, 2)) == [("U", 5, 1, 1), ("U", 5, 3, 2)]


@pytest.mark.parametrize(
    "rows",
    [
        [("B", 5, 0, 1), ("U", 5, 1, 2)],
        [("B", 5, 0, None), ("U", 5, 1, None)],
        [("B", 5, 0, 1), ("U", 5, 2, 1)],
        [("B", 5, 0, 1), ("U", 6, 1, 1)],
        [("B", 5, 0, 1), ("d", 5, 1, 1)],
        [("d", 5, 0, 1), ("U", 5, 1, 1)],
        [("B", 5, 0, 1), ("B", 5, 0, 1), ("U", 5, 1, 1)],
    ],
    ids=["another key", "no key", "not the next", "another point", "an end", "a delete", "one change in two rows"],
)
def test_any_other_old_image_is_staged(rows: list[Place]) -> None:
    assert left(*rows) == rows


def test_old_images_stay_at_the_ends_of_a_batch_and_where_no_key_is_given() -> None:
    rows = changes(("B", 5, 0, 1), ("U", 5, 1, 1), ("B", 5, 2, 1))
    assert without_old_images(rows, ["id"]).num_rows == 3, "changes before and after them are not in this batch"
    batches = [changes(("I", 1, 0, 7), ("B", 5, 0, 1), ("U", 5, 1, 1))]
    for key, expected in (((), 3), (("id",), 2)):
        lines = Lines(batches, 1, ["id"], key)
        while lines.read():
            pass
        assert (lines.rows, lines.left_out) == (expected, 3 - expected)
