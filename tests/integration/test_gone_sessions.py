"""That all old sessions are gone is said only where every coordinator's sessions are seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.domain.spec import BinlogOptions
from core.drivers import pg
from core.embedded import facts
from core.embedded.warehouse import Warehouse
from core.sources.dws.session import DwsSession
from core.sources.dws.source import DwsSlotAdmin

OLD = "slotkeeper/j/1/r/-1"
PATTERN = "slotkeeper/j/%"


@pytest.fixture
def admin(warehouse: Warehouse) -> Iterator[DwsSlotAdmin]:
    password = warehouse.etl_password_file.read_text("utf-8").strip()
    session = DwsSession(warehouse.endpoint(), password, "slotkeeper/j/2/r/-1")
    made = DwsSlotAdmin(session, "ods.t", "s", BinlogOptions(binlog=True))
    yield made
    made.close()


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


def test_with_one_coordinator_it_is_certain(warehouse: Warehouse, admin: DwsSlotAdmin) -> None:
    facts.activity_by_user(warehouse)  # they are of our own login
    old = old_session(warehouse, OLD)
    assert ended(admin) and admin.end_rivals()
    with pytest.raises(Exception, match=r"terminat|closed"):
        old.cursor().execute("SELECT 1")


def test_with_a_second_coordinator_that_is_not_seen_it_is_never_certain(
    warehouse: Warehouse, admin: DwsSlotAdmin
) -> None:
    facts.second_coordinator(warehouse)
    assert not ended(admin)
    assert not admin.end_rivals()


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
    assert ended(admin) and admin.end_rivals()


def test_where_the_coordinators_cannot_be_counted_it_is_not_certain(warehouse: Warehouse, admin: DwsSlotAdmin) -> None:
    with warehouse.control() as cursor:
        cursor.execute("REVOKE SELECT ON pg_catalog.pgxc_node FROM PUBLIC")
    assert not ended(admin)
