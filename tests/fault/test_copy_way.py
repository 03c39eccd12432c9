"""The mode of writing chunks is recorded when the copy starts and never guessed; a missing target is not recreated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.consent import Ordered
from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.errors import Refused
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
SHADOWS = "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_\\_slotkeeper\\_copy'"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A table of 100 rows, copied in chunks of 10."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row ' || n FROM generate_series(1, 100) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.capacity = 2
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=10))
    return mirror


def filled(mirror: Mirror) -> Mirror:
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)",
        f"INSERT INTO {TARGET} VALUES (1, 'older'), (-5, 'not in the source')",
    )
    return mirror


def half_done(mirror: Mirror, on_existing: str = "refuse") -> None:
    """Copy some chunks and exit, as if the driver was killed."""
    mirror.job = replace(mirror.job, on_existing=on_existing)

    def die() -> None:
        mirror.runner.close()  # no further task of this driver
        raise ZeroDivisionError

    probe = At("after_chunk_commit", die, nth=3)
    mirror.start(probe)
    until(probe.done.is_set, 30, "the copy to be half done")
    until(mirror.ended, 30, "the job to end")
    counts = "SELECT count(CASE WHEN state = 'done' THEN 1 END), count(*) FROM slotkeeper_chunks"
    done, planned = mirror.query(mirror.sink, counts)[0]
    assert 0 < done < planned


def gone(mirror: Mirror) -> None:
    """Wait until the job has ended because its target is missing; no table was created in its place."""
    error = mirror.wait_error(30)
    assert isinstance(error, Refused), error
    assert f"target {TARGET} does not exist: take a new snapshot" in error.message
    assert "--to snapshot" in error.hint
    assert mirror.query(mirror.sink, "SELECT 1 FROM pg_tables WHERE schemaname = 'mart' AND tablename = 't'") == []


# -- item 2: a target that was dropped


def test_a_target_that_was_dropped_while_the_job_was_stopped_is_not_made_again(mirror: Mirror) -> None:
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    mirror.at_sink(f"DROP TABLE {TARGET}")
    mirror.start()
    gone(mirror)


def test_a_target_that_was_dropped_under_a_running_job_is_not_made_again_by_its_restart(mirror: Mirror) -> None:
    mirror.start().wait_running().wait_equal()
    mirror.at_sink(f"DROP TABLE {TARGET}")
    run(mirror.warehouse, f"UPDATE {TABLE} SET v = 'later' WHERE id > 90")
    assert isinstance(mirror.wait_error(30), Refused)
    mirror.start()
    gone(mirror)


@pytest.mark.parametrize(
    "on_existing", ["refuse", *(pytest.param(way, marks=pytest.mark.chaos) for way in ("replace", "merge"))]
)
def test_a_target_that_was_dropped_while_its_copy_was_half_done_is_not_made_again(
    mirror: Mirror, on_existing: str
) -> None:
    if on_existing != "refuse":
        filled(mirror)
    half_done(mirror, on_existing)
    mirror.at_sink(f"DROP TABLE {TARGET}")
    mirror.start()
    gone(mirror)


@pytest.mark.chaos
def test_after_a_reset_to_snapshot_a_target_that_is_gone_is_made(mirror: Mirror, tmp_path: Path) -> None:
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    mirror.at_sink(f"DROP TABLE {TARGET}")
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_full_copy_without_binlog_is_a_snapshot_itself_and_makes_its_target_again(mirror: Mirror) -> None:
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    half_done(mirror)
    mirror.at_sink(f"DROP TABLE {TARGET}")
    for _ in range(2):
        mirror.start().join()
        assert (mirror.error, mirror.end) == (None, JobEnd.FINISHED)
        assert mirror.difference() == (0, 0), "every chunk is copied again, not only the remaining ones"
        mirror.at_sink(f"DROP TABLE {TARGET}")


# -- item 3: the mode of writing chunks


def test_a_replacing_copy_continues_as_it_began_where_the_configuration_says_merge_by_then(mirror: Mirror) -> None:
    half_done(filled(mirror), "replace")
    mirror.job = replace(mirror.job, on_existing="merge")
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    assert mirror.query(mirror.sink, SHADOWS) == [(0,)]


@pytest.mark.chaos
def test_a_merging_copy_continues_as_it_began_where_the_configuration_says_replace_by_then(mirror: Mirror) -> None:
    half_done(filled(mirror), "merge")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running()
    until(lambda: mirror.difference()[0] == 0, 30, "every source row to be there")
    mirror.stop()
    assert mirror.difference() == (0, 1)


@pytest.mark.parametrize("then", ["refuse", pytest.param("merge", marks=pytest.mark.chaos)])
def test_a_shadow_that_was_left_behind_is_not_gone_on_with_by_a_later_copy(
    mirror: Mirror, tmp_path: Path, then: str
) -> None:
    half_done(filled(mirror), "replace")
    assert Resetting(mirror, tmp_path / "state").reset(SNAPSHOT).outcome == DONE
    ((said, chunks),) = mirror.query(mirror.sink, "SELECT DISTINCT copying, chunks FROM slotkeeper_progress")
    assert (Ordered.parse(said).way, chunks) == ("", None), (
        "only the plan that emptied them, nothing of the earlier copy"
    )
    mirror.at_sink(f"DELETE FROM {TARGET}")
    half_done(mirror, then)
    assert mirror.query(mirror.sink, SHADOWS) == [(0,)]
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_half_done_copy_that_does_not_tell_how_it_goes_in_is_refused_by_name(mirror: Mirror) -> None:
    """The rows are in the state in which a version without the record left them."""
    half_done(mirror)
    mirror.at_sink("ALTER TABLE slotkeeper_progress DROP COLUMN copying, DROP COLUMN chunks")
    mirror.at_sink("DROP TABLE slotkeeper_versions")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert error.message == f"unknown mode of the unfinished copy into {TARGET}"
    assert "--to snapshot" in error.hint


@pytest.mark.chaos
def test_a_half_done_copy_that_an_undo_brings_back_is_refused_by_name(mirror: Mirror, tmp_path: Path) -> None:
    """Another user may have emptied the target for the snapshot."""
    half_done(mirror)
    mirror.at_sink(f"DELETE FROM {TARGET}")
    resetting = Resetting(mirror, tmp_path / "state")
    backup = resetting.reset(SNAPSHOT).reset
    assert resetting.undo(backup).outcome == DONE
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert error.message == f"unknown mode of the unfinished copy into {TARGET}"


@pytest.mark.chaos
def test_a_half_done_copy_whose_shadow_is_gone_is_refused_by_name(mirror: Mirror) -> None:
    half_done(filled(mirror), "replace")
    mirror.at_sink('DROP TABLE mart."t__slotkeeper_copy"')
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "shadow" in error.message
    assert "--to snapshot" in error.hint
    assert len(mirror.target_rows()) == 2


# -- a target that a stranger alters


@pytest.mark.chaos
def test_a_target_that_is_altered_while_its_shadow_fills_is_not_filled_with_rounded_values(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, n numeric(12,4)", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, n + 0.1234 FROM generate_series(1, 50) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    options = replace(mirror.job.binlog, full_sync_binlog_batch_read_size=10)
    mirror.job = replace(mirror.job, on_existing="replace", binlog=options)
    mirror.at_sink(
        "CREATE SCHEMA mart",
        f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, n numeric(12,4))",
        f"INSERT INTO {TARGET} VALUES (7, 7.7777)",
    )
    alter = f"ALTER TABLE {TARGET} ALTER COLUMN n TYPE numeric"
    mirror.start(At("after_chunk_commit", lambda: mirror.at_sink(f"{alter}(12,1)")))
    error = mirror.wait_error()
    assert isinstance(error, Refused) and "column n has another type" in error.message, repr(error)
    assert mirror.query(mirror.sink, f"SELECT n::text FROM {TARGET}") == [("7.8",)], "the change by another user"
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), "the next start does not change it either"
    mirror.at_sink(f"{alter}(12,4)")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
