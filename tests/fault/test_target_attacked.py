"""Targets with odd names, and locked targets: the checks of the others continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.sinks.postgres.check import seen
from slotkeeper.core.sinks.postgres.check.seen import PostgresTargets
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database

DATABASE = "target_attacked"
TREE, PART = 'a"b.c%d{e} %(seen)s', "p 100%s {rows} %(seen)s"
"""Names that a composed statement must take verbatim."""
FREE = "mart.free"
LOCKED = tuple(f"mart.locked_{n}" for n in range(4))


@pytest.fixture
def sink(pg_server: Server) -> Iterator[SinkSession]:
    new_database(pg_server, DATABASE)
    endpoint = pg_server.endpoint(DATABASE)
    session = SinkSession(endpoint, resolve(endpoint.password), "attacked")
    schema, name = (f'"{part}"' for part in TREE.replace('"', '""').split(".", 1))
    made = [
        "CREATE TABLE public.slotkeeper_progress (source text, source_table text, slot text, changes bigint,"
        " repeats bigint)",
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.{name} (id bigint PRIMARY KEY) PARTITION BY RANGE (id)",
        f'CREATE TABLE {schema}."{PART}" PARTITION OF {schema}.{name} FOR VALUES FROM (0) TO (100)',
        f"INSERT INTO {schema}.{name} VALUES (1)",
        "CREATE SCHEMA mart",
        *(f"CREATE TABLE {table} (id bigint PRIMARY KEY)" for table in (FREE, *LOCKED)),
    ]
    with session.transaction() as cursor:
        for statement in made:
            cursor.execute(statement)
    yield session
    session.close()
    drop_database(pg_server, DATABASE)


def asked(target: str, since: TargetSeen | None = None) -> Asked:
    key = LaneKey("dws1", target, "mirror", "")
    job = SimpleNamespace(channel=ChannelSpec(target, target), lane_key=lambda: key)
    return Asked(cast(Any, job), ("id",), since, 10)


def test_a_partition_whose_name_has_percent_signs_and_braces_is_seen_to_go_with_its_rows(sink: SinkSession) -> None:
    reader = PostgresTargets(sink)
    first = reader.read([asked(TREE)])[TREE]
    assert isinstance(first, TargetSeen) and first.rows == 1
    with sink.transaction() as cursor:
        schema, name = (f'"{part}"' for part in TREE.replace('"', '""').split(".", 1))
        cursor.execute(f'ALTER TABLE {schema}.{name} DETACH PARTITION {schema}."{PART}"')
    then = reader.read([asked(TREE, first)])[TREE]
    assert isinstance(then, TargetSeen) and then.parted


def test_targets_that_stay_locked_cost_the_next_check_of_the_others_nothing(
    sink: SinkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, every = PostgresTargets(sink), [asked(table) for table in (FREE, *LOCKED)]
    together: list[int] = []
    read = seen.read

    def counted(session: SinkSession, cursor: pg.Cursor, some: Any, blind: bool = False) -> Any:
        together.append(len(some))
        return read(session, cursor, some, blind)

    with closing(SinkSession(sink._endpoint, sink._password, "locks")) as other, other.transaction() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(LOCKED)} IN ACCESS EXCLUSIVE MODE")
        reader.read(every)
        monkeypatch.setattr(seen, "read", counted)
        found = reader.read(every)
        assert isinstance(found[FREE], TargetSeen)
        assert {getattr(found[table], "code", "") for table in LOCKED} == {"55P03"}
        assert together[0] == 1, "the locked tables are queried separately from the others"
    found = reader.read(every)
    assert all(isinstance(one, TargetSeen) for one in found.values())
    together.clear()
    reader.read(every)
    assert together == [len(every)], "one statement suffices if nothing is locked"
