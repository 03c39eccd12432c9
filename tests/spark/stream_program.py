"""A user's program for the kill tests: one query from a folder of changes into a table, restarted when it fails.

`python -m tests.spark.stream_program FOLDER CONFIG TABLE CHECKPOINT WORK MASTER`, ended by a file `stop` in FOLDER; it
then writes the remaining changes, and reports how often the query was started.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.dataframes import ChangeFiles, spark_session

MOST = 200


def main(folder: str, config: str, table: str, checkpoint: str, work: str, master: str) -> None:
    """Run until the stop file is there and everything is written."""
    begun = 0
    with spark_session(Path(work), master) as spark:
        from slotkeeper.core.dataframe.net import matching
        from slotkeeper.core.dataframe.writer.source import register

        register(spark)
        while begun < MOST:
            begun += 1
            rows = matching(ChangeFiles(Path(folder)).stream(spark), "true")
            writer = rows.writeStream.format("slotkeeper_postgres")
            writer = writer.option("config", config).option("sink", "mart").option("table", table)
            try:
                query = writer.option("checkpointLocation", checkpoint).start()
                while not Path(folder, "stop").exists():
                    query.awaitTermination(1)
                query.processAllAvailable()
                query.stop()
                print(f"done: begun {begun} times", flush=True)
                return
            except Exception as error:  # whatever a kill causes: a user's supervisor would restart the query
                print(f"failed: {type(error).__name__}: {str(error)[:300]!r}", flush=True)
    raise SystemExit(f"not done after {MOST} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
