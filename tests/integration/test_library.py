"""The example of docs/library.md runs as printed; its errors are reported, and reading a batch twice is harmless."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core import library
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.library import EventType, Reader, Sink
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
TABLE = "ods.orders"
Example = Callable[[str, str, threading.Event], None]


def _example() -> tuple[str, Example]:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], "library.md", "exec"), names)
    return found[1], names["mirror"]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint, part integer, note text", ("id", "part"), ("id",))
    return make_mirror(warehouse, TABLE)


@pytest.fixture
def path(mirror: Mirror, tmp_path: Path) -> str:
    return str(config(tmp_path, mirror.job.source, mirror.job.sink, job("own", "own_slot", TABLE, "mart.orders")))


def _points(mirror: Mirror) -> list[int]:
    found = mirror.query(mirror.warehouse.connect, "SELECT sync_point FROM dws.slot WHERE slot_name = 'own_slot'")
    return [int(row[0]) for row in found]


def test_the_example_has_at_most_thirty_lines_and_stable_names() -> None:
    text, _ = _example()
    assert len(text.splitlines()) <= 30
    assert set(re.findall(r"from slotkeeper\.library import (.*)", text)[0].split(", ")) <= set(library.__all__)


def test_the_example_mirrors_registers_and_shows_its_error(
    mirror: Mirror, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, example = _example()
    stop, ended = threading.Event(), []

    def run() -> None:
        try:
            example(path, "own", stop)
        except Trouble as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: len(_points(mirror)) == 8 and min(_points(mirror)) > 0, 30, "the slot to be made")
        before = min(_points(mirror))
        mirror.source(f"INSERT INTO {TABLE} SELECT n, 0, E'tab\\t' || n FROM generate_series(1, 200) n")
        mirror.source(f"UPDATE {TABLE} SET part = 1 WHERE id <= 20", f"DELETE FROM {TABLE} WHERE id > 190")
        until(lambda: len(mirror.target_rows()) == 190 and mirror.difference() == (0, 0), 30, "both to be equal")
        until(lambda: min(_points(mirror)) > before, 30, "the points to move")
        mirror.source(f"TRUNCATE {TABLE}")
        thread.join(120)
    finally:
        stop.set()
        thread.join(120)
    assert [error.name for error in ended] == [TroubleName.SLOT_LOST]
    said = capsys.readouterr().out
    assert said.count("deleted") == 10 and "SLOT LOST" in said and "take a new snapshot" in said


def test_a_batch_that_is_written_and_not_registered_comes_again(mirror: Mirror, path: str) -> None:
    spec = library.load(path).jobs["own"]
    with Reader(spec) as reader, Sink(spec, reader.table) as sink:
        reader.start()
        mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1, E'a\\\\b'), (1, 2, NULL)")
        mirror.source(f"UPDATE {TABLE} SET note = 'new' WHERE part = 2")
        first = [batch for batch in reader.read() if batch.rows]
        for batch in first:
            sink.write(batch)
    with Reader(spec) as reader, Sink(spec, reader.table) as sink:
        reader.start()
        second = [batch for batch in reader.read() if batch.rows]
        kinds = [record.kind for batch in second for record in batch.records]
        assert sorted(kinds, key=str) == sorted(
            [EventType.INSERT, EventType.INSERT, EventType.BEFORE, EventType.AFTER], key=str
        )
        values = [record.values for batch in first for record in batch.records if record.kind is EventType.INSERT]
        assert sorted(values, key=str) == [
            {"id": "1", "part": "1", "note": "a\\b"},
            {"id": "1", "part": "2", "note": None},
        ]
        for batch in second:
            sink.write(batch)
            reader.register(batch)
        assert [batch for batch in reader.read() if batch.rows] == []
        mirror.source(f"INSERT INTO {TABLE} VALUES (1, 3, 'later')")
        for batch in reader.read():
            sink.write(batch)
            reader.register(batch)
        with pytest.raises(Refused, match="the batch ends at"):
            reader.register(second[0])
    assert mirror.difference() == (0, 0)


def test_a_table_that_cannot_be_followed_is_refused(mirror: Mirror, path: str) -> None:
    mirror.source(f"ALTER TABLE {TABLE} DROP CONSTRAINT orders_pkey")
    with Reader(library.load(path).jobs["own"]) as reader, pytest.raises(Refused, match="has no primary key"):
        reader.start()


def test_a_channel_s_mapping_filter_and_write_mode_hold_here_too(mirror: Mirror, path: str) -> None:
    job_ = library.load(path).jobs["own"]
    columns = (("id", "Order Id"), ("part", "part"), ("note", "text"))
    channel = replace(job_.channel, columns=columns, where='"part" < 2')
    options = replace(job_.sink_options, write_mode="copy_merge", conflict_strategy="ignore")
    job_ = replace(job_, channels=(channel,), sink_options=options)
    with Reader(job_) as reader, Sink(job_, reader.table) as sink:
        reader.start()
        mirror.source(f"INSERT INTO {TABLE} VALUES (1, 1, 'a'), (2, 2, 'b')", f"INSERT INTO {TABLE} VALUES (3, 1, 'c')")
        mirror.source(f"UPDATE {TABLE} SET note = 'z' WHERE id = 1", f"UPDATE {TABLE} SET part = 2 WHERE id = 3")
        kinds = []
        for batch in reader.read():
            kinds += [(record.kind, record.values["id"]) for record in batch.records]
            sink.write(batch)
            reader.register(batch)
    assert (EventType.DELETE, "2") in kinds
    assert mirror.query(mirror.sink, 'SELECT "Order Id", part, text FROM mart.orders') == [(1, 1, "a")]
