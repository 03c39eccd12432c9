"""How a key of a made type is compared: by the operators of its own index, each named with its schema.

A search_path without the type's schema does not find them, and takes the next best in silence: a citext would be
compared as text (PostgreSQL, "Operator Type Resolution"). Names that need no schema stay as they are: ADR 0025.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from slotkeeper.core.drivers.pg import sql
from slotkeeper.core.errors import Refused
from slotkeeper.core.sqltext import quoted

SIGNS = ("<", "<=", "=", ">=", ">")
"""A B-tree's strategies in order, from 1. PostgreSQL, "B-Tree Strategies"."""

_NAME = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
"""PostgreSQL, CREATE OPERATOR: what a name is made of; it cannot be quoted."""

Operators = Mapping[str, Mapping[str, str]]
"""By column: what stands for each sign. A column that is not there is compared by the server's own."""


def operators_of(rows: Iterable[tuple[Any, ...]]) -> Operators:
    """Out of rows (column, strategy, schema, name); raises Refused for a name that is none.

    >>> operators_of([("k", 3, "ext", "="), ("k", 5, "ext", ">"), ("n", 3, "pg_catalog", "=")])
    {'k': {'=': 'OPERATOR(ext.=)', '>': 'OPERATOR(ext.>)'}, 'n': {'=': '='}}
    """
    found: dict[str, dict[str, str]] = {}
    for column, strategy, schema, name in rows:
        if not _NAME.fullmatch(str(name)):
            raise Refused(f"key column {column!r} is compared by an operator of no known name", "use another type")
        sign = SIGNS[int(strategy) - 1]
        spelled = str(name) if schema == "pg_catalog" else f"OPERATOR({quoted(str(schema))}.{name})"
        found.setdefault(str(column), {})[sign] = spelled
    return found


def spelled(operators: Operators, column: str, sign: str) -> sql.Composable:
    """A sign between two values of a key column."""
    return sql.SQL(operators.get(column, {}).get(sign, sign))
