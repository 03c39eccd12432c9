"""The runner's contract with the engine: results, classified errors, cancellation, and workers that are reused."""

from __future__ import annotations

import os
import sys
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import Trouble, TroubleName, Unclassified, Unreachable
from slotkeeper.core.spark.runner import WARM_EVERY, WARM_FOR, WORKER_LOST, SparkRunner
from slotkeeper.core.spark.session import Context
from tests.spark import work
from tests.support.waiting import until

pytestmark = pytest.mark.spark
SECONDS = 60.0


class StandingClock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def described(runner: SparkRunner) -> dict[str, object]:
    answer = runner.submit(work.described, None, "about").result(SECONDS)
    assert isinstance(answer, dict)
    return answer


def context_of(runner: SparkRunner) -> Context:
    return runner._context


def test_a_worker_runs_our_code_with_our_python_in_our_session_but_not_our_process_group(runner: SparkRunner) -> None:
    before = runner.tasks_started
    seen = described(runner)
    assert seen["slotkeeper"] == str(Path(sys.modules["slotkeeper"].__file__ or ""))
    assert os.path.realpath(str(seen["executable"])) == os.path.realpath(sys.executable)
    assert seen["session"] == os.getsid(0)
    assert seen["group"] != os.getpgid(0)
    assert os.getpgid(context_of(runner).jvm_pid) == context_of(runner).jvm_pid
    assert runner.tasks_started == before + 1
    assert runner.capacity == 2


def test_a_worker_lives_on_so_that_its_connections_do(runner: SparkRunner) -> None:
    assert len({described(runner)["pid"] for _ in range(4)}) == 1


def test_a_spec_travels_there_and_back(runner: SparkRunner) -> None:
    spec = SparkOptions(settings=(("a", "b"),))
    assert runner.submit(work.echoed, spec, "echo").result(SECONDS) == spec


def test_errors_arrive_as_they_were_classified(runner: SparkRunner) -> None:
    with pytest.raises(Unreachable) as unreachable:
        runner.submit(work.unreachable, None, "errors").result(SECONDS)
    assert (unreachable.value.code, unreachable.value.where, unreachable.value.hint) == ("08006", "sink", "wait")
    with pytest.raises(Trouble) as trouble:
        runner.submit(work.troubled, None, "errors").result(SECONDS)
    assert trouble.value.name is TroubleName.SLOT_MOVED


@pytest.mark.parametrize("function", ["broken", "absent"])
def test_an_unclassified_error_shows_its_type_and_no_value(runner: SparkRunner, function: str) -> None:
    with pytest.raises(Unclassified) as error:
        runner.submit(getattr(work, function), None, "errors").result(SECONDS)
    assert "Error" in str(error.value)
    assert "4711" not in str(error.value)
    assert " at " in error.value.cause, "where it came from"
    assert "4711" not in error.value.cause


def test_a_killed_worker_is_a_classified_failure_and_the_next_call_works(runner: SparkRunner) -> None:
    with pytest.raises(Unclassified) as error:
        runner.submit(work.killed, None, "killed").result(SECONDS)
    assert error.value.code == WORKER_LOST
    assert runner.submit(work.echoed, 1, "echo").result(SECONDS) == 1


def test_cancel_ends_what_runs_and_what_waits_and_nothing_else(runner: SparkRunner, tmp_path: Path) -> None:
    files = [tmp_path / name for name in "abc"]
    calls = [runner.submit(work.held, str(file), "held") for file in files]
    other = runner.submit(work.echoed, 2, "other")
    until(lambda: sum(f.exists() for f in files) == 2, SECONDS, "two calls hold the two places")
    runner.cancel("held")
    for call in calls:
        with pytest.raises(CancelledError):
            call.result(SECONDS)
    assert other.result(SECONDS) == 2


def test_workers_are_kept_warm_after_work_and_an_idle_job_starts_nothing(runner: SparkRunner) -> None:
    clock = StandingClock()
    idle = SparkRunner(context_of(runner), clock)  # type: ignore[arg-type]
    assert idle.keep_warm() is None
    idle.submit(work.echoed, 1, "echo").result(SECONDS)
    assert idle.keep_warm() is None
    clock.now += WARM_EVERY
    warm = idle.keep_warm()
    assert warm is not None
    warm.result(SECONDS)
    assert idle.keep_warm() is None
    clock.now += WARM_FOR
    assert idle.keep_warm() is None
    assert idle.tasks_started == 1
    idle._pool.shutdown()
