"""Cutting a table into chunks of its key and reading one: planned and compared only at the source, in its own order.

Bounds are kept in the source's text form and cast back to the column's type, so that no other system's collation
or number format has a say.
"""

from __future__ import annotations

from collections.abc import Sequence

from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators, spelled
from slotkeeper.core.ports.source import Chunk

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal


def table_name(table: str) -> pg.sql.Composable:
    """`schema.table` as identifiers; a name without a schema stays as it is."""
    return Identifier(*table.split(".", 1))


def column_list(identity: TableIdentity, columns: Sequence[Column], as_text: bool = False) -> pg.sql.Composable:
    """These columns in order; as text where Python has to carry the values."""
    if not as_text:
        return SQL(", ").join(Identifier(column.name) for column in columns)
    return SQL(", ").join(pg.text_form(identity.plain(column.type), Identifier(column.name)) for column in columns)


def filter_statement(table: str, condition: pg.sql.Composable, columns: Sequence[str]) -> pg.sql.Composable:
    """Asks for no row at all: whether a row filter can be read over these columns of the table."""
    return SQL("SELECT 1 FROM (SELECT {} FROM {}) t WHERE {} LIMIT 0").format(
        SQL(", ").join(map(Identifier, columns)), table_name(table), condition
    )


def count_statement(table: str, condition: pg.sql.Composable | None, most: int | None) -> pg.sql.Composable:
    """How many rows a copy would read, or at most so many."""
    rows = SQL("SELECT 1 FROM {}").format(table_name(table))
    if condition is not None:
        rows += SQL(" WHERE ") + condition
    if most is not None:
        rows += SQL(" LIMIT {}").format(Literal(most))
    return SQL("SELECT count(*) FROM ({}) counted").format(rows)


def plan_statement(table: str, identity: TableIdentity, rows: int) -> pg.sql.Composable:
    """One pass over the key's index: every `rows`-th key and the last one, as text, in key order."""
    key = SQL(", ").join(map(Identifier, identity.key))
    places = [Identifier(f"k{n}") for n in range(1, len(identity.key) + 1)]
    plain = {column.name: identity.plain(column.type) for column in identity.columns}
    named = [SQL("{} AS {}").format(Identifier(name), k) for name, k in zip(identity.key, places, strict=True)]
    return SQL(
        "SELECT {texts} FROM (SELECT {named}, row_number() OVER (ORDER BY {key}) AS n,"
        " lead(1) OVER (ORDER BY {key}) AS more FROM {table}) k"
        " WHERE n % {rows} = 0 OR more IS NULL ORDER BY n"
    ).format(
        texts=SQL(", ").join(_key_text(plain[name], k) for name, k in zip(identity.key, places, strict=True)),
        named=SQL(", ").join(named),
        key=key,
        table=table_name(table),
        rows=Literal(rows),
    )


def _key_text(plain: str, key: pg.sql.Composable) -> pg.sql.Composable:
    """A key as text that its type reads again; no cast of a type that somebody made, which may run anything."""
    return pg.text_form(plain, key) if pg.is_made(plain) else SQL("{}::text").format(key)


def from_bounds(bounds: list[tuple[str, ...]]) -> list[Chunk]:
    """Chunks between neighbouring bounds; the first reaches down to everything.

    >>> from_bounds([("3",), ("7",)])
    [Chunk(number=0, lo=(), hi=('3',)), Chunk(number=1, lo=('3',), hi=('7',))]
    """
    lows: list[tuple[str, ...]] = [(), *bounds]  # one more than bounds: an empty table has no chunk at all
    return [Chunk(number, lo, hi) for number, (lo, hi) in enumerate(zip(lows, bounds, strict=False))]


def read_statement(
    table: str,
    identity: TableIdentity,
    chunk: Chunk,
    columns: pg.sql.Composable,
    condition: pg.sql.Composable | None,
    operators: Operators,
) -> pg.sql.Composable:
    """These columns of the rows with lo < key <= hi, of those alone that a row filter accepts."""
    types = {column.name: column.type for column in identity.columns}
    parts = [_beyond(identity.key, types, chunk.lo, ">", operators)] if chunk.lo else []
    parts.append(_beyond(identity.key, types, chunk.hi, "<", operators))
    if condition is not None:
        parts.append(condition)
    return SQL("SELECT {columns} FROM {table} WHERE {where}").format(
        columns=columns, table=table_name(table), where=SQL(" AND ").join(parts)
    )


def _beyond(
    key: tuple[str, ...], types: dict[str, str], bound: tuple[str, ...], sign: str, operators: Operators
) -> pg.sql.Composable:
    """key > bound, or key <= bound, column by column; the first column's own bound lets its index serve."""
    values = [SQL("{}::{}").format(Literal(text), SQL(types[name])) for name, text in zip(key, bound, strict=True)]
    last_sign = spelled(operators, key[-1], ">" if sign == ">" else "<=")
    last = SQL("{} {} {}").format(Identifier(key[-1]), last_sign, values[-1])
    nested = last
    for name, value in list(zip(key, values, strict=True))[-2::-1]:
        nested = SQL("({c} {s} {v} OR ({c} {e} {v} AND {rest}))").format(
            c=Identifier(name), s=spelled(operators, name, sign), e=spelled(operators, name, "="), v=value, rest=nested
        )
    if len(key) == 1:
        return nested
    lead = SQL("{} {} {}").format(Identifier(key[0]), spelled(operators, key[0], sign + "="), values[0])
    return SQL("({} AND {})").format(lead, nested)
