"""A SparkSession like a user's, ended with its JVM; and a user's driver program, which the tests kill in all ways.

`python -m tests.support.frame_session CONFIG JOB CHECKPOINT OUT FOLDER` streams into files, and restarts after a
failure.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from slotkeeper.core.dataframe import register, start
from slotkeeper.core.spark.cluster import own_home
from slotkeeper.core.spark.java import find_java, shim_home
from slotkeeper.core.spark.settings import LIGHT

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
}


def quick_home(folder: Path) -> Path:
    """A Spark home inside `folder` without the archive of pyspark, which each starting Python compiles again.

    The processes find the installed package instead: that takes a third of the time, and Spark gives a source's Python
    ten seconds.
    """
    home = own_home(Path(pyspark.__file__).parent, folder)
    (home / "python").unlink()
    return home


@contextmanager
def spark_session(folder: Path, master: str = "local[2]", **settings: str) -> Iterator[Any]:
    """A separate session; `settings` have underscores instead of dots."""
    assert SparkContext._active_spark_context is None, "a process can have only one Spark: use a separate test file"
    folder.mkdir(parents=True, exist_ok=True)
    environ = {
        "JAVA_HOME": str(shim_home(find_java(), (folder,))),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(quick_home(folder)),
    }
    with mock.patch.dict(os.environ, environ):
        builder = SparkSession.builder.master(master).appName("frames")
        own = {"spark.local.dir": str(folder / "local"), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        options = {"spark.driver.extraJavaOptions": " ".join(LIGHT), "spark.executor.extraJavaOptions": " ".join(LIGHT)}
        given = {name.replace("_", "."): value for name, value in settings.items()}
        for name, value in {**SETTINGS, **own, **options, **given}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("OFF")
            yield spark
        finally:
            _end(spark)


def _end(spark: Any) -> None:
    """Stop the session and its JVM, so that another session in this process starts from nothing."""
    for query in spark.streams.active:
        query.stop()
    spark.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


def main(config: str, job: str, checkpoint: str, out: str, folder: str) -> None:
    """Stream until stdin ends; print the error of a query that fails, and restart it."""
    with spark_session(Path(folder)) as spark:
        register(spark)
        while True:
            try:
                frame = spark.readStream.format("slotkeeper").options(
                    config=config,
                    job=job,
                    start="initial",
                    changelog="raw",
                    points_per_trigger="20",
                    poll_interval="20ms",
                )
                writer = frame.load().writeStream.format("json").option("path", out)
                query = start(writer.option("checkpointLocation", checkpoint))
                print("begun", flush=True)
                query.awaitTermination()
            except Exception as error:
                print("failed", said(error), flush=True)


def files_of(out: Path) -> list[Path]:
    """The files that Spark's own log of its sink names."""
    files: dict[str, None] = {}
    logs = [one for one in (out / "_spark_metadata").iterdir() if not one.name.startswith(".")]
    for log in sorted(logs, key=lambda one: (int(one.name.split(".")[0]), one.name)):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["action"] == "add":
                files[entry["path"]] = None
    return [Path(name.removeprefix("file://")) for name in files]


def rows_of(*files: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def said(error: Exception) -> str:
    """Return one line of the error; py4j cannot always render it."""
    try:
        text = str(error)
    except Exception:
        return type(error).__name__
    return text.partition("ReadFailed")[2][:300] or text[:300].replace("\n", " ")


if __name__ == "__main__":
    main(*sys.argv[1:])
