"""The order in which this version of Spark calls a Python source, on which the reader's registrations depend.

A source that only writes down what it is asked is run by real Spark: a batch is in the commit log on disk whenever
`latestOffset` is given its end. `slotkeeper.core.dataframe.reader.faults` names the series that pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from slotkeeper.core.dataframe.reader.faults import check
from tests.support.frame_session import spark_session
from tests.support.waiting import until

pytestmark = pytest.mark.spark
Call = dict[str, Any]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_session(tmp_path_factory.mktemp("spark")) as opened:
        opened.dataSource.register(recorder())
        yield opened


def recorder() -> type[DataSource]:
    """Return the class; it is defined here, so that Spark's own Pythons get it by value."""

    class Recorded(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "recorded"

        def schema(self) -> str:
            return "n int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader(self.options)

    class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        """Offsets are numbers up to `most`; each batch is one row."""

        def __init__(self, options: Any) -> None:
            self.calls = options["calls"]
            self.checkpoint = options["checkpoint"]
            self.most = int(options["most"])

        def note(self, name: str, **more: Any) -> None:
            from pathlib import Path

            commits = Path(self.checkpoint, "commits")
            there = [int(one.name) for one in commits.iterdir() if one.name.isdigit()] if commits.is_dir() else []
            with Path(self.calls).open("a") as file:
                file.write(json.dumps({"call": name, "committed": max(there, default=-1), **more}) + "\n")

        def initialOffset(self) -> dict[str, Any]:
            self.note("initial")
            return {"n": 0}

        def getDefaultReadLimit(self) -> Any:
            return ReadMaxRows(7)

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            self.note("latest", start=start["n"], limit=type(limit).__name__, rows=getattr(limit, "max_rows", None))
            return {"n": min(self.most, start["n"] + 1)}

        def prepareForTriggerAvailableNow(self) -> None:
            self.note("available now")

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            self.note("partitions", start=start["n"], end=end["n"])
            return [InputPartition(end["n"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield (partition.value,)

        def commit(self, end: dict[str, Any]) -> None:
            self.note("commit", end=end["n"])

        def stop(self) -> None:
            self.note("stop")

    return Recorded


class Run:
    """A query over the recorded source, with its checkpoint."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.lives = 0

    def start(self, most: int, fails_at: int | None = None, **trigger: Any) -> tuple[Any, Path]:
        """Start a run of the query; its calls are written there. The batch `fails_at` fails in its sink."""
        self.lives += 1
        calls = self.folder / f"calls{self.lives}"
        read = self.spark.readStream.format("recorded").option("calls", str(calls)).option("most", str(most))

        def sink(rows: Any, number: int) -> None:
            rows.collect()
            if number == fails_at:
                raise RuntimeError("the sink fails here")

        writer = read.option("checkpoint", str(self.checkpoint)).load().writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start(), calls


def calls_of(path: Path, *names: str) -> list[Call]:
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [one for one in found if not names or one["call"] in names]


def test_the_installed_version_is_one_that_passes() -> None:
    check(pyspark.__version__, streams=True)


def test_an_offset_is_asked_for_when_the_batch_before_it_is_in_the_commit_log(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    query, path = run.start(most=4)
    until(lambda: len([one for one in calls_of(path, "latest") if one["start"] == 4]) >= 2, 60, "an idle query")
    query.stop()
    calls = calls_of(path)
    order = [(one["call"], one.get("start")) for one in calls if one["call"] in ("initial", "latest", "partitions")]
    assert order[0] == ("initial", None)
    asked = [one for one in order if one[0] != "initial"]
    assert asked[:8] == [(name, n) for n in range(4) for name in ("latest", "partitions")]
    for one in calls_of(path, "latest"):
        assert one["committed"] == one["start"] - 1, one
    assert {(one["limit"], one["rows"]) for one in calls_of(path, "latest")} == {("ReadMaxRows", 7)}
    assert max(one["end"] for one in calls_of(path, "commit")) == 3, "commit is called one batch late"


def test_a_batch_that_failed_is_planned_again_before_anything_newer(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    query, first = run.start(most=9, fails_at=2)
    until(lambda: query.exception() is not None, 60, "the sink to fail")
    assert [one["start"] for one in calls_of(first, "latest")] == [0, 1, 2]
    query, second = run.start(most=9)
    until(lambda: any(one["start"] == 9 for one in calls_of(second, "latest")), 60, "the query to go on")
    query.stop()
    asked = [one for one in calls_of(second) if one["call"] in ("initial", "latest", "partitions")]
    assert (asked[0]["call"], asked[0]["start"], asked[0]["end"]) == ("partitions", 2, 3)
    assert (asked[1]["call"], asked[1]["start"]) == ("latest", 3)
    for one in calls_of(second, "latest"):
        assert one["committed"] == one["start"] - 1, one


def test_the_first_offset_is_asked_for_again_until_the_first_batch_is_committed(spark: Any, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    query, _ = run.start(most=2, fails_at=0)
    until(lambda: query.exception() is not None, 60, "the sink to fail")
    query, second = run.start(most=2)
    until(lambda: any(one["start"] == 2 for one in calls_of(second, "latest")), 60, "the query to go on")
    query.stop()
    asked = [one for one in calls_of(second) if one["call"] in ("initial", "latest", "partitions")]
    assert [one["call"] for one in asked[:2]] == ["initial", "partitions"]
    assert (asked[1]["start"], asked[1]["end"]) == (0, 1)


def test_available_now_is_prepared_before_the_first_offset_and_ends(spark: Any, tmp_path: Path) -> None:
    query, path = Run(spark, tmp_path).start(most=3, availableNow=True)
    assert query.awaitTermination(120)
    calls = [one["call"] for one in calls_of(path) if one["call"] in ("available now", "initial", "latest")]
    assert calls.index("available now") < calls.index("latest")
    assert max(one["start"] for one in calls_of(path, "latest")) == 3
    assert {one["limit"] for one in calls_of(path, "latest")} == {"ReadMaxRows"}


def test_asynchronous_progress_runs_ahead_of_the_commit_log(spark: Any, tmp_path: Path) -> None:
    """The reason why the start helper rejects it."""
    run = Run(spark, tmp_path)
    calls = tmp_path / "calls"
    read = spark.readStream.format("recorded").option("calls", str(calls)).option("most", "30")
    frame = read.option("checkpoint", str(run.checkpoint)).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(run.checkpoint))
    writer = writer.option("asyncProgressTrackingEnabled", "true")
    query = writer.option("asyncProgressTrackingCheckpointIntervalMs", "3600000").start()
    until(lambda: any(one["start"] == 30 for one in calls_of(calls, "latest")), 60, "the query to be idle")
    query.stop()
    assert any(one["committed"] < one["start"] - 1 for one in calls_of(calls, "latest"))
