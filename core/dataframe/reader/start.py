"""Starts a query over a changelog, or refuses one whose progress is tracked asynchronously.

With asynchronous progress Spark asks for the next offset before the last batch is in its commit log: what is registered
then may be lost with it. A source cannot see that option, so it is asked of the writer, here.
"""

from __future__ import annotations

from typing import Any

from slotkeeper.core.dataframe.reader import accounts
from slotkeeper.core.dataframe.reader.faults import naming
from slotkeeper.core.errors import Refused

ASYNC = "asyncProgressTrackingEnabled"


@naming
def start(writer: Any, path: str | None = None) -> Any:
    """`writer.start()` of a DataStreamWriter; returns the query. ReadFailed where its progress is asynchronous."""
    if asynchronous(writer):
        what = f"{ASYNC} lets Spark run ahead of its commit log, and the slot would follow it"
        raise Refused(what, 'leave that option out; or read with .option("register", "never")', where="spark")
    query = writer.start(path) if path else writer.start()
    accounts.started(writer, query)
    return query


def asynchronous(writer: Any) -> bool:
    """Whether the writer has that option: its options are a private field of Spark's own object."""
    jvm = writer._jwrite
    field = jvm.getClass().getDeclaredField("extraOptions")
    field.setAccessible(True)
    found = field.get(jvm).get(ASYNC)
    return bool(found.isDefined()) and str(found.get()).lower() == "true"
