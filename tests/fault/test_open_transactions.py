"""A list of sessions does not show which sessions are missing: a start waits for transactions that it cannot see.

DWS, PG_STAT_ACTIVITY: an ordinary login sees its own sessions only, and those of one coordinator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.driver import start
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.demo import facts
from slotkeeper.demo.facts import THROUGH_SECOND
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, as_superuser
from tests.support.standin import MakeWarehouse, run
from tests.support.waiting import until

TABLE = "ods.t"
EARLY = f"INSERT INTO {TABLE} VALUES (101, 'early')"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the wait for older sessions, visible or not."""
    monkeypatch.setattr(start, "LOST_ANSWER_WAIT", 0.0)


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, 20) n")
    return make_mirror(warehouse, TABLE, "mart.t")


@pytest.fixture
def granted(warehouse: Warehouse) -> Iterator[None]:
    facts.sees_statistics(warehouse)
    yield
    facts.sees_statistics(warehouse, False)


def opened(mirror: Mirror, through: str, *statements: str) -> pg.Connection:
    """A session of another login, connected through a coordinator, with an open transaction that ran the statements."""
    connection = mirror.warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('application_name', %s, false)", (f"writer{through}",))
        for statement in ("BEGIN", *statements):
            cursor.execute(statement)
    return connection


def said(connection: pg.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


def waits(mirror: Mirror, words: str) -> None:
    until(lambda: any(words in text for text in mirror.heard.retries), 20, f"the job to say {words!r}")
    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    assert {row.state for row in mirror.rows()} == {LaneState.CREATING}


def whole(mirror: Mirror) -> None:
    """Check that the job becomes RUNNING with the rows that were written before its slot existed."""
    mirror.wait_running().wait_equal()
    mirror.stop()
    assert ("(101,early)",) in mirror.target_rows()


def test_where_activity_is_filtered_by_user_a_transaction_that_is_not_listed_is_waited_for(mirror: Mirror) -> None:
    facts.activity_by_user(mirror.warehouse)
    writer = opened(mirror, "", EARLY)
    mirror.start()
    waits(mirror, f"pid {writer.info.backend_pid} (of another login")
    said(writer, "COMMIT")
    whole(mirror)


def test_a_transaction_of_another_coordinator_is_waited_for_unseen(mirror: Mirror) -> None:
    facts.second_coordinator(mirror.warehouse)
    facts.activity_by_user(mirror.warehouse)
    writer = opened(mirror, THROUGH_SECOND, EARLY)
    mirror.start()
    waits(
        mirror, "unlisted transaction that was open when recording started (of another database, login or coordinator)"
    )
    said(writer, "COMMIT")
    whole(mirror)


def test_at_the_limit_it_says_what_it_cannot_see(mirror: Mirror) -> None:
    facts.second_coordinator(mirror.warehouse)
    writer = opened(mirror, THROUGH_SECOND, EARLY)
    mirror.job = replace(mirror.job, wait_ms=300)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert "unlisted transaction" in error.message
    assert f"`wait` in [jobs.{mirror.job.name}]" in error.hint and "doctor" in error.hint
    said(writer, "ROLLBACK")


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("apart", [False, True], ids=["one snapshot", "a snapshot for each coordinator"])
def test_a_login_that_may_read_all_coordinators_names_whom_it_waits_for(apart: bool, mirror: Mirror) -> None:
    facts.second_coordinator(mirror.warehouse)
    facts.activity_by_user(mirror.warehouse)
    facts.snapshots_apart(mirror.warehouse, apart)
    writer = opened(mirror, THROUGH_SECOND, EARLY)
    mirror.start()
    waits(mirror, f"pid {writer.info.backend_pid} (postgres, writer@cn_5002 through cn_5002)")
    said(writer, "COMMIT")
    whole(mirror)


@pytest.mark.usefixtures("granted")
def test_one_that_has_only_read_so_far_is_waited_for_on_every_coordinator(mirror: Mirror) -> None:
    facts.second_coordinator(mirror.warehouse)
    reader = opened(
        mirror, THROUGH_SECOND, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", f"SELECT count(*) FROM {TABLE}"
    )
    mirror.start()
    waits(mirror, f"pid {reader.info.backend_pid} (postgres")
    said(reader, EARLY, "COMMIT")  # its snapshot is older than the slot, so the stand-in does not record this
    whole(mirror)


def test_a_coordinators_own_snapshot_is_not_all_that_is_asked(mirror: Mirror) -> None:
    """If coordinators do not show each other's sessions, a DN's xmin is still held back by an unseen transaction."""
    facts.second_coordinator(mirror.warehouse)
    facts.snapshots_apart(mirror.warehouse)
    writer = opened(mirror, THROUGH_SECOND, EARLY)
    mirror.start()
    waits(mirror, "cannot see all sessions of other logins and of 2 coordinators and a DN's xmin does not advance")
    said(writer, "COMMIT")
    whole(mirror)


def test_a_prepared_transaction_counts_as_open_and_is_named(mirror: Mirror) -> None:
    said(opened(mirror, "", EARLY), "PREPARE TRANSACTION 'two-phase'")
    mirror = as_superuser(mirror)
    mirror.start()
    waits(mirror, f"prepared transaction two-phase (postgres, database {mirror.warehouse.database})")
    said(mirror.warehouse.connect(), "COMMIT PREPARED 'two-phase'")
    whole(mirror)


def test_one_that_is_prepared_while_it_is_waited_for_is_still_waited_for(mirror: Mirror) -> None:
    writer = opened(mirror, "", EARLY)
    mirror = as_superuser(mirror)
    mirror.start()
    waits(mirror, f"pid {writer.info.backend_pid} (postgres")
    said(writer, "PREPARE TRANSACTION 'later'")
    waits(mirror, "when recording started; it may be prepared transaction later")
    said(mirror.warehouse.connect(), "COMMIT PREPARED 'later'")
    whole(mirror)


def test_where_the_slots_hold_back_the_xmin_and_the_list_is_not_whole_it_cannot_be_told(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    warehouse = make_warehouse(switches=Switches(xmin_includes_slots=True))
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    facts.activity_by_user(warehouse)
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    mirror.job = replace(mirror.job, wait_ms=300)
    error = mirror.start().wait_error()
    assert isinstance(error, Refused)
    assert error.message.startswith("cannot see all sessions of other logins")
    assert "an open transaction may exist" in error.message


def test_an_idle_cluster_keeps_no_start_waiting(mirror: Mirror) -> None:
    """No session writes, and a status takes no number: xmin advances because the start requests numbers."""
    facts.activity_by_user(mirror.warehouse)
    facts.status_takes_no_number(mirror.warehouse)
    mirror.keepalive = 600.0  # a registration is a write, and the sink's writes are on the same server here
    mirror.start()
    mirror.wait_running().wait_equal()
    mirror.stop()
    assert any("a DN's xmin does not advance" in text for text in mirror.heard.retries)


def test_a_truncate_while_a_start_without_a_copy_waits_is_named(mirror: Mirror) -> None:
    """The binlog has no record of it, and the second full sync would set both points again."""
    mirror.job = replace(mirror.job, start="latest")
    writer = opened(mirror, "", "SELECT txid_current()")
    mirror.start()
    waits(mirror, "waiting for transactions that were open when recording started")
    run(mirror.warehouse, f"TRUNCATE {TABLE}")
    said(writer, "COMMIT")
    error = mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SLOT_LOST
    assert re.match(r"dn_\d: the slot was created and now holds 0/0;", error.message)
    mirror.start().wait_running()
    mirror.stop()
