"""`python -m bench.query_writer`: a Spark query that writes a changelog into a table, compared with COPY of the same
rows.

A round uses a stream of Parquet files of inserts, one batch at a time: a query that writes them
(`slotkeeper_postgres`) into an empty table; Spark alone, which reads these files into its sink `noop`; and one COPY of
the same rows into an equal table. The order of the two queries alternates. A batch's time is Spark's own
(`triggerExecution`); the first batch is left out, because it starts the workers. Rows of all tables are counted.
`bench/README.md` describes what the timings include and exclude.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from slotkeeper.core.dataframe import changelog
from slotkeeper.demo import postgres
from slotkeeper.demo.postgres import Server
from tests.support.dataframes import configuration, spark_session

DATABASE = "bench_writer"
_COLUMNS = (
    "id BIGINT, cust BIGINT, name STRING, amount DECIMAL(12,2), state STRING, at TIMESTAMP, paid BOOLEAN, note STRING"
)
_TABLE = (
    "id bigint, cust bigint, name text, amount numeric(12,2), state text, at timestamptz, paid boolean, note text,"
    " PRIMARY KEY (id)"
)
_VALUES = (
    "id",
    "id % 997 AS cust",
    "concat('name ', id) AS name",
    "CAST(id % 100000 / 7 AS DECIMAL(12,2)) AS amount",
    "element_at(array('new', 'paid', 'sent'), CAST(id % 3 AS INT) + 1) AS state",
    "timestamp_micros(1700000000000000 + id * 1000003) AS at",
    "id % 2 = 0 AS paid",
    "repeat('text ', CAST(1 + id % 6 AS INT)) AS note",
)
_OURS = (
    f"'I' AS {changelog.CHANGE}",
    f"'dn_1' AS {changelog.DN}",
    f"id AS {changelog.POINT}",
    f"0L AS {changelog.SEQUENCE}",
)


def made(spark: Any, folder: Path, rows: int, batches: int) -> Path:
    """Write Parquet files of `rows` inserts each, one per batch."""
    for number in range(batches):
        part = spark.range(number * rows, (number + 1) * rows, 1, 2).selectExpr(*_OURS, *_VALUES)
        part.coalesce(2).write.parquet(str(folder / f"n={number}"))
    return folder


def query_seconds(spark: Any, folder: Path, checkpoint: Path, sink: dict[str, str]) -> list[float]:
    """Return the seconds of each batch except the first."""
    ours = ", ".join(f"{name} {type_}" for name, type_ in changelog.COLUMNS)
    files = spark.readStream.schema(f"{ours}, {_COLUMNS}").option("maxFilesPerTrigger", 2).parquet(f"{folder}/*")
    rows = files.drop("n")
    writer = rows.writeStream.format("slotkeeper_postgres" if sink else "noop").options(**sink)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    done = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000 for one in done[1:]]


def copy_seconds(server: Server, table: str, text: bytes) -> float:
    """Return the seconds of one COPY and its COMMIT."""
    connection = server.connect(DATABASE, autocommit=False)
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} FROM STDIN", io.BytesIO(text))
    connection.commit()
    seconds = time.perf_counter() - begun
    connection.close()
    return seconds


def text_of(server: Server, table: str) -> bytes:
    """Return the rows of a table as COPY text."""
    out = io.BytesIO()
    connection = server.connect(DATABASE)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} TO STDOUT", out)
    connection.close()
    return out.getvalue()


class Rounds:
    """The results of the rounds, in rows per second."""

    def __init__(self, server: Server, spark: Any, folder: Path, rows: int, batches: int) -> None:
        self._server, self._spark, self._folder = server, spark, folder
        self._rows, self._batches = rows, batches
        self._config = configuration(folder / "slotkeeper.toml", server, DATABASE)
        self._files = made(spark, folder / "files", rows, batches)
        self.rates: dict[str, list[float]] = {"writer": [], "noop": [], "copy": []}

    def round(self, number: int) -> None:
        """Run one round, after which all tables must have the same rows."""
        ours, theirs = f"mart.ours_{number}", f"mart.theirs_{number}"
        for table in (ours, theirs):
            self._asked(f"CREATE TABLE {table} ({_TABLE})")
        sink = {"config": str(self._config), "sink": "mart", "table": ours, "key": "id"}
        turns = ["writer", "noop"] if number % 2 == 0 else ["noop", "writer"]
        for who in turns:
            checkpoint = self._folder / f"checkpoint-{who}-{number}"
            seconds = query_seconds(self._spark, self._files, checkpoint, sink if who == "writer" else {})
            self.rates[who].append(self._rows * len(seconds) / sum(seconds))
        self.rates["copy"].append(
            self._rows * self._batches / copy_seconds(self._server, theirs, text_of(self._server, ours))
        )
        counted = [self._asked(f"SELECT count(*), sum(hashtext(t::text)) FROM {one} t") for one in (ours, theirs)]
        if counted[0] != counted[1] or counted[0][0][0] != self._rows * self._batches:
            raise SystemExit(f"the tables differ: {counted}")

    def _asked(self, statement: str) -> list[tuple[Any, ...]]:
        connection = self._server.connect(DATABASE)
        with connection.cursor() as cursor:
            cursor.execute(statement)
            found = cursor.fetchall() if cursor.description else []
        connection.close()
        return found


def main(words: list[str]) -> None:
    """Run the benchmark, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m bench.query_writer", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows per batch")
    parser.add_argument("--batches", type=int, default=5, help="batches per round; the first is not counted")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = postgres.start(folder / "server", "embedded")
        try:
            connection = server.connect("postgres")
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
            connection.close()
            with spark_session(folder) as spark:
                from slotkeeper.core.dataframe.writer.source import register

                register(spark)
                rounds = Rounds(server, spark, folder, given.rows, given.batches)
                rounds._asked("CREATE SCHEMA mart")
                for number in range(given.rounds):
                    rounds.round(number)
        finally:
            postgres.discard(folder / "server")
    rates = {who: round(statistics.median(found)) for who, found in rounds.rates.items()}
    pairs = zip(rounds.rates["writer"], rounds.rates["copy"], strict=True)
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    beside = statistics.median(a / b for a, b in zip(rounds.rates["writer"], rounds.rates["noop"], strict=True))
    print(json.dumps({"rows_per_s": rates, "writer_of_copy": round(ratio, 3), "writer_of_noop": round(beside, 3)}))


if __name__ == "__main__":
    main(sys.argv[1:])
