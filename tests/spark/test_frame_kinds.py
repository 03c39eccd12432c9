"""One program text on real Spark reads DWS, MySQL and Hologres into PostgreSQL, and DWS into Doris, with kills."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext

from slotkeeper.core.dataframe import register, start
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.frame_session import spark_session
from tests.support.frames import JOB
from tests.support.pairs import doris_endpoint
from tests.support.polling import server
from tests.support.sides import TARGET, Side, side_of, texts
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
    streamed(side, side.configured(tmp_path / "c", JOB), "mart", lambda: texts(side.target()), tmp_path, seed)


def test_a_stream_into_doris_whose_workers_are_killed_delivers_each_change_once(
    request: pytest.FixtureRequest, doris: DorisStandin, tmp_path: Path, seed: int
) -> None:
    side = side_of(request, "dws")
    path, where = side.configured(tmp_path / "c", JOB), replace(doris_endpoint(doris), database="")
    lake = server("sinks", replace(where, name="lake")).replace("postgres", "doris").replace('database = ""', "")
    more = f'http_port = {where.http_port}\nprogress_store = "mart"\n'
    path.write_text(path.read_text("utf-8").replace("[state]", f"{lake}{more}\n[state]"), "utf-8")
    rows = lambda: texts(doris.tables.query(f"SELECT id, v FROM {TARGET}")[1])  # noqa: E731
    streamed(side, path, "lake", rows, tmp_path, seed)
    ((rows_written, plan),) = side.mirror.query(side.mirror.sink, "SELECT rows, plan FROM slotkeeper_streams")
    assert rows_written and plan is None and doris.transactions.running() == []


def streamed(side: Side, path: Path, sink: str, target: Callable[[], list[str]], tmp_path: Path, seed: int) -> None:
    """Stream the side's table into TARGET of a sink while workers are killed, until both are equal."""
    chance = random.Random(seed)
    side.write(*((key, key) for key in range(5)))
    with spark_session(tmp_path / "spark", "local[2,4]") as spark:
        register(spark)

        def begin() -> Any:
            reads = {"config": str(path), "job": JOB, "start": "initial", "changelog": "net", "take_over": "true"}
            changes = spark.readStream.format("slotkeeper").options(**reads).load()
            writes = {"config": str(path), "sink": sink, "table": TARGET, "create_target": "true"}
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
            return texts(side.source()) == target()

        until(equal, 300, "source and target to be equal")
        query.stop()
        print(f"seed {seed}: the query failed {failed} times")
