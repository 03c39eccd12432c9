"""Spark sessions that are lost while their Java process is running: the driver restarts and reports the reason."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.spark.runner import SparkRunner, open_runner
from tests.spark.test_clusters import RATE, SECRET, product_on, standalone
from tests.support.product import Mirrored
from tests.support.spark_cluster import SparkCluster, bare_python
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]
CROWD = 40
LATER = 20
"""Events of each DN that are written after a fault, and have to be applied."""


def restarts_and_says(job: Mirrored, said: str) -> None:
    """Check that its driver is replaced, an alert contains the reason, and every change is applied."""
    before = job.view().driver
    began = time.monotonic()
    until(lambda: "driver crashed" in job.events(), 120, f"the session to be lost; {job.log()[-1000:]}")
    print(f"noticed after {time.monotonic() - began:.0f} s", flush=True)
    faults = judge(gather(job.product.store, None, SystemClock().utc()))
    assert [said in fault.cause for fault in faults if fault.rule == "driver_crashed"] == [True], faults
    until(lambda: job.view().driver_alive and job.view().driver != before, 60, "another driver")
    job.wait_state(JobState.RUNNING)
    print(f"back after {time.monotonic() - began:.0f} s", flush=True)
    job.product.quiet()
    job.wait_equal()
    assert job.stop() < 20
    assert job.left() == []


def test_a_job_gets_over_the_restart_of_its_clusters_master(tmp_path: Path, spark_cache: Path, seed: int) -> None:
    cluster = SparkCluster(tmp_path / "c", SECRET)
    try:
        spark = standalone(cluster, tmp_path / "secret", bare_python(tmp_path / "bare"))
        with product_on(tmp_path, seed, **spark) as product:
            job = product.job("master").start()
            product.write(RATE)
            job.wait_state(JobState.RUNNING)
            cluster.restart_master()
            restarts_and_says(job, "the Spark cluster has had no executor for 60 s")
    finally:
        cluster.close()


@pytest.mark.parametrize("master_too", [False, True], ids=["workers", "both"])
def test_a_job_gets_over_the_restart_of_its_clusters_workers(
    tmp_path: Path, spark_cache: Path, seed: int, master_too: bool
) -> None:
    cluster = SparkCluster(tmp_path / "c", SECRET)
    try:
        spark = standalone(cluster, tmp_path / "secret", bare_python(tmp_path / "bare"))
        with product_on(tmp_path, seed, **spark) as product:
            job = product.job("workers").start()
            product.write(RATE)
            job.wait_state(JobState.RUNNING)
            began = time.monotonic()
            cluster.restart_workers()
            if master_too:
                cluster.restart_master()
            job.wait_applied({dn: events + LATER for dn, events in job.expected().items()}, 120)
            job.wait_state(JobState.RUNNING, 120)
            print(f"back after {time.monotonic() - began:.0f} s", flush=True)
            product.quiet()
            job.wait_equal()
            assert job.stop() < 20
            assert job.left() == []
    finally:
        cluster.close()


def test_a_job_gets_over_a_jvm_that_is_there_and_does_nothing(tmp_path: Path, seed: int) -> None:
    with product_on(tmp_path, seed) as product:
        job = product.job("stopped").start()
        product.write(RATE)
        job.wait_state(JobState.RUNNING)
        job.jvm().suspend()
        restarts_and_says(job, "Spark's Java process has not answered for 60 s")


@contextmanager
def a_crowd() -> Iterator[None]:
    """Start processes that use all available CPU time of every core."""
    crowd = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(CROWD)]
    try:
        yield
    finally:
        for one in crowd:
            one.kill()
            one.wait()


def test_a_jvm_among_forty_busy_processes_is_slow_and_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.spark.runner.ASK_EVERY", 0.5)
    took: list[float] = []

    def timed(runner: SparkRunner) -> None:
        asked = runner._context.executors

        def executors() -> int:
            began = time.monotonic()
            answer = asked()
            took.append(time.monotonic() - began)
            return answer

        runner._watch._executors = executors

    runner = open_runner(SparkOptions(master="local[2]"), "slow", tmp_path)
    try:
        timed(runner)
        with a_crowd():
            until(lambda: len(took) > 30, 120, "thirty answers")
            assert runner.lost == ""
        print(f"slowest answer of {len(took)}: {max(took):.2f} s", flush=True)
    finally:
        runner.close()
