"""The meaning of a driver's exit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.job import WITH_PROCESS, JobEvent, JobState, transition
from slotkeeper.core.launch.launch import Launch, Limits
from slotkeeper.core.launch.verdict import Crashed, CrashHistory, Ended, judge
from slotkeeper.core.state.sqlite import Store
from tests.support.upgrade import COMMITS, JOB, state_folder


@pytest.mark.parametrize(
    ("code", "event"),
    [
        (0, JobEvent.STOPPED),
        (2, JobEvent.FAILED),
        (10, JobEvent.FAILED),
        (11, JobEvent.SUPERSEDED),
        (12, JobEvent.STOPPED),
    ],
)
def test_the_codes_of_the_contract_end_the_run(code: int, event: JobEvent) -> None:
    verdict = judge(code, JobState.RUNNING, stop_wanted=False)
    assert isinstance(verdict, Ended)
    assert verdict.event is event


@pytest.mark.parametrize("code", [1, 3, 137, -9, -11, -64, None])
def test_anything_else_is_a_crash_unless_a_stop_was_wished(code: int | None) -> None:
    assert isinstance(judge(code, JobState.RUNNING, stop_wanted=False), Crashed)
    wished = judge(code, JobState.RUNNING, stop_wanted=True)
    assert isinstance(wished, Ended) and wished.event is JobEvent.STOPPED


@pytest.mark.parametrize("reported", [JobState.STOPPED, JobState.FAILED, JobState.FINISHED])
def test_an_adopted_driver_that_reported_its_end_did_not_crash(reported: JobState) -> None:
    assert judge(None, reported, stop_wanted=False) == Ended(None, None, f"ended as {reported.value}")


@given(st.none() | st.integers(-70, 255), st.sampled_from(sorted(WITH_PROCESS, key=str)), st.booleans())
def test_every_end_has_a_verdict_whose_event_is_possible(code: int | None, state: JobState, wished: bool) -> None:
    verdict = judge(code, state, wished)
    if isinstance(verdict, Ended) and verdict.event is not None:
        transition(state, verdict.event)


def test_crashes_count_within_the_window_only() -> None:
    history = CrashHistory()
    assert [history.add(now, 600.0) for now in (0.0, 1.0, 2.0, 601.5, 10_000.0)] == [1, 2, 3, 2, 1]


def test_a_launch_comes_back_from_the_store_as_it_was() -> None:
    launch = Launch(("a", "b"), ("--take-over",), Limits(poll=0.1, crashes=3))
    assert Launch.parse(launch.text) == launch
    assert Launch.parse("") == Launch()


def test_a_launch_keeps_no_interpreter_and_starts_with_the_one_that_starts_now() -> None:
    assert sys.executable not in Launch().text and "python" not in Launch().text
    assert Launch.parse(Launch().text).driver("j", "c", Path("/s"), "r")[:4] == [
        sys.executable, "-P", "-m", "slotkeeper.core.spark.job",
    ]  # fmt: skip


@pytest.mark.parametrize("commit", COMMITS)
def test_a_run_that_an_earlier_version_recorded_with_its_interpreter_is_started_with_ours(
    commit: str, tmp_path: Path
) -> None:
    with Store.open(state_folder(commit, tmp_path / "state").path) as store:
        (run,) = store.runs(JOB)
    assert "/opt/slotkeeper-that-was/bin/python" in run.launch
    launch = Launch.parse(run.launch)
    assert launch.driver(JOB, "c", tmp_path, "r")[0] == sys.executable
    assert launch == Launch(limits=launch.limits) and launch.limits.crashes == 5


def test_limits_that_another_version_recorded_are_left_out_where_they_are_unknown() -> None:
    found = json.loads(Launch(extra=("--take-over",)).text)
    found["limits"]["of_a_later_version"] = 7
    assert Launch.parse(json.dumps(found)) == Launch(extra=("--take-over",))
