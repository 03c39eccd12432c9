"""The product (supervisor, driver, JVM, workers, two servers) recovers from every kill without a command or a loss."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.switches import Switches
from tests.support import listening
from tests.support.product import Kind, Mirrored, Product
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RATE = 300.0


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, spark_cache: Path, seed: int) -> Iterator[Product]:
    """Servers with 20,000 rows that all tests of this module share; the copy has many small chunks."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(spark_cache))
    made = Product(tmp_path_factory.mktemp("product") / "p", rows=20_000, seed=seed, chunk=250)
    yield made
    made.close()
    patch.undo()


@pytest.fixture
def writing(product: Product) -> Iterator[Product]:
    """The same; after a test its writers have stopped, and the slots of its jobs and all records are deleted.

    A new slot reads the records of the transaction at its first point, if there are any. The test's count of
    changes before the slot cannot include those.
    """
    yield product
    product.quiet()
    for job in product.jobs:
        job.end()
        job.drop_slot()
    product.warehouse.purge()


@pytest.mark.parametrize(
    ("in_copy", "in_stream"),
    [
        (("worker", "driver"), ("source", "jvm", "supervisor", "sink")),
        pytest.param((), ("worker", "source", "jvm", "supervisor", "sink", "driver"), marks=pytest.mark.chaos),
    ],
    ids=["in copy and stream", "in stream"],
)
def test_a_kill_of_each_kind_is_survived_without_a_command(
    writing: Product, in_copy: tuple[Kind, ...], in_stream: tuple[Kind, ...]
) -> None:
    job = writing.job(f"stream_{len(in_stream)}")
    if in_copy:
        slow_down(job)
    job.start()
    writing.write(RATE)
    killed_in_mid_copy(job, in_copy)
    job.wait_state(JobState.RUNNING)
    servers = [psutil.Process(writing.warehouse.server.pid), psutil.Process(writing.sink.pid)]
    open_ports = listening.sockets([*servers, job.driver()])
    assert {one.process for one in open_ports} == {"postgres", "driver JVM"}
    assert listening.unlisted(open_ports) == []
    for kind in in_stream:
        print(f"{kind}: {job.recover_from(kind):.1f} s", flush=True)
    assert job.pause() < 10
    assert job.view().state is JobState.PAUSED
    assert job.resume() < 10
    job.wait_state(JobState.RUNNING)
    writing.quiet()
    job.wait_equal()
    assert job.stop() < 20
    assert job.left() == []
    assert "start" not in job.events()[1:], "it ran without a restart"


def slow_down(job: Mirrored) -> None:
    """Limit the rate of its copy: on a busy host, the test would see the copy too late."""
    text = job.config.read_text(encoding="utf-8")
    job.config.write_text(text.replace("\n[[jobs.", "\ncopy_rows_per_second = 4_000\n\n[[jobs.", 1), encoding="utf-8")


def killed_in_mid_copy(job: Mirrored, kinds: tuple[Kind, ...]) -> None:
    for place, kind in enumerate(kinds):
        job.wait_copying((place + 1) / (len(kinds) + 2))
        print(f"{kind} at {job.chunks()}", flush=True)
        job.kill(kind)


@pytest.mark.chaos
@pytest.mark.parametrize("kinds", [("worker", "driver"), ("jvm", "source", "sink")])
def test_kills_in_mid_copy_are_survived_and_the_copy_continues_where_it_was(
    writing: Product, kinds: tuple[Kind, ...]
) -> None:
    job = writing.job("copy_" + "_".join(kinds))
    slow_down(job)
    job.start()
    writing.write(RATE)
    killed_in_mid_copy(job, kinds)
    job.wait_state(JobState.RUNNING)
    writing.quiet()
    job.wait_equal()
    assert job.stop() < 20
    assert job.left() == []


@pytest.mark.chaos
def test_a_job_killed_altogether_is_reported_as_exited_and_a_new_start_continues(writing: Product) -> None:
    job = writing.job("gone", full_sync_binlog_batch_read_size=5_000).start()
    writing.write(RATE)
    job.wait_state(JobState.RUNNING)
    jvm = job.jvm()
    job.driver().suspend()  # so that it cannot start another supervisor in between
    job.kill("supervisor")
    job.kill("driver")
    until(lambda: not jvm.is_running(), 10, "the JVM to end with its driver")
    view = job.view()
    assert not view.lives
    assert "no process" in view.reason
    assert "jobs start" in view.safe
    status = subprocess.run(
        [sys.executable, "-m", "slotkeeper.console", "--config", str(job.config), "jobs", "show", job.name, "--json"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "no process" in status.stdout, status
    job.start_again()
    job.wait_state(JobState.RUNNING)
    writing.quiet()
    job.wait_equal()
    assert len(list((writing.demo.folder / "state" / "spark").iterdir())) == 1, "files of the killed run were deleted"
    assert job.stop() < 20
    assert job.left() == []
    assert list((writing.demo.folder / "state" / "spark").iterdir()) == []


@pytest.mark.parametrize(
    "switches",
    [
        pytest.param(
            "end_inclusive=on,latest_inclusive=on,register_moves_point=on,new_system_names=off", marks=pytest.mark.chaos
        ),
        pytest.param(
            "start_inclusive=off,auto_create=off,full_old_images=off,purge_at_once=on,backward_allowed=off",
            marks=pytest.mark.chaos,
        ),
    ],
)
def test_the_reader_is_right_on_spark_however_the_source_behaves(writing: Product, switches: str) -> None:
    chosen = Switches.parse(switches)
    writing.warehouse.configure(chosen)
    try:
        job = writing.job("switched_" + switches[:3], new_system_value=chosen.new_system_names).start()
        writing.write(RATE)
        job.wait_state(JobState.RUNNING)
        job.kill("worker")
        job.wait_applied(job.expected())
        writing.quiet()
        job.wait_equal()
        assert job.stop() < 20
    finally:
        writing.warehouse.configure(Switches())
