"""Reports of a job whose own supervisor can report nothing: real supervisors, FAKE drivers and a FAKE pager."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.alerts import AlertFile
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.pager import Pager
from tests.support.waiting import until

OFTEN = replace(FAST, frame_every=0.2, alerts_every=0.2)


def test_a_job_whose_supervisor_was_stopped_by_a_signal_is_reported_by_the_supervisor_of_another(
    jobs: Jobs, tmp_path: Path
) -> None:
    pager = Pager(tmp_path / "pager")
    alerts = f'command = "{pager.command}"\ncommand_timeout = "20s"'
    for name in ("orders", "stock"):
        jobs.start(name, limits=OFTEN, alerts=alerts)
    supervisor = jobs.view_of_job("orders").supervisor
    assert supervisor is not None
    file = AlertFile(jobs.store.folder)
    locks = [until(take, SOON, "no process evaluates or sends") for take in (file.try_lock, file.try_sender)]
    os.kill(supervisor.pid, signal.SIGSTOP)
    until(lambda: processes.stopped(supervisor), SOON, "it is stopped, with neither lock")
    for lock in locks:
        lock.release()
    try:
        until(lambda: pager.kinds("process_stopped") == ["fired"], SOON, "the stopped supervisor is reported")
        assert [one["fault"]["job"] for one in pager.told() if one["fault"]["rule"] == "process_stopped"] == ["orders"]
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)
    until(lambda: pager.kinds("process_stopped") == ["fired", "cleared"], SOON, "its end is reported")


HOLDS = """
import os, sys, time
from pathlib import Path
from slotkeeper.core.launch import identity
from slotkeeper.core.state.alerts import AlertFile
from slotkeeper.core.state.folder import StateFolder

file = AlertFile(StateFolder.open(Path(sys.argv[1])), by=identity.of(os.getpid(), sys.argv[2]))
assert file.try_lock(30.0) is not None
print("holds", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("ended_by", [signal.SIGCONT, signal.SIGKILL])
def test_who_is_stopped_while_it_evaluates_alerts_is_reported_by_all_others(
    jobs: Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str], ended_by: int
) -> None:
    pager = Pager(tmp_path / "pager")
    run = jobs.start("orders", limits=OFTEN, alerts=f'command = "{pager.command}"\ncommand_timeout = "20s"').run
    folder = jobs.store.folder
    code = HOLDS if ended_by == signal.SIGKILL else HOLDS.replace("time.sleep(600)", "time.sleep(0.1)")
    with subprocess.Popen([sys.executable, "-c", code, folder.path, run], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "holds\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            assert main(["status", "--state-dir", str(folder.path)]) == 0
            assert "alerts" not in capsys.readouterr().out, "an evaluation that has just begun is not stuck"
            until(lambda: pager.kinds("alerts_stuck") == ["fired"], SOON, "it is reported by another supervisor")
            assert main(["alerts", "list", "--json", "--state-dir", str(folder.path)]) == 0
            (one,) = json.loads(capsys.readouterr().out)["alerts"]
        finally:
            os.kill(holder.pid, ended_by)
    why = f"the supervisor of job orders (pid {holder.pid}) is stopped by a signal (SIGSTOP) or a debugger"
    assert one["fault"]["cause"] == f"{why} while it evaluates alerts"
    assert one["fault"]["do"].startswith(f"`kill -CONT {holder.pid}`") and one["sent_at"] is not None
    until(lambda: pager.kinds("alerts_stuck") == ["fired", "cleared"], SOON, "its end is reported")
