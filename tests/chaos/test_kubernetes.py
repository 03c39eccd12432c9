"""A job whose executors are pods of a stand-in of the Kubernetes API (`tests.support.kubernetes`), with Spark's own
scheduler backend and real tasks: a pod killed or evicted, a watch that is too old, and the API away for 60 s. The job
is RUNNING and equal within 120 s by itself. It shows nothing about a real cluster.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.spark.cluster import PACKAGE
from tests.support.kubernetes import Api
from tests.support.product import Product
from tests.support.report import Page
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(3_600)]
WITHIN, AWAY, SECRET = 120.0, 60.0, "5d0c11aa-not-in-a-pod"
LATER = 20
"""Events of each DN that are written after a fault, and have to be applied."""


@pytest.fixture(scope="module")
def page() -> Page:
    why = "A stand-in of the API on this host: its pods are processes. No real cluster was tested."
    return Page("kubernetes", "Executors in pods", why, ("fault", "seconds until RUNNING and equal", "pods made"))


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path / "api")
    yield made
    made.close()


def test_lost_pods_and_a_lost_api_are_survived(api: Api, tmp_path: Path, spark_cache: Path, page: Page) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET, "utf-8")
    settings = {
        "spark.kubernetes.container.image": "stand-in", "spark.kubernetes.namespace": "default",
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    }  # fmt: skip
    spark = {"master": api.url, "secret_file": str(secret), "python": sys.executable}
    spark |= {f'settings."{name}"': value for name, value in settings.items()}
    product = Product(tmp_path / "p", rows=2_000, seed=45, chunk=500, spark=spark)
    try:
        job = product.job("in_pods").start()
        product.write(100.0)
        job.wait_state(JobState.RUNNING)
        assert f"{PACKAGE}/slotkeeper" in job.log(), "the pods ran what was shipped"
        assert all(SECRET not in str(pod) and "_SPARK_AUTH_SECRET" not in str(pod) for pod in api.pods.values())
        for name, fault in _faults(api).items():
            made = len(api.processes)
            fault()
            began = time.monotonic()
            job.wait_applied({dn: events + LATER for dn, events in job.expected().items()}, WITHIN)
            job.wait_state(JobState.RUNNING, WITHIN)
            until(lambda: len(api.running()) == 2, WITHIN, f"two executors after: {name}")
            took = time.monotonic() - began
            print(f"{name}: {took:.1f} s, {len(api.processes) - made} pods made", flush=True)
            page.add(name, f"{took:.1f}", str(len(api.processes) - made))
        product.quiet()
        job.wait_equal()
        job.stop()
        assert job.left() == []
        until(lambda: api.running() == [], 60, "all pods to end")
    finally:
        product.close()


def _faults(api: Api) -> dict[str, Callable[[], None]]:
    def all_killed() -> None:
        for one in api.running():
            api.kill(one)

    def away() -> None:
        api.away()
        time.sleep(AWAY)
        api.serve()

    return {
        "pod killed": lambda: api.kill(api.running()[0]),
        "all pods killed": all_killed,
        "pod evicted": lambda: api.evict(api.running()[0]),
        "watch 410": api.expire,
        "API away for 60 s": away,
    }
