"""The product path (supervisor, driver, JVM, workers, two servers) gets over every kill by itself, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.domain.job import JobState
from core.embedded.switches import Switches
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
    """The same, and whatever writers a test started have stopped at its end."""
    yield product
    product.quiet()


def test_a_kill_of_each_kind_in_mid_stream_is_survived_without_a_command(writing: Product) -> None:
    job = writing.job("stream").start()
    writing.write(RATE)
    job.wait_state(JobState.RUNNING)
    order: tuple[Kind, ...] = ("worker", "source", "jvm", "supervisor", "sink", "driver")
    for kind in order:
        print(f"{kind}: {job.recover_from(kind):.1f} s", flush=True)
    assert job.pause() < 10
    assert job.view().state is JobState.PAUSED
    assert job.resume() < 10
    job.wait_state(JobState.RUNNING)
    writing.quiet()
    job.wait_equal()
    assert job.stop() < 20
    assert job.left() == []
    assert "start" not in job.events()[1:], "nobody had to start it again"


@pytest.mark.parametrize("kinds", [("worker", "driver"), ("jvm", "source", "sink")])
def test_kills_in_mid_copy_are_survived_and_the_copy_goes_on_where_it_was(
    writing: Product, kinds: tuple[Kind, ...]
) -> None:
    job = writing.job("copy_" + "_".join(kinds)).start()
    writing.write(RATE)
    for place, kind in enumerate(kinds):
        job.wait_copying((place + 1) / (len(kinds) + 2))
        print(f"{kind} at {job.chunks()}", flush=True)
        job.kill(kind)
    job.wait_state(JobState.RUNNING)
    writing.quiet()
    job.wait_equal()
    assert job.stop() < 20
    assert job.left() == []
