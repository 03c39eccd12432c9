"""640 lanes (64 DNs with 10 tables each) on two task slots: no due lane waits long under any load.

The loop, its assignment of lanes, the tasks and their threads are the product's; only the servers are simulated
(`tests.support.crowd`). The last test is a real job of one table; `test_many_lanes.py` has real jobs of ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from threading import Thread
from time import monotonic

import pytest

from slotkeeper.core.domain.lane import Assignment, Lane, assign
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.engine.driver import loop
from tests.support.crowd import STATUS_LIMIT, Crowd, Waits
from tests.support.mirror import MakeMirror
from tests.support.standin import MakeWarehouse
from tests.support.waiting import until

DNS, TABLES = 64, 10
DEADLINE = 1.0
"""Seconds of a task if there are more lanes than places: a third of the planned time."""
STEP = 0.012
"""Seconds that a read takes a step; a whole step takes 7 to 12 ms on real servers."""
TURNS = 2
NAMES = [f"t{table}/dn_{dn}" for table in range(TABLES) for dn in range(DNS)]


def longest(crowd: Crowd, limit: float = 3 * DEADLINE, deadline: float = DEADLINE) -> float:
    """Return the longest wait of a lane, in seconds of the crowd's clock, which counts work and not elapsed time."""
    waits = Waits(crowd, TURNS, limit, crowd.hanging)
    try:
        crowd.loop(3 * deadline, waits).run()
    finally:
        crowd.close()
    least = min(count for name, count in crowd.done.items() if name not in crowd.hanging)
    told = f"longest wait {waits.longest:.2f} s of {crowd.now():.2f} s of work, least turns {least}"
    print(f"{len(crowd.names)} lanes on {crowd.capacity} places: {told}")
    return waits.longest


def test_no_lane_of_640_on_2_seats_waits_longer_than_3_task_deadlines() -> None:
    assert longest(Crowd(NAMES, STEP)) <= 3 * DEADLINE


def test_a_table_whose_steps_are_slow_starves_no_other() -> None:
    slow = frozenset(name for name in NAMES if name.startswith("t3/"))
    assert longest(Crowd(NAMES, STEP / 2, slow=slow)) <= 3 * DEADLINE


@pytest.mark.chaos
def test_a_dn_that_hangs_costs_the_others_its_looks_limit_and_no_more() -> None:
    hanging = frozenset(name for name in NAMES if name.endswith("/dn_7"))
    limit = 3 * (DEADLINE + STATUS_LIMIT)
    assert longest(Crowd(NAMES, STEP, hanging=hanging), limit) <= limit


def test_a_dealer_that_is_not_fair_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeded fault: the lane that became due last is assigned first, and the older half not at all."""

    def newest_first(
        lanes: Iterable[Lane],
        running: Iterable[Assignment],
        capacity: int,
        first: int,
        now: float,
        seconds: float,
        most: int,
    ) -> list[Assignment]:
        due = sorted((lane for lane in lanes if lane.activity is Activity.DUE), key=lambda lane: -lane.since)
        newest = (replace(lane, since=-lane.since) for lane in due[: (len(due) + 1) // 2])
        return assign(newest, running, capacity, first, now, seconds, most)

    monkeypatch.setattr(loop, "assign", newest_first)
    assert longest(Crowd(NAMES, STEP)) > 3 * DEADLINE


def test_one_lane_at_once_makes_the_others_wait_longer() -> None:
    """The effect of binlog_parallel_num; it has none if every lane has a place."""
    few = NAMES[:80]

    def waits(parallel: int) -> float:
        """The least of three: other work on a busy host can only lengthen a wait."""
        return min(longest(Crowd(few, STEP, parallel=parallel), deadline=0.3) for _ in range(3))

    assert waits(1) > 1.5 * waits(4)
    crowd = Crowd(few[:2], STEP, parallel=4)
    longest(crowd, deadline=0.1)
    assert crowd.sessions == {1}


@pytest.mark.parametrize(("pool", "sessions"), [(2, {1}), (5, {2, 3}), (100, {4})])
def test_connection_pool_size_is_shared_by_the_tasks_that_run_at_once(pool: int, sessions: set[int]) -> None:
    crowd = Crowd(NAMES[:20], STEP, parallel=4, pool=pool)
    longest(crowd, deadline=0.1)
    assert crowd.sessions == sessions


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_real_job_with_more_dns_than_seats_reports_its_longest_wait(
    parallel: int, make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    warehouse = make_warehouse(dns=12)
    warehouse.create_table("ods.t", "id bigint, v integer", ("id",))
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog_parallel_num=parallel))
    mirror.capacity = 2
    mirror.source("INSERT INTO ods.t SELECT n, 0 FROM generate_series(1, 2000) n")
    began = monotonic()
    mirror.start().wait_running()

    def write() -> None:
        for _ in range(8):
            mirror.source("UPDATE ods.t SET v = v + 1")

    writer = Thread(target=write)
    writer.start()
    writer.join()
    mirror.wait_equal()
    took = monotonic() - began
    until(lambda: any(lane.waited for lane in mirror.heard.now.values()), 10, "a wait to be told")
    waited = max(lane.waited for lane in mirror.heard.now.values())
    mirror.stop()
    print(f"12 DNs on 2 places, {parallel} lanes at once: longest wait {waited:.2f} s of {took:.2f} s")
    # the duration depends on this host; the work done shows above that no lane is starved
    assert waited < took and all(row.changes for row in mirror.rows())
