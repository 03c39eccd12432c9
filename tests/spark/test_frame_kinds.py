"""One program on real Spark reads DWS, MySQL and Hologres into PostgreSQL; its Python workers are killed."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from slotkeeper.core.dataframe import register, start
from tests.support.frame_session import spark_session
from tests.support.frames import JOB
from tests.support.sides import TARGET, Side, texts
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]
KILLS = 10


def workers() -> list[psutil.Process]:
    """The Python processes of Spark."""
    tree = psutil.Process(SparkContext._gateway.proc.pid).children(recursive=True)
    with suppress(psutil.Error):
        return [one for one in tree if any("pyspark" in word for word in one.cmdline())]
    return []


def test_a_stream_whose_workers_are_killed_delivers_each_change_once(side: Side, tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), side.configured(tmp_path / "c", JOB)
    side.write(*((key, key) for key in range(5)))
    with spark_session(tmp_path / "spark", "local[2,4]") as spark:
        register(spark)

        def begin() -> Any:
            reads = {"config": str(path), "job": JOB, "start": "initial", "changelog": "net", "take_over": "true"}
            changes = spark.readStream.format("slotkeeper").options(**reads).load()
            writes = {"config": str(path), "sink": "mart", "table": TARGET, "create_target": "true"}
            writer = changes.writeStream.format("slotkeeper_postgres").options(**writes)
            return start(writer.option("checkpointLocation", str(tmp_path / "ck")))

        query = begin()
        until(lambda: query.lastProgress or query.exception(), 120, "the copy")
        failed = 0
        for _ in range(KILLS):
            side.write(*((chance.randrange(30), chance.choice((None, chance.randrange(99)))) for _ in range(8)))
            there = workers()
            if there:
                with suppress(psutil.Error):
                    chance.choice(there).kill()
            if not query.isActive:
                failed += 1
                query = begin()

        def equal() -> bool:
            nonlocal query, failed
            if not query.isActive:
                failed += 1
                assert failed < 3 * KILLS, str(query.exception())[-1500:]
                query = begin()
            return texts(side.source()) == texts(side.target())

        until(equal, 300, "source and target to be equal")
        query.stop()
        print(f"seed {seed}: the query failed {failed} times")
