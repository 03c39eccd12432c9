"""Binlog tables as Spark DataFrames for user programs: `register(spark)`, then `spark.readStream.format(...)`.

Imports are deferred, because Spark starts a Python process for each of about a dozen small calls, and each process
imports this package.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

__all__ = ["register", "start"]


def register(spark: Any) -> None:
    """Register both formats with a SparkSession.

    Raises ReadFailed for an untested version of Spark, and ConfigError if the extra `dataframe` is not installed.
    """
    from slotkeeper.core.domain.text import install
    from slotkeeper.core.errors import ConfigError

    lacking = [name for name in ("pyarrow", "pandas") if find_spec(name) is None]
    if lacking:
        raise ConfigError(
            f"DataFrames need packages that are not installed: {', '.join(lacking)}", install("dataframe")
        )
    from slotkeeper.core.dataframe.reader import source as reading
    from slotkeeper.core.dataframe.writer import source as writing

    reading.register(spark)
    writing.register(spark)


def start(writer: Any, path: str | None = None) -> Any:
    """Start a DataStreamWriter and return the query; raises ReadFailed if asynchronous progress tracking is on."""
    from slotkeeper.core.dataframe.reader import accounts as starting

    return starting.start(writer, path)
