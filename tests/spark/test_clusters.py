"""Jobs on clusters of Spark: what is shipped, what is kept secret, and an executor that is killed in mid-step."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from core.domain.job import JobState
from core.spark import package
from tests.support.executors import backend_lives, executors, held_in_a_step
from tests.support.mirrored import Mirrored
from tests.support.product import Product
from tests.support.spark_cluster import SparkCluster, bare_python
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
RATE = 300.0
ROWS = 5_000
SECRET = "3f9a51c7-not-for-a-command-line"


@contextmanager
def product_on(folder: Path, seed: int, **spark: str) -> Iterator[Product]:
    made = Product(folder / "p", rows=ROWS, seed=seed, chunk=500, spark={k: v for k, v in spark.items() if v})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_cache: Path) -> Iterator[SparkCluster]:
    made = SparkCluster(tmp_path_factory.mktemp("cluster") / "c", SECRET)
    yield made
    made.close()


def standalone(cluster: SparkCluster, secret: Path, python: Path) -> dict[str, str]:
    secret.touch(0o600)
    secret.write_text(cluster.secret + "\n", "utf-8")
    here = dict.fromkeys(('settings."spark.driver.host"', 'settings."spark.driver.bindAddress"'), "127.0.0.1")
    return {"master": cluster.url, "secret_file": str(secret), "python": str(python), **here}


def survives_the_kill_of_an_executor(product: Product, job: Mirrored, parents: list[int]) -> None:
    """Killed with its progress row changed and not committed: its session ends, and others take its lanes."""
    until(lambda: len(executors(parents)) == 2, 60, "two executors")
    with held_in_a_step(job, parents) as held:
        held.executor.kill()
        until(lambda: not backend_lives(job, held.backend), 20, "the killed executor's session to end at the sink")
    job.wait_applied(job.expected())
    assert "was lost in mid-task" in job.log() or "was lost" in str(job.product.store.errors(job.name)), job.log()
    until(lambda: len(executors(parents)) == 2, 60, "another executor in its place")
    assert held.executor.pid not in {one.pid for one in executors(parents)}


def secret_places(secret: str, processes: list[psutil.Process]) -> set[str]:
    """Which of the processes show the secret to everybody on the machine: on their command lines."""
    return {word for one in processes for word in one.cmdline() if secret in word}


def test_a_local_cluster_mirrors_through_the_kill_of_an_executor(tmp_path: Path, spark_cache: Path, seed: int) -> None:
    with product_on(tmp_path, seed, master="local-cluster[2,1,1024]") as product:
        job = product.job("local_cluster").start()
        product.write(RATE)
        job.wait_state(JobState.RUNNING)
        assert f"{package.NAME}/core" in job.log(), "the workers ran what was shipped"
        work = product.demo.folder / "state" / "spark"
        homes = list(work.glob("*/spark-*/home"))
        assert len(homes) == 1
        assert (homes[0] / "work").is_dir()
        assert {stat.S_IMODE(path.stat().st_mode) for path in (*homes, homes[0].parent, homes[0].parent.parent)} == {
            0o700
        }
        survives_the_kill_of_an_executor(product, job, [job.jvm().pid])
        print(f"supervisor: {job.recover_from('supervisor'):.1f} s", flush=True)
        assert job.pause() < 10
        assert job.stop() < 20
        job.start_again()
        job.wait_state(JobState.RUNNING)
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert job.left() == []
        assert list(work.iterdir()) == []
    assert not (Path(pyspark.__file__).parent / "work").exists()


def test_a_standalone_cluster_mirrors_through_the_kill_of_an_executor(
    tmp_path: Path, cluster: SparkCluster, seed: int
) -> None:
    spark = standalone(cluster, tmp_path / "secret", bare_python(tmp_path / "bare"))
    with product_on(tmp_path, seed, **spark) as product:
        job = product.job("standalone").start()
        product.write(RATE)
        job.wait_state(JobState.RUNNING)
        assert f"{cluster.folder}/worker" in job.log(), "the workers ran in the folders of the cluster"
        assert f"{package.NAME}/core" in job.log(), "what was shipped to them"
        processes = [job.driver(), job.jvm(), *executors(cluster.worker_pids())]
        assert secret_places(SECRET, processes) == set()
        survives_the_kill_of_an_executor(product, job, cluster.worker_pids())
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert job.left() == []
        until(lambda: executors(cluster.worker_pids()) == [], 20, "the cluster to have its executors back")
