"""The statements of a step: its staging table, the effect of its events on the target, and the choice of statements.

The staging table's columns are named c1..cn and have the target's types, so that no column name of a user collides with
the other staging columns.

A statement handles a set of events, never a single event. The rules, for each key in (point, sequence) order: d, x (an
image that the row filter rejects) and B delete the key's row, I and U write the row; a B whose U has the same key
counts only with `ignore_update_before = false`. The effect is determined by the *segment* after the key's last delete:
its last image, or its first image with `conflict_strategy = "ignore"`, or the last non-NULL value of each column with
`ignore_null_when_update`. A row that is deleted and written again is a new row: it is deleted and inserted, so that
columns that exist only in the target do not retain their values.

Write modes: `upsert` and `update` use one plan for many small steps (prepared in the session, as the vendor's client
prepares its batches); the modes with `copy` are planned for the size of each step. `auto` and `update_auto` choose by
`copy_write_batch_size`. Rows are transferred with COPY, except those of small steps (`small_step.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.spec import Constant, SinkOptions, place_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.session import POSTGRES, SinkDialect

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
Composable = pg.sql.Composable
NO_EVENTS = SQL("")


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target: its name (`schema.table`), its mirrored columns in the order of the staged data, and its key columns.

    `loose`: key columns of types whose equal values can have different texts (numeric 1.0 and 1.00, interval 1 mon and
    30 days); an update writes them too, except on DWS, which cannot update a key. `others`: columns that exist only in
    the target. `types`: the types of the mirrored columns, `bases`: the same types with domains replaced by their base
    types, `dialect`: the server's dialect. `forms`: how equal values of a key column are converted to the same text
    (`pg_types.form_of`). `signs`: the operators that compare the key (`slotkeeper.core.drivers.pg_table`); by default
    the server's own. `strict_key`: no key column can be NULL. `only`: the rows are in the table itself and in no
    partition. `constant`: the part of the table whose rows this target has.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    others: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    dialect: SinkDialect = POSTGRES
    loose: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    strict_key: bool = False
    only: bool = False
    constant: Constant | None = None
    marks: tuple[str, ...] = ()
    """The columns that a delete sets instead of removing the row (`ChannelSpec.marks`); empty: deletes remove rows."""
    computed: tuple[str, ...] = ()
    """The columns that a worker computes from others (`ChannelSpec.compute`)."""
    kept: tuple[str, ...] = ()
    """Columns whose stored values an update retains if they do not change: in wide steps, those of `store_whole`."""

    @property
    def identifier(self) -> Composable:
        """`"schema"."table"`."""
        return Identifier(*self.name.split(".", 1))

    @property
    def rows(self) -> Composable:
        """The table for statements that read, change or delete rows, without the rows of inheriting tables.

        PostgreSQL, "Inheritance": SELECT, UPDATE and DELETE accept ONLY, as do TRUNCATE and MERGE; INSERT and COPY
        never write to an inheriting table.
        """
        return SQL("ONLY {}").format(self.identifier) if self.only else self.identifier

    @property
    def place(self) -> str:
        """The target's name in progress rows without the database: `ChannelSpec.place`."""
        return place_of(self.name, self.constant)

    @property
    def staging(self) -> str:
        """Name of the session's staging table, derived from table and columns: after a change, a new table is used."""
        return "slotkeeper_stage_" + self._digest

    @property
    def row_type(self) -> str:
        """Name of the session's row type of small steps, and of their prepared statement, derived in the same way."""
        return "slotkeeper_row_" + self._digest

    @property
    def net(self) -> str:
        """Name of the session's table of net effects, derived in the same way."""
        return "slotkeeper_net_" + self._digest

    @property
    def texts(self) -> str:
        """Name of the session's table for the events of an isolating step, with all columns as text."""
        return "slotkeeper_text_" + self._digest

    @property
    def units(self) -> str:
        """Name of the session's table for the units that an isolating step applies or quarantines."""
        return "slotkeeper_unit_" + self._digest

    @property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps([self.place, *self.columns]).encode()).hexdigest()[:12]

    @property
    def places(self) -> tuple[int, ...]:
        """The column numbers of the key, from 1."""
        return tuple(self.columns.index(name) + 1 for name in self.key)


def typed(table: TargetTable) -> Composable:
    """Return `"c1" type, "c2" type`, in the target's types."""
    spelled = enumerate(map(type_name.sql, table.types), 1)
    return SQL(", ").join(SQL("{} {}").format(Identifier(f"c{n}"), SQL(type_)) for n, type_ in spelled)


def spread(table: TargetTable) -> Composable:
    """Return the distribution clause of a staging table: by the hash of the key, like the target."""
    return table.dialect.spread([Identifier(f"c{n}") for n in table.places])


def staged(places: Iterable[int]) -> Composable:
    """Return `"c1", "c2"`."""
    return SQL(", ").join(Identifier(f"c{n}") for n in places)


def all_staged(table: TargetTable) -> Composable:
    """Return all of c1..cn."""
    return staged(range(1, len(table.columns) + 1))


def shadow(table: TargetTable) -> pg.sql.Identifier:
    """Return the name of the shadow table, which a replacing copy fills."""
    *schema, name = table.name.split(".", 1)
    short = name.encode()
    if len(short) > 44:  # the server silently truncates longer names, possibly to the target's own name
        short = short[:31].decode(errors="ignore").encode() + b"_" + hashlib.sha256(short).hexdigest()[:12].encode()
    return Identifier(*schema, short.decode() + "__slotkeeper_copy")


# -- the effect of events on the target -------------------------------------------------------------------------------

_EVENTS = """
SELECT *, CASE WHEN kind = 'B' AND lead(kind) OVER w = 'U' AND lead(point) OVER w = point
               AND lead(sequence) OVER w = sequence + 1 THEN 1 ELSE 0 END AS paired
FROM {stage}{kept} WINDOW w AS (PARTITION BY {key} ORDER BY point, sequence)
"""
"""Marks each B followed by its own U. DWS: an update is B, then U, with consecutive sequences at one sync point."""

_SEGMENTS = """
SELECT {columns}, point, sequence, kind NOT IN ('I', 'U') AS ends,
       sum(CASE WHEN kind NOT IN ('I', 'U') THEN 1 ELSE 0 END) OVER w AS segment,
       sum(CASE WHEN kind NOT IN ('I', 'U') THEN 1 ELSE 0 END) OVER (PARTITION BY {key}) AS ended,
       row_number() OVER w AS n, count(*) OVER (PARTITION BY {key}) AS events
FROM ({events}) e{counted} WINDOW w AS (PARTITION BY {key} ORDER BY point, sequence)
"""
"""Numbers the segment of each event, from 0; a delete is the first event of its segment."""


def straight(table: TargetTable, options: SinkOptions, events: Composable = NO_EVENTS) -> Composable:
    """Return one statement that applies the net effect with a single sort, if a key's last event determines its result.

    `slotkeeper_last` contains each key once, so a key is either deleted or upserted, and neither part of the statement
    sees the rows of the other. A B row counts as a delete of its own key, and its U row follows it: if both have the
    same key, the U wins; if the keys differ, the old key is deleted. With `ignore_delete`, d rows are removed before
    sorting; B rows are never removed. `events` is put in front: a part that replaces the staging table by its name.
    """
    key = _key(table)
    if table.marks:
        return _straight_soft(table, options, events)
    return SQL("WITH {}slotkeeper_last AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        events,
        SQL("SELECT DISTINCT ON ({key}) * FROM {stage}{kept} ORDER BY {key}, point DESC, sequence DESC").format(
            key=key, stage=Identifier(table.staging), kept=_kept(options)
        ),
        SQL("DELETE FROM {table} t USING slotkeeper_last s WHERE s.kind IN ('d', 'B', 'x') AND {match}").format(
            table=table.rows, match=match(table)
        ),
        upsert(table, options, SQL("slotkeeper_last s"), SQL(" WHERE s.kind IN ('I', 'U')")),
    )


_LAST_SOFT = """
SELECT CASE WHEN i.kind IS NULL THEN 'd' ELSE 'U' END AS kind, {columns}
FROM (SELECT DISTINCT ON ({key}) * FROM {stage} ORDER BY {key}, point DESC, sequence DESC) l
LEFT JOIN (SELECT DISTINCT ON ({key}) * FROM {stage} WHERE kind IN ('I', 'U')
           ORDER BY {key}, point DESC, sequence DESC) i ON {same}
"""
"""Each key with its last image in the step, marked as deleted if its last event is a delete; d: no image is known."""


def _straight_soft(table: TargetTable, options: SinkOptions, events: Composable) -> Composable:
    """Return the statement for a target with soft deletes: a key's row is written or marked, never removed.

    A row that was already marked retains its marks: an x can follow a d of the same key.
    """
    stage, columns = Identifier(table.staging), []
    for n, name in enumerate(table.columns, 1):
        place = Identifier(f"c{n}")
        column = SQL("{}.{}").format(SQL("l" if name in table.key else "i"), place)
        if name in table.marks:
            marked = deleted_mark(table, name, SQL("l.{}").format(place))
            column = SQL("CASE WHEN l.kind IN ('I', 'U') THEN i.{} ELSE {} END").format(place, marked)
        columns.append(SQL("{} AS {}").format(column, place))
    last = SQL(_LAST_SOFT).format(
        columns=SQL(", ").join(columns), key=_key(table), stage=stage, same=same_key(table, "l", "i")
    )
    marks = SQL("UPDATE {table} t SET {sets} FROM slotkeeper_last s WHERE s.kind = 'd' AND {live} AND {match}")
    return SQL("WITH {}slotkeeper_last AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        events,
        last,
        marks.format(table=table.rows, sets=mark_sets(table), live=is_live(table), match=match(table)),
        upsert(table, options, SQL("slotkeeper_last s"), SQL(" WHERE s.kind = 'U'")),
    )


def mark_sets(table: TargetTable) -> Composable:
    """Return `column = value` for the marks of a row whose delete is the staged row s."""
    values = [(name, SQL("s.{}").format(Identifier(f"c{table.columns.index(name) + 1}"))) for name in table.marks]
    return SQL(", ").join(
        SQL("{} = {}").format(Identifier(name), deleted_mark(table, name, value)) for name, value in values
    )


def deleted_mark(table: TargetTable, name: str, staged: Composable) -> Composable:
    """Return the value of a mark after a delete; the deletes of an isolating step contain only the key."""
    return Literal("D") if name == table.marks[1] else SQL("coalesce({}, now())").format(staged)


def is_live(table: TargetTable) -> Composable:
    """Return the condition that a target row t is not marked as deleted."""
    return SQL("t.{} IS NULL").format(Identifier(table.marks[0]))


def retain_marked(table: TargetTable) -> Composable:
    """Return INSERT for the shadow table: the target's rows that the source no longer has, marked as deleted.

    Their computed columns become NULL: the stored values can be raw ones, written before the column was computed.
    """
    signs = table.signs or ("=",) * len(table.key)
    names = [Identifier(one) for one in table.key]
    same = SQL(" AND ").join(
        SQL("t.{0} {1} s.{0}").format(name, SQL(sign)) for name, sign in zip(names, signs, strict=True)
    )
    values = []
    for name in table.columns:
        value = SQL("NULL") if name in table.computed else SQL("t.{}").format(Identifier(name))
        if name in table.marks:
            gone = Literal("D") if name == table.marks[1] else SQL("now()")
            value = SQL("CASE WHEN {} THEN {} ELSE {} END").format(is_live(table), gone, value)
        values.append(value)
    return SQL("INSERT INTO {0} ({1}) SELECT {2} FROM {3} t WHERE NOT EXISTS (SELECT FROM {0} s WHERE {4})").format(
        shadow(table), _names(table.columns), SQL(", ").join(values), table.rows, same
    )


def straight_update(table: TargetTable, options: SinkOptions, events: Composable = NO_EVENTS) -> Composable:
    """Return one statement that applies the net effect if rows are only updated or deleted, never inserted.

    `events`: as in `straight`.
    """
    origin = SQL("slotkeeper_net s")
    return SQL("WITH {}slotkeeper_net AS MATERIALIZED ({}), slotkeeper_gone AS ({}) {}").format(
        events, net(table, options), delete(table, origin), update(table, options, origin)
    )


def net(table: TargetTable, options: SinkOptions) -> Composable:
    """Return a query with one row per key (c1..cn, deletes, writes), according to the rules in the module docstring."""
    chosen = SQL("n = events")
    if options.conflict_strategy == "ignore":
        chosen = SQL("ends AND n = events OR NOT ends AND segment = ended AND n = opens")
    columns = all_staged(table)
    rows = _segments(table, options)
    if options.conflict_strategy == "ignore":
        rows = SQL(
            "SELECT *, min(CASE WHEN ends THEN NULL ELSE n END) OVER (PARTITION BY {}, segment) AS opens FROM ({}) g"
        ).format(_key(table), rows)
    elif options.ignore_null_when_update:
        columns, rows = _merged(table, rows)
    return SQL("SELECT {}, ended > 0 AS deletes, NOT ends AS writes FROM ({}) k WHERE {}").format(columns, rows, chosen)


def delete(table: TargetTable, origin: Composable) -> Composable:
    """Return the DELETE statement for the rows that the net effects delete."""
    return SQL("DELETE FROM {table} t USING {origin} WHERE s.deletes AND {match}").format(
        table=table.rows, origin=origin, match=match(table)
    )


def upsert(table: TargetTable, options: SinkOptions, origin: Composable, where: Composable) -> Composable:
    """Return the INSERT ... ON CONFLICT statement for rows c1..cn.

    The target has an alias, because `EXCLUDED` would be ambiguous for a table of that name (DWS, INSERT: "INTO
    table_name [ AS alias ]").
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
        staged=SQL(", ").join([all_staged(table), *[SQL("NULL")] * len(nulled_columns(table, options))]),
        origin=origin,
        where=where,
        key=_names(table.key),
        action=action,
    )


def merge(table: TargetTable, options: SinkOptions, origin: Composable) -> Composable:
    """Return the MERGE statement for net effects that write rows; both servers accept SET columns without an alias."""
    sets = _sets(table, options, None, Identifier("t"))
    nulled = nulled_columns(table, options)
    return SQL(
        "MERGE INTO {table} t USING (SELECT * FROM {origin} WHERE s.writes) s ON ({match}){matched}"
        " WHEN NOT MATCHED THEN INSERT ({columns}) VALUES ({values})"
    ).format(
        table=table.rows,
        origin=origin,
        match=match(table),
        matched=SQL(" WHEN MATCHED THEN UPDATE SET {}").format(sets) if sets else SQL(""),
        columns=_names((*table.columns, *nulled)),
        values=SQL(", ").join(
            [
                *[SQL("s.{}").format(Identifier(f"c{n}")) for n in range(1, len(table.columns) + 1)],
                *[SQL("NULL")] * len(nulled),
            ]
        ),
    )


def update(table: TargetTable, options: SinkOptions, origin: Composable) -> Composable:
    """Return the UPDATE statement for existing rows; a key that was deleted in this step has no row."""
    return update_of(table, options, origin, SQL("s.writes AND NOT s.deletes"))


def update_of(table: TargetTable, options: SinkOptions, origin: Composable, which: Composable) -> Composable:
    """Return the UPDATE statement for existing rows, from the rows s of `origin` that satisfy the condition `which`."""
    sets = _sets(table, options, None, Identifier("t"))
    return SQL("UPDATE {table} t SET {sets} FROM {origin} WHERE {which} AND {match}").format(
        table=table.rows,
        sets=sets or SQL("{0} = t.{0}").format(Identifier(table.key[0])),
        origin=origin,
        which=which,
        match=match(table),
    )


def last_is_enough(table: TargetTable, options: SinkOptions) -> bool:
    """Return whether only the last event of a key determines the result if rows can be inserted."""
    if table.marks:  # a marked row that is written again is the same row
        return True
    if options.conflict_strategy == "replace":
        return True
    return options.conflict_strategy == "update" and not options.ignore_null_when_update and not table.others


def _kept(options: SinkOptions) -> Composable:
    return SQL(" WHERE kind <> 'd'") if options.ignore_delete else SQL("")


def _segments(table: TargetTable, options: SinkOptions) -> Composable:
    events = SQL("SELECT * FROM {}{}").format(Identifier(table.staging), _kept(options))
    if options.ignore_update_before:
        events = SQL(_EVENTS).format(stage=Identifier(table.staging), kept=_kept(options), key=_key(table))
    counted = SQL(" WHERE paired = 0") if options.ignore_update_before else SQL("")
    return SQL(_SEGMENTS).format(columns=all_staged(table), key=_key(table), events=events, counted=counted)


def _merged(table: TargetTable, rows: Composable) -> tuple[Composable, Composable]:
    """Select each column's last non-NULL value in the segment: a value and the NULLs after it form a run."""
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


_UNCHANGED = """
CASE WHEN CASE WHEN pg_typeof({0}) = pg_typeof({1}) THEN ROW({0})::record *= ROW({1})::record END THEN {1} ELSE {0} END
"""
"""The stored value if the new one has the same bytes: the new row version then refers to the stored TOAST value.

PostgreSQL, "Database Physical Storage", TOAST: an UPDATE incurs no TOAST costs if none of the out-of-line values
change; a value from another table counts as a change. "Row and Array Comparisons", "Composite Type Comparison":
`record *= record` compares the internal binary representation, so numbers with other scales or equal strings of a
nondeterministic collation are different. It rejects different types, as of a target that was altered after the staging
table was created.
"""


def _sets(table: TargetTable, options: SinkOptions, given: pg.sql.SQL | None, target: Composable) -> Composable | None:
    """Return `column = new value` for the columns that a conflict changes; None if a conflict changes nothing.

    `given` is a template for the new value, filled with the column's name; without a template, the new value is s.cN.
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
        if name in table.kept:
            value = SQL(_UNCHANGED).format(value, SQL("{}.{}").format(target, column))
        sets.append(SQL("{} = {}").format(column, value))
    sets += [SQL("{} = NULL").format(Identifier(name)) for name in nulled_columns(table, options)]
    return SQL(", ").join(sets) if sets else None


def nulled_columns(table: TargetTable, options: SinkOptions) -> tuple[str, ...]:
    """Return the columns that exist only in the target and are set to NULL in every written row."""
    return table.others if options.conflict_strategy == "replace" else ()


def match(table: TargetTable) -> Composable:
    """Return the condition that a target row t has the same key as a row s with columns c1..cn."""
    return _equal(table, [SQL("t.{}").format(Identifier(name)) for name in table.key], "s")


def same_key(table: TargetTable, one: str, other: str) -> Composable:
    """Return the condition that two staged rows have the same key."""
    return _equal(table, [SQL("{}.{}").format(SQL(one), Identifier(f"c{n}")) for n in table.places], other)


def _equal(table: TargetTable, columns: list[Composable], other: str) -> Composable:
    signs = table.signs or ("=",) * len(table.key)
    return SQL(" AND ").join(
        SQL("{} {} {}.{}").format(column, SQL(sign), SQL(other), Identifier(f"c{n}"))
        for column, sign, n in zip(columns, signs, table.places, strict=True)
    )


def _names(names: tuple[str, ...]) -> Composable:
    return SQL(", ").join(map(Identifier, names))


def _key(table: TargetTable) -> Composable:
    return staged(table.places)


# -- the choice of a step's statements --------------------------------------------------------------------------------

RARELY = 100
"""Number of uses of a prepared plan before it is planned again, because the table may have grown meanwhile."""


WIDE = 1_000
"""Mean bytes of an event above which a step is wide: a row above 2 kB has long values stored in the TOAST table, and an
update has two events, of which the old one contains only the key. In narrower rows, the comparison saves nothing."""


def is_wide(size: int, events: int) -> bool:
    """Return whether events with `size` bytes together are wide.

    >>> is_wide(0, 0), is_wide(4_000, 4), is_wide(2_100, 2)
    (False, False, True)
    """
    return size > WIDE * events


@dataclass(frozen=True, slots=True)
class Plan:
    """The statements of a step, in order; `kept`: the statements are prepared once and their plans are reused.

    `mode` is the chosen write mode, never an automatic one. `instead` replaces the last statement while the server
    rejects that statement (DWS: no MERGE during redistribution).
    """

    mode: str
    statements: tuple[Composable, ...]
    kept: bool
    instead: Composable | None = None


def chosen(options: SinkOptions, rows: int) -> str:
    """Return the write mode for a step by its number of staged rows.

    >>> chosen(SinkOptions(copy_write_batch_size=10), 9), chosen(SinkOptions(copy_write_batch_size=10), 10)
    ('upsert', 'copy_upsert')
    """
    small, large = {"auto": ("upsert", "copy_upsert"), "update_auto": ("update", "copy_update")}.get(
        options.write_mode, (options.write_mode, options.write_mode)
    )
    return small if rows < options.copy_write_batch_size else large


def size_of(rows: int) -> int:
    """Return the size class of a step; each class has its own plan: a plan for thousands of rows is unsuitable for two.

    >>> [size_of(rows) for rows in (1, 3, 4, 15, 16, 5_000)]
    [0, 1, 1, 2, 2, 6]
    """
    return rows.bit_length() // 2


def needs_net(table: TargetTable, options: SinkOptions) -> bool:
    """Return whether steps use the table of net effects."""
    if options.write_mode == "copy_merge" or table.dialect.plain:
        return True
    return not options.updates_only and not last_is_enough(table, options)


def plan(table: TargetTable, options: SinkOptions, rows: int) -> Plan:
    """Return the plan to apply a step with this number of staged rows."""
    mode = chosen(options, rows)
    kept = mode in ("upsert", "update")
    if not needs_net(table, options):
        whole = straight_update if options.updates_only else straight
        return Plan(mode, (whole(table, options),), kept)
    origin = SQL("{} s").format(Identifier(table.net))
    upserted = upsert(table, options, origin, SQL(" WHERE s.writes"))
    first = (SQL("INSERT INTO {} {}").format(Identifier(table.net), net(table, options)), delete(table, origin))
    if options.updates_only:
        return Plan(mode, (*first, update(table, options, origin)), kept)
    if mode != "copy_merge":
        return Plan(mode, (*first, upserted), kept)
    merged = merge(table, options, origin)
    return Plan(mode, (*first, merged), kept, upserted if table.dialect.plain else None)


def chunk(table: TargetTable, options: SinkOptions) -> Plan:
    """Return the plan, as set by the options, to write a staged chunk of a copy as inserts into a target with rows."""
    origin = SQL("(SELECT *, true AS writes, false AS deletes FROM {}) s").format(Identifier(table.staging))
    upserted = upsert(table, options, origin, SQL(""))
    if options.updates_only or options.write_mode != "copy_merge":
        written = update(table, options, origin) if options.updates_only else upserted
        return Plan(options.write_mode, (written,), False)
    instead = upserted if table.dialect.plain else None
    return Plan(options.write_mode, (merge(table, options, origin),), False, instead)


def execute(cursor: pg.Cursor, plan: Plan) -> None:
    """Run a step's statements once, without preparing them."""
    for statement in plan.statements[:-1]:
        cursor.execute(statement)
    _execute_last(cursor, plan.statements[-1], plan.instead)


def _execute_last(cursor: pg.Cursor, statement: Composable, instead: Composable | None) -> None:
    """Run a statement, or `instead` if the server reports that it does not currently support the statement."""
    if instead is None:
        cursor.execute(statement)
        return
    cursor.execute("SAVEPOINT slotkeeper_last")
    try:
        cursor.execute(statement)
    except pg.DriverError as error:
        if pg.failure(error)[0] != "0A000":  # feature_not_supported
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT slotkeeper_last")
        cursor.execute(instead)
