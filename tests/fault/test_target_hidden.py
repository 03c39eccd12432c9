"""A change to a target that another cause seems to explain is reported nevertheless."""

from __future__ import annotations

from contextlib import closing

import pytest

from slotkeeper.core.domain.target_seen import read
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.wiring import worker
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.standin import run

PARTITIONS = 2


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A job of 300 rows that has not started."""
    warehouse.create_table("ods.t", "id bigint NOT NULL, v numeric(12,2)", ("id",))
    run(warehouse, "INSERT INTO ods.t SELECT n, n FROM generate_series(1, 300) n")
    return make_mirror(warehouse, "ods.t", "mart.t")


def told(mirror: Mirror) -> Trouble:
    error = mirror.wait_error(30)
    assert isinstance(error, Trouble), error
    assert error.name is TroubleName.TARGET_CHANGED
    return error


def wait_recorded(mirror: Mirror, since: pg.Cursor) -> None:
    """Wait for a record whose snapshot lies behind the subtransaction that a session is in."""
    since.execute("SELECT max(xmin::text::bigint) FROM kept_rows")
    ((began,),) = since.fetchall()
    run(mirror.warehouse, "UPDATE ods.t SET v = v + 1 WHERE id <= 20")

    def there() -> bool:
        found = map(read, records(mirror))
        return all(one is not None and int(one.snapshot.split(":")[1]) % 2**32 > began for one in found)

    mirror._until(there, 30, "a check behind the subtransaction's beginning")


def test_a_reload_in_a_subtransaction_that_began_before_a_check_is_named(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.wait_equal()
    with closing(mirror.sink()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN; SAVEPOINT load; CREATE TEMP TABLE kept_rows AS TABLE mart.t")
        wait_recorded(mirror, cursor)
        cursor.execute("TRUNCATE mart.t; INSERT INTO mart.t SELECT * FROM kept_rows LIMIT 100; COMMIT")
    told(mirror)


def test_a_partitioned_target_that_was_emptied_is_named_although_it_was_analyzed(mirror: Mirror) -> None:
    mirror.at_sink(
        "CREATE SCHEMA IF NOT EXISTS mart",
        "CREATE TABLE mart.t (id bigint PRIMARY KEY, v numeric(12,2)) PARTITION BY HASH (id)",
        *(
            f"CREATE TABLE mart.t_{n} PARTITION OF mart.t FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n})"
            for n in range(PARTITIONS)
        ),
    )
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    mirror.at_sink(
        "ANALYZE mart.t",
        "TRUNCATE mart.t",
        # the state after a driver that exits immediately, after many steps and before a registration
        "UPDATE public.slotkeeper_progress SET changes = changes + 300",
    )
    mirror.start()
    assert "emptied" in told(mirror).message


def test_a_registration_behind_a_failed_check_does_not_forget_what_that_found(mirror: Mirror) -> None:
    mirror.start().wait_running()
    mirror.wait_equal()
    passed = {row.key: one for row, one in zip(mirror.rows(), records(mirror), strict=True)}
    mirror.at_sink("TRUNCATE mart.t")
    why = told(mirror).message
    with closing(worker.open_progress(mirror.job, "late", worker.who(mirror.job, "late"))) as store:
        for row in store.rows():
            assert row.registered is not None
            with store.registration(row.key, row.epoch) as lock:
                lock.record(row.registered, passed[row.key])
    assert all(one is not None and one.why and one.why in why for one in map(read, records(mirror)))


def records(mirror: Mirror) -> list[str]:
    return [
        text
        for (text,) in mirror.query(mirror.sink, "SELECT target_seen FROM public.slotkeeper_progress ORDER BY shard")
    ]
