"""Sources and targets that cannot be mirrored: the fault of each, its message, and its fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotkeeper.demo import facts
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import run

TABLE, TARGET = "ods.orders", "mart.orders"
HSTORE = ["orientation=column", "enable_hstore_opt=on"]


@dataclass(frozen=True)
class Case:
    """The fault of a table, its message, and its fix."""

    spoil: Callable[[Warehouse], object]
    what: str
    cure: str


def _sql(*statements: str) -> Callable[[Warehouse], object]:
    return lambda warehouse: run(warehouse, *statements)


def _options(*given: str) -> Callable[[Warehouse], object]:
    return lambda warehouse: facts.options(warehouse, TABLE, given)


def _says(name: str, value: str) -> Callable[[Warehouse], object]:
    return lambda warehouse: facts.say(warehouse, name, value)


def _spread(locator: str) -> Callable[[Warehouse], object]:
    return lambda warehouse: facts.distribute(warehouse, TABLE, locator)


def _off_and_no_binlog(warehouse: Warehouse) -> None:
    facts.say(warehouse, "enable_hstore_binlog_table", "off")
    facts.options(warehouse, TABLE, HSTORE)


def _named_like_the_binlog(warehouse: Warehouse) -> None:
    run(
        warehouse,
        _GONE,
        f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, gs_binlog_event_type text)",
        f"GRANT SELECT ON {TABLE} TO etl",
    )
    facts.options(warehouse, TABLE, [*HSTORE, "enable_binlog=on"])


_NEW = "recreate it: CREATE TABLE ... WITH (orientation = column, enable_hstore_opt = on, enable_binlog = on)"
_GONE = f"DROP TABLE {TABLE} CASCADE"
SOURCE = {
    "kernel too old": Case(
        _says("version", "PostgreSQL 9.2.4 (GaussDB 8.1.3 build 17c0c6a9) compiled at 2022-09-09"),
        "kernel 8.1.3 is too old for the binlog functions",
        "to 9.1.0.200 or newer",
    ),
    "function missing": Case(
        lambda warehouse: facts.without(warehouse, "pgxc_get_binlog_cursor_by_syncpoint"),
        "missing pgxc_get_binlog_cursor_by_syncpoint: a job needs kernel 9.1.0.200 or newer",
        "upgrade the cluster",
    ),
    "function not allowed": Case(
        _sql("REVOKE EXECUTE ON FUNCTION pgxc_get_binlog_sync_point FROM PUBLIC"),
        "cannot execute pgxc_get_binlog_sync_point",
        "GRANT EXECUTE ON FUNCTION pg_catalog.pgxc_get_binlog_sync_point TO <this user>",
    ),
    "no one point per transaction": Case(
        _says("gtm_option", "gtm-free"),
        "gtm_option is gtm-free: a job needs one sync point per transaction",
        "ask an administrator to set gtm_option to gtm",
    ),
    "no one point per transaction, by the older setting": Case(
        _says("enable_gtm_free", "on"),
        "enable_gtm_free is on: a job needs one sync point per transaction",
        "ask an administrator to set enable_gtm_free to off",
    ),
    "points without a request": Case(
        _says("gtm_option", "gtm-lite"),
        "gtm_option is gtm-lite: DWS does not document one ordered sync point per transaction",
        "slotkeeper doctor --probe dws1",
    ),
    "V3 HStore": Case(
        _options("orientation=column", "enable_hstore=on", "colversion=3.0", "enable_binlog=on"),
        f"{TABLE} is a V3 HStore table: a V3 table has a binlog only with HStore-opt",
        _NEW,
    ),
    "no HStore": Case(_options("orientation=column"), f"{TABLE} is neither an HStore nor an HStore-opt table", _NEW),
    "no binlog": Case(
        _options(*HSTORE),
        f"{TABLE} has neither enable_binlog nor enable_binlog_timestamp set",
        f"ALTER TABLE {TABLE} SET (enable_binlog = on)",
    ),
    "no binlog, and none allowed": Case(
        _off_and_no_binlog,
        f"{TABLE} has neither enable_binlog nor enable_binlog_timestamp set",
        "first ask an administrator to set enable_hstore_binlog_table = on",
    ),
    "replicated": Case(
        _spread("R"),
        f"{TABLE} is replicated to every DN: only a hash-distributed table has a binlog",
        f"ALTER TABLE {TABLE} DISTRIBUTE BY HASH (<columns of the key>)",
    ),
    "round robin": Case(
        _spread("N"),
        f"{TABLE} is distributed round robin: only a hash-distributed table has a binlog",
        f"ALTER TABLE {TABLE} DISTRIBUTE BY HASH",
    ),
    "no key": Case(
        _sql(f"ALTER TABLE {TABLE} DROP CONSTRAINT orders_pkey"),
        f"source table {TABLE} has no primary key",
        f"ALTER TABLE {TABLE} ADD PRIMARY KEY (...)",
    ),
    "deferrable key": Case(
        _sql(f"ALTER TABLE {TABLE} DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (id) DEFERRABLE"),
        f"the primary key of {TABLE} is deferrable",
        "NOT DEFERRABLE",
    ),
    "unlogged": Case(
        _sql(
            _GONE,
            f"CREATE UNLOGGED TABLE {TABLE} (id bigint PRIMARY KEY, note text)",
            f"GRANT SELECT ON {TABLE} TO etl",
        ),
        f"{TABLE} is unlogged: a crash empties it without a record in the binlog",
        "recreate it as an ordinary table",
    ),
    "row security": Case(
        _sql(f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY", f"CREATE POLICY few ON {TABLE} USING (id < 5)"),
        f"{TABLE} has row-level security, which can hide rows from this login",
        f"ALTER TABLE {TABLE} DISABLE ROW LEVEL SECURITY",
    ),
    "row security of DWS": Case(
        _options(*HSTORE, "enable_binlog=on", "enable_rowsecurity=true"),
        f"{TABLE} has row-level security, which can hide rows from this login",
        f"ALTER TABLE {TABLE} DISABLE ROW LEVEL SECURITY",
    ),
    "redaction policy": Case(
        lambda warehouse: facts.redact(warehouse, TABLE),
        f"{TABLE} has a redaction policy: the job would copy masked values",
        f"DROP REDACTION POLICY <name> ON {TABLE}",
    ),
    "column named like the binlog's": Case(
        _named_like_the_binlog,
        f"column gs_binlog_event_type of {TABLE} has the name of a column of the binlog",
        f"ALTER TABLE {TABLE} RENAME COLUMN gs_binlog_event_type TO ...",
    ),
    "inherited": Case(
        _sql(f'CREATE TABLE ods."Child" () INHERITS ({TABLE})'),
        f"{TABLE} has child tables, whose rows are read as its own and can have the same keys",
        f'ALTER TABLE ods."Child" NO INHERIT {TABLE}',
    ),
    "view": Case(
        _sql(_GONE, f"CREATE VIEW {TABLE} AS SELECT 1 AS id", f"GRANT SELECT ON {TABLE} TO etl"),
        f"{TABLE} is a view",
        "name the table that holds the rows",
    ),
    "materialized view": Case(
        _sql(_GONE, f"CREATE MATERIALIZED VIEW {TABLE} AS SELECT 1 AS id", f"GRANT SELECT ON {TABLE} TO etl"),
        f"{TABLE} is a materialized view",
        "name the table that holds the rows",
    ),
    "foreign table": Case(
        _sql(
            _GONE,
            "CREATE FOREIGN DATA WRAPPER w",
            "CREATE SERVER s FOREIGN DATA WRAPPER w",
            f"CREATE FOREIGN TABLE {TABLE} (id bigint) SERVER s",
            f"GRANT SELECT ON {TABLE} TO etl",
        ),
        f"{TABLE} is a foreign table",
        "name the table that holds the rows",
    ),
    "no right": Case(
        _sql(f"REVOKE SELECT ON {TABLE} FROM etl"),
        f"this login cannot read {TABLE}",
        f"GRANT SELECT ON {TABLE} TO <this user>",
    ),
    "no table": Case(_sql(_GONE), f"unknown table {TABLE}, or this login cannot use its schema", "correct the name"),
}

TABLE_OF_TARGET = f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text)"
SINK = {
    "no column": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY)"],
        f"target {TARGET} has no column 'note'",
        f"ALTER TABLE {TARGET} ADD COLUMN note text",
    ),
    "another type": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note bytea)"],
        f"target {TARGET} column 'note' is bytea, but text in the source",
        f"ALTER TABLE {TARGET} ALTER COLUMN note TYPE text",
    ),
    "too narrow": (
        [f"CREATE TABLE {TARGET} (id integer PRIMARY KEY, note text)"],
        f"target {TARGET} column 'id' is integer, but bigint in the source",
        f"ALTER TABLE {TARGET} ALTER COLUMN id TYPE bigint",
    ),
    "generated": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text GENERATED ALWAYS AS (id::text) STORED)"],
        f"target {TARGET} generates column 'note' itself",
        f"ALTER TABLE {TARGET} ALTER COLUMN note DROP EXPRESSION",
    ),
    "identity": (
        [f"CREATE TABLE {TARGET} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)"],
        f"target {TARGET} generates column 'id' itself",
        "SET GENERATED BY DEFAULT",
    ),
    "demanded": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text, who text NOT NULL)"],
        f"target {TARGET} requires a value for column 'who', which is not mapped",
        f"ALTER TABLE {TARGET} ALTER COLUMN who SET DEFAULT",
    ),
    "domain that refuses NULL": (
        [
            "CREATE DOMAIN mart.noted AS text NOT NULL",
            f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note mart.noted)",
        ],
        f"target {TARGET} stores column 'note' in a NOT NULL domain, but old images contain NULL",
        f"ALTER TABLE {TARGET} ALTER COLUMN note TYPE text",
    ),
    "no key": (
        [f"CREATE TABLE {TARGET} (id bigint, note text)"],
        f"target {TARGET} has no unique key on (id)",
        f"ALTER TABLE {TARGET} ADD PRIMARY KEY (id)",
    ),
    "deferrable key": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY DEFERRABLE, note text)"],
        f"target {TARGET} has a deferrable key (orders_pkey)",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT orders_pkey; ALTER TABLE {TARGET} ADD PRIMARY KEY (id)",
    ),
    "another unique key": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text UNIQUE)"],
        f"target {TARGET} has another unique key (note): changes of two keys could conflict on it",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT orders_note_key",
    ),
    "unique expression": (
        [TABLE_OF_TARGET, f'CREATE UNIQUE INDEX "By Lower" ON {TARGET} (lower(note))'],
        f"target {TARGET} has another unique key (By Lower)",
        'DROP INDEX mart."By Lower"',
    ),
    "exclusion": (
        [f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text, EXCLUDE USING hash (note WITH =))"],
        f"target {TARGET} has another unique key (note)",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT orders_note_excl",
    ),
    "foreign key": (
        [
            "CREATE TABLE mart.notes (note text PRIMARY KEY)",
            f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text REFERENCES mart.notes)",
        ],
        f"target {TARGET} has a foreign key (orders_note_fkey): the job does not preserve order between tables",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT orders_note_fkey",
    ),
    "pointed at": (
        [TABLE_OF_TARGET, f"CREATE TABLE mart.lines (id bigint REFERENCES {TARGET} ON DELETE CASCADE)"],
        f"target {TARGET} is referenced by a foreign key (lines_id_fkey)",
        "ALTER TABLE mart.lines DROP CONSTRAINT lines_id_fkey",
    ),
    "trigger": (
        [
            TABLE_OF_TARGET,
            "CREATE FUNCTION mart.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            f"CREATE TRIGGER swallow BEFORE INSERT ON {TARGET} FOR EACH ROW EXECUTE FUNCTION mart.f()",
        ],
        f"target {TARGET} has a trigger (swallow): its rows can differ from the source's",
        f"ALTER TABLE {TARGET} DISABLE TRIGGER swallow",
    ),
    "rule": (
        [TABLE_OF_TARGET, f"CREATE RULE nothing AS ON DELETE TO {TARGET} DO INSTEAD NOTHING"],
        f"target {TARGET} has a rule (nothing)",
        f"DROP RULE nothing ON {TARGET}",
    ),
    "unlogged": (
        [f"CREATE UNLOGGED TABLE {TARGET} (id bigint PRIMARY KEY, note text)"],
        f"target {TARGET} is not a logged table: a crash would empty it, but not its progress",
        f"ALTER TABLE {TARGET} SET LOGGED",
    ),
    "a partition that is unlogged": (
        [
            f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, note text) PARTITION BY RANGE (id)",
            f"CREATE UNLOGGED TABLE mart.low PARTITION OF {TARGET} FOR VALUES FROM (0) TO (100)",
        ],
        f"partition mart.low of target {TARGET} is not a logged table: a crash would empty it",
        "ALTER TABLE mart.low SET LOGGED",
    ),
    "inherited": (
        [TABLE_OF_TARGET, f"CREATE TABLE mart.child () INHERITS ({TARGET})"],
        f"target {TARGET} has child tables, whose rows are read as its own and can have the same keys",
        f"ALTER TABLE mart.child NO INHERIT {TARGET}",
    ),
    "view": (
        [f"CREATE VIEW {TARGET} AS SELECT 1::bigint AS id, ''::text AS note"],
        f"target {TARGET} is a view",
        "name an ordinary table",
    ),
}


def mend(warehouse: Warehouse) -> None:
    """Undo a case of SOURCE: the table is recreated, and so are the calls."""
    run(
        warehouse,
        "DELETE FROM dws.setting",
        "DELETE FROM dws.locator",
        "DELETE FROM dws.redaction",
        "DROP SCHEMA IF EXISTS ods CASCADE",
        "DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE",
    )
    warehouse.configure(Switches())
    run(warehouse, "GRANT EXECUTE ON FUNCTION pgxc_get_binlog_sync_point TO PUBLIC")
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
