"""The table in which the tasks of a query stage their rows, and the SQL that reads a batch's rows from that table.

There is one unlogged table with the target's columns for each target and set of columns. Each attempt of a task copies
its rows under its own token; the transaction of a batch reads the rows of the tokens that its query names. A view of
these rows replaces the session's staging table, so the statements of a step work unchanged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.write import session_tables
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable

_OWN = ("token", "point", "sequence", "kind")


def prefix(table: TargetTable) -> str:
    """Return the prefix of the names of a target's staging tables."""
    return f"slotkeeper_staged_{_digest(table.name)}_"


def place(table: TargetTable) -> str:
    """Return the name of the staging table for a target with these columns."""
    return prefix(table) + _digest(table.columns, table.key, table.types)


def create(table: TargetTable, schema: Composable) -> Composable:
    """Return the CREATE UNLOGGED TABLE statement for the staging table.

    PostgreSQL, CREATE TABLE: an unlogged table is truncated after a crash and is not replicated. The row count detects
    a truncated table, and the batch is staged again. No column is NOT NULL, because old images contain only the key.
    """
    made = 'CREATE UNLOGGED TABLE {}.{} (token bigint, point bigint, sequence bigint, kind "char", {}){}{}'
    parts = (compose.typed(table), SQL(table.dialect.own_rows), compose.spread(table))
    return SQL(made).format(schema, Identifier(place(table)), *parts)


def fill(schema: Composable, name: str, columns: int) -> Composable:
    """Return the COPY statement for CSV lines that contain a token and the columns that a step stages."""
    own = SQL(", ").join(map(Identifier, _OWN))
    return SQL("COPY {}.{} ({}, {}) FROM STDIN WITH (FORMAT csv)").format(
        schema, Identifier(name), own, compose.staged(range(1, columns + 1))
    )


def show(table: TargetTable, schema: Composable, tokens: Sequence[int]) -> Composable:
    """Return the CREATE VIEW statement for these tokens' rows, with the name of the session's staging table."""
    own = SQL(", ").join(map(Identifier, _OWN[1:]))
    return SQL("CREATE TEMP VIEW {} AS SELECT {}, {} FROM {}.{} WHERE token IN ({})").format(
        Identifier(table.staging),
        own,
        compose.all_staged(table),
        schema,
        Identifier(place(table)),
        SQL(", ").join(map(Literal, tokens)),
    )


def copied(table: TargetTable) -> Composable:
    """Return the COPY statement for the rows of `show`: point, sequence, kind, columns."""
    own = SQL(", ").join(map(Identifier, _OWN[1:]))
    rows = SQL("SELECT {}, {} FROM {}").format(own, compose.all_staged(table), Identifier(table.staging))
    return SQL("COPY ({}) TO STDOUT").format(rows)


def counted(table: TargetTable) -> Composable:
    """Return a query for (number of staged rows, whether a row has NULL in a key column, number of inserts)."""
    return SQL("SELECT count(*), coalesce(bool_or({}), false), count(CASE WHEN kind = 'I' THEN 1 END) FROM {}").format(
        session_tables.no_key(table), Identifier(table.staging)
    )


def twice(table: TargetTable) -> Composable:
    """Return a query that returns a row if two rows with the same key have the same position."""
    return SQL("SELECT 1 FROM {} GROUP BY {}, point, sequence HAVING count(*) > 1 LIMIT 1").format(
        Identifier(table.staging), compose.staged(table.places)
    )


def repeated(table: TargetTable) -> Composable:
    """Return a query that returns a row if a key has several events besides old images, which would cause a miss."""
    return SQL("SELECT 1 FROM {} WHERE kind <> 'B' GROUP BY {} HAVING count(*) > 1 LIMIT 1").format(
        Identifier(table.staging), compose.staged(table.places)
    )


def clear(schema: Composable, name: str) -> tuple[Composable, Composable]:
    """Return statements that truncate the staged rows unless another session uses the table.

    A transaction that has counted its rows locks the table until the transaction ends, so its rows are retained; a
    transaction that has not yet counted finds fewer rows than expected.
    """
    named = SQL("{}.{}").format(schema, Identifier(name))
    return SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(named), SQL("TRUNCATE {}").format(named)


def drop(schema: Composable, name: str) -> tuple[Composable, Composable]:
    """Return statements that drop a staging table with an earlier list of columns unless another session uses it."""
    lock, _ = clear(schema, name)
    return lock, SQL("DROP TABLE {}.{}").format(schema, Identifier(name))


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]
