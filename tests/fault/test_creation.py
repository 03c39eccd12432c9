"""A slot is created while transactions are open on the table: none of their changes is lost or guessed.

A transaction's earlier writes are not in the binlog and not yet visible to a copy.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror, as_superuser
from tests.support.standin import MakeWarehouse, run
from tests.support.waiting import until

TABLE = "ods.t"


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    return make_mirror(warehouse, TABLE, "mart.t")


def opened(mirror: Mirror, *statements: str) -> pg.Connection:
    """A session of another login with an open transaction that has run the statements."""
    connection = mirror.warehouse.connect(False)
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    return connection


def waits(mirror: Mirror, words: str) -> None:
    until(lambda: any(words in text for text in mirror.heard.retries), 20, f"the job to say {words!r}")
    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    assert {row.state for row in mirror.rows()} == {LaneState.CREATING}


@pytest.mark.parametrize("hidden", [True, False], ids=["other sessions hidden", "other sessions seen"])
def test_nothing_of_an_open_transaction_is_lost(hidden: bool, warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror = mirror if hidden else as_superuser(mirror)
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 20) n")
    writer = opened(mirror, f"INSERT INTO {TABLE} VALUES (101, 'early')", f"DELETE FROM {TABLE} WHERE id = 7")
    pid = writer.info.backend_pid
    mirror.start()
    waits(mirror, f"pid {pid} (postgres")
    with writer.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (102, 'late')")
    writer.commit()
    writer.close()
    mirror.wait_running().wait_equal()
    mirror.stop()
    assert ("(101,early)",) in mirror.target_rows()
    assert sum(mirror.changes().values()) == 1, "the binlog contains only changes written after the slot was created"


@pytest.mark.parametrize("hidden", [True, False], ids=["other sessions hidden", "other sessions seen"])
def test_at_the_limit_the_job_stops_and_says_so(hidden: bool, warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror = mirror if hidden else as_superuser(mirror)
    mirror.job = replace(mirror.job, wait_ms=500)
    writer = opened(mirror, f"INSERT INTO {TABLE} VALUES (101, 'early')")
    error = mirror.start().wait_error()
    assert type(error) is Refused
    assert f"pid {writer.info.backend_pid} (postgres" in error.message
    assert f"`wait` in [jobs.{mirror.job.name}]" in error.hint
    writer.rollback()
    writer.close()
    mirror.job = replace(mirror.job, wait_ms=20_000)
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_restart_in_creating_registers_and_waits_again(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = as_superuser(mirror_of(warehouse, make_mirror))
    writer = opened(mirror, f"INSERT INTO {TABLE} VALUES (101, 'early')")
    mirror.start()
    waits(mirror, "waiting for transactions")
    mirror.stop()
    before = {row.key.shard: row.registered for row in mirror.rows()}
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'between')")
    mirror.start()
    waits(mirror, "waiting for transactions")
    for row in mirror.rows():
        was = before[row.key.shard]
        assert was and row.registered
        old, new = was.furthest, row.registered.furthest
        assert old and new and new > old, "a later point, because the first start's recording may have gaps"
    writer.commit()
    writer.close()
    mirror.wait_running().wait_equal()
    mirror.stop()


@pytest.mark.parametrize("auto_create", [True, False])
@pytest.mark.parametrize("point", ["after_first_registration", "in between", "nothing landed on one DN"])
def test_a_start_that_dies_while_it_creates_is_begun_again(
    auto_create: bool, point: str, make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(make_warehouse(switches=Switches(auto_create=auto_create)), make_mirror)
    run(mirror.warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 20) n")

    def die() -> None:
        raise ZeroDivisionError

    if point == "after_first_registration":
        assert isinstance(mirror.start(driver_probe=At(point, die)).wait_error(), ZeroDivisionError)
    elif point == "in between":
        mirror.warehouse.dn_down("dn_3")
        mirror.start()
        until(lambda: mirror.heard.retries, 20, "the start to fail")
        mirror.stop()
        mirror.warehouse.dn_down(None)
    else:
        mirror.warehouse.partial_registration("dn_2", 3)
    mirror.start().wait_running()
    assert len(mirror.rows()) == 4, "no DN was left out"
    run(mirror.warehouse, f"INSERT INTO {TABLE} SELECT n, 'new' FROM generate_series(101, 140) n")
    mirror.wait_equal()
    mirror.stop()


def test_a_slot_with_points_and_no_progress_row_is_progress_lost(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    run(warehouse, f"SELECT pgxc_register_full_sync_point('{TABLE}', '{mirror.job.slot}')")
    for _ in range(2):
        error = mirror.start().wait_error()
        assert isinstance(error, Trouble)
        assert error.name is TroubleName.PROGRESS_LOST
        assert mirror.rows() == [], "a rejected start leaves no row"


def test_where_the_slots_hold_back_the_xmin_and_sessions_are_hidden_it_says_that_it_cannot_tell(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(make_warehouse(switches=Switches(xmin_includes_slots=True)), make_mirror)
    mirror.job = replace(mirror.job, wait_ms=500)
    idle = mirror.warehouse.connect()
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "an open transaction may exist" in error.message
    idle.close()


def test_an_empty_table_is_mirrored(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running()
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'first')")
    mirror.wait_equal()
    mirror.stop()


def test_a_hidden_transaction_that_has_only_read_so_far_is_waited_for(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    reader = opened(mirror, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", f"SELECT count(*) FROM {TABLE}")
    mirror.start()
    waits(mirror, f"pid {reader.info.backend_pid}")
    with reader.cursor() as cursor:  # its snapshot is older than the slot, so the stand-in does not record this
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 'unrecorded')")
    reader.commit()
    reader.close()
    mirror.wait_running().wait_equal()
    mirror.stop()
