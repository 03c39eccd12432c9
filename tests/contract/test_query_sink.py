"""The effect of a Spark query's batches on a target, and errors before anything is written. Without Spark."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.dataframe.writer.encode import Lines
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.errors import Busy, Refused, RowRefused, Unreachable
from slotkeeper.core.ports.sink import QueryBatch, QueryTarget, Staged
from slotkeeper.core.sinks.postgres.progress.locks import target_lock
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse
from tests.support.effects import NAMES
from tests.support.mirror import MakeMirror
from tests.support.oracle import COLUMNS, Event, Image, Key
from tests.support.query_effects import OTHER, QUERY, QueryEffects
from tests.support.standin import drop_database, new_database

DATABASE = "query_sink"
ONE, TWO = (0, 1), (0, 2)


def row(key: Key, a: int | None = None, b: str | None = None) -> Image:
    return {**dict.fromkeys(COLUMNS), "h": key[0], "k": key[1], "a": a, "b": b}


def put(key: Key, a: int, point: int = 1, sequence: int = 2) -> Event:
    return Event(point, sequence, "I", key, row(key, a))


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE)
    yield DATABASE
    drop_database(pg_server, DATABASE)


@pytest.fixture(scope="module")
def shared(pg_server: Server, database: str) -> Iterator[QueryEffects]:
    effects = QueryEffects(pg_server, database, 'mart.Mixed "case" target')
    yield effects
    effects.close()


@pytest.fixture
def target(shared: QueryEffects) -> QueryEffects:
    shared.start_over()
    shared.fill([])
    return shared


def values(target: QueryEffects) -> dict[Key, object]:
    return {key: found["a"] for key, found in target.rows().items()}


def test_a_batch_is_written_once_however_often_it_comes(target: QueryEffects) -> None:
    assert target.batch(0, [put(ONE, 1), put(TWO, 1)])
    assert target.batch(1, [Event(2, 2, "d", TWO), put(ONE, 2, 2, 3)])
    before = target.versions()
    assert target.batch(1, [Event(2, 2, "d", TWO), put(ONE, 2, 2, 3)]) is False
    assert (values(target), target.versions()) == ({ONE: 2}, before)
    assert target.fence() == [(QUERY, 1, 4)]


def test_an_empty_batch_moves_the_fence_and_nothing_else(target: QueryEffects) -> None:
    assert target.batch(0, [put(ONE, 1)])
    before = target.versions()
    with target.opened() as sink:
        assert sink.commit(QueryBatch(QUERY, 1), [Staged(7, 0)])
    assert (target.fence(), target.versions()) == ([(QUERY, 1, 1)], before)


def test_a_second_checkpoint_is_refused_by_name_by_its_tasks_already(target: QueryEffects) -> None:
    target.batch(2, [put(ONE, 1)])
    with target.opened() as sink, pytest.raises(Refused, match=f"query {QUERY} writes .* \\(batch 2") as caught:
        target.stage(sink, [put(ONE, 2)], OTHER)
    assert f'successor_of = "{QUERY}"' in caught.value.hint
    for number in (0, 7):
        with target.opened() as sink, pytest.raises(Refused, match="this checkpoint belongs to another query"):
            sink.commit(QueryBatch(OTHER, number), [Staged(7, 0)])
    assert (values(target), target.fence()) == ({ONE: 1}, [(QUERY, 2, 1)])


def test_a_named_successor_takes_over_and_the_one_before_it_is_refused(target: QueryEffects) -> None:
    target.batch(9, [put(ONE, 1)])
    assert target.batch(0, [put(ONE, 2, 5)], query=OTHER, successor_of=QUERY)
    assert target.batch(1, [put(ONE, 3, 6)], query=OTHER, successor_of=QUERY)
    with pytest.raises(Refused, match=f"query {OTHER} writes"):
        target.batch(10, [put(ONE, 9, 9)])
    assert values(target) == {ONE: 3}


def test_a_checkpoint_that_lies_behind_the_table_is_refused(target: QueryEffects) -> None:
    target.batch(5, [put(ONE, 5)])
    for successor in ("", QUERY):
        with pytest.raises(Refused, match="already has batch 5 of this query; this is batch 3"):
            target.batch(3, [put(ONE, 3)], successor_of=successor)
    assert values(target) == {ONE: 5}


def test_the_target_of_a_job_is_refused_and_a_job_on_the_target_of_a_query(
    warehouse: Warehouse, make_mirror: MakeMirror, pg_server: Server
) -> None:
    warehouse.create_table("ods.t", "id bigint NOT NULL, v text", ("id",))
    mirror = make_mirror(warehouse, "ods.t", "mart.orders")
    mirror.start().wait_running()
    mirror.stop()
    columns = (Column("id", "bigint"), Column("v", "text"))
    session = SinkSession(mirror.job.sink, resolve(mirror.job.sink.password), "slotkeeper-query/test")
    sink = PostgresQuerySink(session, QueryTarget("mart.orders", columns, ("id",)))
    with pytest.raises(Refused, match=f"is the target of job {mirror.job.name}"):
        sink.admit()
    with session.transaction() as cursor:
        cursor.execute("DELETE FROM public.slotkeeper_progress")
    sink.admit()
    assert sink.commit(QueryBatch(QUERY, 4), [Staged(1, 0)])
    sink.close()
    mirror.start()
    said = str(mirror.wait_error())
    assert f"Spark query {QUERY} writes target" in said and "(batch 4)" in said


def test_a_target_that_a_running_job_has_locked_is_not_written(
    target: QueryEffects, pg_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.LOCK_WAIT", "50ms")
    with closing(pg_server.connect(DATABASE)) as job, job.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (target_lock(target.table.name),))
        with pytest.raises(Busy, match="locked by a job"):
            target.batch(0, [put(ONE, 1)])
    assert values(target) == {}
    assert target.batch(0, [put(ONE, 1)])


def test_staged_rows_that_are_gone_are_missed_and_nothing_is_written(target: QueryEffects) -> None:
    with target.opened() as sink:
        staged = target.stage(sink, [put(ONE, 1), put(TWO, 2)])
        target.asked(f'TRUNCATE public."{sink.admit()}"')  # the state of an unlogged table after a crash of the server
        with pytest.raises(Unreachable, match="found 0 of 2 staged rows"):
            sink.commit(QueryBatch(QUERY, 0), [staged])
    assert (values(target), target.fence()) == ({}, [])


def test_staged_rows_that_a_transaction_has_counted_cannot_be_cleared(
    target: QueryEffects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.STALE_BYTES", 1)
    with target.opened() as sink:
        staged = target.stage(sink, [put(ONE, 1)])
        apply = "slotkeeper.core.sinks.postgres.write.query_sink.compose.execute"
        seen = []

        def clear_first(cursor: object, plan: object) -> None:
            with target.opened() as other:
                other.admit()
                other.discard()
            seen.append(target.staged_rows())
            execute(cursor, plan)  # type: ignore[arg-type]

        from slotkeeper.core.sinks.postgres.write.statements import execute

        with monkeypatch.context() as patched:
            patched.setattr(apply, clear_first)
            assert sink.commit(QueryBatch(QUERY, 0), [staged])
        assert seen == [1]
        sink.discard()
    assert (values(target), target.staged_rows()) == ({ONE: 1}, 0)


def test_an_attempt_that_lost_leaves_nothing_in_the_target(target: QueryEffects) -> None:
    with target.opened() as sink:
        target.stage(sink, [put(ONE, 1), put(TWO, 1)])
        mine = target.stage(sink, [put(ONE, 1)])
        assert sink.commit(QueryBatch(QUERY, 0), [mine])
    assert values(target) == {ONE: 1}


def test_two_rows_of_one_change_are_refused(target: QueryEffects) -> None:
    with pytest.raises(Refused, match="one change to a key arrived as several unordered rows"):
        target.batch(0, [put(ONE, 1), put(ONE, 2)])
    assert (values(target), target.fence()) == ({}, [])


def test_a_row_without_its_key_is_refused(target: QueryEffects) -> None:
    with pytest.raises(Refused, match="NULL in a key column"):
        target.batch(0, [Event(1, 2, "I", ONE, {**row(ONE, 1), "k": None})])
    assert values(target) == {}


def test_a_value_that_the_target_refuses_ends_the_batch_whole_and_is_not_shown(target: QueryEffects) -> None:
    bad = Event(1, 3, "I", TWO, {**row(TWO), "j": "no json, and a canary"})
    with pytest.raises(RowRefused) as caught:
        target.batch(0, [put(ONE, 1), bad])
    assert "canary" not in f"{caught.value} {caught.value.hint}"
    assert (values(target), target.fence()) == ({}, [])


def test_a_target_that_is_missing_or_has_another_key_is_refused(target: QueryEffects) -> None:
    with target.opened(name="mart.nothing") as sink, pytest.raises(Refused, match="does not exist"):
        sink.admit()
    with target.opened(key=("k",)) as sink, pytest.raises(Refused, match="unique key"):
        sink.admit()


ZOO = {
    "id": (pa.int64(), "bigint", [1, 2, 3]),
    "tiny": (pa.int8(), "smallint", [-128, 127, None]),
    "b": (pa.bool_(), "boolean", [True, False, None]),
    "f": (pa.float32(), "real", [1.5, -0.0, None]),
    "d": (pa.float64(), "double precision", [0.1, 1e300, float("-inf")]),
    "n": (pa.decimal128(38, 10), "numeric(38,10)", [Decimal("0.0000000001"), Decimal("-1234567890.5"), None]),
    "t": (pa.string(), "text", ["", 'q"u,o\nt\\N', None]),
    "y": (pa.binary(), "bytea", [b"", b"\x00\xff", None]),
    "day": (pa.date32(), "date", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "at": (
        pa.timestamp("us", "Asia/Tokyo"),
        "timestamp with time zone",
        [dt.datetime(2020, 2, 29, 1, 2, 3, 4, dt.timezone.utc), dt.datetime(1969, 1, 1, tzinfo=dt.timezone.utc), None],
    ),
    "local": (pa.timestamp("us"), "timestamp without time zone", [dt.datetime(1600, 1, 1), None, None]),
}


def test_values_of_every_type_arrive_as_they_are_in_a_table_that_is_made(pg_server: Server, database: str) -> None:
    effects = QueryEffects(pg_server, database, "mart.other")
    columns = tuple(Column(name, type_) for name, (_, type_, _) in ZOO.items())
    arrays = [pa.array(given, type_) for type_, _, given in ZOO.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(ZOO))
    shape: dict[str, Any] = {
        "name": "made.zoo",
        "columns": columns,
        "key": ("id",),
        "ordered": False,
        "create_target": True,
    }
    with effects.opened(**shape) as sink:
        token = secrets.randbits(62)
        assert sink.stage(sink.admit(), QUERY, token, Lines([batch], token, list(ZOO))) == 3
        assert sink.commit(QueryBatch(QUERY, 0), [Staged(token, 3)])
    found = effects.asked(f"SELECT {', '.join(ZOO)} FROM made.zoo ORDER BY id")
    for place, (name, (_, _, given)) in enumerate(ZOO.items()):
        assert [bytes(v) if isinstance(v, memoryview) else v for v in (one[place] for one in found)] == given, name
    effects.close()


def test_plain_rows_with_a_key_twice_in_a_batch_are_refused(pg_server: Server, database: str) -> None:
    effects = QueryEffects(pg_server, database, "mart.plain")
    shape: dict[str, Any] = {
        "name": "made.plain",
        "columns": (Column("id", "bigint"),),
        "key": ("id",),
        "ordered": False,
    }
    with effects.opened(**shape, create_target=True) as sink:
        token = secrets.randbits(62)
        batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 1])})
        sink.stage(sink.admit(), QUERY, token, Lines([batch], token, ["id"]))
        with pytest.raises(Refused, match="without changelog columns that order them"):
            sink.commit(QueryBatch(QUERY, 0), [Staged(token, 2)])
    effects.close()


def test_a_target_that_got_another_shape_gets_another_staging_table(pg_server: Server, database: str) -> None:
    effects = QueryEffects(pg_server, database, "mart.reshaped")
    with effects.opened() as sink:
        first = sink.admit()
    effects.asked("ALTER TABLE mart.reshaped ALTER COLUMN tags TYPE text USING tags::text")
    shown = "SELECT tablename FROM pg_tables WHERE tablename IN (%s, %s)"
    with effects.opened() as sink:
        second = sink.admit()
        assert len(effects.asked(shown, (first, second))) == 2, "the first can belong to a running query"
        assert sink.commit(QueryBatch(QUERY, 0), [Staged(7, 0)])
        sink.discard()
    assert (first != second, effects.asked(shown, (first, second))) == (True, [(second,)])
    effects.close()


def test_a_refused_writer_of_another_shape_leaves_the_running_one_its_staged_rows(target: QueryEffects) -> None:
    with target.opened() as running:
        staged = target.stage(running, [put(ONE, 1)])
        fewer = (Column(NAMES["h"], "integer"), Column("k", "integer"))
        with target.opened(columns=fewer) as other:
            other.admit()
        assert running.commit(QueryBatch(QUERY, 0), [staged])
    assert values(target) == {ONE: 1}


def test_a_dropped_target_is_not_created_again_but_by_a_successor(pg_server: Server, database: str) -> None:
    effects = QueryEffects(pg_server, database, "mart.watched")
    shape: dict[str, Any] = {"name": "made.t", "columns": (Column("id", "bigint"),), "key": ("id",)}
    for number in (0, 1):
        with effects.opened(**shape, create_target=True) as sink:
            sink.admit()
            assert sink.commit(QueryBatch(QUERY, number), [Staged(7, 0)])
    effects.asked("DROP TABLE made.t")
    with (
        effects.opened(**shape, create_target=True) as sink,
        pytest.raises(Refused, match=rf"made\.t was dropped after batch 1 of query {QUERY}") as caught,
    ):
        sink.admit()
    assert f'successor_of = "{QUERY}"' in caught.value.hint
    with effects.opened(**shape, create_target=True, successor_of=QUERY) as sink:
        sink.admit()
        assert sink.commit(QueryBatch(OTHER, 0), [Staged(7, 0)])
    effects.close()


def test_no_option_of_a_job_is_needed(target: QueryEffects) -> None:
    assert target.batch(0, [put(ONE, 1)], SinkOptions(write_mode="copy_merge"))
    assert values(target) == {ONE: 1}
