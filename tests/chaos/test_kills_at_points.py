"""SIGKILL of a driver at each named point of its steps, chunks and registrations, 20 times each: nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from tests.support import local_driver
from tests.support.product import TIRELESS, Mirrored, Product
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3_600)]
TIMES = 20
OF_A_START = (
    "after_first_rows",
    "before_first_registration",
    "in_first_registration",
    "after_first_registration",
    "after_copy_began",
    "before_chunk_commit",
    "after_chunk_commit",
)
OF_A_STREAM = (
    "after_status",
    "after_read",
    "after_recheck",
    "after_commit",
    "before_false",
    "after_false",
    "before_true",
    "after_true",
    "before_sweep",
    "after_sweep",
)
ONCE = frozenset({"after_first_rows", "before_first_registration", "after_first_registration", "after_copy_began"})
"""Points that a start passes once."""
SWEPT = frozenset({"before_sweep", "after_sweep"})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(local_driver.KILL, str(tmp_path / "kill"))
    return tmp_path / "kill"


@pytest.fixture
def made(product: Product) -> Iterator[list[Mirrored]]:
    """The jobs of a test, ended afterwards."""
    jobs: list[Mirrored] = []
    yield jobs
    product.quiet()
    for job in jobs:
        job.end()
        job.drop_slot()


@pytest.mark.parametrize("point", OF_A_START)
def test_a_start_that_is_killed_at_a_point_begins_again_or_goes_on(
    product: Product, made: list[Mirrored], file: Path, seed: int, point: str
) -> None:
    """The changes between the two starts are in the copy of the second, or are applied after it."""
    draw = random.Random(f"{seed} {point}")
    print(f"{point}, seed {seed}", flush=True)
    for number in range(TIMES):
        job = product.job(f"{point}_{number}", full_sync_binlog_batch_read_size=2_000)
        job.launch = replace(local_driver.LOCAL, limits=TIRELESS)
        made.append(job)
        local_driver.arm(file, point, 1 if point in ONCE else draw.randint(1, 4))
        job.start()
        until(lambda: not file.exists(), 60, f"the kill at {point}")
        product.insert_one()
        job.wait_state(JobState.RUNNING)
        until(lambda job=job: job.compare().equal, 60, "both tables to be equal")  # type: ignore[misc]
        assert all(job.applied()[dn] <= most for dn, most in job.expected().items())
        job.end()
        job.drop_slot()
        made.remove(job)


@pytest.mark.parametrize("point", OF_A_STREAM)
def test_a_stream_that_is_killed_at_a_point_goes_on(
    product: Product, made: list[Mirrored], file: Path, seed: int, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{seed} {point}")
    print(f"{point}, seed {seed}", flush=True)
    if point in SWEPT:
        monkeypatch.setenv(local_driver.TASKS, "2")
    job = product.job(point, binlog_parallel_num=1)
    job.launch = replace(local_driver.LOCAL, limits=TIRELESS)
    made.append(job)
    job.start().wait_state(JobState.RUNNING)
    for _ in range(TIMES):
        local_driver.arm(file, point, draw.randint(1, 6))
        product.write(draw.choice((30.0, 300.0)), seed=draw.randrange(1_000_000))
        until(lambda: not file.exists(), 60, f"the kill at {point}")
        product.quiet()
        job.wait_equal()
    assert job.stop() < 20
