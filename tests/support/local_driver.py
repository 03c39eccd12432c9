"""The product's driver with threads where Spark would be; nothing else of it is a fake.

Started by a real supervisor: `LOCAL` says how. Next door: `tests.support.mirrored` has the jobs.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program's own folder is on its path, not the one above tests

from core.engine.local_runner import LocalRunner
from core.launch.launch import Launch
from core.spark import job

LOCAL = Launch(command=(sys.executable, str(Path(__file__))))
"""A supervisor that starts this driver."""


class Local(LocalRunner):
    """Threads where Spark would be."""

    lost = False


def main() -> int:
    """Run the job as the product does."""
    vars(job)["open_runner"] = lambda *_: Local(4)
    return job.main()


if __name__ == "__main__":
    job.leave(main())
