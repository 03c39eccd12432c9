"""Binlog tables as Spark DataFrames, for programs of others: `register(spark)`, then `spark.readStream.format(...)`.

Next door: `reader` reads, `net.py` and `writer` write; docs/dataframes.md has programs to paste.
"""

from __future__ import annotations

from typing import Any

from core.dataframe.reader import source as reading
from core.dataframe.reader.start import start
from core.dataframe.writer import source as writing

__all__ = ["register", "start"]


def register(spark: Any) -> None:
    """Make both formats known to a SparkSession; raises ReadFailed for a version of Spark that was not tested."""
    reading.register(spark)
    writing.register(spark)
