"""A copy stays within its limit; a changed limit takes effect in the middle of a chunk, and no row is lost."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.engine.driver import copy
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
ROWS = 6_000


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A table of 6,000 rows of about 100 bytes, copied in chunks of 500 rows."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, repeat('x', 90) FROM generate_series(1, {ROWS}) n")
    return make_mirror(warehouse, TABLE, TARGET)


@pytest.mark.parametrize("limit", [CopyLimit(2_000), CopyLimit(None, 200_000)], ids=["rows", "bytes"])
def test_a_copy_stays_within_its_limit_within_a_tenth(mirror: Mirror, limit: CopyLimit) -> None:
    committed: list[float] = []
    mirror.job = replace(mirror.job, copy_limit=limit)
    mirror.start(probe=lambda point: committed.append(time.monotonic()) if point == "after_chunk_commit" else None)
    until(lambda: mirror.heard.copied, 60, "the copy to be reported")
    assert mirror.heard.copied is not None and mirror.heard.copied.limit == limit
    mirror.wait_running().wait_equal()
    mirror.stop()
    size = mirror.query(mirror.sink, f"SELECT sum(length(t.*::text)) FROM {TARGET} t")[0][0]
    tasks = limit.tasks(1_000, 4)  # each of these is in the middle of a chunk when the first commits
    seconds = committed[-1] - committed[0]
    assert limit.seconds(ROWS - 500 * tasks, int(size) * (ROWS - 500 * tasks) // ROWS) <= 1.1 * seconds


@pytest.mark.parametrize("quarantine", [False, True])
def test_a_raised_limit_reaches_a_task_within_a_chunk(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch, quarantine: bool
) -> None:
    monkeypatch.setattr(copy, "TASK_SECONDS", 0.2)
    monkeypatch.setattr(copy, "LIMIT_AFTER", 0.2)
    mirror.job = replace(mirror.job, copy_limit=CopyLimit(100))  # 60 s
    if quarantine:
        mirror.job = replace(mirror.job, sink_options=replace(mirror.job.sink_options, on_bad_row="quarantine"))
    started = time.monotonic()
    mirror.start()
    until(lambda: mirror.runner.tasks_started, 60, "a task to read")
    mirror.copy_limit = CopyLimit(100_000)
    mirror.wait_running().wait_equal()
    assert time.monotonic() - started < 50, "the raised limit did not apply"
    mirror.stop()
    assert mirror.difference() == (0, 0)
