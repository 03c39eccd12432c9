"""Single tables of a job under contention: a commit in flight, another job, a late worker, a name."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.sinks.postgres.progress.locks import target_lock
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_tables_alone import reset
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.standin import run
from tests.support.waiting import until

SAME = ("ods.t2", "ods.t495")
"""Two names with the same four digits of a hash, which are part of the names of their sessions."""
TABLES = (*SAME, "ods.c")
TWIN, ONE, THIRD = TABLES


def target(table: str) -> str:
    return table.replace("ods.", "mart.")


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    for table in TABLES:
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 100) n")
    mirror = make_mirror(warehouse, TABLES[0])
    channels = tuple(ChannelSpec(table, target(table), create_target=True) for table in TABLES)
    mirror.job = replace(mirror.job, channels=channels, on_existing="replace")
    return mirror.start().wait_running()


def applied(mirror: Mirror, table: str, value: int) -> None:
    """Set a value in all rows of a table, and wait until it arrives."""
    run(mirror.warehouse, f"UPDATE {table} SET v = {value}")
    arrives(mirror, table, value)


def arrives(mirror: Mirror, table: str, value: int) -> None:
    rows = f"SELECT count(*) FROM {target(table)} WHERE v = {value}"
    mirror._until(lambda: mirror.query(mirror.sink, rows) == [(100,)], 60, f"{table} to have {value}")


def told(mirror: Mirror, table: str) -> str:
    known = mirror.heard.tables.get(table)
    return known.state if known else ""


@contextmanager
def step_held(mirror: Mirror, table: str, value: int) -> Iterator[threading.Event]:
    """Hold the next step just before its commit, for the block; setting the event lets it continue."""
    mirror.stop()
    reached, goes_on = threading.Event(), threading.Event()

    def held() -> None:
        reached.set()
        goes_on.wait(60)

    probe = At("after_recheck", held, armed=False)
    mirror.start(probe).wait_running()
    probe.armed = True
    run(mirror.warehouse, f"UPDATE {table} SET v = {value}")
    assert reached.wait(60)
    try:
        yield goes_on
    finally:
        goes_on.set()


def test_the_names_have_the_same_digits() -> None:
    digits = {hashlib.sha256(table.encode()).hexdigest()[:4] for table in SAME}
    assert len(digits) == 1


def test_a_table_is_stopped_once_the_commit_that_was_on_its_way_has_come(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """Then the lock of its target is released: another job can start, and a user can write."""
    mirror = mirror_of(warehouse, make_mirror)
    with step_held(mirror, ONE, 7) as goes_on:
        mirror.want(ONE, WantedState.STOP)
        mirror._until(lambda: not any(ONE in name for name in mirror.heard.now), 30, "its lanes to be let go")
        early = goes_on.wait(1.5) or told(mirror, ONE) == JobState.STOPPED.value
        before = mirror.query(mirror.sink, f"SELECT count(*) FROM {target(ONE)} WHERE v = 7")
        goes_on.set()
        mirror.wait_table(ONE, JobState.STOPPED)
        assert mirror.query(mirror.sink, f"SELECT count(*) FROM {target(ONE)} WHERE v = 7") != before, "it committed"
        assert not early, "reported as stopped before its commit"
    applied(mirror, THIRD, 3)
    mirror.want(ONE, WantedState.RUN, anew=True)
    arrives(mirror, ONE, 7)
    mirror.wait_equal()
    mirror.stop()


def test_a_worker_that_hangs_keeps_no_table_from_its_next_start_and_its_late_commit_is_refused(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    with step_held(mirror, ONE, 7) as goes_on:
        mirror.want(ONE, WantedState.RUN, anew=True)
        mirror._until(lambda: told(mirror, ONE) != JobState.RUNNING.value, 30, "it to be started again")
        mirror.wait_table(ONE, JobState.RUNNING)
        arrives(mirror, ONE, 7)
        goes_on.set()
        applied(mirror, ONE, 9)
    mirror.wait_equal()
    changes = sum(row.changes for row in mirror.rows() if row.key.source_table == ONE)
    assert changes == 2 * 2 * 100, "two events for each of the hundred rows, twice, and none of them again"
    mirror.stop()


def test_another_job_that_gets_the_lock_of_one_target_ends_that_table_alone(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    """The other job gets the lock when the session that holds the leases is lost."""
    mirror = mirror_of(warehouse, make_mirror)
    other, has_it = mirror.sink(), threading.Event()

    def waits() -> None:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", (target_lock(target(ONE)),))
        has_it.set()

    waiting = threading.Thread(target=waits, daemon=True)
    waiting.start()
    seen = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    until(lambda: mirror.query(mirror.sink, seen) != [], 30, "the other job to wait for the target")
    lease = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{lease_of(mirror)}'"
    mirror.at_sink(lease)
    assert has_it.wait(30)
    said = mirror.wait_table(ONE, JobState.FAILED)
    assert target(ONE) in said.reason, said
    for table in (TWIN, THIRD):
        applied(mirror, table, 4)
        assert told(mirror, table) == JobState.RUNNING.value
    assert not mirror.ended()
    other.close()
    mirror.want(ONE, WantedState.RUN, anew=True)
    mirror.wait_table(ONE, JobState.RUNNING)
    mirror.wait_equal()
    mirror.stop()


def lease_of(mirror: Mirror) -> str:
    return f"slotkeeper/{mirror.job.name}/lease"


@pytest.mark.parametrize("turns", [1, pytest.param(8, marks=pytest.mark.chaos)])
def test_a_table_whose_sessions_are_named_as_anothers_takes_nothing_from_it(
    turns: int, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    """Its restart and reset end the other's registrations, which are repeated; all rows arrive once."""
    mirror, done = mirror_of(warehouse, make_mirror), threading.Event()

    def writes() -> None:
        value = 10
        while not done.wait(0.02):
            value += 1
            run(warehouse, f"UPDATE {TWIN} SET v = {value}", f"UPDATE {ONE} SET v = {value} WHERE id < 30")

    writer = threading.Thread(target=writes, daemon=True)
    writer.start()
    try:
        for _ in range(turns):
            mirror.want(ONE, WantedState.RUN, anew=True)
            until(lambda: mirror.heard.tables[ONE].state != JobState.RUNNING.value, 60, "it to be started again")
            mirror.wait_table(ONE, JobState.RUNNING, 90)
            mirror.want(ONE, WantedState.STOP)
            mirror.wait_table(ONE, JobState.STOPPED)
            reset(mirror, tmp_path / "state", ONE)
            mirror.want(ONE, WantedState.RUN, anew=True)
            mirror.wait_table(ONE, JobState.RUNNING, 90)
            assert told(mirror, TWIN) == JobState.RUNNING.value
    finally:
        done.set()
        writer.join(30)
    mirror.wait_equal()
    mirror.stop()


def test_a_table_that_was_taken_out_for_longer_than_its_slot_lasts_fails_alone_when_it_is_put_back(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.wait_equal()
    mirror.stop()
    whole = mirror.job
    mirror.job = replace(whole, channels=tuple(one for one in whole.channels if one.source_table != ONE))
    mirror.start().wait_running()
    run(warehouse, f"UPDATE {ONE} SET v = 5")
    mirror.source(f"SELECT pgxc_binlog_clear_target_slot('{ONE}', '{whole.slot}')")
    mirror.stop()
    mirror.job = whole
    mirror.start()
    said = mirror.wait_table(ONE, JobState.FAILED)
    assert said.trouble == "SLOT LOST", said
    for table in (TWIN, THIRD):
        applied(mirror, table, 6)
    reset(mirror, tmp_path / "state", ONE)
    mirror.want(ONE, WantedState.RUN, anew=True)
    arrives(mirror, ONE, 5)
    mirror.wait_equal()
    mirror.stop()
