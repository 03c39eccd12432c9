"""Kills while steps take the optimistic path, with that path off, and while they are small: nothing is lost.

The driver has threads instead of Spark, and a threshold of two events of which any is an insert, so that most steps of
the writers try the optimistic path, and some miss: writers change keys and use them again. Bursts of inserts make the
steps in which a kill is likely to fall long.
"""

from __future__ import annotations

import random
from dataclasses import astuple
from pathlib import Path
from typing import Literal, get_args

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.sinks.postgres.write.optimistic import Taken
from slotkeeper.core.wiring.worker import session_name
from tests.support import local_driver as step_paths
from tests.support.local_driver import LOCAL
from tests.support.product import Kind, Mirrored, Product
from tests.support.report import Page
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_200)]
Way = Literal["optimistic", "general", "small", "swept"]
LEAST = 2
BURST = 20_000
RATE = 300.0
PROCESSES: tuple[Kind, ...] = ("driver", "sink", "supervisor", "source", "driver")
"""In random order; more driver exits within minutes would only show the supervisor's wait."""
BURSTS = 2
"""Before each of the above: end the job's sessions at the sink in each, at a random share of it."""


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "kills_of_steps",
        "Kills of steps that go either way",
        f"Threads where Spark would be. {len(PROCESSES)} kills of processes and servers, before each {BURSTS} of the"
        f" job's sessions at the sink; under writers and bursts of {BURST:,} inserts; no command. Steps by the workers'"
        " account; a missed or a small one is a general one, too.",
        ("way", "seed", "optimistic steps", "general steps", "missed", "small", "in sweeps", "tables equal"),
    )


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the drivers of this test count their steps."""
    monkeypatch.setenv(step_paths.FILE, str(tmp_path / "steps"))
    return tmp_path / "steps"


@pytest.mark.parametrize("way", get_args(Way))
def test_steps_of_each_way_survive_kills(
    product: Product, seed: int, page: Page, steps: Path, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"{way}, seed {seed}", flush=True)
    if way in ("optimistic", "general"):
        monkeypatch.setenv(step_paths.LEAST, str(LEAST))
    if way == "swept":  # two lanes share each pair of sessions
        monkeypatch.setenv(step_paths.TASKS, "2")
    draw = random.Random(f"{seed} {way}")
    job = product.job(f"steps_{way}", {"optimistic_step": way == "optimistic"}, binlog_parallel_num=1)
    job.launch = LOCAL
    row: list[object] = [way, seed, "", "", "", "", "", False]
    try:
        job.start()
        job.wait_state(JobState.RUNNING)
        product.write(RATE, seed=draw.randrange(1_000_000))
        for kind in draw.sample(PROCESSES, len(PROCESSES)):
            for _ in range(BURSTS):
                _kill_sessions(product, job, draw)
            seconds = job.recover_from(kind)
            print(f"{kind}: {seconds:.1f} s, {step_paths.counts(steps)}", flush=True)
        product.quiet()
        job.wait_equal()
        row[7] = True
        _took_way(way, step_paths.counts(steps))
    finally:
        taken = step_paths.counts(steps)
        row[2:7] = astuple(taken)
        product.quiet()
        page.add(*row)
        job.end()
        job.drop_slot()


def _took_way(way: Way, taken: Taken) -> None:
    assert taken.general > 0, taken
    if way in ("small", "swept"):
        assert taken.small > 20, taken
        assert way == "small" or taken.swept > 20, taken
        return
    if way == "optimistic":
        assert taken.optimistic > 20, taken
        assert taken.missed > 0, taken
    else:
        assert taken.optimistic == taken.missed == 0, taken


def _kill_sessions(product: Product, job: Mirrored, draw: random.Random) -> None:
    """A burst, and the end of all sessions of the job at the sink once a part of the burst has arrived."""
    wanted = sum(job.applied().values()) + draw.randrange(1, BURST)
    product.burst(BURST)
    until(lambda: sum(job.applied().values()) >= wanted, 60, "a part of a burst to arrive")
    pattern = session_name(job.name, "%").replace("_", r"\_")
    product.at_sink("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s", (pattern,))
