"""No function of another user in a schema of the login's path runs as the product's login, at either end; the functions
that the product needs are found.

PostgreSQL, "Writing SECURITY DEFINER Functions Safely" and CVE-2018-1058: an operator of a better match in a schema
that everybody may create in is chosen before the server's own.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.doctor import check_sink, check_source
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.sinks.postgres.session import dialect_of
from slotkeeper.core.sources.dws.session import DWS, QUIET
from slotkeeper.core.wiring.worker import open_source
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.orders"
PAIRS = [
    ("name", "text", "||"),
    ("text", "name", "||"),
    ("name", "unknown", "="),
    ("bigint", "interval", "*"),
    ("bigint", "integer", "="),
    ("oid", "bigint", "="),
    ("name", "text", "="),
    ("name", "text", "<>"),
    ("text", "character varying", "="),
    ("boolean", "text", "||"),
    ("smallint", "text", "||"),
]
"""Operators in the product's statements, over pairs of types for which the server has none or a worse match."""

_LOOT = """
CREATE TABLE public.loot (who text, what text);
GRANT INSERT, SELECT ON public.loot TO PUBLIC;
GRANT CREATE ON SCHEMA public TO PUBLIC;
"""


def _plant() -> list[str]:
    """Statements that plant operators and functions, each of which records the user that ran it."""
    made = [_LOOT]
    for number, (left, right, name) in enumerate((pair for pair in PAIRS if "unknown" not in pair), 1):
        result = "boolean" if name in ("=", "<>") else "text"
        if name == "*":
            result = "interval"
        answer = {"boolean": "true", "text": "$1::text || $2::text", "interval": "interval '1 s'"}[result]
        body = f"BEGIN INSERT INTO public.loot VALUES (current_user, '{left} {name} {right}'); RETURN {answer}; END"
        function = f"public.planted_{number}({left}, {right})"
        made.append(
            f"CREATE FUNCTION {function} RETURNS {result} LANGUAGE plpgsql SET search_path = pg_catalog"
            f" AS $f$ {body} $f$"
        )
        made.append(
            f"CREATE OPERATOR public.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.planted_{number})"
        )
    for name, argument in (("quote_ident", "name"), ("format_type", "oid, integer"), ("length", "name")):
        body = f"BEGIN INSERT INTO public.loot VALUES (current_user, '{name}'); RETURN ''; END"
        made.append(
            f"CREATE FUNCTION public.{name}({argument}) RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog"
            f" AS $f$ {body} $f$"
        )
    return made


def test_planted_operators_never_run_as_our_login_at_either_end(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    warehouse.create_table(TABLE, "id bigint, name varchar(20), v text", ("id", "name"))
    mirror = make_mirror(warehouse, TABLE)
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'n' || n, 'v' FROM generate_series(1, 20) n")
    run(warehouse, *_plant())
    mirror.at_sink(*_plant())
    with open_source(mirror.job, "test") as source:
        source.identify()
        source.read_status(None)
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET v = 'w' WHERE id < 5", f"DELETE FROM {TABLE} WHERE id = 9")
    mirror.wait_equal()
    mirror.stop()
    assert verify(mirror.job, False, lambda *_: None).equal
    assert _loot(mirror) == ([], [])


def _loot(mirror: Mirror) -> tuple[list[str], list[str]]:
    """Return the planted functions that ran: at the source, and at the sink."""
    found = []
    for opened in (mirror.warehouse.connect, mirror.sink):
        with closing(opened()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT DISTINCT who || ': ' || what FROM public.loot ORDER BY 1")
            found.append([str(one) for (one,) in cursor.fetchall()])
    return found[0], found[1]


# -- keys of types whose operators are in another schema

CITEXT = ("CREATE SCHEMA ext", "CREATE EXTENSION citext SCHEMA ext", "GRANT USAGE ON SCHEMA ext TO PUBLIC")


@pytest.mark.parametrize("options", [SinkOptions(), SinkOptions(write_mode="copy_merge")], ids=["auto", "merge"])
def test_a_citext_key_of_another_schema_is_compared_by_its_own_operators(
    warehouse: Warehouse, make_mirror: MakeMirror, options: SinkOptions
) -> None:
    """As text, an update in one notation and a delete in another would each leave a row behind."""
    run(warehouse, *CITEXT)
    warehouse.create_table(TABLE, "part integer, k ext.citext, v text", ("part", "k"))
    run(
        warehouse,
        f"INSERT INTO {TABLE} SELECT n % 3, CASE n % 2 WHEN 0 THEN 'K' ELSE 'k' END || n, 'v'"
        " FROM generate_series(1, 60) n",
    )
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(*CITEXT, "CREATE SCHEMA mart")
    mirror.at_sink("CREATE TABLE mart.orders (part integer, k ext.citext, v text, PRIMARY KEY (part, k))")
    binlog = replace(mirror.job.binlog, full_sync_binlog_batch_read_size=500)
    mirror.job = replace(mirror.job, sink_options=options, binlog=binlog)
    with open_source(mirror.job, "test") as source:
        found = io.BytesIO()
        chunks = source.plan_chunks(10)
        rows = sum(source.copy_chunk(chunk, found) for chunk in chunks)
        assert (rows, len(chunks)) == (60, 6)
    mirror.start().wait_running()
    mirror.at_sink("UPDATE mart.orders SET k = upper(k::text)::ext.citext")  # equal keys, different texts
    mirror.source(f"UPDATE {TABLE} SET v = 'w' WHERE k = 'k7'", f"DELETE FROM {TABLE} WHERE k IN ('k9', 'K10')")
    until(
        lambda: _rows(mirror, mirror.sink, "mart.orders") == _rows(mirror, warehouse.connect, TABLE), 60, "equal rows"
    )
    mirror.stop()


def _rows(mirror: Mirror, connect: Callable[[], pg.Connection], table: str) -> list[tuple[object, ...]]:
    return mirror.query(connect, f"SELECT part, lower(k::text), v FROM {table} ORDER BY 1, 2")


# -- functions that a target calls in the job's session


@pytest.mark.parametrize("place", ["check", "generated", "index", "domain", "default"])
def test_a_target_that_runs_a_function_which_looks_names_up_is_refused_by_name(
    warehouse: Warehouse, make_mirror: MakeMirror, place: str
) -> None:
    """Its rows would be rejected one by one, or stored by another function of the same name."""
    warehouse.create_table(TABLE, "id bigint, code text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'a1')")
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink("CREATE SCHEMA app", "CREATE SCHEMA mart", *_functions("plpgsql", "BEGIN RETURN is_code($1); END"))
    mirror.at_sink(*_target(place))
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    assert "target mart.orders runs app.good(text)" in error.message and "search_path" in error.message
    assert error.hint.startswith("ALTER FUNCTION app.good(text) SET search_path = app")
    mirror.at_sink("ALTER FUNCTION app.good(text) SET search_path = app")
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET code = 'b2'", f"INSERT INTO {TABLE} VALUES (2, 'c3')")
    until(lambda: _codes(mirror) == [(1, "b2"), (2, "c3")], 60, "the rows")
    mirror.stop()


def test_a_target_whose_functions_look_nothing_up_is_taken_as_it_is(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table(TABLE, "id bigint, code text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'a1')")
    mirror = make_mirror(warehouse, TABLE)
    atomic = (
        "CREATE FUNCTION app.good(text) RETURNS boolean LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT $1 ~ '[a-z]'; END"
    )
    mirror.at_sink("CREATE SCHEMA app", "CREATE SCHEMA mart", atomic, *_target("check"))
    mirror.at_sink(*_functions("plpgsql", "BEGIN RETURN is_code($1); END")[:1])
    other = "CREATE FUNCTION app.next() RETURNS bigint LANGUAGE plpgsql AS $f$ BEGIN RETURN is_code('x'); END $f$"
    mirror.at_sink(other, "ALTER TABLE mart.orders ALTER COLUMN id SET DEFAULT app.next()")  # no row of the job uses it
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_functions_are_asked_of_a_catalog_that_knows_no_parsed_bodies(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """As in PostgreSQL 13 and earlier: PostgreSQL 14 introduced `prosqlbody`."""
    warehouse.create_table(TABLE, "id bigint, code text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.at_sink(
        "CREATE SCHEMA app", "CREATE SCHEMA mart", *_functions("sql", "SELECT app.is_code($1)"), *_target("check")
    )
    columns = "oid, proname, pronamespace, prolang, proconfig, proowner, prosrc"
    mirror.at_sink("CREATE SCHEMA older", f"CREATE VIEW older.pg_proc AS SELECT {columns} FROM pg_catalog.pg_proc")
    with closing(mirror.sink_session()) as session:
        with session.transaction() as cursor:
            cursor.execute("SET search_path = older, pg_catalog")
        facts = eligibility.read(session, "mart.orders")
    assert facts and [one[1:] for one in facts.functions] == [("app.good(text)", "app")]


def _functions(language: str, body: str) -> list[str]:
    inner = "CREATE FUNCTION app.is_code(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $f$ SELECT $1 ~ '^[a-z]' $f$"
    return [inner, f"CREATE FUNCTION app.good(text) RETURNS boolean LANGUAGE {language} IMMUTABLE AS $f$ {body} $f$"]


def _target(place: str) -> list[str]:
    """Statements that make a target which calls the function in this place."""
    more = {
        "check": ", CHECK (app.good(code))",
        "generated": ", fine boolean GENERATED ALWAYS AS (app.good(code)) STORED",
        "default": ", fine boolean DEFAULT app.good('a1')",
    }
    made = ["SET search_path = app, public", "SET check_function_bodies = off"]
    kind = "text"
    if place == "domain":
        made.append("CREATE DOMAIN app.code AS text CHECK (app.good(VALUE))")
        kind = "app.code"
    made.append(f"CREATE TABLE mart.orders (id bigint PRIMARY KEY, code {kind}{more.get(place, '')})")
    return made + (["CREATE INDEX by_good ON mart.orders ((app.good(code)))"] if place == "index" else [])


def _codes(mirror: Mirror) -> list[tuple[object, ...]]:
    return mirror.query(mirror.sink, "SELECT id, code::text FROM mart.orders ORDER BY 1")


# -- output of doctor


def test_doctor_warns_where_everybody_may_create_on_the_logins_path(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse.create_table(TABLE, "id bigint, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", mirror.job.slot, TABLE, "mart.orders"))
    loaded = load(path, {})
    said = "PUBLIC can create objects in schema public, which is on"

    def found() -> list[bool]:
        both = check_source(loaded, loaded.sources["dws1"]), check_sink(loaded, loaded.sinks["mart"])
        return [any(said in one.text and one.level is Level.WARN for one in findings) for findings in both]

    assert found() == [False, False]
    run(warehouse, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    mirror.at_sink("GRANT CREATE ON SCHEMA public TO PUBLIC")
    assert found() == [True, True]


# -- every session


@pytest.mark.parametrize("side", ["source", "poller", "postgres", "dws", "compared"])
def test_every_session_has_the_pinned_path_whatever_the_login_has(warehouse: Warehouse, side: str) -> None:
    run(warehouse, f"ALTER ROLE etl IN DATABASE {warehouse.database} SET search_path = public, pg_catalog")
    endpoint = warehouse.endpoint()
    password = resolve(endpoint.password)
    dialect = {"source": DWS, "poller": QUIET, "compared": replace(DWS, autocommit=False, limit_ms=None)}.get(side)
    opened = Session(endpoint, password, "test", dialect or dialect_of(side))
    with closing(opened) as session, session.transaction() as cursor:
        cursor.execute("SHOW search_path")
        shown = cursor.fetchone()
    plain = "pg_catalog, pg_temp" if side == "postgres" else "pg_catalog"
    assert shown == (plain,)
