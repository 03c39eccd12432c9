"""The rates of a changelog read as a DataFrame, and of one written by a query, beside a lane of the same changes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.dataframe import register
from slotkeeper.core.domain.spec import BinlogOptions, SinkOptions
from tests.support.frame_session import spark_session
from tests.support.polling import job as job_section
from tests.support.report import Page
from tests.support.sides import TABLE, TARGET, Side, side_of
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_500)]
ROWS = {"dws": 200_000, "mysql": 200_000, "hologres": 60_000}
ROUNDS = 3
READER, WRITER = "reader", "reader_and_writer"
WANTED = {READER: 0.5, WRITER: 0.3}
"""Minimum rates, as shares of the lane's rate in the same round; medians of the rounds."""
EVERYTHING = 10_000_000
SPARK = {"spark.driver.extraJavaOptions": "", "spark_driver_memory": "1g"}


@pytest.fixture(scope="module")
def page() -> Page:
    about = "Changes per second, as medians of three rounds, and as shares of a lane's rate. Spark on two cores."
    return Page("frame-rates", "Rates of DataFrames", about, ("source", "lane", *WANTED, "reader of lane", "of lane"))


def write(side: Side, kind: str, first: int, count: int) -> None:
    """Insert rows in transactions of some thousands, as the source does it fastest."""
    for key in range(first, first + count, 5_000):
        last = min(key + 5_000, first + count) - 1
        if kind == "mysql":
            side.ask(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_{key}_to_{last}")
        elif kind == "dws":
            side.mirror.source(f"INSERT INTO {TABLE} SELECT n, n FROM generate_series({key}, {last}) n")
        else:
            side.write(*((one, one) for one in range(key, last + 1)))


def queried(spark: Any, config: Path, job: str, folder: Path) -> float:
    """Run a query until nothing waits; return the seconds of its triggers with rows."""
    options = {"config": str(config), "job": job, "start": "latest", "changelog": "raw"}
    changes = spark.readStream.format("slotkeeper").options(**options, points_per_trigger=str(EVERYTHING)).load()
    into = {"config": str(config), "sink": "mart", "table": "mart.written", "create_target": "true"}
    writes = job == WRITER
    writer = changes.writeStream.format("slotkeeper_postgres" if writes else "noop").options(**(into if writes else {}))
    query = writer.option("checkpointLocation", str(folder / job)).trigger(availableNow=True).start()
    query.awaitTermination()
    spent = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    return float(sum(spent)) / 1_000


@pytest.mark.parametrize("kind", list(ROWS))
def test_a_query_reads_and_writes_at_a_share_of_the_rate_of_a_lane(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, page: Page
) -> None:
    side, count = side_of(request, kind), ROWS[kind]
    mirror = side.mirror
    points = replace(mirror.job.binlog, binlog_sync_point_size=BinlogOptions().binlog_sync_point_size)
    mirror.job = replace(mirror.job, binlog=points, sink_options=SinkOptions(auto_flush_batch_size=10_000))
    side.write((0, 0))
    path = side.configured(tmp_path / "c", READER)
    second = job_section(WRITER, "frames_slot2", TABLE, "mart.unused2")
    path.write_text(path.read_text().replace("[state]", second + "[state]"))

    def arrived() -> int:
        return int(mirror.query(mirror.sink, f"SELECT count(*) FROM {TARGET}")[0][0])

    def lane() -> float:
        wanted, began = arrived() + count, time.perf_counter()
        mirror.start().wait_running()
        until(lambda: arrived() >= wanted, 300, "the lane to arrive", 0.02)
        seconds = time.perf_counter() - began
        mirror.stop()
        return seconds

    with spark_session(tmp_path / "spark", "local[2]", **SPARK) as spark:
        register(spark)

        def query(job: str) -> float:
            return queried(spark, path, job, tmp_path)

        turns: dict[str, Callable[[], float]] = {"lane": lane, **{job: partial(query, job) for job in WANTED}}
        mirror.start().wait_running()
        mirror.stop()
        for number in (1, 2):  # the first creates slots, targets and checkpoints; then all use them once
            for job in WANTED:
                query(job)
            side.write((number, number))
        mirror.start().wait_running()
        until(lambda: arrived() == 3, 60, "the first rows")
        mirror.stop()
        rates: list[dict[str, float]] = []
        for number in range(ROUNDS):
            write(side, kind, 10 + number * count, count)
            names = list(turns)[number:] + list(turns)[:number]
            rates.append({name: count / turns[name]() for name in names})
            print(kind, {name: round(rate) for name, rate in rates[-1].items()}, flush=True)
    middle = {name: round(statistics.median(one[name] for one in rates)) for name in turns}
    shares = {job: round(statistics.median(one[job] / one["lane"] for one in rates), 2) for job in WANTED}
    page.add(kind, *middle.values(), *shares.values())
    assert all(shares[job] >= WANTED[job] for job in WANTED), shares
