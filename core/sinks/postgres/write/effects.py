"""What a step's staged events make of the target, as statements: one set of rows per statement, never one event.

The rules, for each key in (point, sequence) order. d, x (an image that the row filter refuses) and B end the key's
row, I and U write it; a B whose U has the same key counts only with `ignore_update_before = false`. What stays is the
*segment* behind the last end: its last image, or its first one under `conflict_strategy = "ignore"`, or column by
column its last value that is not NULL under `ignore_null_when_update`. A row that was ended and is written again is
another row: it is deleted and inserted, so that columns which only the target has do not survive.

Next door: `modes.py` chooses among these; `statements.py` has the target and its staging table.
"""

from __future__ import annotations

from core.domain.spec import SinkOptions
from core.drivers import pg
from core.sinks.postgres.write.statements import TargetTable, create_temporary, staged

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier
Composable = pg.sql.Composable

_EVENTS = """
SELECT *, CASE WHEN kind = 'B' AND lead(kind) OVER w = 'U' AND lead(point) OVER w = point
               AND lead(sequence) OVER w = sequence + 1 THEN 1 ELSE 0 END AS paired
FROM {stage}{kept} WINDOW w AS (PARTITION BY {key} ORDER BY point, sequence)
"""
"""Which B has its own U behind it. DWS: an update is B then U at one sync point with consecutive sequences."""

_SEGMENTS = """
SELECT {columns}, point, sequence, kind NOT IN ('I', 'U') AS ends,
       sum(CASE WHEN kind NOT IN ('I', 'U') THEN 1 ELSE 0 END) OVER w AS segment,
       sum(CASE WHEN kind NOT IN ('I', 'U') THEN 1 ELSE 0 END) OVER (PARTITION BY {key}) AS ended,
       row_number() OVER w AS n, count(*) OVER (PARTITION BY {key}) AS events
FROM ({events}) e{counted} WINDOW w AS (PARTITION BY {key} ORDER BY point, sequence)
"""
"""Each event's segment, from 0; an end is the first event of its segment."""


def straight(table: TargetTable, options: SinkOptions) -> Composable:
    """The net effect as one statement that sorts the staged rows once, where a key's last event says it all.

    Each key is in `slotkeeper_last` once, so it is either deleted or upserted, and neither part sees the other's rows.
    A B row counts as a delete of its own key, and its U row follows it: where both have one key the U wins, where
    they differ the old key goes. With `ignore_delete`, d rows are left out before the order is looked at, B rows never.
    """
    return SQL("WITH slotkeeper_last AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        _last(table, options),
        SQL("DELETE FROM {table} t USING slotkeeper_last s WHERE s.kind IN ('d', 'B', 'x') AND {match}").format(
            table=table.identifier, match=_match(table)
        ),
        upsert(table, options, SQL("slotkeeper_last s"), SQL(" WHERE s.kind IN ('I', 'U')")),
    )


def straight_update(table: TargetTable, options: SinkOptions) -> Composable:
    """The net effect as one statement, where rows are updated or deleted and none is inserted."""
    origin = SQL("slotkeeper_net s")
    return SQL("WITH slotkeeper_net AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        net(table, options), delete(table, origin), update(table, options, origin)
    )


def create_net(table: TargetTable) -> Composable:
    """The session's table of net effects: a row per key with its image, whether it is deleted and whether written."""
    if table.kind == "dws":
        return create_temporary(table, table.net, "", ", deletes boolean, writes boolean")
    return SQL(
        "CREATE TEMP TABLE IF NOT EXISTS {net} ON COMMIT DELETE ROWS AS"
        " SELECT {columns}, false AS deletes, false AS writes FROM {stage} WITH NO DATA"
    ).format(net=Identifier(table.net), columns=_columns(table), stage=Identifier(table.staging))


def fill_net(table: TargetTable, options: SinkOptions) -> Composable:
    """Reduce what is staged to one row per key."""
    return SQL("INSERT INTO {} {}").format(Identifier(table.net), net(table, options))


def net(table: TargetTable, options: SinkOptions) -> Composable:
    """One row per key: c1..cn, deletes, writes; by the rules in this module's docstring."""
    chosen = SQL("n = events")
    if options.conflict_strategy == "ignore":
        chosen = SQL("ends AND n = events OR NOT ends AND segment = ended AND n = opens")
    columns = _columns(table)
    rows = _segments(table, options)
    if options.conflict_strategy == "ignore":
        rows = SQL(
            "SELECT *, min(CASE WHEN ends THEN NULL ELSE n END) OVER (PARTITION BY {}, segment) AS opens FROM ({}) g"
        ).format(_key(table), rows)
    elif options.ignore_null_when_update:
        columns, rows = _merged(table, rows)
    return SQL("SELECT {}, ended > 0 AS deletes, NOT ends AS writes FROM ({}) k WHERE {}").format(columns, rows, chosen)


def delete(table: TargetTable, origin: Composable) -> Composable:
    """Delete the rows that the net effects end."""
    return SQL("DELETE FROM {table} t USING {origin} WHERE s.deletes AND {match}").format(
        table=table.identifier, origin=origin, match=_match(table)
    )


def upsert(table: TargetTable, options: SinkOptions, origin: Composable, where: Composable) -> Composable:
    """INSERT ... ON CONFLICT of rows c1..cn.

    The target has an alias, because `EXCLUDED` would be ambiguous for one of that name (DWS, INSERT: "INTO table_name
    [ AS alias ]").
    """
    target = Identifier("slotkeeper_target")
    sets = _sets(table, options, SQL("EXCLUDED.{}"), target)
    action = SQL("UPDATE SET {}").format(sets) if sets else SQL("NOTHING")
    return SQL(
        "INSERT INTO {table} AS {target} ({columns}) SELECT {staged} FROM {origin}{where}"
        " ON CONFLICT ({key}) DO {action}"
    ).format(
        table=table.identifier,
        target=target,
        columns=_names((*table.columns, *nulled_columns(table, options))),
        staged=SQL(", ").join([_columns(table), *[SQL("NULL")] * len(nulled_columns(table, options))]),
        origin=origin,
        where=where,
        key=_names(table.key),
        action=action,
    )


def merge(table: TargetTable, options: SinkOptions, origin: Composable) -> Composable:
    """MERGE of the net effects that write; the columns to set are named without an alias, as both servers allow."""
    sets = _sets(table, options, None, Identifier("t"))
    nulled = nulled_columns(table, options)
    return SQL(
        "MERGE INTO {table} t USING (SELECT * FROM {origin} WHERE s.writes) s ON ({match}){matched}"
        " WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})"
    ).format(
        table=table.identifier,
        origin=origin,
        match=_match(table),
        matched=SQL(" WHEN MATCHED THEN UPDATE SET {}").format(sets) if sets else SQL(""),
        columns=_names((*table.columns, *nulled)),
        values=SQL(", ").join([*_of_s(table), *[SQL("NULL")] * len(nulled)]),
    )


def update(table: TargetTable, options: SinkOptions, origin: Composable) -> Composable:
    """UPDATE of the rows that are there; a key that was ended in this step has none any more."""
    sets = _sets(table, options, None, Identifier("t"))
    return SQL("UPDATE {table} t SET {sets} FROM {origin} WHERE s.writes AND NOT s.deletes AND {match}").format(
        table=table.identifier,
        sets=sets or SQL("{0} = t.{0}").format(Identifier(table.key[0])),
        origin=origin,
        match=_match(table),
    )


def last_is_enough(table: TargetTable, options: SinkOptions) -> bool:
    """Whether a key's last event alone says what becomes of it, where rows may be inserted."""
    if options.conflict_strategy == "replace":
        return True
    return options.conflict_strategy == "update" and not options.ignore_null_when_update and not table.others


def _last(table: TargetTable, options: SinkOptions) -> Composable:
    key = _key(table)
    return SQL("SELECT DISTINCT ON ({key}) * FROM {stage}{kept} ORDER BY {key}, point DESC, sequence DESC").format(
        key=key, stage=Identifier(table.staging), kept=_kept(options)
    )


def _kept(options: SinkOptions) -> Composable:
    return SQL(" WHERE kind <> 'd'") if options.ignore_delete else SQL("")


def _segments(table: TargetTable, options: SinkOptions) -> Composable:
    events = SQL("SELECT * FROM {}{}").format(Identifier(table.staging), _kept(options))
    if options.ignore_update_before:
        events = SQL(_EVENTS).format(stage=Identifier(table.staging), kept=_kept(options), key=_key(table))
    return SQL(_SEGMENTS).format(
        columns=_columns(table),
        key=_key(table),
        events=events,
        counted=SQL(" WHERE paired = 0") if options.ignore_update_before else SQL(""),
    )


def _merged(table: TargetTable, rows: Composable) -> tuple[Composable, Composable]:
    """Column by column the segment's last value that is not NULL: a value opens a run, which its NULLs belong to."""
    key, places = _key(table), [n for n, name in enumerate(table.columns, 1) if name not in table.key]
    value = "CASE WHEN NOT ends THEN {c} END"
    runs: list[Composable] = [SQL("*")]
    firsts: list[Composable] = [SQL("*")]
    for n in places:
        names = {"key": key, "c": Identifier(f"c{n}"), "run": Identifier(f"r{n}"), "v": Identifier(f"v{n}")}
        run = f"count({value}) OVER (PARTITION BY {{key}}, segment ORDER BY n) AS {{run}}"
        first = f"first_value({value}) OVER (PARTITION BY {{key}}, segment, {{run}} ORDER BY n) AS {{v}}"
        runs.append(SQL(run).format(**names))
        firsts.append(SQL(first).format(**names))
    rows = SQL("SELECT {} FROM ({}) g").format(SQL(", ").join(runs), rows)
    rows = SQL("SELECT {} FROM ({}) r").format(SQL(", ").join(firsts), rows)
    columns = [
        SQL("{} AS {}").format(Identifier(f"v{n}" if n in places else f"c{n}"), Identifier(f"c{n}"))
        for n in range(1, len(table.columns) + 1)
    ]
    return SQL(", ").join(columns), rows


def _sets(table: TargetTable, options: SinkOptions, given: pg.sql.SQL | None, target: Composable) -> Composable | None:
    """`column = new value` for what a conflict changes; None where it changes nothing.

    `given` is the new value as a template of the target's name; without it, it is s.cN.
    """
    if options.conflict_strategy == "ignore":
        return None
    sets = []
    for n, name in enumerate(table.columns, 1):
        if name in table.key and name not in table.loose:
            continue
        column = Identifier(name)
        value = given.format(column) if given else SQL("s.{}").format(Identifier(f"c{n}"))
        if options.ignore_null_when_update and name not in table.key:
            value = SQL("coalesce({}, {}.{})").format(value, target, column)
        sets.append(SQL("{} = {}").format(column, value))
    sets += [SQL("{} = NULL").format(Identifier(name)) for name in nulled_columns(table, options)]
    return SQL(", ").join(sets) if sets else None


def nulled_columns(table: TargetTable, options: SinkOptions) -> tuple[str, ...]:
    """Columns that only the target has and that are NULL in every row that is written."""
    return table.others if options.conflict_strategy == "replace" else ()


def _match(table: TargetTable) -> Composable:
    return SQL(" AND ").join(
        SQL("t.{} = s.{}").format(Identifier(name), Identifier(f"c{n}"))
        for name, n in zip(table.key, table.places, strict=True)
    )


def _names(names: tuple[str, ...]) -> Composable:
    return SQL(", ").join(map(Identifier, names))


def _key(table: TargetTable) -> Composable:
    return staged(table.places)


def _columns(table: TargetTable) -> Composable:
    return staged(range(1, len(table.columns) + 1))


def _of_s(table: TargetTable) -> list[Composable]:
    return [SQL("s.{}").format(Identifier(f"c{n}")) for n in range(1, len(table.columns) + 1)]
