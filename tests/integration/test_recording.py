"""Supervisors record the status of their jobs; the drivers are labelled fakes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.state.frames import Metrics
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.waiting import until

OFTEN = replace(FAST, frame_every=0.1)
SELDOM = replace(FAST, frame_every=3_600.0)


def states(jobs: Jobs) -> list[str]:
    return [
        kept.frame.view.state.value for kept in Metrics(jobs.store).since(0, datetime.fromtimestamp(0, timezone.utc))
    ]


def test_a_running_job_is_recorded_again_and_again_and_its_end_too(jobs: Jobs) -> None:
    jobs.start("orders", limits=OFTEN)
    until(lambda: states(jobs).count("RUNNING") >= 5, SOON, "five frames while it runs")
    control.stop(jobs.store, "orders", Patience(SOON))
    assert states(jobs)[-1] == "STOPPED"
    (frame,) = Metrics(jobs.store).frames(datetime.now(timezone.utc) + timedelta(hours=1))
    view = frame.view
    assert (view.state, view.reason, view.exit_code) == (JobState.STOPPED, "stopped as requested", 12)
    assert not view.driver_alive and view.ended_at is not None


def test_a_change_of_state_is_recorded_at_once(jobs: Jobs) -> None:
    jobs.start("orders", limits=SELDOM)
    until(lambda: "RUNNING" in states(jobs), SOON, "the start is recorded")
    control.pause(jobs.store, "orders", Patience(SOON))
    until(lambda: "PAUSED" in states(jobs), SOON, "the pause is recorded")
    assert len(states(jobs)) <= 4


def test_a_supervisor_that_adopts_continues_recording(jobs: Jobs) -> None:
    jobs.start("orders", limits=OFTEN)
    jobs.kill_supervisor("orders")
    until(lambda: jobs.view_of_job("orders").supervisor_alive, SOON, "another supervisor")
    before = len(states(jobs))
    until(lambda: len(states(jobs)) > before + 3, SOON, "more frames")


def test_a_record_that_cannot_be_written_breaks_nothing(jobs: Jobs) -> None:
    with jobs.store.write() as sql:
        sql.execute("DROP TABLE frames")
    view = jobs.start("orders", limits=OFTEN)
    assert view.driver is not None
    os.kill(view.driver.pid, signal.SIGKILL)
    until(lambda: len(jobs.pids("orders")) == 2, SOON, "a second driver")
    until(lambda: "no frame could be recorded" in jobs.store.folder.log("orders").read_text(), SOON, "it is reported")
