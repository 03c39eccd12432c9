"""A Spark session that is lost while its Java process runs ends the driver with a message; a slow session does not."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from slotkeeper.core.domain import cluster
from slotkeeper.core.domain.cluster import LOST_AFTER, SessionLife
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.spark import task
from slotkeeper.core.spark.cluster import CLUSTER_GONE
from slotkeeper.core.spark.job import WantedStates
from slotkeeper.core.spark.runner import SESSION_LOST, SessionWatch, SparkRunner
from slotkeeper.core.state.sqlite import Store
from tests.support.waiting import until

SILENT = "Spark's Java process has not answered for"
EMPTY = "the Spark cluster has had no executor for"


class Hung:
    """A Spark whose calls return only once its JVM is killed; `executors` None: it is silent as well."""

    fixed_capacity = capacity = 2

    def __init__(self, executors: int | None) -> None:
        self.spark, self.there, self.asked, self.dead = self, executors, 0, threading.Event()

    def parallelize(self, values: list[int], slices: int) -> None: ...

    def setJobGroup(self, *named: object) -> None: ...

    def runJob(self, *work: object) -> None:
        self.dead.wait()
        raise Py4JNetworkError

    def executors(self) -> int:
        self.asked += 1
        if self.there is None:
            self.runJob()
        return self.there or 0

    def kill(self) -> None:
        self.dead.set()

    def ended(self, seconds: float = 0.0) -> bool:
        return self.dead.is_set()

    def stop(self) -> None:
        self.dead.set()


def watched(hung: Hung) -> SparkRunner:
    runner = SparkRunner(hung)  # type: ignore[arg-type]
    runner.watch()
    return runner


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are thousandths."""
    monkeypatch.setattr("slotkeeper.core.spark.runner.ASK_EVERY", 0.002)
    monkeypatch.setattr(cluster, "LOST_AFTER", 0.06)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("executors", "said", "code"), [(None, SILENT, SESSION_LOST), (0, EMPTY, CLUSTER_GONE)])
def test_a_session_without_an_answer_or_an_executor_ends_its_driver_in_words(
    executors: int | None, said: str, code: str, tmp_path: Path
) -> None:
    runner = watched(Hung(executors))
    with Store.open(tmp_path / "state") as store:
        wanted = WantedStates(store, "a")
        wanted.spark = runner
        work = runner.submit(task.nothing, None, "a")
        until(lambda: runner.lost, 10, "the session to be lost")
        with pytest.raises(Unreachable, match=said) as error:
            wanted.now()
        assert (error.value.code, error.value.where) == (code, "spark")
    with pytest.raises(Unreachable, match=said):
        work.result(10)
    runner.close()


@pytest.mark.usefixtures("short")
def test_a_session_with_an_executor_is_not_lost_whatever_its_tasks_do() -> None:
    hung = Hung(1)
    runner = watched(hung)
    work = runner.submit(task.nothing, None, "a")
    until(lambda: hung.asked > 100, 10, "a hundred answers")
    assert (runner.lost, work.done()) == ("", False)
    runner.close()


def test_an_answer_or_an_executor_in_time_begins_the_wait_again() -> None:
    silent, empty = SessionLife(), SessionLife()
    for _ in range(5):
        silent = silent.after(LOST_AFTER - 1, None).after(2.0, 1)
        empty = empty.after(LOST_AFTER - 1, 0).after(2.0, 1)
        assert (silent.lost, empty.lost) == ("", "")
    assert silent.after(LOST_AFTER, None).lost == f"{SILENT} 60 s"
    assert empty.after(LOST_AFTER, 0).lost == f"{EMPTY} 60 s"


def test_a_time_in_which_the_driver_did_not_run_either_is_not_held_against_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slotkeeper.core.spark.runner.ASK_EVERY", 0.002)
    turns = itertools.count(0.0, 600.0)  # each turn finds that ten minutes have passed

    class Jumping:
        def monotonic(self) -> float:
            return next(turns)

    lost: list[str] = []
    released = threading.Event()
    watch = SessionWatch(lambda: int(released.wait()), lost.append, Jumping())  # type: ignore[arg-type]
    watch.start()
    until(lambda: next(turns) > 20 * 600.0, 10, "twenty turns")
    watch.stop()
    released.set()
    assert lost == []
