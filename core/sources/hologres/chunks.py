"""Cutting a table into chunks, shard by shard and by the key inside each: planned and compared only at the source.

A chunk's bounds are the shard's id and the key in the source's text form. Hologres, hg_shard_id: a hidden column, by
which the vendor's own readers split a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import Column, Shard, TableIdentity
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.hologres.catalog import number_of
from slotkeeper.core.sources.pg_base import beyond, table_name

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
SHARD = SQL("hg_shard_id")


def texts(columns: Sequence[Column]) -> pg.sql.Composable:
    """Columns as the text that COPY would write."""
    return SQL(", ").join(pg.text_form(one.type, Identifier(one.name)) for one in columns)


def plan_statement(table: str, identity: TableIdentity, shard: Shard, rows: int) -> pg.sql.Composable:
    """One pass over a shard's keys: every `rows`-th key and the last one, as text, in key order."""
    only = SQL("{} = {}").format(SHARD, Literal(number_of(shard)))
    return pg_base.plan_statement(table, identity.key, lambda _, key: SQL("{}::text").format(key), max(1, rows), only)


def of_shard(shard: Shard, bounds: Sequence[tuple[str, ...]], first: int) -> list[Chunk]:
    """Chunks between neighbouring bounds of a shard, numbered from `first`; the first reaches down to everything.

    >>> of_shard(Shard("shard_2", 3), [("3",), ("7",)], 5)
    [Chunk(number=5, lo=('2',), hi=('2', '3')), Chunk(number=6, lo=('2', '3'), hi=('2', '7'))]
    """
    id_ = str(number_of(shard))
    lows = [(id_,), *((id_, *bound) for bound in bounds)]
    return [Chunk(first + n, lo, (id_, *hi)) for n, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def read_statement(table: str, identity: TableIdentity, chunk: Chunk, columns: Sequence[Column]) -> pg.sql.Composable:
    """These columns, as text, of the rows of the chunk's shard with lo < key <= hi."""
    types = {column.name: column.type for column in identity.columns}
    shard, *high = chunk.hi
    where = [SQL("{} = {}").format(SHARD, Literal(int(shard))), beyond(identity.key, types, high, "<", {})]
    if len(chunk.lo) > 1:
        where.append(beyond(identity.key, types, chunk.lo[1:], ">", {}))
    return SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=texts(columns), table=table_name(table), where=SQL(" AND ").join(where)
    )
