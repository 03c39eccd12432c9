"""The session's own tables of a target's steps: their creation, the COPY statements that fill them, and their tops."""

from __future__ import annotations

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, all_staged, needs_net, spread, typed

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable


def create_temporary(table: TargetTable, name: str, before: str, after: str) -> Composable:
    """Return CREATE for a temporary table on DWS, emptied on every commit: own columns, and c1..cn in target types."""
    return SQL("CREATE TEMP TABLE IF NOT EXISTS {} ({}{}{}) ON COMMIT DELETE ROWS{}").format(
        Identifier(name), SQL(before), typed(table), SQL(after), spread(table)
    )


def create_staging(table: TargetTable) -> Composable:
    """Return CREATE for the session's staging table, which is created once and emptied on every commit."""
    if not table.dialect.follows:
        return create_temporary(table, table.staging, 'point bigint, sequence bigint, kind "char", ', "")
    columns = SQL(", ").join(
        SQL("{} AS {}").format(Identifier(name), Identifier(f"c{n}")) for n, name in enumerate(table.columns, 1)
    )
    return SQL(
        "CREATE TEMP TABLE IF NOT EXISTS {stage} ON COMMIT DELETE ROWS AS"
        " SELECT 0::bigint AS point, 0::bigint AS sequence, 'I'::\"char\" AS kind, {columns} FROM {table} WITH NO DATA"
    ).format(stage=Identifier(table.staging), columns=columns, table=table.identifier)


MISMATCHES = ("42804", "42846")
"""datatype_mismatch and cannot_coerce: in a wide step, the staged columns have the types of an earlier target."""


def store_whole(cursor: pg.Cursor, table: TargetTable, options: SinkOptions) -> tuple[str, ...]:
    """Let the session's own tables store long values without compression; return the columns that can have such values.

    The target compresses the values that are written to it, and values that it retains need no compression at all.
    Columns of the key, of types whose long values stay in the row, and of DWS are left out.
    """
    if table.dialect.plain:
        return ()
    stored = "SELECT attname::text FROM pg_attribute WHERE attrelid = {}::regclass AND attstorage IN ('x', 'e')"
    cursor.execute(SQL(stored).format(Literal(table.staging)))
    found = {name for (name,) in cursor.fetchall()}
    long = {f"c{n}": name for n, name in enumerate(table.columns, 1) if f"c{n}" in found and name not in table.key}
    if long:
        changes = SQL(", ").join(SQL("ALTER {} SET STORAGE EXTERNAL").format(Identifier(place)) for place in long)
        for name in (table.staging, *[table.net] * needs_net(table, options)):
            cursor.execute(SQL("ALTER TABLE {} {}").format(Identifier(name), changes))
    return tuple(long.values())


def fill_staging(table: TargetTable) -> Composable:
    """Return COPY for the staging table, with the columns in the order in which the source writes them."""
    return SQL("COPY {} FROM STDIN").format(Identifier(table.staging))


def fill_target(table: TargetTable, into: Composable | None = None) -> Composable:
    """Return the COPY statement for a chunk, directly into the target (or into `into`)."""
    columns = SQL(", ").join(map(Identifier, table.columns))
    return SQL("COPY {} ({}) FROM STDIN").format(into or table.identifier, columns)


def fill_chunk_staging(table: TargetTable) -> Composable:
    """Return the COPY statement for a chunk into the staging table, without point and kind."""
    return SQL("COPY {} ({}) FROM STDIN").format(Identifier(table.staging), all_staged(table))


def staged_top(table: TargetTable, staging: str, up_to: int) -> Composable:
    """Return a query for (highest staged point, highest sequence at `up_to`, 1 for an unknown type or 2 for no key).

    The query makes the single pass over the staged rows that is needed anyway. In an isolating step, i and u denote an
    I and a U whose text the sink cannot store.
    """
    return SQL(
        "SELECT max(point), max(CASE WHEN point = {up_to} THEN sequence END),"
        " max(CASE WHEN kind IN ('I', 'd', 'B', 'U', 'x', 'i', 'u') THEN CASE WHEN {no_key} THEN 2 END ELSE 1 END)"
        " FROM {staging}"
    ).format(
        up_to=Literal(up_to),
        no_key=no_key(table),
        staging=Identifier(staging),
    )


def no_key(table: TargetTable) -> Composable:
    """Return the condition that a staged row has NULL in a key column."""
    return SQL(" OR ").join(SQL("{} IS NULL").format(Identifier(f"c{n}")) for n in table.places)


def create_net(table: TargetTable) -> Composable:
    """Return CREATE for the session's table of net effects: each key's image and whether to delete and to write it."""
    if not table.dialect.follows:
        return create_temporary(table, table.net, "", ", deletes boolean, writes boolean")
    return SQL(
        "CREATE TEMP TABLE IF NOT EXISTS {net} ON COMMIT DELETE ROWS AS"
        " SELECT {columns}, false AS deletes, false AS writes FROM {stage} WITH NO DATA"
    ).format(net=Identifier(table.net), columns=all_staged(table), stage=Identifier(table.staging))


def temporary(table: TargetTable, options: SinkOptions) -> tuple[Composable, ...]:
    """Return the CREATE statements for the session's own tables that steps need."""
    staging = create_staging(table)
    return (staging, create_net(table)) if needs_net(table, options) else (staging,)
