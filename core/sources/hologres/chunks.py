"""Cutting a table into chunks, shard by shard and by the key inside each: planned and compared only at the source.

A chunk's bounds are the shard's id and the key in the source's text form. Hologres, hg_shard_id: a hidden column, by
which the vendor's own readers split a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import Column, Shard, TableIdentity
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources.hologres.catalog import number_of
from slotkeeper.core.sources.hologres.changes import table_name

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
SHARD = SQL("hg_shard_id")


def texts(columns: Sequence[Column]) -> pg.sql.Composable:
    """Columns as the text that COPY would write."""
    return SQL(", ").join(pg.text_form(one.type, Identifier(one.name)) for one in columns)


def plan_statement(table: str, identity: TableIdentity, shard: Shard, rows: int) -> pg.sql.Composable:
    """One pass over a shard's keys: every `rows`-th key and the last one, as text, in key order."""
    key = SQL(", ").join(map(Identifier, identity.key))
    places = [Identifier(f"k{n}") for n in range(1, len(identity.key) + 1)]
    named = [SQL("{} AS {}").format(Identifier(name), k) for name, k in zip(identity.key, places, strict=True)]
    return SQL(
        "SELECT {texts} FROM (SELECT {named}, row_number() OVER (ORDER BY {key}) AS n,"
        " lead(1) OVER (ORDER BY {key}) AS more FROM {table} WHERE {id} = {shard}) k"
        " WHERE n % {rows} = 0 OR more IS NULL ORDER BY n"
    ).format(
        texts=SQL(", ").join(SQL("{}::text").format(one) for one in places),
        named=SQL(", ").join(named),
        key=key,
        table=table_name(table),
        id=SHARD,
        shard=Literal(number_of(shard)),
        rows=Literal(max(1, rows)),
    )


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
    where = [SQL("{} = {}").format(SHARD, Literal(int(shard))), _beyond(identity.key, types, high, "<")]
    if len(chunk.lo) > 1:
        where.append(_beyond(identity.key, types, chunk.lo[1:], ">"))
    return SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=texts(columns), table=table_name(table), where=SQL(" AND ").join(where)
    )


def _beyond(key: Sequence[str], types: dict[str, str], bound: Sequence[str], sign: str) -> pg.sql.Composable:
    """key > bound, or key <= bound, column by column; the first column's own bound lets an index serve."""
    values = [SQL("{}::{}").format(Literal(text), SQL(types[name])) for name, text in zip(key, bound, strict=True)]
    last = SQL("{} {} {}").format(Identifier(key[-1]), SQL(">" if sign == ">" else "<="), values[-1])
    nested: pg.sql.Composable = last
    for name, value in list(zip(key, values, strict=True))[-2::-1]:
        nested = SQL("({c} {s} {v} OR ({c} = {v} AND {rest}))").format(
            c=Identifier(name), s=SQL(sign), v=value, rest=nested
        )
    if len(key) == 1:
        return nested
    lead = SQL("{} {} {}").format(Identifier(key[0]), SQL(sign + "="), values[0])
    return SQL("({} AND {})").format(lead, nested)
