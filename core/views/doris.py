"""A view's SELECT as a materialized view of Doris, which Doris maintains; Slotkeeper gives no guarantee for it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def materialized(target: str, sql: str) -> str:
    """Return the statement that creates the view in Doris; "" if the SELECT cannot be translated.

    Apache Doris, "Creating, Querying, and Maintaining Asynchronous Materialized Views": REFRESH AUTO refreshes the
    partitions that changed, or else the whole view; ON SCHEDULE EVERY repeats it.

    >>> materialized("dws.a", "SELECT v, count(*) AS n FROM ods.o GROUP BY v")  # doctest: +NORMALIZE_WHITESPACE
    'CREATE MATERIALIZED VIEW dws.a BUILD IMMEDIATE REFRESH AUTO ON SCHEDULE EVERY 1 MINUTE
        DISTRIBUTED BY RANDOM BUCKETS AUTO AS SELECT v, COUNT(*) AS n FROM ods.o GROUP BY v'
    """
    try:
        query = sqlglot.parse_one(sql, read="postgres")
        if query.find(exp.GroupConcat, exp.Insert):  # sqlglot loses the separator; an INSERT has another result
            return ""
        text = query.sql("doris")
    except SqlglotError:
        return ""
    refresh = "BUILD IMMEDIATE REFRESH AUTO ON SCHEDULE EVERY 1 MINUTE DISTRIBUTED BY RANDOM BUCKETS AUTO"
    return f"CREATE MATERIALIZED VIEW {target} {refresh} AS {text}"
