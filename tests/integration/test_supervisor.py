"""Supervisors and their drivers as real processes; the driver is a labelled fake, everything else is real."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK
from tests.support.jobs import FAKE, FAST, SOON, Jobs
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]


def test_a_started_job_runs_in_its_own_sessions_and_is_reparented(jobs: Jobs) -> None:
    view = jobs.start("orders")
    assert view.state is JobState.RUNNING
    assert view.driver is not None and view.supervisor is not None
    assert view.driver_alive and view.supervisor_alive
    assert len({os.getsid(0), view.driver.session_id, view.supervisor.session_id}) == 3
    assert view.driver.pid == view.driver.session_id
    assert psutil.Process(view.driver.pid).ppid() == view.supervisor.pid
    assert view.supervisor.pid not in [child.pid for child in psutil.Process().children()]
    assert "fake driver is here" in jobs.store.folder.log("orders").read_text(encoding="utf-8")


def test_a_crashed_driver_is_started_again_and_the_crash_is_reported(jobs: Jobs) -> None:
    first = jobs.start("orders").driver
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: len(jobs.pids("orders")) == 2, SOON, "a second driver")
    until(lambda: jobs.view_of_job("orders").state is JobState.RUNNING, SOON, "it runs again")
    crash = next(event for event in jobs.store.events("orders") if event.event == "driver crashed")
    assert "killed by SIGKILL, cause unknown" in crash.text and "retrying 1, next in" in crash.text
    assert jobs.store.errors("orders")[0].code == "SIGKILL"


def test_a_retry_is_shown_as_the_reason_and_a_stop_does_not_wait_for_it(jobs: Jobs) -> None:
    jobs.start("orders", limits=replace(FAST, backoff_first=30.0))
    jobs.config("orders", "run")
    driver = jobs.view_of_job("orders").driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: "retrying 1, next in" in jobs.view_of_job("orders").reason, SOON, "the reason tells the retry")
    assert jobs.view_of_job("orders").state is JobState.RUNNING
    assert control.stop(jobs.store, "orders", Patience(5)).state is JobState.STOPPED


def test_an_unreachable_spark_cluster_is_waited_for_and_is_not_a_crash_loop(jobs: Jobs) -> None:
    driver = jobs.start("orders").driver
    assert driver is not None
    jobs.config("orders", "exit", code=13)
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: len(jobs.pids("orders")) > FAST.crashes, SOON, "more drivers than a crash loop has")
    view = jobs.view_of_job("orders")
    assert view.state is not JobState.FAILED and view.supervisor_alive
    assert "the Spark cluster provides no executor" in jobs.store.errors("orders")[0].message
    jobs.config("orders", "run")
    until(
        lambda: jobs.view_of_job("orders").driver_alive and jobs.view_of_job("orders").state is JobState.RUNNING,
        SOON,
        "it runs once the cluster is back",
    )


def test_a_crash_loop_is_held_after_five_crashes(jobs: Jobs) -> None:
    jobs.start("orders", "kill")
    view = until(lambda: _with(jobs, "orders", JobState.FAILED), SOON, "the crash loop is held")
    assert view is not None
    assert "5 crashes" in view.reason and "SIGKILL" in view.reason
    assert len(jobs.pids("orders")) == 5
    assert jobs.start("orders").state is JobState.RUNNING


@pytest.mark.parametrize(
    ("code", "state", "trouble"),
    [
        (0, JobState.STOPPED, ""),
        (2, JobState.FAILED, ""),
        (10, JobState.FAILED, ""),
        (11, JobState.STOPPED, "SUPERSEDED"),
        (12, JobState.STOPPED, ""),
    ],
)
def test_an_exit_code_of_the_contract_is_an_end_and_no_crash(
    jobs: Jobs, code: int, state: JobState, trouble: str
) -> None:
    jobs.start("orders", "exit", code=code)
    view = until(lambda: _stopped(jobs, "orders"), SOON, "the run is over")
    assert view is not None
    assert (view.state, view.trouble) == (state, trouble)
    assert len(jobs.pids("orders")) == 1
    run = jobs.store.runs("orders")[0]
    assert (run.exit_code, run.ended_at is not None) == (code, True)


def test_a_stop_is_graceful_where_the_driver_listens(jobs: Jobs) -> None:
    jobs.start("orders")
    view = control.stop(jobs.store, "orders", Patience(SOON))
    assert (view.state, view.reason, view.lives) == (JobState.STOPPED, "stopped as requested", False)
    assert jobs.store.runs("orders")[0].exit_code == 12
    assert "driver killed" not in jobs.told("orders")
    assert control.stop(jobs.store, "orders").state is JobState.STOPPED


def test_a_deaf_driver_and_its_child_in_another_session_are_killed_at_the_limit(jobs: Jobs) -> None:
    jobs.start("orders", "deaf", child=True)
    (child,) = until(lambda: jobs.pids("orders", "children"), SOON, "its child")
    left = processes.of(child)
    view = control.stop(jobs.store, "orders", Patience(SOON))
    assert view.state is JobState.STOPPED
    assert "driver killed" in jobs.told("orders")
    assert not processes.alive(left)


def test_left_overs_of_a_crashed_driver_end_before_the_next_one_starts(jobs: Jobs) -> None:
    jobs.start("orders", child=True)
    child = processes.of(until(lambda: jobs.pids("orders", "children"), SOON, "its child")[0])
    driver = jobs.view_of_job("orders").driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: len(jobs.pids("orders")) == 2, SOON, "a second driver")
    assert not processes.alive(child)
    told = jobs.told("orders")
    assert told.index("left-overs killed") < len(told) - 1 - told[::-1].index("driver started")


def test_a_second_start_is_refused_and_names_the_first(jobs: Jobs) -> None:
    first = jobs.start("orders").driver
    assert first is not None
    with pytest.raises(Refused, match=f"is already running: pid {first.pid}, since .*Z, host {first.host}"):
        jobs.start("orders")
    assert jobs.pids("orders") == [first.pid]


def test_of_two_starts_at_the_same_time_exactly_one_starts(jobs: Jobs) -> None:
    jobs.config("orders")
    command = [sys.executable, "-m", "tests.support.jobs", str(jobs.folder), "orders"]

    def run(_: int) -> str:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(run, range(2)))
    assert sorted(line.split()[0] for line in said) == ["refused", "started"]
    assert len(jobs.pids("orders")) == 1


def test_a_killed_supervisor_is_replaced_by_one_that_adopts_the_driver_and_can_stop_it(jobs: Jobs) -> None:
    driver = jobs.start("orders").driver
    killed = jobs.kill_supervisor("orders")
    until(lambda: jobs.view_of_job("orders").supervisor_alive, SOON, "another supervisor")
    view = jobs.view_of_job("orders")
    assert view.supervisor is not None and view.supervisor.pid != killed
    assert view.driver == driver and view.driver_alive
    until(lambda: jobs.told("orders").count("driver adopted") == 1, SOON, "the adoption is reported")
    assert control.stop(jobs.store, "orders", Patience(SOON)).state is JobState.STOPPED
    assert not processes.alive(driver)
    assert jobs.store.runs("orders")[0].exit_code == 12


def test_an_adopted_driver_that_crashes_is_started_again(jobs: Jobs) -> None:
    driver = jobs.start("orders").driver
    assert driver is not None
    jobs.kill_supervisor("orders")
    until(lambda: jobs.view_of_job("orders").supervisor_alive, SOON, "another supervisor")
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: len(jobs.pids("orders")) == 2, SOON, "a second driver")
    until(lambda: jobs.view_of_job("orders").state is JobState.RUNNING, SOON, "it runs again")


def test_stop_reaches_a_driver_whose_supervisor_is_gone_and_cannot_come_back(jobs: Jobs) -> None:
    driver = jobs.start("orders").driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGSTOP)
    jobs.kill_supervisor("orders")
    view = control.stop(jobs.store, "orders", Patience(SOON))
    assert (view.state, view.lives) == (JobState.STOPPED, False)


def test_where_both_have_exited_the_status_check_says_so_and_a_start_resumes(jobs: Jobs) -> None:
    driver = jobs.start("orders").driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGSTOP)
    jobs.kill_supervisor("orders")
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: not jobs.view_of_job("orders").lives, SOON, "both are gone")
    view = jobs.view_of_job("orders")
    assert (view.state, view.reason) == (JobState.DEAD, "no process found; possibly killed")
    assert "jobs start orders" in view.safe
    assert jobs.start("orders").state is JobState.RUNNING
    assert jobs.store.runs("orders")[1].outcome == "no process was found"


def test_of_two_jobs_side_by_side_the_one_that_is_not_stopped_lives(jobs: Jobs) -> None:
    stopped, kept = jobs.start("orders", "deaf", child=True), jobs.start("returns", child=True)
    child = processes.of(until(lambda: jobs.pids("returns", "children"), SOON, "its child")[0])
    assert control.stop(jobs.store, "orders", Patience(SOON)).state is JobState.STOPPED
    assert not processes.alive(stopped.driver)
    assert processes.alive(kept.driver) and processes.alive(kept.supervisor) and processes.alive(child)
    assert jobs.view_of_job("returns").state is JobState.RUNNING


def test_pause_and_resume_are_waited_for_until_seen(jobs: Jobs) -> None:
    jobs.start("orders")
    assert control.pause(jobs.store, "orders", Patience(SOON)).state is JobState.PAUSED
    assert control.resume(jobs.store, "orders", Patience(SOON)).state is JobState.RUNNING
    control.stop(jobs.store, "orders", Patience(SOON))
    with pytest.raises(Refused, match="no process"):
        control.pause(jobs.store, "orders")


def test_a_restart_gives_a_new_run_with_the_same_configuration(jobs: Jobs) -> None:
    first = jobs.start("orders")
    second = control.restart(jobs.store, "orders", launch=FAKE, patience=Patience(SOON))
    assert second.state is JobState.RUNNING
    assert second.run != first.run and second.config == first.config


def test_a_supervisor_that_is_asked_to_end_ends_its_driver_gracefully(jobs: Jobs) -> None:
    view = jobs.start("orders")
    assert view.supervisor is not None
    os.kill(view.supervisor.pid, signal.SIGTERM)
    until(lambda: _stopped(jobs, "orders"), SOON, "the run is over")
    assert jobs.store.runs("orders")[0].exit_code == 12
    assert "shutdown" in jobs.view_of_job("orders").reason


def test_a_supervisor_that_cannot_be_seen_but_holds_its_lock_refuses_a_start(jobs: Jobs) -> None:
    lock = jobs.store.folder.try_lock("orders", SUPERVISOR_LOCK)
    assert lock is not None
    with pytest.raises(Refused, match="is already running"):
        jobs.start("orders")
    lock.release()
    assert jobs.start("orders").state is JobState.RUNNING


def test_a_job_in_the_foreground_is_one_that_stop_reaches_from_elsewhere(jobs: Jobs) -> None:
    jobs.config("orders")
    command = [sys.executable, "-m", "tests.support.jobs", str(jobs.folder), "orders", "here"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as foreground:
        until(lambda: jobs.store.job("orders") is not None and jobs.view_of_job("orders").reported, 20, "the job runs")
        supervisor = jobs.view_of_job("orders").supervisor
        assert supervisor is not None and supervisor.pid == foreground.pid
        assert control.stop(jobs.store, "orders", Patience(SOON)).state is JobState.STOPPED
        said, _ = foreground.communicate(timeout=SOON)
    assert said == "ended STOPPED\n"


def test_the_death_of_the_shell_that_started_it_leaves_the_job_running(jobs: Jobs) -> None:
    jobs.config("orders")
    master, slave = pty.openpty()
    # A session leader that opens a terminal gets it as its own, and SIGHUP when the terminal goes away.
    script = f": < {os.ttyname(slave)}; {sys.executable} -m tests.support.jobs {jobs.folder} orders; exec sleep 600"
    shell = subprocess.Popen(
        # like a shell at a terminal, even if these tests run under nohup
        ["env", "--default-signal=HUP", "sh", "-c", script], cwd=ROOT, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    until(lambda: jobs.store.job("orders") is not None and jobs.view_of_job("orders").reported, 20, "the job runs")
    os.close(master)
    assert shell.wait(SOON) == -signal.SIGHUP
    view = jobs.view_of_job("orders")
    assert view.supervisor_alive and view.driver_alive
    seen = view.reported_at
    until(lambda: jobs.view_of_job("orders").reported_at != seen, SOON, "it continues reporting")


def _with(jobs: Jobs, job: str, state: JobState) -> JobStatus | None:
    view = jobs.view_of_job(job)
    return view if view.state is state else None


def _stopped(jobs: Jobs, job: str) -> JobStatus | None:
    view = jobs.view_of_job(job)
    return view if not view.state.has_process and view.ended_at is not None else None


def test_a_supervisor_in_our_own_process_leaves_it_its_umask(jobs: Jobs) -> None:
    jobs.config("orders", "exit", code=10)
    code = (
        "import os, sys\n"
        "os.umask(0o027)\n"
        "from tests.support import jobs\n"
        f"sys.argv = ['jobs', {str(jobs.folder)!r}, 'orders', 'here']\n"
        "jobs.main()\n"
        "print(oct(os.umask(0)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout.splitlines() == ["ended FAILED", "0o27"], ran
