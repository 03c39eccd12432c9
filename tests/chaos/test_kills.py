"""Every kind of kill, in the copy, in the stream and while idle: the job recovers automatically, and nothing is lost.

In mid-stream a burst makes steps that try the optimistic path first; the second run turns that path off.
`test_kills_of_steps.py` counts both paths.
"""

from __future__ import annotations

import os
import random
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch.launch import Launch
from tests.support.local_driver import LOCAL
from tests.support.product import KINDS, TIRELESS, Kind, Mirrored, Product
from tests.support.report import Page
from tests.support.told_states import of_product, watched
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
Phase = Literal["copy", "stream", "idle"]
RATE = 300.0
BURST = 20_000
"""Rows over four DNs: the step of each DN is large enough for the optimistic path."""
WHERE: dict[str, tuple[Launch, Sequence[Kind], int]] = {
    "spark": (Launch(), KINDS, 200),
    "threads": (LOCAL, ("driver",) * 40 + ("source", "sink"), 1_050),
}
"""How the driver runs, what is killed, and how many times."""


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("phase", ["copy", "stream", "idle"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_is_survived(product: Product, seed: int, chaos_page: Page, kind: Kind, phase: Phase, turn: int) -> None:
    own_seed = seed * 10 + turn
    case = f"{kind} in mid-{phase}"
    print(f"{case}, seed {own_seed}", flush=True)
    job = product.job(f"{kind}_{phase}_{turn}", {"optimistic_step": turn == 1})
    row: list[object] = [case, own_seed, False, "", "", ""]
    try:
        with watched(partial(of_product, job), 1.0) as states:
            seconds = _disturbed(product, job, kind, phase, random.Random(own_seed))
            row[2:4] = True, seconds
            product.quiet()
            job.wait_applied(job.expected())
            row[4] = job.applied() == job.expected()
            row[5] = job.compare().equal
            job.wait_equal()
        assert states.wrong == []
        assert job.stop() < 20
        assert job.left() == []
    finally:
        product.quiet()
        chaos_page.add(*row)
        job.end()
        job.drop_slot()


def _disturbed(product: Product, job: Mirrored, kind: Kind, phase: Phase, chance: random.Random) -> float:
    """Bring the job into the phase, kill, and wait for its recovery; returns its seconds."""
    job.start()
    if phase != "idle":
        product.write(RATE, seed=chance.randrange(1_000_000))
    if phase == "copy":
        job.wait_copying(chance.uniform(0.05, 0.4))
        seconds = job.recover_from(kind)
        job.wait_state(JobState.RUNNING)
        return seconds
    job.wait_state(JobState.RUNNING)
    if phase == "idle":
        product.insert_one()  # the workers have worked and are now idle
        job.wait_equal()
        return job.recover_from(kind, idle=True)
    wanted = chance.randint(200, 1_500)
    until(lambda: sum(job.applied().values()) >= wanted, 60, f"{wanted} events")
    product.burst(BURST)
    return job.recover_from(kind)


@pytest.mark.timeout(4 * 3_600)
@pytest.mark.parametrize("where", list(WHERE))
def test_many_kills_of_one_job_under_load_lose_and_repeat_nothing(product: Product, seed: int, where: str) -> None:
    """Each kill is up to a second after the recovery from the last. `SLOTKEEPER_KILLS` is another number of kills."""
    print(f"{where}, seed {seed}", flush=True)
    chance, spent = random.Random(seed), list[float]()
    launch, among, count = WHERE[where]
    count = int(os.environ.get("SLOTKEEPER_KILLS", count))
    job = product.job(f"many_{where}")
    job.launch = replace(launch, limits=TIRELESS)
    try:
        job.start().wait_state(JobState.RUNNING)
        product.write(RATE, seed=chance.randrange(1_000_000))
        kinds: list[Kind] = [chance.choice(among) for _ in range(count)]
        for number, kind in enumerate(kinds, 1):
            wanted = sum(job.applied().values()) + chance.randint(1, int(RATE))
            until(partial(_applied, job, wanted), 120, f"{wanted} events")
            if number % 25 == 0:
                product.burst(BURST)
            spent.append(job.recover_from(kind))
            print(f"{number}: {kind}, {spent[-1]:.1f} s", flush=True)
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert job.left() == []
    finally:
        product.quiet()
        job.end()
        job.drop_slot()
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in KINDS)
    middle, late = statistics.median(spent), statistics.quantiles(spent, n=20)[-1]
    print(f"{count} kills ({counts}): 0 lost, 0 repeated; recovered in {middle:.1f} s, p95 {late:.1f} s", flush=True)
    print(f"longest {max(spent):.1f} s")


def _applied(job: Mirrored, wanted: int) -> bool:
    return sum(job.applied().values()) >= wanted
