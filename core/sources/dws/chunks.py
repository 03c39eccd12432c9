"""SQL that reads a table: column lists, and chunks by ranges of the key."""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.pg_base import beyond, table_name

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier


def column_list(identity: TableIdentity, columns: Sequence[Column], as_text: bool = False) -> pg.sql.Composable:
    """Return SQL for these columns in order, as text if the values have to pass through Python."""
    if not as_text:
        return SQL(", ").join(Identifier(column.name) for column in columns)
    return SQL(", ").join(pg.text_form(identity.plain(column.type), Identifier(column.name)) for column in columns)


def filter_statement(table: str, condition: pg.sql.Composable, columns: Sequence[str]) -> pg.sql.Composable:
    """Return a query that returns no rows, but fails if the row filter cannot be evaluated on these columns."""
    return SQL("SELECT 1 FROM (SELECT {} FROM {}) t WHERE {} LIMIT 0").format(
        SQL(", ").join(map(Identifier, columns)), table_name(table), condition
    )


def plan_statement(table: str, identity: TableIdentity, rows: int) -> pg.sql.Composable:
    """Return a query that plans chunks in one pass over the key's index; user-defined types are not cast to text.

    Casting a user-defined type to text can run any function.
    """
    plain = {column.name: identity.plain(column.type) for column in identity.columns}

    def text(name: str, key: pg.sql.Composable) -> pg.sql.Composable:
        made = pg.is_made(plain[name])
        return pg.text_form(plain[name], key) if made else SQL("{}::text").format(key)

    return pg_base.plan_statement(table, identity.key, text, rows)


def from_bounds(bounds: list[tuple[str, ...]]) -> list[Chunk]:
    """Return the chunks between neighboring bounds; the first chunk has no lower bound.

    >>> from_bounds([("3",), ("7",)])
    [Chunk(number=0, lo=(), hi=('3',)), Chunk(number=1, lo=('3',), hi=('7',))]
    """
    lows: list[tuple[str, ...]] = [(), *bounds]  # one more chunk than bounds; an empty table has no chunks
    return [Chunk(number, lo, hi) for number, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def read_statement(
    table: str,
    identity: TableIdentity,
    chunk: Chunk,
    columns: pg.sql.Composable,
    condition: pg.sql.Composable | None,
    operators: Operators,
) -> pg.sql.Composable:
    """Return a query for these columns of the rows with lo < key <= hi that the row filter accepts."""
    types = {column.name: column.type for column in identity.columns}
    parts = [beyond(identity.key, types, chunk.lo, ">", operators)] if chunk.lo else []
    parts.append(beyond(identity.key, types, chunk.hi, "<", operators))
    if condition is not None:
        parts.append(condition)
    return SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=columns, table=table_name(table), where=SQL(" AND ").join(parts)
    )
