"""From the types of a DataFrame's columns to those of a PostgreSQL-compatible table, as texts. Pure.

Spark's types are given by their `simpleString()`.
"""

from __future__ import annotations

import re

from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"(char|varchar)\(\d+\)|string collate .*")
_NESTED = ("array", "map", "struct")


def column_type(name: str, spark_type: str) -> str:
    """The type that holds every value of a Spark column; Refused by the column's name where there is none.

    >>> column_type("a", "decimal(12,2)"), column_type("b", "timestamp_ntz"), column_type("c", "varchar(20)")
    ('numeric(12,2)', 'timestamp without time zone', 'text')
    """
    if spark_type in _PLAIN:
        return _PLAIN[spark_type]
    if sized := _DECIMAL.fullmatch(spark_type):
        return f"numeric({sized[1]},{sized[2]})"
    if _TEXT.fullmatch(spark_type):
        return "text"
    cure = f'cast it first: withColumn("{safe(name, 60)}", ...cast("string"))'
    if spark_type.startswith(_NESTED):
        cure = f'make it JSON first: withColumn("{safe(name, 60)}", to_json("{safe(name, 60)}"))'
    shown = safe(spark_type, 60)
    raise Refused(f"column {safe(name, 60)} is {shown}, of which no table's column is made", cure, where="sink")
