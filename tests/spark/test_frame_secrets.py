"""The real passwords of source and sink are in nothing that Spark writes or shows of a stream and its writer.

Searched: the event log, the checkpoint, local folders, plans, settings, and the errors of queries that fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from slotkeeper.core.dataframe import register, start
from slotkeeper.demo.warehouse import Warehouse
from tests.support.canaries import files_with, seen_in
from tests.support.frame_session import spark_session
from tests.support.frames import JOB, configured
from tests.support.mirror import MakeMirror, Mirror, orders, written

pytestmark = [pytest.mark.spark, pytest.mark.chaos]


def passwords(mirror: Mirror) -> set[str]:
    return {Path(one.password.ref).read_text("utf-8").strip() for one in (mirror.job.source, mirror.job.sink)}


def shown(frame: Any, query: Any) -> str:
    """Everything that a user of Spark's own tools sees of a stream."""
    told = [str(query.lastProgress), str(query.status), str(query.exception())]
    told.append(query._jsq.explainInternal(True))
    told.append(str(frame.schema.json()))
    return "\n".join(told)


def ends_well(query: Any) -> None:
    """Wait for its end; report a failure here, because its JVM cannot be queried later."""
    try:
        assert query.awaitTermination(400)
    except StreamingQueryException as error:
        raise AssertionError(str(error)[-3_000:]) from None


def failing(spark: Any, path: Path, folder: Path) -> str:
    """The errors of reads that are rejected: by options, by a server that does not answer, by a login that does not
    exist."""
    said = []
    for options in ({"job": "none"}, {"password": "x"}, {"table": "ods.none"}):
        with pytest.raises(Exception) as refused:
            spark.read.format("slotkeeper").options(
                **{"config": str(path), "job": JOB, "changelog": "raw", **options}
            ).load().collect()
        said.append(f"{refused.value!r} {refused.value}")
    return "\n".join(said)


def test_no_password_is_in_what_spark_writes_shows_or_says(
    make_mirror: MakeMirror, warehouse: Warehouse, seed: int, tmp_path: Path
) -> None:
    mirror = orders(make_mirror, warehouse, seed)
    path, spark_folder, log = configured(mirror, tmp_path / "c"), tmp_path / "spark", tmp_path / "events"
    log.mkdir()
    secrets = passwords(mirror)
    assert all(len(one) > 12 for one in secrets)
    settings = {"spark_eventLog_enabled": "true", "spark_eventLog_dir": log.as_uri()}
    with spark_session(spark_folder, **settings) as spark:
        register(spark)
        options = {"config": str(path), "job": JOB, "start": "initial", "changelog": "raw"}
        frame = spark.readStream.format("slotkeeper").options(**options).load()
        writes = {"config": str(path), "sink": mirror.job.sink.name, "table": "mart.written", "create_target": "true"}
        writer = frame.writeStream.format("slotkeeper_postgres").options(**writes)
        checkpoint = tmp_path / "checkpoint"
        with written(mirror, seed, changes=20):
            pass
        query = start(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True))
        ends_well(query)
        told = shown(frame, query) + failing(spark, path, tmp_path)
        told += str(spark.sparkContext.getConf().getAll())
        jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
        assert seen_in(jvm, *secrets) == ""
    assert not [one for one in secrets if one in told]
    assert list(log.rglob("*")), "an event log was written"
    assert list(checkpoint.rglob("commits")), "and a checkpoint"
    assert files_with([tmp_path], *secrets) == []
