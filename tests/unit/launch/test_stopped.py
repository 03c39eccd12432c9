"""A process that was stopped by a signal still exists, but does nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from slotkeeper.core.launch import identity as processes
from tests.support.waiting import until


def test_a_process_that_a_signal_has_stopped_runs_and_is_known_as_stopped_until_it_continues() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = processes.of(child.pid)
        assert not processes.stopped(found) and not processes.stopped(None)
        os.kill(child.pid, signal.SIGSTOP)
        until(lambda: processes.stopped(found), 5, "it is stopped")
        assert processes.alive(found)
        os.kill(child.pid, signal.SIGCONT)
        until(lambda: not processes.stopped(found), 5, "it to continue")
        child.kill()
    assert not processes.stopped(found)
