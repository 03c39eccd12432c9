"""Makes and checks the target table, and clears or exchanges it around a copy.

Next door: `statements.py` holds the step's statements. Refusals name the column and the statement that cures it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from core.domain.slot import Column, TableIdentity
from core.domain.spec import ChannelSpec, SinkOptions
from core.drivers import pg
from core.errors import Refused
from core.sinks.postgres.effects import nulled_columns
from core.sinks.postgres.session import SinkSession
from core.sinks.postgres.statements import TargetTable, distributed, shadow

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal

_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '' OR a.attidentity = 'a', a.attgenerated <> ''
FROM pg_attribute a WHERE a.attrelid = ({table}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_COLUMNS_DWS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef, false, false
FROM pg_attribute a WHERE a.attrelid = ({table}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS = """
SELECT i.indisprimary, i.indimmediate, i.indpred IS NOT NULL,
       ARRAY(SELECT a.attname FROM generate_series(0, 31) n
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[n]
             WHERE n < i.indnatts ORDER BY n)::text[]
FROM pg_index i WHERE i.indrelid = ({table}) AND i.indisunique
"""
_FOREIGN = "SELECT conname FROM pg_constraint WHERE conrelid = ({table}) AND contype = 'f'"
MERGE_SINCE = 150_000
"""The first server version of PostgreSQL that has MERGE."""
_EXISTS = "SELECT 1 WHERE EXISTS ({table})"
_OID = (
    "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {} AND c.relname = {}"
)


def image_of(channel: ChannelSpec, identity: TableIdentity) -> TableIdentity:
    """The source table as its target has it: the mirrored columns in the order in which they are read, renamed."""
    if not channel.columns:
        return identity
    types, names = {column.name: column.type for column in identity.columns}, dict(channel.columns)
    columns = tuple(Column(into, types[name]) for name, into in channel.columns)
    return replace(identity, columns=columns, key=tuple(names[name] for name in identity.key))


def target_of(channel: ChannelSpec, identity: TableIdentity) -> TargetTable:
    """The target of a one-to-one channel: the source's columns by the channel's mapping, or all by name."""
    image = image_of(channel, identity)
    return TargetTable(channel.target, tuple(column.name for column in image.columns), image.key)


def seen(session: SinkSession, target: TargetTable) -> TargetTable:
    """The target with what only the server knows: its kind, the columns' types, and columns that only it has.

    Columns that the server computes from the mirrored ones do not count as its own.
    """
    with session.transaction() as cursor:
        rows = _asked(cursor, _COLUMNS_DWS if session.kind == "dws" else _COLUMNS, target.name)
    types = {row[0]: str(row[1]) for row in rows}
    others = tuple(row[0] for row in rows if row[0] not in target.columns and not row[5])
    spelled = tuple(types[name] for name in target.columns if name in types)
    return replace(target, others=others, types=spelled, kind=session.kind)


def exists(session: SinkSession, name: str) -> bool:
    """Whether the table is there."""
    with session.transaction() as cursor:
        return bool(_asked(cursor, _EXISTS, name))


def _asked(cursor: pg.Cursor, statement: str, name: str) -> list[tuple[Any, ...]]:
    """The rows of a catalog statement about the table `name`."""
    oid = SQL(_OID).format(*map(Literal, name.split(".", 1)))
    cursor.execute(SQL(statement).format(table=oid))
    return list(cursor.fetchall())


def create(session: SinkSession, name: str, identity: TableIdentity) -> bool:
    """Make the target where it is absent, with the source's column types and key; True where it was made."""
    with session.transaction() as cursor:
        if _asked(cursor, _EXISTS, name):
            return False
        columns = [SQL("{} {}").format(Identifier(c.name), SQL(c.type)) for c in identity.columns]
        key = SQL("PRIMARY KEY ({})").format(SQL(", ").join(map(Identifier, identity.key)))
        schema, dot, _ = name.partition(".")
        if dot:
            # IF NOT EXISTS asks for the right to create schemas even where the schema is there
            cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
            if not cursor.fetchone():
                cursor.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        body = SQL(", ").join([*columns, key])
        cursor.execute(
            SQL("CREATE TABLE {} ({}){}").format(Identifier(*name.split(".", 1)), body, _layout(session, identity))
        )
    return True


def _layout(session: SinkSession, identity: TableIdentity) -> pg.sql.Composable:
    """DWS: a real-time mirror is an HStore-opt table (as in the vendor's example), spread by the hash of its key."""
    if session.kind != "dws":
        return SQL("")
    key = [Identifier(name) for name in identity.key]
    return SQL(" WITH (orientation = column, enable_hstore_opt = on){}").format(distributed(session.kind, key))


def check(session: SinkSession, target: TargetTable, identity: TableIdentity, options: SinkOptions) -> None:
    """Refuse by name a target that cannot hold the source; `identity` is the source's image (`image_of`)."""
    if (
        options.write_mode == "copy_merge"
        and session.kind == "postgres"
        and session.ready().server_version < MERGE_SINCE
    ):
        what = 'write_mode = "copy_merge" needs PostgreSQL 15 or later at the sink'
        raise Refused(what, 'set write_mode = "auto", which does the same', where="sink")
    with session.transaction() as cursor:
        rows = _asked(cursor, _COLUMNS_DWS if session.kind == "dws" else _COLUMNS, target.name)
        keys = [(row[0], row[1], row[2], row[3]) for row in _asked(cursor, _KEYS, target.name)]
        foreign = [row[0] for row in _asked(cursor, _FOREIGN, target.name)]
    columns = {row[0]: row[1:] for row in rows}
    if not columns:
        raise _refused(target, "does not exist", "create it, or set create_target = true")
    _check_columns(target, identity, columns)
    _check_others(target, columns, options)
    _check_keys(target, keys, foreign)


def _check_columns(
    target: TargetTable, identity: TableIdentity, columns: dict[str, tuple[str, bool, bool, bool, bool]]
) -> None:
    for column in identity.columns:
        if column.name not in columns:
            raise _refused(
                target,
                f"has no column {column.name!r}",
                f'ALTER TABLE {target.name} ADD COLUMN "{column.name}" {column.type}',
            )
        spelled, _, _, generated, _ = columns[column.name]
        if generated:
            raise _refused(
                target,
                f"generates column {column.name!r} itself",
                "drop the generation expression, or make the identity BY DEFAULT",
            )
        if not holds(spelled, column.type):
            raise _refused(
                target,
                f"column {column.name!r} is {spelled}, the source's is {column.type}",
                f'ALTER TABLE {target.name} ALTER COLUMN "{column.name}" TYPE {column.type}',
            )


def _check_others(
    target: TargetTable, columns: dict[str, tuple[str, bool, bool, bool, bool]], options: SinkOptions
) -> None:
    """Columns that only the target has, against what the options make of them."""
    replaced = options.conflict_strategy == "replace"
    for name, (_, needed, filled, _, computed) in columns.items():
        if name in target.columns or not needed or computed:
            continue
        if replaced:
            what = f'cannot have column {name!r} made NULL, as conflict_strategy = "replace" does'
            raise _refused(target, what, f'ALTER TABLE {target.name} ALTER COLUMN "{name}" DROP NOT NULL')
        if not filled and not options.updates_only:
            raise _refused(target, f"demands a value for column {name!r}", "give that column a default")


def holds(target: str, source: str) -> bool:
    """Whether every value of the source's type fits the target's type; the same type always does.

    >>> holds("bigint", "integer"), holds("integer", "bigint"), holds("text", "character varying(20)")
    (True, False, True)
    >>> holds("numeric(10,2)", "numeric(12,2)"), holds("numeric", "numeric(12,2)")
    (False, True)
    """
    if target == source:
        return True
    whole = ["smallint", "integer", "bigint", "numeric"]
    if source in whole and target in whole:
        return whole.index(target) >= whole.index(source)
    plain = source.split("(")[0].strip()
    if target in ("text", "character varying") and plain in ("text", "character varying"):
        return True
    if (target, source) in {("double precision", "real"), ("jsonb", "json")}:
        return True
    return target == plain and plain in ("numeric", "character varying", "timestamp", "interval", "bit varying")


def _check_keys(target: TargetTable, keys: list[tuple[bool, bool, bool, list[str]]], foreign: list[str]) -> None:
    if foreign:
        raise _refused(target, f"has a foreign key ({foreign[0]})", f"ALTER TABLE ... DROP CONSTRAINT {foreign[0]}")
    wanted = set(target.key)
    good = False
    for _, immediate, partial, columns in keys:
        if set(columns) == wanted and not partial:
            if not immediate:
                raise _refused(target, "has a deferrable key", "make it NOT DEFERRABLE")
            good = True
        else:
            text = ", ".join(columns)
            raise _refused(target, f"has another unique key ({text})", "drop it: changes of two keys collide on it")
    if not good:
        text = ", ".join(target.key)
        raise _refused(target, f"has no unique key on ({text})", f"ALTER TABLE {target.name} ADD PRIMARY KEY ({text})")


def is_empty(session: SinkSession, target: TargetTable) -> bool:
    """Whether the target holds no row."""
    with session.transaction() as cursor:
        cursor.execute(SQL("SELECT NOT EXISTS (SELECT 1 FROM {})").format(target.identifier))
        found = cursor.fetchone()
    return bool(found and found[0])


def make_shadow(cursor: pg.Cursor, target: TargetTable) -> None:
    """An empty table beside the target for a replacing copy; one of an earlier copy is dropped."""
    cursor.execute(SQL("DROP TABLE IF EXISTS {}").format(shadow(target)))
    cursor.execute(SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS)").format(shadow(target), target.identifier))


def exchange_shadow(cursor: pg.Cursor, target: TargetTable, options: SinkOptions) -> None:
    """Put the shadow's rows in place of the target's, which keeps its grants, views and indexes."""
    nulled = nulled_columns(target, options)
    into = SQL(", ").join(map(Identifier, (*target.columns, *nulled)))
    values = SQL(", ").join([*map(Identifier, target.columns), *[SQL("NULL")] * len(nulled)])
    cursor.execute(SQL("TRUNCATE {}").format(target.identifier))
    cursor.execute(SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(target.identifier, into, values, shadow(target)))
    cursor.execute(SQL("DROP TABLE {}").format(shadow(target)))


def _refused(target: TargetTable, what: str, cure: str) -> Refused:
    return Refused(f"target {target.name} {what}", cure, where="sink")


def has_shadow(session: SinkSession, target: TargetTable) -> bool:
    """Whether a replacing copy's shadow is there."""
    with session.transaction() as cursor:
        return bool(_asked(cursor, _EXISTS, ".".join(shadow(target).strings)))
