"""Binlog tables as Spark DataFrames for users' programs: `register(spark)`, then `spark.readStream.format(...)`.

Loads nothing before it is asked: Spark begins a Python for each of a dozen small questions, and each of them is inside
this package.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

__all__ = ["register", "start"]


def register(spark: Any) -> None:
    """Make both formats known to a SparkSession.

    Raises ReadFailed for a version of Spark that was not tested, ConfigError without the extra `dataframe`.
    """
    from slotkeeper.core.domain.text import install
    from slotkeeper.core.errors import ConfigError

    lacking = [name for name in ("pyarrow", "pandas") if find_spec(name) is None]
    if lacking:
        raise ConfigError(f"DataFrames need {' and '.join(lacking)}, which is not installed", install("dataframe"))
    from slotkeeper.core.dataframe.reader import source as reading
    from slotkeeper.core.dataframe.writer import source as writing

    reading.register(spark)
    writing.register(spark)


def start(writer: Any, path: str | None = None) -> Any:
    """Start a DataStreamWriter and return the query; raises ReadFailed for asynchronous progress tracking."""
    from slotkeeper.core.dataframe.reader import accounts as starting

    return starting.start(writer, path)
