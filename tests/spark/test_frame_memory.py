"""A million rows, or a million changes in one batch, need as much worker memory as a twentieth of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.dataframe import register
from slotkeeper.demo.workload import BULK_FIRST, bulk
from tests.support.frame_session import spark_session
from tests.support.frames import JOB, configured
from tests.support.mirror import MakeMirror, Mirror, orders
from tests.support.standin import run
from tests.support.worker_memory import WorkerMemory

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1_200)]
FEW, MANY = 50_000, 1_000_000
MORE_MIB = 48
"""MiB that twenty times the rows may add in a worker: pieces have one size, and the number of their buffers varies."""


def grown(mirror: Mirror, rows: int, first: int, seed: int) -> None:
    """Add `rows` rows, each of which is a change."""
    with closing(mirror.warehouse.connect()) as connection:
        bulk(connection, "insert", rows, first, 4_000, seed=seed)


def changes(spark: Any, path: Path, folder: Path) -> int:
    """Read all unread changes in one batch; return their number."""
    options = {"config": str(path), "job": JOB, "changelog": "raw", "points_per_trigger": "1000000"}
    frame = spark.readStream.format("slotkeeper").options(**options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    (batch,) = [one for one in query.recentProgress if one["numInputRows"]]
    return int(batch["numInputRows"])


def rows(spark: Any, path: Path) -> int:
    """Count the table's rows, each converted to an object of its columns."""
    reads = spark.read.format("slotkeeper").options(config=str(path), job=JOB, read="rows", partition_rows="1000000")
    frame = reads.load()
    return int(frame.where("length(status) >= 0 OR status IS NULL").groupBy().count().collect()[0][0])


def test_a_million_rows_take_no_more_memory_of_a_worker_than_a_few(
    make_mirror: MakeMirror, warehouse: Any, tmp_path: Path, seed: int
) -> None:
    mirror = orders(make_mirror, warehouse, seed)
    path = configured(mirror, tmp_path)
    run(warehouse, f"SELECT * FROM pgxc_register_full_sync_point('{mirror.table}', 'frames_slot')")
    (tmp_path / "spark").mkdir()
    before, first, found = 400, BULK_FIRST, {}
    with spark_session(tmp_path / "spark") as spark:
        register(spark)
        for count in (FEW, MANY):
            grown(mirror, count, first, seed)
            before, first = before + count, first + count
            for what in ("changes", "rows"):
                memory = WorkerMemory(every=0.1)
                with memory.watched():
                    if what == "changes":
                        assert changes(spark, path, tmp_path / "checkpoint") == count
                    else:
                        assert rows(spark, path) == before
                found[what, count] = memory.most
    print(f"seed {seed}: MiB of the largest worker: {found}")
    for what in ("changes", "rows"):
        assert 0 < found[what, MANY] <= found[what, FEW] + MORE_MIB, found
