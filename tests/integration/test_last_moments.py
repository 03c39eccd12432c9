"""A job that has just ended may have processes for some seconds: a command that needs it stopped waits for them.

Spark takes some seconds to exit after a job that is FAILED already; a user should not have to type a remedy twice.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.console.commands.reset import at_rest
from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import Limits
from slotkeeper.core.state.sqlite import Store
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.waiting import until

JOB = "orders"
SLOW = Limits(poll=FAST.poll, stop=60.0, grace=60.0)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with Store.open(tmp_path / "state") as store:
        made = Jobs(store, tmp_path)
        yield made
        made.end_all()


def ended(jobs: Jobs) -> Identity:
    """A job that reports FAILED while its driver is still running."""
    view = jobs.start(JOB, limits=SLOW)
    assert view.driver is not None
    jobs.store.apply(JOB, JobEvent.FAILED, "SLOT LOST")
    return view.driver


def test_what_needs_a_stopped_job_waits_for_the_processes_of_its_ended_run(jobs: Jobs) -> None:
    driver = ended(jobs)
    ending = threading.Timer(0.3, processes.terminate, (driver,))
    ending.start()
    assert at_rest(jobs.store, JOB, "ods.t").ok
    ending.join()
    assert jobs.start(JOB).state is JobState.RUNNING


def test_one_that_does_not_go_is_named_after_a_while(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.launch.view.LAST_MOMENTS", 0.2)
    ended(jobs)
    found = at_rest(jobs.store, JOB, "ods.t")
    assert not found.ok and "its process is running here; stop it first" in found.sentence


def test_an_unfinished_reset_is_resumed_although_its_job_was_killed_and_a_new_one_is_not_made(jobs: Jobs) -> None:
    """`jobs ensure` refuses the job until the reset has ended, so that no other command can be the first."""
    view = jobs.start(JOB)
    assert view.supervisor is not None and view.driver is not None
    os.kill(view.supervisor.pid, signal.SIGSTOP)  # a driver without a supervisor starts another, and one restarts it
    for known in (view.driver, view.supervisor):
        processes.kill_members(known)
    until(lambda: jobs.view_of_job(JOB).state is JobState.DEAD, SOON, "the job to be dead")
    assert at_rest(jobs.store, JOB, "ods.t", resuming=True).ok
    found = at_rest(jobs.store, JOB, "ods.t")
    assert not found.ok and f"`slotkeeper jobs stop {JOB}`" in found.sentence
