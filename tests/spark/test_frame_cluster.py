"""A query on separate executors, one of which is killed. A process has one Spark, so this is the only test here."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from pyspark import SparkContext

from slotkeeper.core.dataframe import register, start
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frame_session import spark_session
from tests.support.frames import JOB, configured, wait_begun
from tests.support.mirror import MakeMirror, orders, written
from tests.support.spark_cluster import executors
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.chaos]


def test_executors_of_their_own_read_too_and_one_may_be_killed(
    make_mirror: MakeMirror, warehouse: Warehouse, tmp_path: Path, seed: int
) -> None:
    mirror = orders(make_mirror, warehouse, seed)
    path = configured(mirror, tmp_path)
    with spark_session(tmp_path / "spark", "local-cluster[2,1,1024]") as cluster:
        register(cluster)
        checkpoint, out = tmp_path / "ck", str(tmp_path / "out")
        options = {"config": str(path), "job": JOB, "start": "initial", "changelog": "raw", "points_per_trigger": "50"}
        frame = cluster.readStream.format("slotkeeper").options(**options).load()
        writer = frame.writeStream.format("parquet").option("path", out)
        query = start(writer.option("checkpointLocation", str(checkpoint)))
        wait_begun(query, mirror)
        with written(mirror, seed, changes=300):
            until(lambda: query.lastProgress and query.lastProgress["batchId"] >= 2, 120, "some batches")
            there = executors([SparkContext._gateway.proc.pid])
            assert len(there) == 2, there
            there[0].kill()
            psutil.wait_procs(there[:1], 10)
        total = sum(mirror.booked().values())

        def all_there() -> bool:
            assert query.exception() is None, query.exception()
            return bool(cluster.read.parquet(out).where("slotkeeper_change <> 'S'").count() >= total)

        until(all_there, 200, "all changes")
        query.stop()
        changes = cluster.read.parquet(out).where("slotkeeper_change <> 'S'")
        counted = {row["slotkeeper_dn"]: row["count"] for row in changes.groupBy("slotkeeper_dn").count().collect()}
        assert counted == mirror.booked()
        places = changes.select("slotkeeper_dn", "slotkeeper_point", "slotkeeper_sequence")
        assert places.distinct().count() == places.count()
