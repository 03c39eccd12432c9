"""The further settings of a channel: names, mapped columns, a row filter; with whole jobs and `verify`."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core import row_filter
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.errors import Refused
from slotkeeper.core.sinks.postgres.session import DIALECTS, POSTGRES
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, shadow
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.verify.compare import compare, open_pair
from slotkeeper.core.wiring import worker
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

TABLE = "ods.t"
COLUMNS = '"Place" integer NOT NULL, id integer NOT NULL, v text, region text, secret text'
MAPPED = (("id", "Order Id"), ("v", 'the "v"'), ("Place", "place"))
WHERE = row_filter.read("region = 'EU' AND \"Place\" >= 0 AND v IS DISTINCT FROM '{0} %s'").text


def mirrored(mirror: Mirror) -> Callable[[], bool]:
    """Whether `verify` finds both sides equal for the channel."""
    channel, job = mirror.job.channel, mirror.job

    def equal() -> bool:
        with (
            closing(pg.connect(job.source, resolve(job.source.password), "slotkeeper/test/verify")) as source,
            closing(pg.connect(job.sink, resolve(job.sink.password), "slotkeeper/test/verify")) as sink,
        ):
            read = over(source), channel.source_table, over(sink), channel.target
            pair = open_pair(*read, dict(channel.columns) or None, channel.where)
            return compare(*pair).equal

    return equal


def given(warehouse: Warehouse, make_mirror: MakeMirror, rows: int = 300, **channel: Any) -> Mirror:
    """Return a job over a table with rows, whose channel has these settings; not started."""
    warehouse.create_table(TABLE, COLUMNS, ("Place", "id"), ("Place",))
    run(
        warehouse,
        f"INSERT INTO {TABLE} SELECT n % 3, n, 'row ' || n, CASE n % 2 WHEN 0 THEN 'EU' END, 's' || n"
        f" FROM generate_series(1, {rows}) n",
    )
    mirror = make_mirror(warehouse, TABLE)
    spec = ChannelSpec(TABLE, "mart.t", create_target=True)
    mirror.job = replace(mirror.job, channels=(replace(spec, **channel),))
    return mirror


def stream(mirror: Mirror) -> None:
    """Make changes of every kind, including keys and the filter's column, then check equality."""
    before = sum(mirror.changes().values())
    mirror.source(
        f"UPDATE {TABLE} SET v = NULL, secret = 'x' WHERE id <= 20",
        f"UPDATE {TABLE} SET id = id + 10000 WHERE id BETWEEN 21 AND 40",
        f"DELETE FROM {TABLE} WHERE id BETWEEN 41 AND 60",
        f"INSERT INTO {TABLE} SELECT n % 3, n, 'again', 'EU', NULL FROM generate_series(41, 50) n",
        f"UPDATE {TABLE} SET region = CASE WHEN region IS NULL THEN 'EU' END WHERE id BETWEEN 61 AND 80",
        f"UPDATE {TABLE} SET region = 'US' WHERE id BETWEEN 71 AND 90",
    )
    events = 40 + 40 + 20 + 10 + 40 + 40
    until(lambda: sum(mirror.changes().values()) == before + events, 30, "all to be applied")
    assert mirrored(mirror)()


def columns_of(mirror: Mirror, name: str) -> list[tuple[Any, ...]]:
    return mirror.query(
        mirror.sink,
        f"SELECT attname FROM pg_attribute WHERE attrelid = '{name}'::regclass AND attnum > 0 ORDER BY attnum",
    )


@pytest.mark.parametrize("into", ["Mart.Orders", "mart.a table. with a dot", 'mart.a "b" c', "mart.select", "mart.été"])
def test_into_takes_names_as_they_are_written(warehouse: Warehouse, make_mirror: MakeMirror, into: str) -> None:
    mirror = given(warehouse, make_mirror, rows=100, target=into)
    mirror.start().wait_running()
    stream(mirror)
    mirror.stop()
    schema, _, name = into.partition(".")
    there = mirror.query(
        mirror.sink,
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE relkind = 'r' AND nspname ILIKE 'mart'",
    )
    assert there == [(schema, name)]


def test_create_target_makes_the_mapped_columns(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = given(warehouse, make_mirror, columns=MAPPED, create_target=True)
    mirror.start().wait_running()
    stream(mirror)
    assert columns_of(mirror, "mart.t") == [("Order Id",), ('the "v"',), ("place",)]
    mirror.stop()


def test_columns_are_mapped_and_others_left_alone(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = given(warehouse, make_mirror, columns=MAPPED)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        'CREATE TABLE mart.t (own text DEFAULT \'made\', "the ""v""" text, place bigint, "Order Id" bigint,'
        ' length integer GENERATED ALWAYS AS (length("the ""v""")) STORED, PRIMARY KEY ("Order Id", place))',
    )
    mirror.start().wait_running()
    mirror.at_sink("UPDATE mart.t SET own = 'before'")
    stream(mirror)
    owned = mirror.query(mirror.sink, "SELECT own, count(*) FROM mart.t GROUP BY 1 ORDER BY 1")
    # made: 20 changed keys and the 10 that were deleted and made again in one transaction
    assert owned == [("before", 260), ("made", 30)]
    mirror.stop()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("existing", ["none", "replace", "merge"])
def test_where_is_asked_of_the_row_as_it_is(
    warehouse: Warehouse, make_mirror: MakeMirror, mapped: bool, existing: str
) -> None:
    mirror = given(warehouse, make_mirror, where=WHERE, columns=MAPPED if mapped else ())
    if existing != "none":
        mirror.start().wait_running().stop()
        mirror.job = replace(mirror.job, slot=mirror.job.slot + "_2", on_existing=existing)
        mirror.at_sink("DELETE FROM slotkeeper_progress")
    mirror.start().wait_running()
    assert mirror.query(mirror.sink, "SELECT count(*) FROM mart.t") == [(150,)]
    stream(mirror)
    mirror.stop()


def test_one_key_that_leaves_the_filter_and_comes_back(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = given(warehouse, make_mirror, rows=10, where=WHERE)
    mirror.job = replace(mirror.job, sink_options=SinkOptions(ignore_delete=True))
    mirror.start().wait_running()
    mirror.source(
        f"UPDATE {TABLE} SET region = 'US' WHERE id <= 6",
        f"UPDATE {TABLE} SET region = 'EU' WHERE id <= 3",
        f"DELETE FROM {TABLE} WHERE id = 10",
    )
    until(lambda: sum(mirror.changes().values()) == 12 + 6 + 1, 30, "all to be applied")
    left = mirror.query(mirror.sink, "SELECT id FROM mart.t ORDER BY id")
    assert left == [(1,), (2,), (3,), (8,), (10,)]  # 10 is gone at the source, which ignore_delete drops
    mirror.stop()


def test_the_same_rows_come_from_a_source_that_does_not_copy(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = given(warehouse, make_mirror, where=WHERE, columns=MAPPED)
    mirror.start().wait_running().stop()
    mirror.source(f"UPDATE {TABLE} SET region = NULL WHERE id <= 20", f"DELETE FROM {TABLE} WHERE id > 250")

    def read(copy_allowed: bool) -> tuple[list[bytes], list[bytes]]:
        events, rows = io.BytesIO(), io.BytesIO()
        with worker.open_source(mirror.job, "test") as source:
            assert isinstance(source, DwsSource)
            source.copy_allowed = copy_allowed
            for status in source.read_status(None):
                source.copy_changes(status.shard, DwsPosition(0), status.latest, events)
            for chunk in source.plan_chunks(100):
                source.copy_chunk(chunk, rows)
        return sorted(events.getvalue().splitlines()), sorted(rows.getvalue().splitlines())

    events, rows = read(copy_allowed=True)
    assert (events, rows) == read(copy_allowed=False)
    kinds = Counter(line.split(b"\t")[2] for line in events)
    assert kinds == {b"B": 20, b"x": 20, b"d": 50}
    assert len(rows) == 125 - 10  # accepted: every second one; ten of the others are no longer accepted


@pytest.mark.parametrize(
    ("channel", "says"),
    [
        (
            {"columns": (("id", "a"), ("Place", "b"), ("nope", "c"))},
            "columns names 'nope', which the source table does not have",
        ),
        ({"columns": (("id", "a"), ("v", "c"))}, "columns omits 'Place', which is part of the source's key"),
        ({"where": '"nope" = 1'}, "names column 'nope', which the source table does not have"),
        ({"where": '"v" AND TRUE'}, "boolean"),
        ({"where": "= 5"}, "must be one valid SQL condition"),
    ],
)
def test_a_channel_that_the_source_cannot_serve_is_refused_at_the_start(
    warehouse: Warehouse, make_mirror: MakeMirror, channel: dict[str, Any], says: str
) -> None:
    error = given(warehouse, make_mirror, rows=5, **channel).start().wait_error()
    assert isinstance(error, Refused), repr(error)
    assert says in error.message


def test_a_column_that_replace_cannot_make_null_is_refused(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = given(warehouse, make_mirror, rows=5, columns=MAPPED)
    mirror.job = replace(mirror.job, sink_options=SinkOptions(conflict_strategy="replace"))
    mirror.at_sink(
        "CREATE SCHEMA mart",
        'CREATE TABLE mart.t (own text NOT NULL DEFAULT \'\', "the ""v""" text, place integer, "Order Id" integer,'
        ' PRIMARY KEY ("Order Id", place))',
    )
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "has NOT NULL column 'own', which conflict_strategy = \"replace\" sets to NULL" in error.message
    assert error.hint == "ALTER TABLE mart.t ALTER COLUMN own DROP NOT NULL"


def test_merge_at_a_sink_that_has_none_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DIALECTS, "postgres", replace(POSTGRES, merges_since=990_000))
    mirror = given(warehouse, make_mirror, rows=5)
    mirror.job = replace(mirror.job, sink_options=SinkOptions(write_mode="copy_merge"))
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "needs a sink with PostgreSQL 15" in error.message


@pytest.mark.parametrize("copying", ["direct", "replace", "merge"])
def test_replace_makes_other_columns_null_in_a_copy_too(
    warehouse: Warehouse, make_mirror: MakeMirror, copying: str
) -> None:
    mirror = given(warehouse, make_mirror, rows=30, columns=MAPPED)
    on_existing = "refuse" if copying == "direct" else copying
    options = SinkOptions(conflict_strategy="replace")
    mirror.job = replace(mirror.job, sink_options=options, on_existing=on_existing)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        'CREATE TABLE mart.t (own text DEFAULT \'made\', "the ""v""" text, place integer, "Order Id" integer,'
        ' PRIMARY KEY ("Order Id", place))',
    )
    if copying != "direct":
        mirror.at_sink('INSERT INTO mart.t ("Order Id", place) VALUES (1, 1)')
    mirror.start().wait_running()
    assert mirror.query(mirror.sink, "SELECT own, count(*) FROM mart.t GROUP BY 1") == [(None, 30)]
    mirror.stop()


def test_an_update_only_job_changes_what_is_there_and_makes_nothing(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = given(warehouse, make_mirror, rows=30, columns=MAPPED, create_target=False)
    mirror.job = replace(mirror.job, sink_options=SinkOptions(write_mode="update"), on_existing="merge")
    mirror.at_sink(
        "CREATE SCHEMA mart",
        'CREATE TABLE mart.t (own text NOT NULL, "the ""v""" text, place integer, "Order Id" integer,'
        ' PRIMARY KEY ("Order Id", place))',
        "INSERT INTO mart.t SELECT 'mine', 'old', n % 3, n FROM generate_series(1, 10) n",
    )
    mirror.start().wait_running()
    everything = 'SELECT own, "the ""v""", count(*) FROM mart.t GROUP BY 1, 2 ORDER BY 2'
    assert [(own, n) for own, v, n in mirror.query(mirror.sink, everything) if v != "old"] == [("mine", 1)] * 10
    mirror.source(f"UPDATE {TABLE} SET v = 'new'", f"INSERT INTO {TABLE} VALUES (0, 999, 'new')")
    until(lambda: sum(mirror.changes().values()) == 61, 30, "all to be applied")
    assert mirror.query(mirror.sink, everything) == [("mine", "new", 10)]
    mirror.stop()


def test_a_copy_beside_a_target_of_a_long_name_is_another_table() -> None:
    long, longer = "é" * 31, "é" * 30 + "e"
    names = {shadow(TargetTable(f"mart.{name}", (), ())).strings for name in (long, longer, "orders", "orders.2")}
    assert len(names) == 4
    assert all(len(name.encode()) <= 63 and name not in (long, longer) for _, name in names)
