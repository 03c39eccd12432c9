"""A table is mirrored: copied, followed, equal at the end, with every event counted once."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

TABLE = "ods.orders"
COLUMNS = "cust bigint, order_no bigint, note text, amount numeric(12,2)"


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, COLUMNS, ("cust", "order_no"), ("cust",))
    made = make_mirror(warehouse, TABLE)
    made.source(
        f"INSERT INTO {TABLE} SELECT n % 97, n, 'row ' || n, n / 7.0 FROM generate_series(1, 3000) n",
    )
    return made


def test_a_table_is_copied_and_then_followed(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.source(f"INSERT INTO {TABLE} VALUES (1, 900001, 'new', 1), (2, 900002, NULL, NULL)")
    mirror.source(f"UPDATE {TABLE} SET note = 'changed' WHERE cust = 5")
    mirror.source(f"DELETE FROM {TABLE} WHERE cust = 7")
    mirror.source(f"UPDATE {TABLE} SET order_no = order_no + 1000000 WHERE cust = 9")
    mirror.wait_equal()
    mirror.stop()
    assert mirror.end is JobEnd.STOPPED
    assert JobEvent.COPY_BEGAN in mirror.heard.events
    assert sum(mirror.changes().values()) == 2 + 2 * 31 + 31 + 2 * 31


def test_the_seconds_of_reading_writing_and_registering_are_told_and_when_the_source_was_looked_at(
    mirror: Mirror,
) -> None:
    mirror.start().wait_running()
    mirror.source(f"UPDATE {TABLE} SET note = 'changed'")
    mirror.wait_equal()
    until(lambda: all(lane.spent.register > 0 for lane in mirror.heard.now.values()), 30, "registrations")
    lanes = mirror.heard.now.values()
    assert all(lane.spent.read > 0 and lane.spent.write > 0 for lane in lanes if lane.changes)
    assert sum(lane.spent.read + lane.spent.write + lane.spent.register for lane in lanes) < 120 * len(lanes)
    assert all(lane.polled_at is not None for lane in lanes)
    mirror.stop()


def test_a_stopped_job_resumes_from_its_position(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.stop()
    mirror.source(f"DELETE FROM {TABLE} WHERE order_no <= 1000")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert sum(mirror.changes().values()) == 1000


def test_the_slot_follows_an_idle_job_without_starting_a_task(mirror: Mirror) -> None:
    mirror.warehouse.create_table("ods.other", "id bigint", ("id",))
    mirror.source("SELECT pgxc_register_full_sync_point('ods.other', 'elsewhere')")
    mirror.start().wait_running()
    tasks = mirror.runner.tasks_started
    before = {row.key.shard: row.registered for row in mirror.rows()}
    mirror.source("INSERT INTO ods.other SELECT generate_series(1, 10)")
    until(lambda: all(row.registered != before[row.key.shard] for row in mirror.rows()), 30, "every slot to follow")
    assert mirror.runner.tasks_started == tasks
    mirror.stop()
