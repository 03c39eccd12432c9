"""The copy: the handling of a non-empty target, the resume of an interrupted copy, the requirements for a target.

And the write path, with values and names that occur in practice.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName, Unclassified
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A table of 3,000 rows, copied in chunks of 500."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row ' || n FROM generate_series(1, 3000) n")
    return make_mirror(warehouse, TABLE, TARGET)


def filled(mirror: Mirror) -> None:
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)",
        f"INSERT INTO {TARGET} VALUES (1, 'older'), (-5, 'not in the source')",
        f"CREATE VIEW mart.seen AS SELECT * FROM {TARGET}",
    )


def test_a_target_that_is_not_empty_is_refused(mirror: Mirror) -> None:
    filled(mirror)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "not empty" in error.message
    assert mirror.rows() == []


def test_a_replacing_copy_leaves_only_the_sources_rows_and_keeps_views(mirror: Mirror) -> None:
    filled(mirror)
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    assert mirror.query(mirror.sink, "SELECT count(*) FROM mart.seen") == [(3000,)]
    assert mirror.query(mirror.sink, "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_\\_slotkeeper\\_copy'") == [
        (0,)
    ]


def test_a_merging_copy_keeps_rows_that_the_source_lacks(mirror: Mirror) -> None:
    filled(mirror)
    mirror.job = replace(mirror.job, on_existing="merge")
    mirror.start().wait_running()
    until(lambda: mirror.difference()[0] == 0, 30, "every source row to be there")
    mirror.stop()
    assert mirror.difference() == (0, 1)


def test_a_full_copy_without_binlog_finishes_and_makes_no_slot(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    mirror.start().join()
    assert (mirror.error, mirror.end) == (None, JobEnd.FINISHED)
    assert mirror.difference() == (0, 0)
    assert mirror.query(mirror.warehouse.connect, "SELECT * FROM pg_binlog_slots") == []
    run(mirror.warehouse, f"DELETE FROM {TABLE} WHERE id > 2000")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().join()
    assert (mirror.error, mirror.end) == (None, JobEnd.FINISHED)
    assert mirror.difference() == (0, 0)


@pytest.mark.parametrize("on_existing", ["refuse", "replace"])
@pytest.mark.parametrize("moment", ["before_chunk_commit", "after_chunk_commit"])
def test_an_interrupted_copy_resumes_where_it_was(mirror: Mirror, moment: str, on_existing: str) -> None:
    if on_existing == "replace":
        filled(mirror)
        mirror.job = replace(mirror.job, on_existing=on_existing)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=100))

    def die() -> None:
        mirror.runner.close()  # this driver starts no further task
        raise ZeroDivisionError

    probe = At(moment, die, nth=3)
    mirror.start(probe)
    until(probe.done.is_set, 30, "the copy to be half done")
    until(mirror.ended, 30, "the job to end")
    done = mirror.query(mirror.sink, "SELECT count(*) FROM slotkeeper_chunks WHERE state = 'done'")[0][0]
    assert 0 < done < 30
    run(mirror.warehouse, f"DELETE FROM {TABLE} WHERE id % 5 = 0", f"UPDATE {TABLE} SET v = 'x' WHERE id % 7 = 0")
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_failing_chunk_is_copied_again(mirror: Mirror) -> None:
    def fail() -> None:
        raise ValueError("whatever")

    mirror.start(At("before_chunk_commit", fail, nth=2)).wait_running().wait_equal()
    mirror.stop()
    assert any("ValueError" in text for text in mirror.heard.retries)
    assert not any("whatever" in text for text in mirror.heard.retries), (
        "the text of a foreign exception is not repeated"
    )


def test_changes_of_rows_and_keys_beside_the_copy_arrive_once(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    mirror = orders(make_mirror, warehouse, seed, rows=2_000)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=200))

    def write() -> None:
        with written(mirror, seed, changes=150, rate=0):
            pass

    mirror.start(At("before_chunk_commit", write, nth=3)).wait_running()
    mirror.wait_applied(mirror.booked())
    mirror.stop()


@pytest.mark.parametrize("statement", [f"TRUNCATE {TABLE}", f"ALTER TABLE {TABLE} DROP COLUMN v"])
def test_ddl_during_the_copy_is_a_lost_slot(mirror: Mirror, statement: str) -> None:
    filled(mirror)
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start(At("after_chunk_commit", lambda: run(mirror.warehouse, statement)))
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.SLOT_LOST
    assert len(mirror.target_rows()) == 2, "a partial copy did not replace the old content"


def test_a_paused_copy_keeps_its_slot_alive(mirror: Mirror) -> None:
    mirror.keepalive = 0.3
    probe = At("after_chunk_commit", lambda: setattr(mirror, "wanted", WantedState.PAUSE), nth=2)
    mirror.start(probe)
    until(lambda: JobEvent.PAUSED in mirror.heard.events, 20, "it to be paused")
    seen = "SELECT min(sync_timestamp) FROM pg_binlog_slots"
    before = mirror.query(mirror.warehouse.connect, seen)
    until(lambda: mirror.query(mirror.warehouse.connect, seen) > before, 20, "the slot to be registered again")
    mirror.wanted = WantedState.RUN
    mirror.wait_running().wait_equal()
    mirror.stop()


def test_a_source_that_refuses_copy_is_read_by_a_cursor(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> int:
        raise Unclassified("COPY of this query is not supported", code="0A000", where="source")

    monkeypatch.setattr(DwsSession, "copy_out", refused)
    run(mirror.warehouse, rf"UPDATE {TABLE} SET v = E'tab\tnew\nline\\N \\. ' || id WHERE id % 3 = 0")
    mirror.start().wait_running().wait_equal()
    run(mirror.warehouse, f"UPDATE {TABLE} SET v = NULL WHERE id % 10 = 0", f"DELETE FROM {TABLE} WHERE id % 9 = 0")
    mirror.wait_equal()
    mirror.stop()


TARGETS = {
    "has no column 'v'": "(id bigint PRIMARY KEY)",
    "column 'v' is integer": "(id bigint PRIMARY KEY, v integer)",
    "column 'id' is integer": "(id integer PRIMARY KEY, v text)",
    "has no unique key": "(id bigint, v text)",
    "has another unique key (v)": "(id bigint PRIMARY KEY, v text UNIQUE)",
    "has a deferrable key": "(id bigint PRIMARY KEY DEFERRABLE, v text)",
    "has a foreign key": "(id bigint PRIMARY KEY, v text REFERENCES public.other)",
    "generates column 'v' itself": "(id bigint PRIMARY KEY, v text GENERATED ALWAYS AS ('x') STORED)",
    "generates column 'id' itself": "(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)",
    "requires a value for column 'extra'": "(id bigint PRIMARY KEY, v text, extra integer NOT NULL)",
}


@pytest.mark.parametrize("complaint", TARGETS)
def test_a_target_that_cannot_hold_the_source_is_refused_by_name(complaint: str, mirror: Mirror) -> None:
    made = f"CREATE TABLE {TARGET} {TARGETS[complaint]}"
    mirror.at_sink("CREATE SCHEMA mart", "CREATE TABLE other (v text PRIMARY KEY)", made)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert complaint in error.message
    assert error.hint
    assert mirror.query(mirror.warehouse.connect, "SELECT * FROM pg_binlog_slots") == [], "no slot was made"


ODD = """
"Key A" text NOT NULL, "sel""ect" bigint NOT NULL, n numeric, big numeric(20,4), f double precision, d date,
ts timestamp, tz timestamptz, span interval, j jsonb, raw bytea, tags text[], grid integer[], flag boolean,
"per%cent" varchar(40), c1 text, kind text
"""
VALUES = (
    r"('Ärger ''quoted''', 1, 'NaN', -0.0001, 'NaN', '2026-02-28', 'infinity', '2026-01-01 00:00+05', '-1 day 02:03',"
    r""" '{"a": [null, "\\u0007", "é"]}', '\xdeadbeef00', ARRAY['a', NULL, '', 'NULL', '{"x"}'], '{{1,2},{3,NULL}}',"""
    r" true, E'tab\tnl\n', E'\\N', E'\\.')",
    r"('', 2, NULL, NULL, '-Infinity', NULL, NULL, NULL, NULL, 'null', '', '{}', NULL, NULL, '', '', ' ')",
    r"(E'back\\slash', 3, 1e50, 9999999999999999.9999, 1e-300, '0001-01-01', '-infinity', 'infinity', '1000 years',"
    r" '[]', NULL, NULL, '{}', false, '%s %(x)s', U&'\202E\FEFF', repeat('x', 100000))",
)


def test_odd_values_names_and_types_arrive_unchanged(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    warehouse.create_table(TABLE, ODD, ("Key A", 'sel"ect'))
    run(warehouse, *(f"INSERT INTO {TABLE} VALUES {row}" for row in VALUES))
    mirror = make_mirror(warehouse, TABLE, 'mart.Odd "target"')
    quoted = r'mart."Odd ""target"""'
    mirror.start().wait_running()

    def same() -> bool:
        target = mirror.query(mirror.sink, f"SELECT t::text FROM {quoted} t")
        return sorted(target) == sorted(mirror.source_rows())

    until(same, 20, "the copy to be equal")
    run(warehouse, f"DELETE FROM {TABLE}", *(f"INSERT INTO {TABLE} VALUES {row}" for row in VALUES))
    run(warehouse, f'UPDATE {TABLE} SET n = n + 1, "sel""ect" = "sel""ect" + 10, c1 = NULL')
    until(lambda: sum(mirror.changes().values()) == 3 + 3 + 6, 30, "all to be applied")
    assert same()
    mirror.stop()


def test_a_table_without_other_columns_than_its_key(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    warehouse.create_table(TABLE, "a bigint NOT NULL, b text NOT NULL", ("b", "a"), ("b",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'b' || n % 7 FROM generate_series(1, 1200) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.start().wait_running().wait_equal()
    run(warehouse, f"UPDATE {TABLE} SET a = a + 5000 WHERE a % 2 = 0", f"DELETE FROM {TABLE} WHERE a % 3 = 0")
    mirror.wait_equal()
    mirror.stop()


@pytest.mark.parametrize("ignore_delete", [False, True])
@pytest.mark.parametrize("ignore_update_before", [False, True])
def test_deletes_and_key_changes_under_the_documented_options(
    warehouse: Warehouse, make_mirror: MakeMirror, ignore_delete: bool, ignore_update_before: bool
) -> None:
    warehouse.create_table(TABLE, "place bigint NOT NULL, id bigint NOT NULL, v text", ("place", "id"), ("place",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n % 3, n, 'row ' || n FROM generate_series(1, 1000) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    options = SinkOptions(ignore_delete=ignore_delete, ignore_update_before=ignore_update_before)
    mirror.job = replace(mirror.job, sink_options=options)
    mirror.start().wait_running()
    mirror.source(
        f"UPDATE {TABLE} SET id = id + 10000 WHERE id <= 10",
        f"UPDATE {TABLE} SET id = id + 10000, v = 'twice' WHERE id BETWEEN 10001 AND 10005",
        f"DELETE FROM {TABLE} WHERE id BETWEEN 101 AND 110",
        f"INSERT INTO {TABLE} VALUES (101 % 3, 101, 'again')",
        f"UPDATE {TABLE} SET id = 5 WHERE id = 11",
        f"INSERT INTO {TABLE} VALUES (1, 90001, 'short')",
        f"DELETE FROM {TABLE} WHERE id = 90001",
    )
    events = 20 + 10 + 10 + 1 + 2 + 1 + 1
    until(lambda: sum(mirror.changes().values()) == events, 30, "all to be applied")
    left = 9 + 1 if ignore_delete else 0  # 102 to 110, and the short one: within a batch and across batches
    assert mirror.difference() == (0, left)
    mirror.stop()


def test_a_row_that_the_target_refuses_stops_the_job_and_its_values_are_not_shown(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.at_sink(
        "CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text CHECK (v <> 'secret-4711'))"
    )
    mirror.start().wait_running()
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'secret-4711')")
    error = mirror.wait_error()
    assert isinstance(error, SlotkeeperError)
    assert error.kind.value == "data"
    assert "secret" not in error.message + error.hint
