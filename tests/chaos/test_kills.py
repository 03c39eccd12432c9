"""Every kind of kill, in the copy, in the stream and while idle: the job recovers automatically, and nothing is lost.

In mid-stream a burst makes steps that try the optimistic path first; the second run turns that path off.
`test_kills_of_steps.py` counts both paths.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Literal

import pytest

from slotkeeper.core.domain.job import JobState
from tests.support.product import KINDS, Kind, Mirrored, Product
from tests.support.report import Page
from tests.support.told_states import of_product, watched
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
Phase = Literal["copy", "stream", "idle"]
RATE = 300.0
BURST = 20_000
"""Rows over four DNs: the step of each DN is large enough for the optimistic path."""


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
