"""Runs a program to its end as long as it makes progress: a busy host can need minutes for one second of work.

`slotkeeper.core.domain.elapsed` defines the limit.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from slotkeeper.core.config import handover
from slotkeeper.core.domain.elapsed import Progress, Signs
from slotkeeper.core.errors import Unreachable

_SAMPLE_SECONDS = 2.0
_STEP = 0.02
"""CPU seconds that count as progress: a program that progresses uses CPU."""


def run(
    command: Sequence[str], given: str | None = None, env: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command with `given` as its input; its output is text. Raises Unreachable after ten minutes
    without progress.
    """
    with tempfile.TemporaryFile() as file:  # not a pipe: `communicate` accepts no input again after a timeout
        file.write((given or "").encode())
        file.seek(0)
        child = subprocess.Popen(
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=handover.environment() if env is None else env,
            **more,
        )
    name, wait = Path(command[0]).name, Progress(time.monotonic())
    with child:
        try:
            while True:
                try:
                    out, errors = child.communicate(timeout=_SAMPLE_SECONDS)
                    return subprocess.CompletedProcess(command, child.returncode, out, errors)
                except subprocess.TimeoutExpired:
                    now = time.monotonic()
                    wait.see(Signs(name, round(cpu_seconds(child.pid) / _STEP)), now)
                    if why := wait.stalled(now):
                        raise Unreachable(why, "check the load on this host") from None
        except BaseException:
            child.kill()
            raise


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, including those that have ended."""
    total = 0.0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    except psutil.Error:
        pass
    return total
