"""Tests of Ctrl-C pass however the suite is started, even as a background job, where SIGINT is ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STARTED = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from tests import conftest
conftest.hear_interrupts()
asked = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
subprocess.run([sys.executable, "-c", asked], check=True)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""


def test_a_suite_that_is_started_where_sigint_is_ignored_hears_it_and_so_do_its_children() -> None:
    ran = subprocess.run([sys.executable, "-c", _STARTED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout == "True\nheard\n", ran.stderr
