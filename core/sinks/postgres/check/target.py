"""Makes and checks the target table, and clears or exchanges it around a copy."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.row_counts import UNTOLD_CODES, RowCount, count_within
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import types
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, nulled_columns, shadow
from slotkeeper.core.sqltext import dotted

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier


def target_of(channel: ChannelSpec, identity: TableIdentity) -> TargetTable:
    """The target of a one-to-one channel: the source's columns by the channel's mapping, or all by name."""
    image = image_of(channel, identity)
    keys = {column.name: column.type for column in image.columns if column.name in image.key}
    loose = tuple(name for name, type_ in keys.items() if not types.exact(type_))
    forms = tuple(eligibility.form(keys[name], identity) for name in image.key)
    columns = tuple(column.name for column in image.columns)
    return TargetTable(channel.target, columns, image.key, loose=loose, forms=forms)


def seen(session: SinkSession, target: TargetTable) -> TargetTable:
    """The target with what only the server knows: its kind, the columns' types, and columns that only it has.

    Columns that the server computes from the mirrored ones do not count as its own.
    """
    there = eligibility.columns(session, target.name)
    others = tuple(name for name, it in there.items() if name not in target.columns and not it.computed)
    spelled = tuple(there[name].type for name in target.columns if name in there)
    base_of = {name: it.base or it.type for name, it in there.items()}
    bases = tuple(base_of[name] for name in target.columns if name in there)
    loose = () if session.dialect.spreads else target.loose
    made = any("." in base_of[name] for name in target.key if name in there)
    found = eligibility.operators(session, target.name, target.key) if made else {}
    signs = tuple(found.get(name, {}).get("=", "=") for name in target.key)
    named = zip(target.key, target.forms, strict=False)  # a rig's target has none
    forms = tuple(types.form_at(base_of.get(name, ""), form) for name, form in named)
    strict = all(there[name].needed for name in target.key if name in there)
    known = replace(target, loose=loose, others=others, types=spelled, bases=bases, strict_key=strict)
    # a DWS's tables have no children (DWS, CREATE TABLE: no INHERITS), and its MERGE takes no ONLY
    only = not session.dialect.plain and not eligibility.is_partitioned(session, target.name)
    return replace(known, dialect=session.dialect, signs=signs, forms=forms, only=only)


def exists(session: SinkSession, name: str) -> bool:
    """Whether the table is there."""
    return eligibility.exists(session, name)


def create(session: SinkSession, name: str, identity: TableIdentity) -> bool:
    """Make the target where it is absent, with the source's columns and key; True where it was made."""
    if exists(session, name):
        return False
    refuse(eligibility.made_objections(name, identity, session), "sink")
    with session.transaction() as cursor:
        columns = _made_columns(cursor, session, identity)
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


def _made_columns(cursor: pg.Cursor, session: SinkSession, identity: TableIdentity) -> list[pg.sql.Composable]:
    """Name, type, collation where the sink knows it, and NOT NULL.

    NOT NULL holds under every filter, mapping and write mode: what is written is always a whole row of the source, and
    old images, which hold the key alone, only end rows. DWS, CREATE TABLE: COLLATE stands behind a type, and of
    column constraints a column-store table takes NULL, NOT NULL and DEFAULT.
    """
    wanted = [column.collation for column in identity.columns if column.collation]
    known = eligibility.collations(cursor, session, wanted)
    made: list[pg.sql.Composable] = []
    for column in identity.columns:
        spelled = eligibility.made_type(column.type, identity, session.dialect)
        collated = f" COLLATE {column.collation}" if column.collation in known else ""
        required = " NOT NULL" if column.required and column.name not in identity.key else ""
        made.append(SQL("{} {}").format(Identifier(column.name), SQL(type_name.sql(spelled) + collated + required)))
    return made


def _layout(session: SinkSession, identity: TableIdentity) -> pg.sql.Composable:
    key = [Identifier(name) for name in identity.key]
    return SQL(session.dialect.target) + session.dialect.spread(key)


def check(session: SinkSession, target: TargetTable, identity: TableIdentity, options: SinkOptions) -> None:
    """Refuse by name a target that cannot hold the source; `identity` is the source's image (`image_of`)."""
    if options.write_mode == "copy_merge" and session.ready().server_version < session.dialect.merges_since:
        what = 'write_mode = "copy_merge" needs PostgreSQL 15 or later at the sink'
        raise Refused(what, 'set write_mode = "auto", which does the same', where="sink")
    facts = eligibility.read(session, target.name, identity.user_types)
    refuse(list(eligibility.objections(target, identity, facts, options)), "sink")


def is_empty(session: SinkSession, target: TargetTable) -> bool:
    """Whether the target holds no row."""
    with session.transaction() as cursor:
        cursor.execute(SQL("SELECT NOT EXISTS (SELECT 1 FROM {})").format(target.rows))
        found = cursor.fetchone()
    return bool(found and found[0])


def count_rows(session: SinkSession, target: TargetTable) -> RowCount:
    """The target's rows; unknown where this login may not ask. The session stays, and with it a lease that it holds."""
    with session.transaction() as cursor:

        def ask(most: int | None, limit_ms: int) -> int | None:
            limit = SQL("") if most is None else SQL(" LIMIT {}").format(pg.sql.Literal(most))
            cursor.execute("SAVEPOINT counting")
            try:
                pg.limit_transaction(cursor, limit_ms)
                cursor.execute(SQL("SELECT count(*) FROM (SELECT 1 FROM {}{}) c").format(target.rows, limit))
                return int(cursor.fetchall()[0][0])
            except pg.DriverError as error:
                if pg.failure(error)[0] != "57014":
                    raise
                cursor.execute("ROLLBACK TO SAVEPOINT counting")
                return None

        try:
            return count_within(ask)
        except pg.DriverError as error:
            code, text = pg.failure(error)
            if code[:2] not in UNTOLD_CODES:
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT counting")
            return RowCount(None, why=safe(text, 200))


def drop_shadow(cursor: pg.Cursor, target: TargetTable) -> None:
    """Whatever an earlier copy left behind."""
    cursor.execute(SQL("DROP TABLE IF EXISTS {}").format(shadow(target)))


def make_shadow(cursor: pg.Cursor, target: TargetTable, checked: bool) -> None:
    """An empty table beside the target for a replacing copy.

    `checked` with the target's checks: then a row that it would not hold is found in its chunk, not at the exchange.
    """
    checks = SQL(" INCLUDING CONSTRAINTS" if checked else "")
    made = SQL("CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS{})")
    cursor.execute(made.format(shadow(target), target.identifier, checks))


def exchange_shadow(cursor: pg.Cursor, target: TargetTable, options: SinkOptions) -> None:
    """Put the shadow's rows in place of the target's, which keeps its grants, views and indexes."""
    nulled = nulled_columns(target, options)
    into = SQL(", ").join(map(Identifier, (*target.columns, *nulled)))
    values = SQL(", ").join([*map(Identifier, target.columns), *[SQL("NULL")] * len(nulled)])
    cursor.execute(SQL("TRUNCATE {}").format(target.rows))
    _refuse_altered(cursor, target)
    cursor.execute(SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(target.identifier, into, values, shadow(target)))
    cursor.execute(SQL("DROP TABLE {}").format(shadow(target)))


def _refuse_altered(cursor: pg.Cursor, target: TargetTable) -> None:
    """Raise Refused where a column has another type than when the shadow was made like it: PostgreSQL would round and
    cut the copied values without a word (CREATE CAST, "assignment"). Nobody can alter the target behind its TRUNCATE.
    """
    names = [dotted(target.name), dotted(".".join(shadow(target).strings))]
    cursor.execute(
        "SELECT t.attname::text FROM pg_attribute t JOIN pg_attribute s ON s.attname = t.attname"
        " WHERE t.attrelid = %s::regclass AND s.attrelid = %s::regclass AND t.attnum > 0"
        " AND (t.atttypid <> s.atttypid OR t.atttypmod <> s.atttypmod)",
        names,
    )
    altered = [str(name) for (name,) in cursor.fetchall() if name in target.columns]
    if altered:
        what = f"target {target.name} was altered while it was copied: column {safe(altered[0], 60)} has another type"
        raise Refused(what, "give the column its type back, or take a new snapshot", where="sink")


def has_shadow(session: SinkSession, target: TargetTable) -> bool:
    """Whether a replacing copy's shadow is there."""
    return exists(session, ".".join(shadow(target).strings))
