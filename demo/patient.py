"""Runs a program to its end for as long as it makes progress: a busy host may need minutes for what takes a second.

`slotkeeper.core.domain.elapsed` has the limit.
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
"""CPU seconds that count as progress: such programs are not idle."""


def run(
    command: Sequence[str], given: str | None = None, env: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run it with `given` as its input; its output is text. Raises Unreachable after ten minutes without progress."""
    with tempfile.TemporaryFile() as file:  # no pipe: `communicate` takes no input again after a timeout
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
                        raise Unreachable(why, "check the load of this host") from None
        except BaseException:
            child.kill()
            raise


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its descendants, those that have ended among them."""
    total = 0.0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            times = one.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    except psutil.Error:
        pass
    return total
