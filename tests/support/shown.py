"""Calls `jobs show` of one job repeatedly, in a separate process: its output, and the seconds of each call.

    python -m tests.support.shown CONFIG JOB

Each line on standard input is one call. The seconds are those of the command in this process, without the interpreter's
start and the imports, which the first call makes before it is measured.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.terminal import ROOT


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer; `at` and `done` are the monotonic times before and after the call."""

    at: float
    done: float
    seconds: float
    cpu_seconds: float
    code: int
    said: str
    job: dict[str, Any]

    @property
    def state(self) -> str:
        return str(self.job.get("state"))

    @property
    def why(self) -> str:
        """Return the first reason in it: the job's, a table's, a lane's, a condition's; "" if there is none."""
        report = self.job.get("report") or {}
        given = [self.job.get("reason")]
        given += [one.get("reason") for one in [*(self.job.get("tables") or ()), *(report.get("tables") or ())]]
        given += [f"{one['retry']} {one['error']}".strip() for one in report.get("lanes", ())]
        given += [json.dumps(one) for one in report.get("conditions", ())]
        return next((str(one) for one in given if one), "" if self.code == 0 else self.said.strip())


class Looking:
    """The process; `look` makes another call."""

    def __init__(self, config: Path, job: str) -> None:
        words = [sys.executable, "-m", "tests.support.shown", str(config), job]
        self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def look(self) -> Shown:
        """The current output of `jobs show`."""
        assert self._child.stdin is not None and self._child.stdout is not None
        began = time.monotonic()
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        job = json.loads(answer["said"]) if answer["code"] == 0 else {}
        return Shown(began, time.monotonic(), answer["seconds"], answer["cpu"], answer["code"], answer["said"], job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._child.communicate(timeout=60)


def main(config: str, job: str) -> None:
    from slotkeeper.console.__main__ import main as product

    def called() -> dict[str, object]:
        said, began, cpu = io.StringIO(), time.monotonic(), time.process_time()
        with redirect_stdout(said), redirect_stderr(said):
            code = product(["jobs", "show", job, "--json", "--config", config])
        took = {"seconds": time.monotonic() - began, "cpu": time.process_time() - cpu}
        return {**took, "code": int(code or 0), "said": said.getvalue()}

    called()
    for _ in sys.stdin:
        print(json.dumps(called()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
