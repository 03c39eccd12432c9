"""Whatever ends a job ends its own processes only: 50 runs beside another Spark application and another job."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Busy, SlotkeeperError
from slotkeeper.core.launch import identity as processes
from tests.support.product import Mirrored, Product, killed
from tests.support.report import Page
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(5_400)]
RUNS = 50
SECONDS = 60.0
APPLICATION = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
while True:
    print(spark.sparkContext.parallelize(range(100), 1).map(lambda one: one + 1).sum(), flush=True)
    open("turns", "a").write("x")
    time.sleep(0.5)
"""
Tree = dict[int, float]
"""Start times by pid."""


@dataclass
class Application:
    """Somebody else's PySpark: a driver, its JVM, the daemon of its workers, and a worker."""

    process: subprocess.Popen[bytes]
    folder: Path

    def tree(self) -> Tree:
        leader = psutil.Process(self.process.pid)
        return {one.pid: one.create_time() for one in (leader, *leader.children(recursive=True))}

    def turns(self) -> int:
        try:
            return (self.folder / "turns").stat().st_size
        except FileNotFoundError:
            return 0


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("application")
    with (folder / "log").open("wb") as log:
        made = subprocess.Popen([sys.executable, "-c", APPLICATION], cwd=folder, stdout=log, stderr=log)
    found = Application(made, folder)
    try:
        until(lambda: found.turns() >= 3, SECONDS, "the other application to work")
        yield found
    finally:
        left = psutil.Process(made.pid).children(recursive=True)
        made.kill()
        made.wait()
        for one in left:
            killed(one)


@pytest.fixture(scope="module")
def bystander(product: Product) -> Iterator[Mirrored]:
    """Another job of the same user, store and servers."""
    job = product.job("bystander").start()
    job.wait_state(JobState.RUNNING)
    yield job
    job.end()


@pytest.fixture(scope="module")
def page() -> Page:
    columns = ("run", "seed", "how it ended", "its processes left", "decoys unharmed")
    return Page("decoys", "Ended jobs beside decoys", "Decoys: another Spark application, another job.", columns)


def stopped(job: Mirrored, other: int) -> None:
    job.stop(SECONDS)


def paused_first(job: Mirrored, other: int) -> None:
    job.wait_state(JobState.RUNNING)
    job.pause(SECONDS)
    job.resume(SECONDS)
    job.stop(SECONDS)


def without_supervisor(job: Mirrored, other: int) -> None:
    job.kill_supervisor()
    job.stop(SECONDS)


def without_driver(job: Mirrored, other: int) -> None:
    killed(job.driver())
    job.stop(SECONDS)


def without_java(job: Mirrored, other: int) -> None:
    killed(job.jvm())
    job.stop(SECONDS)


def killed_by_its_record(job: Mirrored, other: int) -> None:
    job.end()


def pid_of_another(job: Mirrored, other: int) -> None:
    """After its end, its pids belong to another process: every command reads the old record."""
    job.stop(SECONDS)
    (run, *_) = job.store.runs(job.name)
    assert run.supervisor is not None
    assert run.driver is not None
    for known in (run.supervisor, run.driver):
        reused = replace(known, pid=other)
        assert not processes.alive(reused)
        job.store.set_supervisor(run.run, reused)
        assert processes.end(reused, 0.1)
        assert not processes.interrupt(reused)
    job.stop(SECONDS)
    job.end()


ENDS: tuple[Callable[[Mirrored, int], None], ...] = (
    stopped, paused_first, without_supervisor, without_driver, without_java, killed_by_its_record, pid_of_another,
)  # fmt: skip


def test_a_job_is_ended_fifty_times_and_its_decoys_live(
    product: Product, application: Application, bystander: Mirrored, page: Page, seed: int
) -> None:
    print(f"seed {seed}")
    chance, job = random.Random(seed), product.job("ended")
    foreign = application.tree()
    assert len(foreign) >= 3

    def lives() -> bool:
        return foreign.items() <= application.tree().items() and bystander.jvm() == java and _known(bystander) == known

    java, known = bystander.jvm(), _known(bystander)
    for number in range(RUNS):
        end, turns = ENDS[number % len(ENDS)], application.turns()
        job.start_again()
        if chance.random() < 0.7:
            job.wait_state(JobState.RUNNING)
        else:
            until(lambda: job.view().driver_alive, SECONDS, "its driver")
        try:
            end(job, chance.choice(list(foreign)))
        except (AssertionError, Busy, SlotkeeperError) as error:
            raise AssertionError(f"run {number}, {end.__name__}: {error}") from error
        until(lambda: not job.left(), SECONDS, "its processes to end")
        product.insert_one()
        bystander.wait_applied(bystander.expected())
        until(partial(_beyond, application, turns), SECONDS, "the other application to go on")
        unharmed = lives()
        page.add(number, seed, end.__name__, len(job.left()), unharmed)
        print(number, end.__name__, flush=True)
        assert unharmed, (number, end.__name__)


def _beyond(application: Application, turns: int) -> bool:
    return application.turns() > turns


def _known(job: Mirrored) -> tuple[object, ...]:
    (run, *_) = job.store.runs(job.name)
    assert processes.alive(run.supervisor)
    assert processes.alive(run.driver)
    return run.supervisor, run.driver
