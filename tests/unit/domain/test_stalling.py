"""A wait continues while there is progress, and fails ten minutes after the last one, naming what it waited for."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.elapsed import CPU_STEP, STALLED_SECONDS, Progress, Signs


def test_a_wait_that_sees_progress_never_ends() -> None:
    wait = Progress(0.0)
    for turn in range(100):
        now = turn * (STALLED_SECONDS - 1)
        wait.see(Signs("the copy", turn), now)
        assert wait.stalled(now + STALLED_SECONDS - 1) == ""


def test_ten_minutes_without_progress_end_it_with_what_it_waited_for() -> None:
    wait = Progress(100.0)
    for now in (100.0, 400.0, 700.0):
        wait.see(Signs("the JVM", "same", 1.0), now)
        assert wait.stalled(now) == ""
    assert wait.stalled(700.1) == "no progress for 600 s while waiting for the JVM"
    wait.see(Signs("the Spark session", "another", 1.0), 700.2)
    assert wait.stalled(1_300.0) == "", "late progress counts as progress"


def test_a_wait_that_saw_nothing_at_all_ends_too() -> None:
    assert Progress(0.0).stalled(STALLED_SECONDS + 1) == "no progress for 600 s while waiting for its first step"


@pytest.mark.parametrize(
    ("used", "goes_on"),
    [(CPU_STEP, True), (CPU_STEP - 0.1, False), (-1.0, True)],
    ids=["work", "an idle JVM", "other processes"],
)
def test_cpu_time_is_progress_from_a_step_on_that_an_idle_jvm_does_not_reach(used: float, goes_on: bool) -> None:
    wait = Progress(0.0)
    wait.see(Signs("the JVM", 0, 10.0), 0.0)
    wait.see(Signs("the JVM", 0, 10.0 + used), STALLED_SECONDS)
    assert (wait.stalled(STALLED_SECONDS + 1) == "") is goes_on


def test_cpu_time_adds_up_over_looks_that_each_saw_too_little() -> None:
    wait = Progress(0.0)
    for turn in range(10):
        wait.see(Signs("the JVM", 0, turn * CPU_STEP / 4), turn * 100.0)
    assert wait.stalled(1_400.0) == "" and wait.quiet(900.0) == 100.0
