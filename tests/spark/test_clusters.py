"""Jobs on clusters of Spark: the shipped code, the secrets, and an executor that is killed in the middle of a step."""

from __future__ import annotations

import getpass
import json
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest

from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.spark.cluster import PACKAGE
from slotkeeper.core.spark.runner import open_runner
from tests.support import listening
from tests.support.product import Kind, Mirrored, Product
from tests.support.spark_cluster import SparkCluster, backend_lives, bare_python, executors, held_in_a_step
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
    """Kill an executor with a changed, uncommitted progress row: its session ends, and others process its lanes."""
    until(lambda: len(executors(parents)) == 2, 60, "two executors")
    with held_in_a_step(job, parents) as held:
        held.executor.kill()
        until(lambda: not backend_lives(job, held.backend), 20, "the killed executor's session to end at the sink")
    job.wait_applied(job.expected())
    assert "was lost during a task" in job.log() or "was lost" in str(job.product.store.errors(job.name)), job.log()
    until(lambda: len(executors(parents)) == 2, 60, "another executor in its place")
    assert held.executor.pid not in {one.pid for one in executors(parents)}


def shown_by(processes: list[psutil.Process], word: str) -> set[str]:
    """Return the text with that word that processes show on their command lines to every user of the host."""
    return {argument for one in processes for argument in one.cmdline() if word in argument}


@pytest.mark.chaos
@pytest.mark.parametrize(
    "killed",
    [False, True],
    ids=["undisturbed", "through the kill of an executor"],
)
def test_a_local_cluster_mirrors(killed: bool, tmp_path: Path, seed: int) -> None:
    with product_on(tmp_path, seed, master="local-cluster[2,1,1024]") as product:
        job = product.job("local_cluster").start()
        product.write(RATE)
        job.wait_state(JobState.RUNNING)
        assert f"{PACKAGE}/slotkeeper" in job.log(), "the workers ran the shipped code"
        work = product.demo.folder / "state" / "spark"
        (home,) = work.glob("*/spark-*/home")
        assert (home / "work").is_dir()
        assert {stat.S_IMODE(path.stat().st_mode) for path in (work, home.parent.parent, home.parent, home)} == {0o700}
        assert shown_by([job.driver(), job.jvm(), *executors([job.jvm().pid])], "spark.authenticate.secret") == set()
        open_ports = listening.sockets([job.driver()])
        assert {one.process for one in open_ports} == {"local cluster JVM", "executor"}
        assert listening.unlisted(open_ports) == []
        if killed:
            survives_the_kill_of_an_executor(product, job, [job.jvm().pid])
        assert job.pause() < 10
        assert job.resume() < 10
        job.wait_state(JobState.RUNNING)
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert job.left() == []
        assert list(work.iterdir()) == []
    assert not (Path(pyspark.__file__).parent / "work").exists()


@pytest.mark.chaos
def test_a_job_on_a_local_cluster_is_adopted_restarted_and_gets_over_its_jvm(tmp_path: Path, seed: int) -> None:
    with product_on(tmp_path, seed, master="local-cluster[2,1,1024]") as product:
        job = product.job("adopted").start()
        product.write(RATE)
        kinds: tuple[Kind, ...] = ("supervisor", "jvm", "driver")
        for kind in kinds:
            print(f"{kind}: {job.recover_from(kind):.1f} s", flush=True)
        assert job.stop() < 20
        assert job.left() == [], "no executor outlives its job"
        job.start_again()
        job.wait_state(JobState.RUNNING)
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert list((product.demo.folder / "state" / "spark").iterdir()) == []


def test_a_standalone_cluster_mirrors_through_the_kill_of_an_executor(
    tmp_path: Path, cluster: SparkCluster, seed: int
) -> None:
    spark = standalone(cluster, tmp_path / "secret", bare_python(tmp_path / "bare"))
    with product_on(tmp_path, seed, **spark) as product:
        job = product.job("standalone").start()
        product.write(RATE)
        job.wait_state(JobState.RUNNING)
        assert f"{cluster.folder}/worker" in job.log(), "the workers ran in the folders of the cluster"
        assert f"{PACKAGE}/slotkeeper" in job.log(), "the shipped code"
        assert shown_by([job.driver(), job.jvm(), *executors(cluster.worker_pids())], SECRET) == set()
        open_ports = listening.sockets([job.driver(), *(psutil.Process(one.pid) for one in cluster._started)])
        of_python = {"driver", "python worker"}
        assert {one.process for one in open_ports} == {"driver JVM", "master", "worker", "executor", *of_python}
        assert listening.unlisted(open_ports) == []
        survives_the_kill_of_an_executor(product, job, cluster.worker_pids())
        product.quiet()
        job.wait_equal()
        assert job.stop() < 20
        assert job.left() == []
        until(lambda: executors(cluster.worker_pids()) == [], 20, "the cluster to have its executors back")


@pytest.mark.chaos
def test_a_password_that_workers_do_not_have_is_one_line_with_their_name(
    tmp_path: Path, cluster: SparkCluster, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = standalone(cluster, tmp_path / "secret", bare_python(tmp_path / "bare"))
    with product_on(tmp_path, seed, **spark) as product:
        job = product.job("without_password")
        text = job.config.read_text("utf-8")
        written = re.search(r'^password_file = "(.*mart\.password)"$', text, re.MULTILINE)
        assert written
        monkeypatch.setenv("MART_PASSWORD", Path(written[1]).read_text("utf-8").strip())
        job.config.write_text(text.replace(written[0], 'password_env = "MART_PASSWORD"'), "utf-8")
        job.start_again()
        until(lambda: job.view().state is JobState.FAILED, 60, "the job to fail")
        view = job.view()
        assert view.reason == (
            f"on the worker {socket.gethostname()}, as {getpass.getuser()}:"
            " the variable MART_PASSWORD (password_env) is not set"
        )
        assert "provide each worker with the same file, variable or command" in view.safe
        assert "Traceback" not in job.log()
        until(lambda: job.left() == [], 30, "its driver to end: it is not tried again and again")


@pytest.mark.chaos
def test_workers_without_that_python_or_without_psycopg2_are_one_line(tmp_path: Path, cluster: SparkCluster) -> None:
    secret = tmp_path / "secret"
    spark = standalone(cluster, secret, bare_python(tmp_path / "bare", needed=()))
    absent = tmp_path / "no" / "python"
    settings = tuple((f"spark.driver.{name}", "127.0.0.1") for name in ("host", "bindAddress"))
    for python, said in ((spark["python"], "lacks the Python package psycopg2"), (str(absent), f"no Python {absent}")):
        options = SparkOptions(cluster.url, settings=settings, secret=SecretRef("file", str(secret)), python=python)
        with pytest.raises(ConfigError) as error:
            open_runner(options, "bare", tmp_path / "work")
        assert said in error.value.message
        assert "\n" not in error.value.message
        assert "[jobs.X.spark]" in error.value.hint
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["local-cluster", "standalone"])
def test_the_demo_is_verified_on_a_cluster(tmp_path: Path, cluster: SparkCluster, kind: str) -> None:
    secret = tmp_path / "secret"
    standalone(cluster, secret, Path(sys.executable))
    chosen = ["--spark-master", "local-cluster[2,1,1024]"]
    if kind == "standalone":
        chosen = ["--spark-master", cluster.url, "--spark-secret-file", str(secret)]
    asked = ["--headless", "--json", "--rows", "20000", "--duration", "10s", *chosen]
    ran = subprocess.run(
        [sys.executable, "-m", "slotkeeper.console", "demo", *asked],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    verdict = json.loads(ran.stdout)
    print(verdict, flush=True)
    assert verdict["verified"]
    assert (verdict["missing"], verdict["duplicates"], verdict["different"]) == (0, 0, 0)
