"""A driver program of a user's that is killed in every way: a stream into files, started again where it failed.

Run as a program: `frame_driver.py CONFIG JOB CHECKPOINT OUT FOLDER`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from slotkeeper.core.dataframe import register, start
from tests.support.frame_session import spark_session


def main(config: str, job: str, checkpoint: str, out: str, folder: str) -> None:
    """Stream until stdin ends; what a query fails with is said, and it is begun again."""
    with spark_session(Path(folder)) as spark:
        register(spark)
        while True:
            try:
                frame = spark.readStream.format("slotkeeper").options(
                    config=config, job=job, start="initial", points_per_trigger="20", poll_interval="20ms"
                )
                writer = frame.load().writeStream.format("json").option("path", out)
                query = start(writer.option("checkpointLocation", checkpoint))
                print("begun", flush=True)
                query.awaitTermination()
            except Exception as error:
                print("failed", said(error), flush=True)


def said(error: Exception) -> str:
    """One line of it; py4j cannot always say what it has."""
    try:
        text = str(error)
    except Exception:
        return type(error).__name__
    return text.partition("ReadFailed")[2][:300] or text[:300].replace("\n", " ")


if __name__ == "__main__":
    main(*sys.argv[1:])
