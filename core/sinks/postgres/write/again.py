"""The deletes of a chunk that is copied again: target rows in its range that the source does not have (ADR 98).

The chunk's bounds are numbers, which source and target order in the same way. The target's rows cannot change between
this statement and the fence, because only the lane's own steps write them, and each of these moves its row.
"""

from __future__ import annotations

from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.again import OLDEST
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, match

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
_NUMBERS = ("smallint", "integer", "bigint", "numeric")


def stage_gone(table: TargetTable, chunk: Chunk) -> pg.sql.Composable:
    """Return INSERT for the staging table, which has to contain the chunk's rows as the only ones with its point.

    Raises Refused if a bounded key column has another type than a number.
    """
    part = table.constant
    keys = [name for name in table.key if part is None or name != part.column]
    bases = dict(zip(table.columns, table.bases, strict=True))
    if odd := [name for name in keys if bases[name].partition("(")[0] not in _NUMBERS]:
        what = f"{table.name}: cannot be copied again while it streams: key column {odd[0]} is {bases[odd[0]]}"
        raise Refused(what, "reset the table to a snapshot", where="sink")
    names = SQL(", ").join(SQL("t.{}").format(Identifier(name)) for name in keys)
    parts = [
        SQL("({}) {} ({})").format(names, SQL(sign), SQL(", ").join(map(Literal, bound)))
        for bound, sign in ((chunk.lo, ">"), (chunk.hi, "<="))
        if bound
    ]
    if part is not None:
        parts.append(SQL("t.{} = {}").format(Identifier(part.column), Literal(part.text)))
    point, sequence, _ = OLDEST
    own = SQL("s.point = {} AND {}").format(SQL(point), match(table))
    parts.append(SQL("NOT EXISTS (SELECT FROM {} s WHERE {})").format(Identifier(table.staging), own))
    return SQL("INSERT INTO {} (point, sequence, kind, {}) SELECT {}, {}, 'd', {} FROM {} t WHERE {}").format(
        Identifier(table.staging),
        SQL(", ").join(Identifier(f"c{n}") for n in table.places),
        SQL(point),
        SQL(sequence),
        SQL(", ").join(SQL("t.{}").format(Identifier(name)) for name in table.key),
        table.rows,
        SQL(" AND ").join(parts),
    )
