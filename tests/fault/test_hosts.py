"""A job of two hosts: killed, frozen or cut off, its owner loses it to the other host, and nothing is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.two_hosts import SOON, Host, TwoHosts, two_hosts
from tests.support.waiting import until

TABLE = "ods.orders"


@pytest.fixture
def pair(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Iterator[TwoHosts]:
    warehouse.create_table(TABLE, "id bigint NOT NULL, note text", ("id",))
    made = two_hosts(make_mirror(warehouse, TABLE), tmp_path)
    try:
        made.write()
        yield made
    finally:
        made.close()


def begun(pair: TwoHosts) -> int:
    """Start the job on a, with both agents; returns the rows that the copy took."""
    code, said = pair.a.call("jobs", "start", "orders_rt", "--reason", "first")
    assert code == 0, said
    pair.a.serve()
    pair.b.serve()
    until(lambda: pair.b.shows(JobState.ELSEWHERE), SOON, "b knows of the job")
    return pair.written


def test_the_job_of_a_killed_host_runs_on_the_other_which_the_first_then_shows(pair: TwoHosts) -> None:
    base = begun(pair)
    pair.write()
    began = time.monotonic()
    pair.a.kill()
    pair.write()
    until(pair.b.runs, SOON, "b runs the job")
    print(f"RUNNING on b {time.monotonic() - began:.1f} s after a was killed")
    pair.equal(base)
    pair.a.serve()
    until(lambda: pair.a.shows(JobState.ELSEWHERE), SOON, "a shows that b runs it")
    assert [one for one in pair.a.status()["faults"] if one["job"]] == []
