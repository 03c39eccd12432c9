"""A program that starts a server may run as long as it makes progress, and is killed ten minutes after the last
progress."""

from __future__ import annotations

import os
import sys
import time

import pytest

from slotkeeper.core.domain import elapsed
from slotkeeper.core.errors import Unreachable
from slotkeeper.demo import patient


def test_what_a_program_says_and_how_it_ends_come_back() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(3)"
    ran = patient.run([sys.executable, "-c", code], "given")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "GIVEN\n", "e\n")


def test_one_that_reads_its_input_late_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "_SAMPLE_SECONDS", 0.1)
    code = "import sys, threading; threading.Event().wait(0.5); print(len(sys.stdin.read()))"
    assert patient.run([sys.executable, "-c", code], "x" * 200_000).stdout == "200000\n"


def test_one_that_makes_no_progress_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient, "_SAMPLE_SECONDS", 0.2)
    monkeypatch.setattr(patient, "Progress", lambda now: elapsed.Progress(now, limit=1.0))
    with pytest.raises(Unreachable, match="no progress for 1 s while waiting for python"):
        patient.run([sys.executable, "-c", "import threading; threading.Event().wait()"])


def test_cpu_time_is_that_of_the_process_itself_and_grows_as_it_computes() -> None:
    before, end = patient.cpu_seconds(os.getpid()), time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert patient.cpu_seconds(os.getpid()) - before >= 0.05
    assert patient.cpu_seconds(2**22 + 1) == 0.0, "a process that has exited"
