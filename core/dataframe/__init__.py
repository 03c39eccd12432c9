"""Binlog tables as Spark DataFrames, for programs of others: `register(spark)`, then `spark.readStream.format(...)`.

Next door: `reader` reads; docs/dataframes.md has programs to paste.
"""

from __future__ import annotations

from core.dataframe.reader.source import register
from core.dataframe.reader.start import start

__all__ = ["register", "start"]
