"""A SparkSession for tests of DataFrames, and a changelog to stream: files of rows, one file a batch.

The files stand in for a reader of a binlog: a built-in source of Spark with the columns of
`slotkeeper.core.dataframe.changelog` and repeatable batches, without slots, DNs or types of a warehouse.

`StreamRig` is a target with such a folder, a checkpoint and the options of a writer.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import slotkeeper
from slotkeeper.core.dataframe import changelog
from slotkeeper.demo.postgres import Server
from tests.support import frame_session
from tests.support.oracle import COLUMNS, Accepts, Event, Image, Key, Oracle, Rules, history
from tests.support.query_effects import row_of

ROOT = Path(slotkeeper.__file__).parents[1]
_INTS = ("h", "k", "a")


@contextmanager
def spark_session(folder: Path, master: str = "local[2]", **settings: str) -> Iterator[Any]:
    """A session whose processes find this checkout; it writes into `folder` and prints nothing."""
    environ = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder),
    }
    (folder / "log4j2.properties").write_text("rootLogger.level = off\n", "utf-8")
    with (
        mock.patch.dict(os.environ, environ),
        frame_session.spark_session(
            folder, master, **{"spark_driver_memory": "1g", "spark_executor_memory": "1g", **settings}
        ) as spark,
    ):
        yield spark


def schema() -> Any:
    """The changelog of `histories`, with the key's columns marked as the reader marks them."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    ours = [
        StructField(name, LongType() if type_ == "bigint" else StringType(), False) for name, type_ in changelog.COLUMNS
    ]
    own = [
        StructField(
            name,
            IntegerType() if name in _INTS else StringType(),
            True,
            changelog.marks(["h", "k"], "t").get(name),
        )
        for name in COLUMNS
    ]
    return StructType([*ours, *own])


class ChangeFiles:
    """A folder of JSON files; each call of `add` is a batch of the stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._count = len(list(folder.glob("*.json")))

    def add(self, events: Sequence[Event]) -> None:
        """Add another file atomically."""
        self._count += 1
        file = self.folder / f"{self._count:04d}.json"
        half = self.folder / f".{file.name}"
        half.write_text("".join(json.dumps(row_of(event)) + "\n" for event in events), "utf-8")
        os.utime(half, (1_700_000_000 + self._count, 1_700_000_000 + self._count))
        half.rename(file)

    def stream(self, spark: Any) -> Any:
        """The changelog as a stream with one file a batch, in order."""
        found = spark.readStream.schema(schema()).option("maxFilesPerTrigger", 1).json(str(self.folder))
        for field in schema().fields:
            if field.metadata:
                from pyspark.sql import functions as f

                found = found.withColumn(field.name, f.col(field.name).alias(field.name, metadata=field.metadata))
        return found


def configuration(file: Path, server: Server, database: str) -> Path:
    """A configuration with the sink `mart`, whose password is in a file beside it."""
    endpoint = server.endpoint(database)
    ref = endpoint.password
    secret = f'password_{ref.how} = "{ref.ref}"\n' if ref.how else ""
    file.write_text(
        f'[sinks.mart]\nkind = "postgres"\nhost = "{endpoint.host}"\nport = {endpoint.port}\n'
        f'database = "{database}"\nuser = "{endpoint.user}"\nsslmode = "{endpoint.sslmode}"\n{secret}',
        "utf-8",
    )
    file.chmod(0o600)
    return file


FORMAT = "slotkeeper_postgres"
_NAMES = ("h", "k", "a", "b", "tags", "j")


def cut(draw: random.Random, events: list[Event], parts: int) -> list[list[Event]]:
    """Return the events in this number of parts, some possibly empty; no update is split, as in a transaction."""
    whole = [n for n in range(len(events) + 1) if not n or events[n - 1].kind != "B"]
    at = sorted(draw.choices(whole, k=parts - 1))
    return [events[begin:end] for begin, end in zip([0, *at], [*at, len(events)], strict=True)]


class StreamRig:
    """A target, a folder of changes, a checkpoint, and the options of the writer."""

    def __init__(
        self, server: Server, database: str, folder: Path, name: str, seed: int, histories: int = 30, cuts: int = 3
    ) -> None:
        self.config = configuration(folder / "slotkeeper.toml", server, database)
        self.files = ChangeFiles(folder / "changes")
        self.checkpoint = folder / "checkpoint"
        self.table = f"mart.{name}"
        self.watch = server.connect(database)
        with self.watch.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS mart")
            cursor.execute(
                f"CREATE TABLE {self.table} (h integer, k integer, a integer, b text, tags integer[], j json,"
                " PRIMARY KEY (h, k))"
            )
        draw = random.Random(seed)
        self.batches: list[list[Event]] = [[] for _ in range(cuts)]
        for one in range(histories):
            for place, part in enumerate(cut(draw, history(draw, one).events, cuts)):
                self.batches[place] += part

    def forget_commit(self, batch: int) -> None:
        """Leave Spark's log of a batch as if the driver had exited after the sink's COMMIT."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        for sums in (self.checkpoint / "commits").glob(".*.crc"):
            sums.unlink()

    def options(self, **more: str) -> dict[str, str]:
        return {"config": str(self.config), "sink": "mart", "table": self.table, **more}

    def oracle(self, batches: int, accepts: Accepts | None = None) -> dict[Key, Image]:
        made = Oracle(Rules(accepts=accepts), {})
        made.apply(event for batch in self.batches[:batches] for event in batch)
        return dict(made.rows)

    def rows(self) -> dict[Key, Image]:
        found = self.asked(f"SELECT h, k, a, b, tags::text, j::text FROM {self.table}")
        return {(row[0], row[1]): dict(zip(_NAMES, row, strict=True)) for row in found}

    def versions(self) -> set[tuple[Any, ...]]:
        return set(self.asked(f"SELECT ctid::text, xmin::text FROM {self.table}"))

    def fence(self) -> tuple[str, int, int]:
        """(query, batch, rows) of the target's fence; an empty one before the first batch."""
        if self.asked("SELECT to_regclass('public.slotkeeper_streams') IS NULL") == [(True,)]:
            return "", -1, 0
        found = self.asked(f"SELECT query, batch, rows FROM slotkeeper_streams WHERE target = '{self.table}'")
        return found[0] if found else ("", -1, 0)

    def asked(self, statement: str) -> list[tuple[Any, ...]]:
        with self.watch.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def write(self, rows: Any, checkpoint: Path | None = None, **more: str) -> Any:
        """Write the rows that exist now, and wait for the end."""
        query = (
            rows.writeStream.format(FORMAT)
            .options(**self.options(**more))
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query
