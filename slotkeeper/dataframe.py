"""Binlog tables as Spark DataFrames, for your own programs: `register(spark)`, then `spark.readStream.format(...)`.

`net` needs pyarrow and pandas (the extra `dataframe`) and is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slotkeeper.core.dataframe import register, start

if TYPE_CHECKING:
    from slotkeeper.core.dataframe.net import net

__all__ = ["net", "register", "start"]


def __getattr__(name: str) -> Any:
    if name != "net":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slotkeeper.core.dataframe.net import net

    return net
