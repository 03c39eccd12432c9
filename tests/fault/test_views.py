"""A job's views during its lanes' work: built once the mirror runs, maintained for every kind of write, and rebuilt."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.spec import RESNAPSHOT, ChannelSpec, RoundOptions, ViewSpec
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.sinks.postgres.write.optimistic import Taken
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.shapes import TABLE, TARGET, prepared
from tests.support.standin import run
from tests.support.waiting import until

WIDE = ViewSpec(
    "dwd.wide",
    "SELECT o.id, o.amount, c.region FROM mart.orders o LEFT JOIN mart.customers c ON c.id = o.cust",
    ("id",),
)
SALES = ViewSpec(
    "dws.sales",
    "INSERT INTO dws.sales SELECT w.region, count(*) AS n, sum(w.amount) AS amount FROM dwd.wide w GROUP BY 1",
)
STATUS = ViewSpec("dws.status", "SELECT status, count(*) AS n, avg(amount) AS mean FROM mart.orders GROUP BY status")
VIEWS = (SALES, WIDE, STATUS)


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table("ods.orders", "id bigint NOT NULL, cust bigint, status text, amount numeric(10,2)", ("id",))
    warehouse.create_table("ods.customers", "id bigint NOT NULL, region text", ("id",))
    run(
        warehouse,
        "INSERT INTO ods.orders SELECT n, n % 7, chr(97 + n % 3), n FROM generate_series(1, 60) n",
        "INSERT INTO ods.customers SELECT n, 'r' || n % 2 FROM generate_series(1, 5) n",
    )
    made = make_mirror(warehouse, "ods.orders")
    channels = tuple(ChannelSpec(f"ods.{name}", f"mart.{name}", create_target=True) for name in ("orders", "customers"))
    made.job = replace(made.job, channels=channels, views=VIEWS, rounds=RoundOptions(50))
    return made


def wrong(mirror: Mirror) -> list[str]:
    """Return the views that differ from their SELECT now."""
    found = []
    for view in mirror.job.views:
        one, other = f"SELECT * FROM {view.target}", f"SELECT * FROM ({view.sql.split('INSERT INTO dws.sales ')[-1]}) q"
        both = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})"
        if mirror.query(mirror.sink, both):
            found.append(view.target)
    return found


def states(mirror: Mirror) -> dict[str, str]:
    rows = "SELECT target, state || CASE WHEN cause = '' THEN '' ELSE ': ' || cause END FROM slotkeeper_views"
    if not mirror.query(mirror.sink, "SELECT 1 WHERE to_regclass('slotkeeper_views') IS NOT NULL"):
        return {}
    return {str(target): str(state) for target, state in mirror.query(mirror.sink, rows)}


def wait_views(mirror: Mirror, seconds: float = 60) -> None:
    """Wait until the mirror is equal, and every view is RUNNING and equal to its SELECT."""
    mirror.wait_equal(seconds)
    running = dict.fromkeys((view.target for view in mirror.job.views), ViewState.RUNNING.value)
    try:
        until(lambda: states(mirror) == running and not wrong(mirror), seconds, "the views to be equal")
    except AssertionError as late:
        raise AssertionError(f"{late}; {states(mirror)}, {mirror.told}, {mirror.error}") from late


def test_a_job_builds_its_views_after_the_copy_and_keeps_them_equal_under_updates_and_deletes(mirror: Mirror) -> None:
    mirror.start().wait_running()
    wait_views(mirror)
    mirror.source("UPDATE ods.orders SET cust = cust + 1, amount = amount + 1 WHERE id % 3 = 0")
    mirror.source("DELETE FROM ods.customers WHERE id = 2")
    mirror.source("DELETE FROM ods.orders WHERE id < 10")
    mirror.source("INSERT INTO ods.orders VALUES (100, NULL, NULL, NULL)")
    wait_views(mirror)
    level = [("RUNNING", 0)] * len(mirror.job.views)
    until(lambda: [(one.state, one.waiting) for one in mirror.views_told[-1]] == level, 10, "the report of all views")
    mirror.stop()


def taken(mirror: Mirror) -> Taken:
    """Return the steps of the job's sinks so far, by the path that they took."""
    total = Taken()
    for key, waiting in entries._kept.items():
        for lent in waiting if key[2] == mirror.job.name else ():
            for _, sink in lent.channels.values():
                assert isinstance(sink, PostgresSink)
                for one in fields(Taken):
                    setattr(total, one.name, getattr(total, one.name) + getattr(sink.taken, one.name))
    return total


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("optimistic", ["INSERT INTO ods.orders SELECT n, n % 7, 'x', n FROM generate_series(1000, 9000) n"]),
        (
            "general",
            [
                "INSERT INTO ods.orders SELECT n, n % 7, 'x', n FROM generate_series(1000, 6000) n;"
                " UPDATE ods.orders SET status = 'y', cust = 2; UPDATE ods.orders SET amount = 1 WHERE id % 2 = 0;"
                " DELETE FROM ods.orders WHERE id % 5 = 0"
            ],
        ),
        ("swept", ["UPDATE ods.orders SET cust = 3 WHERE id < 4; DELETE FROM ods.customers WHERE id = 1"] * 3),
    ],
)
def test_every_kind_of_step_is_captured(mirror: Mirror, path: str, changes: list[str]) -> None:
    options = replace(mirror.job.binlog, binlog_parallel_num=1)
    flush = replace(mirror.job.sink_options, auto_flush_batch_size=100_000)
    mirror.job, mirror.capacity = replace(mirror.job, binlog=options, sink_options=flush), 2
    mirror.start().wait_running()
    wait_views(mirror)
    for change in changes:
        mirror.source(change)
        wait_views(mirror)
    mirror.wanted = WantedState.STOP
    mirror.join()
    assert getattr(taken(mirror), path) > 0, taken(mirror)


def test_a_table_that_is_altered_and_copied_again_makes_its_views_stale_until_they_are_built_again(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = prepared(warehouse, make_mirror, RESNAPSHOT)
    sql = f"SELECT n, count(*) AS rows, sum(n) AS total FROM {TARGET} GROUP BY n"
    mirror.job = replace(mirror.job, views=(ViewSpec("dws.by_n", sql),), rounds=RoundOptions(50))
    run(warehouse, f"INSERT INTO {TABLE} SELECT i, 'v', i, i % 5 FROM generate_series(1, 50) i")
    mirror.start().wait_running()
    wait_views(mirror)
    mirror.source(f"ALTER TABLE {TABLE} ALTER COLUMN n TYPE numeric(12,2)")
    run(warehouse, f"DELETE FROM {TABLE} WHERE id > 45")

    def built_again() -> bool:
        types = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'dws.by_n'::regclass"
        return ("numeric(12,2)",) in mirror.query(mirror.sink, f"{types} AND attname = 'n'")

    until(lambda: mirror.error or built_again(), 60, "the view to have the new type")
    wait_views(mirror)
    mirror.stop()


def test_a_job_that_ends_once_it_has_caught_up_applies_everything_first(mirror: Mirror) -> None:
    mirror.start().wait_running()
    wait_views(mirror)
    mirror.stop()
    mirror.source("UPDATE ods.orders SET cust = 4 WHERE id > 30")
    mirror.until_caught_up = True
    mirror.run_here()
    assert mirror.error is None
    assert mirror.end is JobEnd.CAUGHT_UP
    assert wrong(mirror) == []


def test_views_that_cannot_be_maintained_hold_no_lane_back(mirror: Mirror) -> None:
    broken = ViewSpec("dws.broken", "SELECT missing, count(*) AS n FROM mart.orders GROUP BY missing")
    mirror.job = replace(mirror.job, views=(broken, STATUS))
    mirror.start().wait_running()
    until(lambda: "does not exist" in states(mirror).get("dws.broken", ""), 60, "the broken view to fail")
    assert states(mirror)["dws.broken"].startswith("FAILED")
    mirror.source("DELETE FROM ods.orders WHERE id < 30")
    mirror.wait_equal()
    mirror.job = replace(mirror.job, views=(STATUS,))
    until(lambda: not wrong(mirror), 60, "the other view to be equal")
    mirror.stop()
