"""Nothing lost, nothing out of order under concurrent writers; and a stand-in that is wrong on purpose is caught."""

from __future__ import annotations

import os

import pytest

from tests.support.standin import MakeWarehouse
from tests.support.stress import stress

SECONDS = float(os.environ.get("SLOTKEEPER_STRESS_SECONDS") or 8)


@pytest.mark.slow
def test_concurrent_writers_lose_nothing(make_warehouse: MakeWarehouse, seed: int) -> None:
    verdict = stress(make_warehouse(), seed, SECONDS)
    print(f"seed {seed}, {SECONDS:g} s: {verdict}")
    assert verdict.clean, f"seed {seed}: {verdict}"
    assert verdict.applied > 50 * SECONDS and verdict.transactions > 10 * SECONDS


def test_points_in_the_order_of_writing_are_caught(make_warehouse: MakeWarehouse, seed: int) -> None:
    warehouse = make_warehouse()
    warehouse.seed_order_fault(naive=True)
    verdict = stress(warehouse, seed, 3)
    print(f"seed {seed}: {verdict}")
    assert not verdict.faults and verdict.lost > 0 and verdict.differing > 0, f"seed {seed}: {verdict}"
