"""`jobs ensure` restarts, once, DEAD jobs whose desired state is running, on real supervisors with FAKE drivers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Ensured, Patience, ensure, restarted
from slotkeeper.core.launch.launch import FOREGROUND, TAKE_OVER, Launch
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from tests.support.jobs import FAKE, SOON, Jobs
from tests.support.waiting import until


def killed(jobs: Jobs, *names: str) -> None:
    """Supervisor and driver exit at once, as at a power cut: neither can start the other."""
    for name in names:
        driver = jobs.view_of_job(name).driver
        assert driver is not None
        os.kill(driver.pid, signal.SIGSTOP)
        jobs.kill_supervisor(name)
        os.kill(driver.pid, signal.SIGKILL)
    until(lambda: not any(jobs.view_of_job(name).lives for name in names), SOON, "all are gone")


def ensured(jobs: Jobs) -> dict[str, Ensured]:
    return {one.job: one.what for one in ensure(jobs.store)}


def running(jobs: Jobs, name: str) -> None:
    until(lambda: jobs.view_of_job(name).reported, SOON, f"{name} has reported")
    assert jobs.view_of_job(name).state is JobState.RUNNING


def test_what_was_killed_is_dead_and_comes_back_and_what_was_paused_or_stopped_stays(jobs: Jobs) -> None:
    for name in ("orders", "returns", "paused", "stopped"):
        jobs.start(name)
    control.pause(jobs.store, "paused", Patience(SOON))
    control.stop(jobs.store, "stopped", Patience(SOON))
    killed(jobs, "orders", "returns", "paused")
    assert [jobs.view_of_job(name).state.value for name in ("orders", "paused", "stopped")] == [
        "DEAD", "DEAD", "STOPPED",
    ]  # fmt: skip

    assert ensured(jobs) == {
        "orders": Ensured.STARTED,
        "returns": Ensured.STARTED,
        "paused": Ensured.STAYS,
        "stopped": Ensured.STAYS,
    }

    running(jobs, "orders")
    running(jobs, "returns")
    assert ensured(jobs)["orders"] is Ensured.LIVES
    assert not jobs.view_of_job("paused").lives and not jobs.view_of_job("stopped").lives
    assert len(jobs.pids("orders")) == 2


def test_of_two_at_once_one_starts_a_job(jobs: Jobs) -> None:
    jobs.start("orders")
    killed(jobs, "orders")
    command = [sys.executable, "-m", "slotkeeper.console.__main__", "jobs", "ensure", "--json"]
    both = [
        subprocess.Popen([*command, "--state-dir", str(jobs.folder / "state")], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = sorted(json.loads(one.communicate(timeout=SOON)[0])[0]["outcome"] for one in both)

    assert [one.returncode for one in both] == [0, 0]
    assert found == ["lives", "started"]
    running(jobs, "orders")
    assert len(jobs.pids("orders")) == 2, "one driver before and one after"


def test_a_job_that_another_start_is_just_beginning_lives(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.start("orders")
    killed(jobs, "orders")
    jobs.store.end_run(jobs.view_of_job("orders").run, None, "ends here")
    jobs.store.set_state("orders", JobState.STOPPED, "", "", "")

    def begun(*_: object) -> AbstractContextManager[None]:
        """The other start holds the lock until its supervisor is running."""
        monkeypatch.undo()
        jobs.start("orders")
        return nullcontext()

    monkeypatch.setattr(StateFolder, "locked", begun)
    assert ensured(jobs) == {"orders": Ensured.LIVES}


@pytest.mark.parametrize("what", ["stop", *(pytest.param(one, marks=pytest.mark.chaos) for one in ("pause", "fail"))])
def test_what_is_stopped_paused_or_has_failed_between_the_look_and_the_start_stays(jobs: Jobs, what: str) -> None:
    jobs.start("orders")
    killed(jobs, "orders")

    def late(view: JobStatus) -> JobStatus:
        if what == "stop":
            control.stop(jobs.store, "orders", Patience(SOON))
        elif what == "pause":
            jobs.store.set_wanted("orders", WantedState.PAUSE)
        else:
            jobs.store.set_state("orders", JobState.FAILED, "it needs a person")
        return restarted(jobs.store, view)

    before = jobs.view_of_job("orders").run
    (outcome,) = ensure(jobs.store, late)
    assert outcome.what is Ensured.STAYS and "already" in outcome.why
    assert jobs.view_of_job("orders").run == before and not jobs.view_of_job("orders").lives


def test_a_job_whose_desired_state_is_stopped_is_not_started_by_another_command(jobs: Jobs) -> None:
    jobs.store.register_job("orders", "c.toml")
    assert not jobs.store.begin_run("orders", "r1", unasked=True)
    assert jobs.view_of_job("orders").run == "" and jobs.store.begin_run("orders", "r1")


def test_a_stopped_supervisor_is_slow_and_not_gone(jobs: Jobs) -> None:
    jobs.start("orders")
    supervisor = jobs.view_of_job("orders").supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        assert ensured(jobs) == {"orders": Ensured.LIVES}
        assert len(jobs.pids("orders")) == 1
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)


def test_a_failed_job_needs_a_person_and_a_foreground_run_its_own_service(jobs: Jobs) -> None:
    jobs.start("failed", "exit", code=10)
    until(lambda: jobs.view_of_job("failed").state is JobState.FAILED, SOON, "it has failed")
    jobs.start("orders")
    killed(jobs, "orders")
    run = jobs.store.run(jobs.view_of_job("orders").run)
    assert run is not None
    kept = Launch.parse(run.launch)
    jobs.store.end_run(run.run, None, "ends here")
    jobs.store.set_state("orders", JobState.STOPPED, "", "", "")
    jobs.store.begin_run("orders", "another", replace(kept, extra=(FOREGROUND,)).text)

    assert ensured(jobs) == {"failed": Ensured.STAYS, "orders": Ensured.STAYS}


def test_a_take_over_of_then_is_none_of_now(jobs: Jobs) -> None:
    control.start(jobs.store, "orders", str(jobs.config("orders")), FAKE, take_over=True, patience=Patience(SOON))
    killed(jobs, "orders")
    ensure(jobs.store)
    run = jobs.store.run(jobs.view_of_job("orders").run)

    assert run is not None and TAKE_OVER not in Launch.parse(run.launch).extra
    running(jobs, "orders")


def test_the_command_says_what_it_did_and_writes_it_down(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.start("orders")
    killed(jobs, "orders")
    where = ["--state-dir", str(jobs.folder / "state")]

    assert main(["jobs", "ensure", *where, "--reason", "the machine came back"]) == 0
    assert "started" in capsys.readouterr().out
    lines = Audit(jobs.store.folder).read(10).lines
    assert [(line.action, line.reason) for line in lines][-1:] == [("jobs ensure", "the machine came back")]
    driver = until(lambda: jobs.view_of_job("orders").driver, SOON, "its driver")
    assert processes.alive(driver)


def test_a_stop_of_a_failed_job_is_fine_and_of_a_dead_one_notes_its_end(
    jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.start("failed", "exit", code=10)
    until(lambda: jobs.view_of_job("failed").state is JobState.FAILED, SOON, "it has failed")
    jobs.start("orders")
    killed(jobs, "orders")
    where = ["--state-dir", str(jobs.folder / "state")]

    assert main(["jobs", "stop", "failed", *where]) == 0
    assert "failed: FAILED" in capsys.readouterr().out
    assert main(["jobs", "stop", "orders", *where]) == 0
    assert jobs.view_of_job("orders").state is JobState.STOPPED
    assert ensured(jobs) == {"failed": Ensured.STAYS, "orders": Ensured.STAYS}


@pytest.mark.parametrize("module", ["core.spark.job", "slotkeeper.core.spark.job"])
def test_a_job_whose_recorded_interpreter_is_gone_is_started_with_the_one_that_starts_it(
    jobs: Jobs, module: str
) -> None:
    jobs.start("orders")
    killed(jobs, "orders")
    run = jobs.view_of_job("orders").run
    command = ["/opt/slotkeeper-that-was/bin/python", "-P", "-m", module]
    launch = json.dumps({**json.loads(FAKE.text), "command": command})
    with jobs.store.write() as sql:  # as versions before recorded it
        sql.execute("UPDATE runs SET launch = ? WHERE run = ?", (launch, run))

    assert ensured(jobs) == {"orders": Ensured.STARTED}

    until(lambda: jobs.view_of_job("orders").state is JobState.FAILED, SOON, "the driver has read its configuration")
    log = jobs.store.folder.log("orders").read_text()
    assert "driver started" in jobs.told("orders")
    assert "slotkeeper-that-was" not in log and "No such file" not in log
    assert "orders.json" in jobs.view_of_job("orders").reason + log, (
        "the driver ran, and rejects a file that is not TOML"
    )
