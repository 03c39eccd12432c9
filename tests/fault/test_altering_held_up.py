"""A job that has to alter its target is delayed by a lock, a missing right, a stop, names, or rows at risk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.remedy import new_snapshot
from slotkeeper.core.domain.reset import DONE, Goal, TargetKind
from slotkeeper.core.domain.spec import RESNAPSHOT, STOP, ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError, Trouble
from slotkeeper.core.sinks.postgres import target as sink_target
from slotkeeper.core.sinks.postgres.progress.locks import target_lock
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_schema_changes import audit_of, ended_equal, running, until_equal
from tests.support import hostile
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.shapes import TABLE, TARGET, insert, prepared
from tests.support.standin import run
from tests.support.waiting import until

OTHER, OTHERS_TARGET = "ods.u", "mart.u"
MERGE = Goal(TargetKind.SNAPSHOT, on_existing="merge")


def two(warehouse: Warehouse, make_mirror: MakeMirror, policy: str = RESNAPSHOT) -> Mirror:
    """A job of two tables that has run and is stopped."""
    mirror = prepared(warehouse, make_mirror, policy)
    warehouse.create_table(OTHER, "id bigint NOT NULL, v text", ("id",))
    other = ChannelSpec(OTHER, OTHERS_TARGET, create_target=True, on_schema_change=policy)
    mirror.job = replace(mirror.job, channels=(*mirror.job.channels, other))
    insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    return mirror


@contextmanager
def read_by_somebody(mirror: Mirror) -> Iterator[None]:
    """A long-running report of another session, which blocks an ALTER of the target."""
    with closing(mirror.sink()) as connection, pg.transaction(connection) as cursor:
        connection.autocommit = False
        cursor.execute(f"SELECT count(*) FROM {TARGET}")
        yield


def continues_with(mirror: Mirror, table: str, target: str) -> None:
    """Wait until a row of a table arrives while another table waits."""
    run(mirror.warehouse, f"INSERT INTO {table} (id, v) VALUES (900, 'new')")
    mirror._until(lambda: mirror.query(mirror.sink, f"SELECT v FROM {target} WHERE id = 900") == [("new",)], 60, "it")


# -- one of several tables at a start ---------------------------------------------------------------------------------


def test_an_alter_that_the_sink_refuses_at_a_start_ends_its_table_alone(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = two(warehouse, make_mirror)
    mirror.at_sink(f"CREATE VIEW mart.totals AS SELECT sum(w) FROM {TARGET}")
    mirror.source(f"ALTER TABLE {TABLE} DROP COLUMN w")
    mirror.start()
    said = mirror.wait_table(TABLE, JobState.FAILED)
    assert f"run in the sink: `ALTER TABLE {TARGET} DROP COLUMN w`; then run `slotkeeper slots reset" in said.safe
    continues_with(mirror, OTHER, OTHERS_TARGET)
    assert not mirror.ended()
    mirror.at_sink("DROP VIEW mart.totals")
    mirror.want(TABLE, WantedState.RUN, anew=True)
    mirror.wait_table(TABLE, JobState.RUNNING)
    until_equal(mirror)
    mirror.stop()


def test_a_target_that_somebody_reads_holds_its_own_table_up_alone_and_no_reader_for_long(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = two(warehouse, make_mirror)
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer DEFAULT 3")
    with read_by_somebody(mirror):
        mirror.start()
        continues_with(mirror, OTHER, OTHERS_TARGET)
        until(lambda: "altering the target" in mirror.heard.tables[TABLE].reason, 60, "its table to say why it waits")
        before = len(mirror.heard.retries)
        mirror._until(lambda: len(mirror.heard.retries) >= before + 2, 60, "two more tries")
        assert audit_of(mirror).lines == [], "an ALTER that has not begun is not recorded"
        with closing(mirror.sink()) as reader, reader.cursor() as cursor:
            cursor.execute("SET statement_timeout = '10s'")  # as long as an ALTER waits, and longer
            cursor.execute(f"SELECT count(*) FROM {TARGET}")
    mirror.wait_table(TABLE, JobState.RUNNING)
    assert mirror.heard.tables[TABLE].reason == ""
    until_equal(mirror)
    mirror.stop()


# -- a stop -----------------------------------------------------------------------------------------------------------


def test_a_stop_ends_an_alter_that_is_under_way_and_the_next_start_does_it(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    monkeypatch.setattr(sink_target, "LOCK_WAIT", "300s")
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer DEFAULT 3")
    reads, read = threading.Event(), threading.Event()

    def somebody() -> None:
        with read_by_somebody(mirror):
            reads.set()
            read.wait(120)

    reader = threading.Thread(target=somebody, daemon=True)

    def comes() -> None:
        reader.start()
        assert reads.wait(30)

    mirror.start(driver_probe=At("after_reshape_epoch", comes))
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE {TARGET}%'"
    mirror._until(lambda: mirror.query(mirror.sink, waiting) != [], 60, "the ALTER to wait")
    mirror.wanted = WantedState.STOP
    until(mirror.ended, 20, "the job to stop")
    read.set()
    reader.join(30)
    assert mirror.error is None, repr(mirror.error)
    assert [line.outcome.partition(":")[0] for line in audit_of(mirror).lines] == ["", "failed"]
    mirror.start()
    ended_equal(mirror)


def test_a_start_that_somebody_keeps_from_its_target_says_who_and_not_what_to_type(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = running(warehouse, make_mirror, STOP)
    mirror.stop()
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer")
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    with closing(mirror.sink()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (target_lock(TARGET),))
        error = mirror.start().wait_error(120)
    assert isinstance(error, SlotkeeperError) and "belongs to" in error.message, repr(error)
    assert "ALTER TABLE" not in error.hint, error.hint


# -- data that would be lost -------------------------------------------------------------------------------------------


def test_a_source_that_was_likely_emptied_as_well_is_a_persons(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    mirror.source(f"TRUNCATE {TABLE}", f"ALTER TABLE {TABLE} ADD COLUMN x integer")
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble), repr(error)
    said = "the target would shrink by 50 rows: source 0, target 50; TRUNCATE at the source is likely"
    assert error.hint.startswith(said), error.hint
    alter = f"ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS x integer"
    assert f"run in the sink: `{alter}`; then run `slotkeeper slots reset" in error.hint
    assert mirror.query(mirror.sink, f"SELECT count(*) FROM {TARGET}") == [(50,)]
    assert not audit_of(mirror).lines


@pytest.mark.parametrize("moment", ["before the copy", "in the copy"])
def test_what_a_reset_said_for_a_copy_outlives_another_change_of_the_table(
    moment: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    """The reset specified merge and the configuration specifies replace: rows that only the target has remain."""
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    mirror.at_sink(f"INSERT INTO {TARGET} (id, v, n) VALUES (999, 'only here', 1)")
    assert Resetting(mirror, tmp_path / "state").reset(MERGE).outcome == DONE
    if moment == "in the copy":
        probe = At("after_chunk_commit", lambda: setattr(mirror, "wanted", WantedState.STOP))
        options = replace(mirror.job.binlog, full_sync_binlog_batch_read_size=5)
        mirror.job = replace(mirror.job, binlog=options)
        mirror.start(probe)
        until(mirror.ended, 60, "the job to stop")
        assert {row.state.value for row in mirror.rows()} == {"copying"}
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer DEFAULT 3")
    mirror.start().wait_running()
    mirror.stop()
    assert mirror.query(mirror.sink, f"SELECT v FROM {TARGET} WHERE id = 999") == [("only here",)]
    assert mirror.query(mirror.sink, f"SELECT count(*) FROM {TARGET} WHERE x = 3") == [(50,)]


def test_a_merging_job_empties_no_column_by_itself(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """Rows that only the target has would lose their values for good."""
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    mirror.stop()
    mirror.job = replace(mirror.job, on_existing="merge")
    mirror.at_sink(f"INSERT INTO {TARGET} (id, v, n) VALUES (999, 'only here', 1)")
    mirror.source(f"ALTER TABLE {TABLE} ALTER COLUMN v TYPE boolean USING true")
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble) and "USING NULL" in error.hint, repr(error)
    assert mirror.query(mirror.sink, f"SELECT v FROM {TARGET} WHERE id = 999") == [("only here",)]


def test_a_merging_job_does_not_empty_what_a_cast_refuses(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT, "id bigint NOT NULL, f double precision NOT NULL")
    mirror.job = replace(mirror.job, on_existing="merge")
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 1e12), (2, 2)")
    mirror.start().wait_running()
    run(warehouse, f"ALTER TABLE {TABLE} ALTER COLUMN f TYPE numeric(5,2) USING 1")
    error = mirror.wait_error()
    assert isinstance(error, SlotkeeperError) and "run in the sink" in error.hint, repr(error)
    assert mirror.query(mirror.sink, f"SELECT f FROM {TARGET} WHERE id = 1") == [(1e12,)]


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("there", "then", "kept"),
    [
        ("timestamp", "date", "2026-01-02 03:04:05"),
        ("numeric(8,3)", "integer", "1.234"),
    ],
)
def test_a_merging_job_makes_no_cast_that_rounds(
    there: str, then: str, kept: str, warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT, f"id bigint NOT NULL, x {there}")
    mirror.job = replace(mirror.job, on_existing="merge")
    run(warehouse, f"INSERT INTO {TABLE} (id) VALUES (1)")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.at_sink(f"INSERT INTO {TARGET} (id, x) VALUES (999, '{kept}')")
    run(warehouse, f"ALTER TABLE {TABLE} ALTER COLUMN x TYPE {then}")
    error = mirror.wait_error()
    assert isinstance(error, SlotkeeperError) and "run in the sink" in error.hint, repr(error)
    assert mirror.query(mirror.sink, f"SELECT x::text FROM {TARGET} WHERE id = 999") == [(kept,)]


# -- names ------------------------------------------------------------------------------------------------------------


def test_columns_of_hostile_names_are_added_renamed_and_dropped_by_the_job(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    names = [one for one in hostile.texts(40, seed) if one not in ("id", "v", "w", "n")]
    print(f"seed {seed}")
    mirror = running(warehouse, make_mirror, RESNAPSHOT)
    victim = ("CREATE TABLE public.victim (id bigint PRIMARY KEY)", "INSERT INTO public.victim VALUES (1)")
    run(warehouse, *victim)
    mirror.at_sink(*victim)
    added = [f"ALTER TABLE {TABLE} ADD COLUMN {hostile.quoted(one)} text DEFAULT 'd'" for one in names[:20]]
    renamed = [
        f"ALTER TABLE {TABLE} RENAME COLUMN {hostile.quoted(old)} TO {hostile.quoted(new)}"
        for old, new in zip(names[:19], names[20:39], strict=False)
    ]
    gone = [f"ALTER TABLE {TABLE} DROP COLUMN {hostile.quoted(one)}" for one in names[20:24]]
    for number, statements in enumerate((added, renamed, gone), 1):
        mirror.source(*statements)
        mirror._until(lambda n=number: len(audit_of(mirror).lines) >= 2 * n, 60, "it to be altered")  # type: ignore[misc]
        until_equal_by_quoted_names(mirror)
    mirror.stop()
    for connect in (warehouse.connect, mirror.sink):
        assert mirror.query(connect, "SELECT count(*) FROM public.victim") == [(1,)]


def until_equal_by_quoted_names(mirror: Mirror) -> None:
    def names(connect: object, table: str) -> list[str]:
        where = f"attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped"
        found = mirror.query(connect, f"SELECT attname::text FROM pg_attribute WHERE {where}")  # type: ignore[arg-type]
        return sorted(name for (name,) in found)

    def equal() -> bool:
        source, sink = names(mirror.warehouse.connect, TABLE), names(mirror.sink, TARGET)
        if source != sink:
            return False
        listed = ", ".join(f"{hostile.quoted(name)}::text" for name in source)
        rows = mirror.query(mirror.warehouse.connect, f"SELECT {listed} FROM {TABLE}")
        return set(rows) == set(mirror.query(mirror.sink, f"SELECT {listed} FROM {TARGET}"))

    mirror._until(equal, 60, "source and target to be equal")
    mirror.wait_running()


def test_what_is_printed_for_columns_of_hostile_names_does_as_it_says(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    """Run all of it at once, like a paste into a session at the sink."""
    names = [one for one in hostile.texts(30, seed) if one not in ("id", "v", "w", "n")]
    mirror = running(warehouse, make_mirror, STOP)
    mirror.stop()
    mirror.source(*(f"ALTER TABLE {TABLE} ADD COLUMN {hostile.quoted(one)} text DEFAULT 'd'" for one in names))
    error = mirror.start().wait_error()
    assert isinstance(error, Trouble), repr(error)
    assert not hostile.RAW.search(error.hint.partition("run in the sink: ")[2])
    typed = error.hint.partition("run in the sink: `")[2].rpartition("`; then run `slotkeeper slots reset")[0]
    mirror.at_sink(typed.replace("`; `", "; "))
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    mirror.start()
    until_equal_by_quoted_names(mirror)
    mirror.stop()


# -- output -----------------------------------------------------------------------------------------------------------


def test_the_reset_that_is_printed_works_where_the_configuration_refuses_a_target_with_rows(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """A running job keeps the configuration of its start: an edit of the file now does not help its table."""
    mirror = prepared(warehouse, make_mirror, STOP)
    mirror.job = replace(mirror.job, on_existing="refuse")
    insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.source(f"ALTER TABLE {TABLE} ADD COLUMN x integer")
    error = mirror.wait_error()
    assert isinstance(error, Trouble), repr(error)
    assert error.hint.endswith(f"; then {new_snapshot(mirror.job)}")
