"""A job's views beside its lanes: built once the mirror runs, maintained by whatever writes it, and rebuilt if need be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, RoundOptions, ViewSpec
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.engine.worker import rounds
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
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
    """The views that differ from their SELECT now."""
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
    mirror.stop()
    rounds.close_kept(mirror.job)
