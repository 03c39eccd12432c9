"""What counts as progress in a wait for a job, what the wait shows, and when it ends."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.core.domain.elapsed import STALLED_SECONDS
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import Identity, JobReport, JobStatus
from slotkeeper.core.launch.view import SHOWN_EVERY, Waiting, signs_of, step_of

AT = datetime(2026, 11, 26, 20, 0, tzinfo=timezone.utc)
GONE = Identity(2**22 + 1, "never:1", 2**22 + 1, "r", "elsewhere")
REPORT = JobReport("orders", "r", "PENDING", tasks_started=1)
STARTING = JobStatus("orders", JobState.PENDING, WantedState.RUN, supervisor_alive=True)
DRIVEN = replace(STARTING, driver=GONE, driver_alive=True)
REPORTED = replace(DRIVEN, report=REPORT, reported=True, reported_at=AT)
TRIES = replace(REPORTED, reason="retrying 3, next in 8.0 s: dws1 does not answer")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def ends(views: list[JobStatus], every: float, moved: list[object] | None = None) -> str:
    """Why a wait ends that gets these statuses one after another; empty if it does not end."""
    clock = Clock()
    wait = Waiting(monotonic=clock)
    why = ""
    for place, view in enumerate(views):
        clock.now = place * every
        why = wait.status(view, None if moved is None else moved[place])
    return why


def beating(view: JobStatus, count: int) -> list[JobStatus]:
    return [replace(view, reported_at=AT + timedelta(seconds=n)) for n in range(count)]


def test_a_heartbeat_is_progress() -> None:
    assert ends(beating(REPORTED, 30), STALLED_SECONDS / 2) == ""


def test_a_driver_that_reports_what_it_waits_for_makes_no_progress_by_its_heartbeat() -> None:
    said = ends(beating(TRIES, 30), STALLED_SECONDS / 2)
    assert said == f"no progress for 600 s while waiting for the condition that its driver reports ({TRIES.reason})"


def test_of_a_job_that_runs_only_what_moves_is_progress_where_that_is_known() -> None:
    views = beating(replace(REPORTED, state=JobState.RUNNING), 10)
    assert "no progress" in ends(views, STALLED_SECONDS / 2, ["same"] * 10)
    assert ends(views, STALLED_SECONDS / 2, list(range(10))) == ""
    assert ends(beating(REPORTED, 10), STALLED_SECONDS / 2, ["same"] * 10) == "", "its driver was restarted"


@pytest.mark.parametrize(
    "after",
    [
        replace(STARTING, run="another"),
        DRIVEN,
        replace(STARTING, state=JobState.SNAPSHOT),
        replace(STARTING, report=replace(REPORT, chunks_done=1), reported=True),
        replace(STARTING, report=replace(REPORT, snapshot_rows=1), reported=True),
    ],
    ids=["run", "driver", "state", "chunk", "rows"],
)
def test_each_step_of_a_start_is_progress(after: JobStatus) -> None:
    assert ends([STARTING, after, after], STALLED_SECONDS - 1) == ""
    assert ends([STARTING, STARTING, STARTING], STALLED_SECONDS - 1) != ""


def test_a_jvm_that_comes_up_is_progress() -> None:
    assert signs_of(DRIVEN, (1.0, False)).marks != signs_of(DRIVEN, (1.0, True)).marks


@pytest.mark.parametrize(
    ("view", "java", "step"),
    [
        (replace(STARTING, supervisor_alive=False), False, "its supervisor"),
        (STARTING, False, "its driver's process"),
        (DRIVEN, False, "the JVM"),
        (DRIVEN, True, "the Spark session"),
        (replace(REPORTED, report=replace(REPORT, tasks_started=0)), True, "the first task"),
        (REPORTED, True, "its lanes"),
        (
            replace(REPORTED, state=JobState.SNAPSHOT, report=replace(REPORT, chunks_done=3, chunks_total=12)),
            True,
            "the copy, chunk 3 of 12",
        ),
        (replace(REPORTED, state=JobState.CATCHING_UP), True, "the changes since the copy started"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_step_that_is_waited_for_has_a_name(view: JobStatus, java: bool, step: str) -> None:
    assert step_of(view, java) == step


def test_it_shows_step_seconds_and_load_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (41.25, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    clock, said = Clock(), list[str]()
    wait = Waiting(said.append, clock)
    for _ in range(41):
        wait.status(STARTING)
        clock.now += SHOWN_EVERY / 20
    assert said == [
        "waiting for its driver's process: 10 s; load of this host: 41.2 on 2 cores",
        "waiting for its driver's process: 20 s; load of this host: 41.2 on 2 cores",
    ]
