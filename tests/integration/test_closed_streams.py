"""The caller of a command may have closed its streams: the command prints what it can, and its exit code is correct."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.core.state.sqlite import Store


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_exit_code_is_true_with_streams_that_were_closed(tmp_path: Path, closed: str) -> None:
    Store.open(tmp_path / "state").close()
    words = f"exec {sys.executable} -m slotkeeper.console status --exit-code --state-dir {tmp_path}"
    found = subprocess.run(["/bin/sh", "-c", f"{words}/state {closed}"], capture_output=True, check=False, timeout=60)
    unjudged = subprocess.run(
        ["/bin/sh", "-c", f"{words}/absent --nonsense {closed}"], capture_output=True, check=False, timeout=60
    )
    assert (found.returncode, unjudged.returncode) == (0, 3)
    assert b"Traceback" not in found.stderr + unjudged.stderr
