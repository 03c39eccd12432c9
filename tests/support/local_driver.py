"""The driver of `slotkeeper.core.spark.job` with threads where Spark would be: a real supervised job, for tests.

Everything else is the product's: reports, wanted states, exit codes, the watchman. `LOCAL` is how a supervisor starts
it; `step_paths` says what a test may ask of its steps by the environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program's own folder is on its path, not the one above tests

from slotkeeper.core.engine.driver import start
from slotkeeper.core.engine.runners import LocalRunner
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.spark import job
from tests.support import step_paths

LOCAL = Launch(command=(sys.executable, str(Path(__file__))))
LEASE_WAIT = 3.0
"""Seconds that a start waits for a lease that somebody has, in place of 30."""


class Local(LocalRunner):
    """What the driver asks of Spark beside running tasks."""

    lost = False

    def end_by(self, at: float) -> None:
        """Nothing is waited for anyway."""


def main() -> int:
    """Run the job as the product does."""
    vars(start)["LEASE_WAIT"] = LEASE_WAIT
    vars(job)["open_runner"] = lambda *_: Local(4)
    step_paths.obey(os.environ)
    return job.main()


if __name__ == "__main__":
    job.leave(main())
