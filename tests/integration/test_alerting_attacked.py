"""What is told of a job whose supervisor can tell nothing itself: real supervisors, FAKE drivers and a FAKE pager."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from tests.support.jobs import FAST, SOON, Jobs
from tests.support.pager import Pager
from tests.support.waiting import until

OFTEN = replace(FAST, frame_every=0.2, alerts_every=0.2)


def test_a_job_whose_supervisor_was_stopped_by_a_signal_is_told_by_the_supervisor_of_another(
    jobs: Jobs, tmp_path: Path
) -> None:
    pager = Pager(tmp_path / "pager")
    alerts = f'command = "{pager.command}"\ncommand_timeout = "20s"'
    for name in ("orders", "stock"):
        jobs.start(name, limits=OFTEN, alerts=alerts)
    supervisor = jobs.view_of_job("orders").supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGSTOP)
    try:
        until(lambda: pager.kinds("process_stopped") == ["fired"], SOON, "the stopped supervisor is told")
        assert [one["fault"]["job"] for one in pager.told() if one["fault"]["rule"] == "process_stopped"] == ["orders"]
    finally:
        os.kill(supervisor.pid, signal.SIGCONT)
    until(lambda: pager.kinds("process_stopped") == ["fired", "cleared"], SOON, "its end is told")
