"""A healthy job with idle times, bursts, pauses and consoles: only events that the test causes are reported.

`SLOTKEEPER_HEALTHY_MINUTES` sets the duration (default: an hour). The job's tasks run in threads; the page of a run is
written to reports/no-false-alarm-<date>.md.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from tests.support.local_driver import LOCAL
from tests.support.product import Product
from tests.support.report import Page
from tests.support.terminal import Terminal, console
from tests.support.told import Sample, Watcher

pytestmark = pytest.mark.chaos
MINUTES = float(os.environ.get("SLOTKEEPER_HEALTHY_MINUTES", "60"))
JOB = "healthy"
MADE = {"job_paused"}
"""Events that the test causes itself."""


@pytest.mark.timeout(MINUTES * 60 + 600)
def test_a_healthy_job_is_reported_healthy(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    product = Product(tmp_path / "product", rows=5_000, chunk=5_000)
    try:
        job = product.job(JOB)
        job.launch = LOCAL
        job.start()
        job.wait_state(JobState.RUNNING)
        end, told, samples, things = time.monotonic() + MINUTES * 60, dict[str, int](), 0, dict[str, int]()
        while time.monotonic() < end:
            with Terminal(console(job.config, "--ascii")) as terminal:
                terminal.shows("No problems")
                watcher = Watcher(terminal, product.store, job.config)
                for _ in range(4):
                    thing = chance.choice(("idle", "steady", "burst", "pause"))
                    things[thing] = things.get(thing, 0) + 1
                    made = _during(watcher, product, thing, chance)
                    for one in made:
                        samples += 1
                        wrong = [f"{fault.rule}: {fault.cause}" for fault in one.faults if fault.rule not in MADE]
                        if one.screen_calm and thing != "pause" and not wrong:
                            continue
                        for said in wrong or ([] if thing == "pause" else ["the screen alone"]):
                            told[said] = told.get(said, 0) + 1
        page = Page(
            "no-false-alarm",
            "A healthy job is reported healthy",
            "Idle times, steady writing, bursts, pauses; the console closed and opened between four of them.",
            ("minutes", "seed", "samples", "done", "told though nothing was wrong"),
        )
        page.add(f"{MINUTES:g}", seed, samples, ", ".join(f"{k} {v}" for k, v in sorted(things.items())), told or "0")
        assert not told, told
        job.stop()
    finally:
        product.close()


def _during(watcher: Watcher, product: Product, thing: str, chance: random.Random) -> list[Sample]:
    """Do one thing for a while; returns its samples, without those before the screen shows the end of a pause."""
    seconds = chance.uniform(8, 25)
    if thing == "idle":
        product.quiet()
    elif thing == "steady":
        product.write(rate=chance.choice((20.0, 100.0)))
    elif thing == "burst":
        product.write(rate=1_500.0)
        seconds = min(seconds, 10.0)
    else:
        control.pause(product.store, JOB, Patience(20))
        found = watcher.during(seconds)
        control.resume(product.store, JOB, Patience(20))
        watcher.until(lambda one: one.screen_calm and not one.faults, 60, "the end of the pause")
        return found
    found = watcher.during(seconds)
    product.quiet()
    return found
