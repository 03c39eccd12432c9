"""`slotkeeper` as a chaos run types it: the real command, with jobs on the runner that the run chose.

`SLOTKEEPER_CHAOS_RUNNER` is `spark`, or `local` for tasks in threads. A run that kills drivers for half an hour would
reach the limit of a crash loop, so that limit is raised; everything else is the product's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from slotkeeper.core.config import handover
from slotkeeper.core.launch import control
from slotkeeper.core.launch.launch import Launch, Limits
from tests.support.local_driver import LOCAL
from tests.support.terminal import ROOT

RUNNER = "SLOTKEEPER_CHAOS_RUNNER"
MANY_CRASHES = 1_000_000


def launch(runner: str) -> Launch:
    limits = Limits(crashes=MANY_CRASHES)
    return Launch(limits=limits) if runner == "spark" else replace(LOCAL, limits=limits)


def begun(runner: str, config: Path, *words: str) -> subprocess.Popen[str]:
    """A command as a user starts it, its output in one pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.storm.cli", *words, "--config", str(config)],
        cwd=ROOT,
        env={**handover.environment(), RUNNER: runner},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class _Chosen:
    """Replaces `Launch` when a command chooses one."""

    parse = Launch.parse

    def __new__(cls) -> Launch:  # type: ignore[misc]
        return launch(os.environ[RUNNER])


def main() -> int:
    vars(control)["Launch"] = _Chosen
    from slotkeeper.console.__main__ import main as product

    return int(product() or 0)


if __name__ == "__main__":
    sys.exit(main())
