"""A SparkSession for tests of DataFrames, and a changelog to stream: files of rows, one file a batch.

The files stand in for a reader of a binlog: a source of Spark's own that gives the columns of
`slotkeeper.core.dataframe.changelog`, batches that come again as they were, and nothing of slots, DNs or types of a
warehouse.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import slotkeeper
from slotkeeper.core.dataframe import changelog
from slotkeeper.core.spark.java import find_java, shim_home
from slotkeeper.core.spark.settings import LIGHT
from slotkeeper.demo.postgres import Server
from tests.support.changes import row_of
from tests.support.frame_session import quick_home
from tests.support.histories import COLUMNS
from tests.support.oracle import Event

ROOT = Path(slotkeeper.__file__).parents[1]
_INTS = ("h", "k", "a")


def environment(folder: Path) -> dict[str, str]:
    """What Spark's processes need to find: a Java, this interpreter, and this checkout."""
    return {
        "JAVA_HOME": str(shim_home(find_java(), (folder,))),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder),
    }


def settings(folder: Path, master: str) -> dict[str, str]:
    """Those of a small Spark that writes into `folder` and shows nothing."""
    return {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(LIGHT),
    }


@contextmanager
def spark_session(folder: Path, master: str = "local[2]", **more: str) -> Iterator[Any]:
    """A session of its own, ended with its JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    before = dict(os.environ)
    os.environ.update(environment(folder))
    os.environ["SPARK_HOME"] = str(quick_home(folder))
    (folder / "log4j2.properties").write_text("rootLogger.level = off\n", "utf-8")
    try:
        builder = SparkSession.builder.appName("slotkeeper tests")
        for name, value in {**settings(folder, master), **more}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        gateway = SparkContext._gateway
        try:
            yield spark
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            SparkContext._gateway = SparkContext._jvm = None
    finally:
        os.environ.clear()
        os.environ.update(before)


def schema() -> Any:
    """The changelog of `histories`, its key's columns marked as the reader marks them."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    ours = [
        StructField(name, LongType() if type_ == "bigint" else StringType(), False) for name, type_ in changelog.COLUMNS
    ]
    own = [
        StructField(
            name,
            IntegerType() if name in _INTS else StringType(),
            True,
            {changelog.KEY_PLACE: place} if (place := {"h": 1, "k": 2}.get(name)) else None,
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
        """One more file, whole or not at all."""
        self._count += 1
        file = self.folder / f"{self._count:04d}.json"
        half = self.folder / f".{file.name}"
        half.write_text("".join(json.dumps(row_of(event)) + "\n" for event in events), "utf-8")
        os.utime(half, (1_700_000_000 + self._count, 1_700_000_000 + self._count))
        half.rename(file)

    def stream(self, spark: Any) -> Any:
        """The changelog as a stream of a file a batch, in their order."""
        found = spark.readStream.schema(schema()).option("maxFilesPerTrigger", 1).json(str(self.folder))
        for field in schema().fields:
            if field.metadata:
                from pyspark.sql import functions as f

                found = found.withColumn(field.name, f.col(field.name).alias(field.name, metadata=field.metadata))
        return found


def configuration(file: Path, server: Server, database: str) -> Path:
    """A configuration with the sink `mart`, whose password is a file beside it."""
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
