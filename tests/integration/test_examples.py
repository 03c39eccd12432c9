"""The examples run as printed, and continue after they were stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples import row_by_row, shard_by_shard
from slotkeeper.demo.warehouse import Warehouse
from tests.support.hologres import TABLE, HoloPair
from tests.support.mirror import MakeMirror
from tests.support.polling import config, job, server
from tests.support.waiting import until


@contextmanager
def running(program: Callable[[threading.Event], None]) -> Iterator[None]:
    """The program in a thread, which is stopped at the end of the block; its error fails the test."""
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            program(stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
    assert errors == [] and not thread.is_alive()


def test_a_table_is_mirrored_row_by_row_and_goes_on_after_a_stop(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    source, target = "ods.binlog_test_source", "mart.binlog_test_sink"
    warehouse.create_table(source, "a integer, b integer, c integer", ("a",), ("a",))
    mirror = make_mirror(warehouse, source, target)
    mirror.at_sink("CREATE SCHEMA IF NOT EXISTS mart", f"CREATE TABLE {target} (a int PRIMARY KEY, b int, c int)")
    path = str(config(tmp_path, mirror.job.source, mirror.job.sink, job("own", "binlog_test_slot", source, target)))
    slots = "SELECT count(*) FROM dws.slot WHERE slot_name = 'binlog_test_slot'"
    with running(lambda stop: row_by_row.mirror(path, "own", stop)):
        until(lambda: mirror.query(mirror.warehouse.connect, slots)[0][0] >= 8, 30, "the slot to be made")
        mirror.source(f"INSERT INTO {source} SELECT n, n, n FROM generate_series(1, 50) n")
        until(lambda: mirror.difference() == (0, 0), 30, "both to be equal")
    mirror.source(f"UPDATE {source} SET b = NULL WHERE a <= 10", f"DELETE FROM {source} WHERE a > 40")
    with running(lambda stop: row_by_row.mirror(path, "own", stop)):
        until(lambda: mirror.difference() == (0, 0), 30, "both to be equal again")


def test_changes_are_printed_shard_by_shard_and_each_once_over_a_stop(
    holo_pair: HoloPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, given = tmp_path / "slotkeeper.toml", holo_pair.mirror.job
    text = server("sources", given.source).replace('dialect = "dws"', 'dialect = "hologres"')
    text += server("sinks", given.sink) + job("own", "own_slot", TABLE, "mart.t").replace('"dws1"', '"holo1"')
    made.write_text(text.replace('slot = "own_slot"\n', ""))
    marks, printed = tmp_path / "marks.json", ""

    def seen(lines: int) -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return len(printed.splitlines()) >= lines

    for first in (1, 11):
        with running(lambda stop: shard_by_shard.consume(str(made), "own", marks, stop)):
            until(marks.exists, 30, "the first marks")
            if first == 1:
                holo_pair.write(*((key, key) for key in range(1, 9)))
            until(lambda: seen(8 if first == 1 else 12), 30, "the changes")  # noqa: B023
        holo_pair.write(*((key, key) for key in range(21, 25)))
    values = sorted(eval(line.split(" ", 3)[3])["id"] for line in printed.splitlines())
    assert values[:12] == [*range(1, 9), *range(21, 25)]
