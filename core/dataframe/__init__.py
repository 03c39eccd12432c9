"""Binlog tables as Spark DataFrames for user programs: `register(spark)`, then `spark.readStream.format(...)`.

Imports are deferred, because Spark starts a dozen Python processes for small calls, and each imports this package.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["register", "start"]


def register(spark: Any) -> None:
    """Register both formats with a SparkSession, whose workers then use this program's Python.

    A Python that the program sets for workers (`PYSPARK_PYTHON`, `spark.pyspark.python`) is left unchanged. Raises
    ConfigError if the extra `dataframe` is not installed, and Refused for an untested version of Spark, for Spark
    Connect, and for a package that is imported from an archive.
    """
    from slotkeeper.core.dataframe.reader.faults import check
    from slotkeeper.core.domain.text import install
    from slotkeeper.core.errors import ConfigError, Refused

    if type(spark).__module__.startswith("pyspark.sql.connect"):
        what = "Spark Connect is not supported: its server, not this program, would start the source"
        raise Refused(what, "use a classic session: SparkSession.builder.master(...)", where="spark")
    if not Path(__file__).is_file():
        what = f"slotkeeper is imported from an archive, {Path(__file__).parent}"
        raise Refused(what, "install it for the workers, or ship an environment with --archives", where="spark")
    check(str(spark.version))
    lacking = [name for name in ("pyarrow", "pandas") if find_spec(name) is None]
    if lacking:
        raise ConfigError(
            f"DataFrames need packages that are not installed: {', '.join(lacking)}", install("dataframe")
        )
    from slotkeeper.core.dataframe.reader import source as reading
    from slotkeeper.core.dataframe.writer import source as writing

    context = spark.sparkContext
    if "PYSPARK_PYTHON" not in os.environ and not context.getConf().get("spark.pyspark.python", ""):
        # pyspark passes this attribute on with each function and source that it sends to workers
        context.pythonExec = sys.executable
    reading.register(spark)
    writing.register(spark)


def start(writer: Any, path: str | None = None) -> Any:
    """Start a DataStreamWriter and return the query; raises ReadFailed if asynchronous progress tracking is on."""
    from slotkeeper.core.dataframe.reader import accounts as starting

    return starting.start(writer, path)
