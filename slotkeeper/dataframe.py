"""Binlog tables as Spark DataFrames: `register(spark)`, then `spark.readStream.format("slotkeeper_dws")`."""

from slotkeeper.core.dataframe import register, start

__all__ = ["register", "start"]
