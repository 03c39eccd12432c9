"""A host with 20 busy loops for each CPU is named as the cause, and the sink is not.

A real job (tasks in threads) over real servers on this host; its faults are evaluated as by `status`, from the start of
the load.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.fault import Fault, Party
from slotkeeper.core.domain.host import LONG
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from tests.support.local_driver import LOCAL
from tests.support.product import Mirrored, Product
from tests.support.waiting import until

pytestmark = pytest.mark.chaos  # minutes: a lag has to grow and then to end
LOOPS = 20
"""The number of busy loops for each CPU."""
WITHIN = 120.0
STAYS = 15.0
BACKLOG = 200_000
"""The number of inserts a second in the test of a late job: the job applies all that starved writers commit."""


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path / "product", rows=2_000, chunk=2_000)
    yield made
    made.close()


@dataclass
class Judged:
    """The judgement of a job, check by check."""

    product: Product
    job: Mirrored
    looks: list[tuple[Fault, ...]] = field(default_factory=list)

    def look(self) -> tuple[Fault, ...]:
        facts = gather(self.product.store, None, SystemClock().utc())
        self.looks.append(tuple(one for one in judge(facts) if one.job == self.job.name))
        return self.looks[-1]

    def during(self, seconds: float) -> list[tuple[Fault, ...]]:
        """Check once a second for this number of seconds."""
        first, end = len(self.looks), time.monotonic() + seconds
        due = time.monotonic()

        def over() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due += 1.0
                self.look()
            return time.monotonic() >= end

        until(over, 2 * seconds, "the looks")
        return self.looks[first:]


@pytest.fixture
def judged(product: Product, request: pytest.FixtureRequest) -> Iterator[Judged]:
    job = product.job("starved")
    job.launch = LOCAL
    job.start()
    job.wait_state(JobState.RUNNING)
    made = Judged(product, job)
    yield made
    for one in dict.fromkeys(fault.said(SystemClock().utc()) for look in made.looks for fault in look):
        print(one)
    product.quiet()


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run this number of endless loops, each in its own session: one session is one share of a CPU (autogroup,
    sched(7)).
    """
    command = [sys.executable, "-c", "while True: pass"]
    found = [subprocess.Popen(command, start_new_session=True) for _ in range(loops)]
    try:
        yield
    finally:
        for one in found:
            one.kill()
        for one in found:
            one.wait()


def rules(faults: tuple[Fault, ...]) -> list[str]:
    return [one.rule for one in faults]


@pytest.mark.timeout(900)
def test_a_starved_host_is_named_first_and_the_sink_is_not_until_the_load_ends(judged: Judged) -> None:
    judged.product.write(rate=60.0)
    judged.job.pause()
    judged.product.burst(BACKLOG)
    with busy(LOOPS * len(os.sched_getaffinity(0))):
        judged.job.resume()
        until(lambda: "host_starved" in rules(judged.look()), WITHIN, "this host is named")
        found = judged.during(STAYS)
    told = [look for look in found if look]  # a job that is late by less than ten seconds keeps up
    named = [look for look in told if look[0].rule == "host_starved"]
    print(f"{len(named)} of {len(told)} looks with a fault name this host first, of {len(found)}")
    assert named and len(named) >= 0.95 * len(told)
    assert not [fault for look in judged.looks for fault in look if fault.party is Party.SINK]
    (first, *_) = named[-1]
    assert "CPU" in first.cause and "the driver got" in first.cause and first.party is Party.MACHINE
    until(lambda: "host_starved" not in rules(judged.look()), 2 * LONG, "the host is named no longer")
    judged.product.quiet()
    judged.job.wait_equal()
