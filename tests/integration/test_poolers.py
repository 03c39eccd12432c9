"""No job runs through a pooler that keeps no session per connection, and no state of Slotkeeper is left there."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import Endpoint, Seen
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers import session as affinity
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.doctor import check_sink, check_source
from slotkeeper.core.sinks.hologres.kind import DIALECT as HOLOGRES_SINK
from slotkeeper.core.sinks.postgres.session import dialect_of
from slotkeeper.core.sources.dws.session import DWS, QUIET
from slotkeeper.core.sources.hologres.session import HOLOGRES
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.pooler import MakePooler, Pooler
from tests.support.proxy import proxy
from tests.support.waiting import until

TABLE = "ods.orders"
SHARING = ("transaction", "statement")
DIALECTS = {
    "source dws": DWS,
    "source dws, looking": QUIET,
    "source hologres": HOLOGRES,
    "sink postgres": dialect_of("postgres"),
    "sink dws": dialect_of("dws"),
    "sink hologres": HOLOGRES_SINK,
}
SAID = "does not keep the same server session"
WITHIN = 5.0
"""Seconds within which a start or a reconnect is rejected; on an idle host, it takes tenths of a second."""


def session(endpoint: Endpoint, dialect: Dialect) -> Session:
    return Session(endpoint, resolve(endpoint.password), "slotkeeper/test", dialect)


def left_on_server(pooler: Pooler, endpoint: Endpoint) -> list[tuple[Any, ...]]:
    """Return the settings that the next client finds in the pooler's server sessions, and locks without a client."""
    login = pg.log_in(pooler.before(endpoint), resolve(endpoint.password), "another program")
    with closing(login) as other, other.cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session'")
        found = [row for row in cursor.fetchall() if row[0] not in ("application_name", "DateStyle")]
        cursor.execute("SELECT 'lock', objid FROM pg_catalog.pg_locks WHERE locktype = 'advisory'")
        return found + cursor.fetchall()


@pytest.mark.parametrize("mode", SHARING)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_session_through_a_pooler_that_shares_its_server_sessions_is_refused_and_leaves_nothing(
    pg_server: Server, make_pooler: MakePooler, mode: str, dialect: Dialect
) -> None:
    endpoint = pg_server.endpoint("postgres")
    pooler = make_pooler([endpoint], mode)
    refused = session(pooler.before(endpoint), dialect)
    began = time.monotonic()
    with pytest.raises(Refused, match=SAID) as caught:
        refused.ready()
    assert time.monotonic() - began < WITHIN
    refused.close()
    assert "session mode" in caught.value.hint and caught.value.where == dialect.side
    assert left_on_server(pooler, endpoint) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"server_round_robin": "1"},
        {"server_round_robin": "1", "min_pool_size": "2", "default_pool_size": "2"},
        {"default_pool_size": "1"},
        {"server_reset_query_always": "1"},
    ],
    ids=lambda settings: ", ".join(f"{name} {value}" for name, value in settings.items()),
)
def test_a_pooler_is_found_out_whatever_server_session_it_gives_next(
    pg_server: Server, make_pooler: MakePooler, settings: dict[str, str]
) -> None:
    endpoint = pg_server.endpoint("postgres")
    pooler = make_pooler([endpoint], "transaction", **settings)
    with ExitStack() as open_before:
        for _ in range(min(3, int(settings.get("default_pool_size", "3")))):
            made = pg.log_in(pooler.before(endpoint), resolve(endpoint.password), "earlier")
            open_before.enter_context(closing(made))
            with made.cursor() as cursor:
                cursor.execute("BEGIN")  # each in its own server session
        open_before.close()
        refused = session(pooler.before(endpoint), dialect_of("postgres"))
        began = time.monotonic()
        with pytest.raises(Refused, match=SAID):
            refused.ready()
        assert time.monotonic() - began < WITHIN
        refused.close()
    assert left_on_server(pooler, endpoint) == []


def test_a_pooler_is_found_out_where_a_third_client_has_the_server_session_as_the_second_is_given_one(
    pg_server: Server, make_pooler: MakePooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = pg_server.endpoint("postgres")
    pooler = make_pooler([endpoint], "transaction")
    asked = affinity._seen
    with closing(pg.log_in(pooler.before(endpoint), resolve(endpoint.password), "third")) as third:

        def between(connection: pg.Connection, before: str = "") -> Seen:
            if not before:
                return asked(connection)
            monkeypatch.setattr(affinity, "_seen", asked)
            with third.cursor() as cursor:
                cursor.execute("BEGIN")
                found = asked(connection, before)
                cursor.execute("COMMIT")
            return found

        monkeypatch.setattr(affinity, "_seen", between)
        refused = session(pooler.before(endpoint), dialect_of("postgres"))
        with pytest.raises(Refused, match=SAID):
            refused.ready()
        refused.close()
    assert left_on_server(pooler, endpoint) == []


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_session_through_a_pooler_in_session_mode_is_accepted(
    pg_server: Server, make_pooler: MakePooler, dialect: Dialect
) -> None:
    endpoint = pg_server.endpoint("postgres")
    accepted = session(make_pooler([endpoint], "session").before(endpoint), dialect)
    with closing(accepted.ready()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_catalog.current_setting('search_path'), pg_catalog.current_setting('geqo_seed')")
        assert cursor.fetchone() == (dialect.path, "0")


def test_a_direct_connection_costs_one_round_trip_more_and_no_login_more(
    pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    execute = pg.Cursor.execute

    def counted(self: pg.Cursor, query: Any, vars: Any = None) -> None:
        asked.append(str(query))
        execute(self, query, vars)

    monkeypatch.setattr(pg.Cursor, "execute", counted)
    monkeypatch.setattr(affinity, "shared", None)
    endpoint = pg_server.endpoint("postgres")
    direct = session(endpoint, dialect_of("postgres"))
    direct.ready()
    direct.close()
    assert [one.partition(";")[0].partition(" = ")[0] for one in asked] == [
        "SELECT pg_catalog.pg_backend_pid()",
        "SET search_path",
        "SET DateStyle",
    ]


def _mirror(warehouse: Warehouse, make_mirror: MakeMirror, schema: str = "public") -> Mirror:
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, progress_schema=schema)
    return mirror


def at(job: JobSpec, side: str, endpoint: Endpoint) -> JobSpec:
    return replace(job, source=endpoint) if side == "source" else replace(job, sink=endpoint)


def _orders(warehouse: Warehouse) -> None:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))


def test_a_job_runs_through_a_pooler_in_session_mode_at_both_ends(
    warehouse: Warehouse, make_mirror: MakeMirror, make_pooler: MakePooler
) -> None:
    _orders(warehouse)
    mirror = _mirror(warehouse, make_mirror)
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'one')")
    source, sink = mirror.job.source, mirror.job.sink
    pooler = make_pooler([source, sink], "session")
    mirror.job = replace(mirror.job, source=pooler.before(source), sink=pooler.before(sink))
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {TABLE} VALUES (2, 'two')")
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.parametrize("side", ["source", "sink"])
@pytest.mark.parametrize("mode", SHARING)
def test_a_start_through_a_pooler_that_shares_its_server_sessions_is_refused_by_name(
    warehouse: Warehouse, make_mirror: MakeMirror, make_pooler: MakePooler, mode: str, side: str
) -> None:
    _orders(warehouse)
    mirror = _mirror(warehouse, make_mirror)
    endpoint = getattr(mirror.job, side)
    pooler = make_pooler([endpoint], mode)
    mirror.job = at(mirror.job, side, pooler.before(endpoint))
    began = time.monotonic()
    mirror.start().join()
    assert time.monotonic() - began < WITHIN
    assert isinstance(mirror.error, Refused) and mirror.error.where == side
    assert SAID in mirror.error.message and "session mode" in mirror.error.hint
    assert left_on_server(pooler, endpoint) == []


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_running_job_that_comes_back_to_a_pooler_stops_by_name_and_loses_nothing(
    warehouse: Warehouse, make_mirror: MakeMirror, make_pooler: MakePooler, side: str
) -> None:
    _orders(warehouse)
    mirror = _mirror(warehouse, make_mirror)
    endpoint = getattr(mirror.job, side)
    pooler = make_pooler([endpoint], "transaction")
    with proxy(endpoint.port) as line:
        mirror.job = at(mirror.job, side, replace(endpoint, port=line.port))
        mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'one')")
        mirror.start().wait_running()
        line.aim(pooler.port)
        mirror.source(f"INSERT INTO {TABLE} VALUES (2, 'two')")
        mirror.join()
        assert isinstance(mirror.error, Refused) and SAID in mirror.error.message
        until(lambda: left_on_server(pooler, endpoint) == [], 20, "the sessions of the ended job to be gone")
        line.aim(endpoint.port)
        mirror.start()
        mirror.wait_equal()
        mirror.stop()


def test_two_jobs_of_two_schemas_do_not_both_run_on_one_target_through_a_pooler(
    warehouse: Warehouse, make_mirror: MakeMirror, make_pooler: MakePooler
) -> None:
    _orders(warehouse)
    first, second = _mirror(warehouse, make_mirror), _mirror(warehouse, make_mirror, "other")
    first.at_sink("CREATE SCHEMA other")
    endpoint = first.job.sink
    pooler = make_pooler([endpoint], "transaction")
    for one, slot in ((first, "one"), (second, "two")):
        one.job = replace(one.job, sink=pooler.before(endpoint), slot=slot, name=slot, on_existing="merge")
        one.start()
    both = (first, second)
    until(lambda: all(one.ended() or one.heard.state is LaneState.RUNNING for one in both), 30, "them to run or end")
    assert [isinstance(one.error, Refused) for one in both] == [True, True]


@pytest.mark.parametrize("mode", ["session", *SHARING])
def test_doctor_says_at_both_ends_whether_a_connection_keeps_its_session(
    warehouse: Warehouse, make_mirror: MakeMirror, make_pooler: MakePooler, tmp_path: Path, mode: str
) -> None:
    _orders(warehouse)
    mirror = _mirror(warehouse, make_mirror)
    source, sink = mirror.job.source, mirror.job.sink
    pooler = make_pooler([source, sink], mode)
    written = config(
        tmp_path,
        replace(pooler.before(source), name="dws1"),
        replace(pooler.before(sink), name="mart"),
        job("orders", "slot1", TABLE, "mart.orders"),
    )
    loaded = load(written, {})
    for found in (check_source(loaded, loaded.sources["dws1"]), check_sink(loaded, loaded.sinks["mart"])):
        about = [one for one in found if "server session" in one.text]
        assert [one.level for one in about] == [Level.OK if mode == "session" else Level.FAIL], found
        assert mode == "session" or "session mode" in about[0].text
