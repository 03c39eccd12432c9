"""A user's program that runs in each Spark version: `python -m tests.support.frame_version CONFIG JOB FOLDER`.

It reads the table and, with a line `range` on its input, the changes since the slot; then it streams into the target,
starts its query again after each failure, and ends at a line `stop` once everything is written. It prints what it has
done, a fact a line.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pyspark

from slotkeeper.core.dataframe import register, start
from tests.support.frame_session import said, spark_session
from tests.support.sides import TARGET

MOST = 60
"""The failures after which the program gives up."""


def main(config: str, job: str, folder: str) -> None:
    """Run until `stop`, or until a refusal."""
    reads, ends = {"config": config, "job": job}, threading.Event()
    with spark_session(Path(folder, "spark"), "local[2,4]", spark_driver_memory="1g") as spark:
        register(spark)
        tell("version", pyspark.__version__)
        rows = spark.read.format("slotkeeper").options(**reads, read="rows").load()
        tell("rows", rows.count(), rows.where("id >= 3").count())
        if sys.stdin.readline().strip() == "range":
            changes = spark.read.format("slotkeeper").options(**reads, read="changes", changelog="raw").load()
            tell(
                "changes", changes.count(), changes.select("slotkeeper_point", "slotkeeper_sequence").distinct().count()
            )
        threading.Thread(target=wait_stop, args=(ends,), daemon=True).start()
        for failed in range(MOST):
            try:
                streamed(spark, config, reads, Path(folder, "ck"), ends)
                tell("done", failed)
                return
            except Exception as error:
                tell("failed", said(error))
                if "install pyspark" in said(error):
                    return
    raise SystemExit(f"failed {MOST} times")


def streamed(spark: Any, config: str, reads: dict[str, str], checkpoint: Path, ends: threading.Event) -> None:
    """One life of the query; returns when it was asked to end and has written everything."""
    changes = spark.readStream.format("slotkeeper").options(**reads, start="initial", changelog="net", take_over="true")
    writer = changes.load().writeStream.format("slotkeeper_postgres")
    writer = writer.options(config=config, sink="mart", table=TARGET, create_target="true")
    query = start(writer.option("checkpointLocation", str(checkpoint)))
    while not query.lastProgress and query.isActive:
        ends.wait(0.2)
    tell("started")
    while not ends.wait(0.2):
        if not query.isActive:
            query.awaitTermination()
    query.processAllAvailable()
    query.stop()


def wait_stop(ends: threading.Event) -> None:
    sys.stdin.readline()
    ends.set()


def tell(*facts: object) -> None:
    print(*facts, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
