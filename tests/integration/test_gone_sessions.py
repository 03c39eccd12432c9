"""The end of all older sessions is reported only if the sessions of every coordinator are visible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.config.values import NAME_MAX
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSlotAdmin
from slotkeeper.core.wiring.worker import channel_part, session_name
from slotkeeper.demo import facts
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import run
from tests.unit.test_error_values import JOB

OLD = "slotkeeper/j/1/r/-1"
PATTERN = "slotkeeper/j/%"


@pytest.fixture
def admin(warehouse: Warehouse) -> Iterator[DwsSlotAdmin]:
    password = warehouse.etl_password_file.read_text("utf-8").strip()
    session = DwsSession(warehouse.endpoint(), password, "slotkeeper/j/2/r/-1")
    made = DwsSlotAdmin(session, "ods.t", "s", BinlogOptions(binlog=True))
    yield made
    session.close()


@pytest.fixture
def granted(warehouse: Warehouse) -> Iterator[None]:
    facts.sees_statistics(warehouse)
    yield
    facts.sees_statistics(warehouse, False)


def old_session(warehouse: Warehouse, name: str) -> pg.Connection:
    connection = warehouse.connect_etl()
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('application_name', %s, false)", (name,))
    return connection


def ended(admin: DwsSlotAdmin) -> bool:
    return admin.end_sessions(PATTERN, admin.session.application_name)


def test_what_a_server_said_before_it_ended_a_session_is_kept(warehouse: Warehouse) -> None:
    old = old_session(warehouse, OLD)
    run(warehouse, f"SELECT pg_terminate_backend({old.info.backend_pid})")
    with pytest.raises(pg.DriverError) as ended, old.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert pg.failure(ended.value) == ("08006", "FATAL: terminating connection due to administrator command")


def test_with_one_coordinator_it_is_certain(warehouse: Warehouse, admin: DwsSlotAdmin) -> None:
    facts.activity_by_user(warehouse)  # they belong to the job's own login
    old = old_session(warehouse, OLD)
    assert ended(admin) and admin.end_sessions()
    with pytest.raises(Exception, match=r"terminat|closed"):
        old.cursor().execute("SELECT 1")


def test_it_is_certain_too_where_its_own_session_was_ended_with_the_others(
    warehouse: Warehouse, admin: DwsSlotAdmin
) -> None:
    facts.activity_by_user(warehouse)
    assert admin.end_sessions()
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (admin.session.application_name,),
        )
        assert cursor.fetchall() == [(True,)]
    assert admin.end_sessions()


def test_with_a_second_coordinator_that_is_not_seen_it_is_never_certain(
    warehouse: Warehouse, admin: DwsSlotAdmin
) -> None:
    facts.second_coordinator(warehouse)
    assert not ended(admin)
    assert not admin.end_sessions()


@pytest.mark.usefixtures("granted")
def test_where_all_coordinators_are_seen_it_is_certain_once_nothing_is_left_on_any(
    warehouse: Warehouse, admin: DwsSlotAdmin
) -> None:
    facts.second_coordinator(warehouse)
    assert ended(admin)
    there = old_session(warehouse, OLD + facts.THROUGH_SECOND)
    assert not ended(admin), "it cannot be ended from here"
    with there.cursor() as cursor:
        cursor.execute("SELECT 1")
    there.close()
    assert ended(admin) and admin.end_sessions()


def test_where_the_coordinators_cannot_be_counted_it_is_not_certain(warehouse: Warehouse, admin: DwsSlotAdmin) -> None:
    with warehouse.control() as cursor:
        cursor.execute("REVOKE SELECT ON pg_catalog.pgxc_node FROM PUBLIC")
    assert not ended(admin)


def listed(warehouse: Warehouse, pattern: str) -> list[str]:
    """The names of the sessions in the server's list."""
    with warehouse.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT application_name FROM pg_stat_activity WHERE application_name LIKE %s", (pattern,))
        return [name for (name,) in cursor.fetchall()]


@pytest.mark.parametrize("ignored", [False, True], ids=["a rename is listed", "a rename is ignored"])
def test_a_session_is_listed_by_the_channel_that_it_registers_whatever_a_server_makes_of_a_rename(
    ignored: bool, warehouse: Warehouse, admin: DwsSlotAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = DwsSession.composed_rows

    def composed_rows(self: DwsSession, statement: pg.sql.Composable, *more: Any) -> list[tuple[Any, ...]]:
        if ignored and "SET application_name" in repr(statement):
            return []
        return sent(self, statement, *more)

    monkeypatch.setattr(DwsSession, "composed_rows", composed_rows)
    admin.session.ready()
    for name in ("slotkeeper/j/9f3a.2/r/-1", "slotkeeper/j/11bc.2/r/-1"):
        admin.shown_as = name
        with admin.pinned():
            assert listed(warehouse, "slotkeeper/j/%.2/r/-1") == [name]
    assert admin.session.generation == (3 if ignored else 1)


def test_a_rival_of_the_longest_name_is_found_and_ended(warehouse: Warehouse, admin: DwsSlotAdmin) -> None:
    """A job of 40 characters on a DN of eleven: a name that the server truncates would match no session."""
    facts.activity_by_user(warehouse)
    first, again = (longest(epoch) for epoch in (1_700_000_000_000, 9_999_999_999_999))
    old = old_session(warehouse, first)
    assert listed(warehouse, "slotkeeper/%/r/-2147483648") == [first]
    admin.shown_as = again
    with admin.pinned():
        assert admin.end_sessions()
        assert not [name for name in listed(warehouse, "slotkeeper/%") if name == first[:63]]
    with pytest.raises(Exception, match=r"terminat|closed"):
        old.cursor().execute("SELECT 1")


def longest(epoch: int) -> str:
    job = replace(JOB, name="j" * NAME_MAX)
    return session_name(job.name, channel_part(job, f"{epoch}/r/-2147483648"))
