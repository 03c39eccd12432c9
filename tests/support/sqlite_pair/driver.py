"""Slotkeeper's driver for jobs of the second pair: `driver.py local|spark`, then the supervisor's arguments.

Everything is real except the kinds, which are added to the registries first, and, on request, Spark, which is replaced
by threads. A test can set the
seconds between two lists of a source's tables.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # a program's own folder is on its path, not the one above tests

from slotkeeper.core.engine.driver import tables
from slotkeeper.core.engine.driver.context import WorkerEntries
from slotkeeper.core.engine.tasks import LocalRunner
from slotkeeper.core.spark import job
from tests.support.sqlite_pair import entries


class Local(LocalRunner):
    """Threads instead of Spark."""

    lost = False


def main() -> int:
    runs_on = sys.argv.pop(1)
    entries.register()
    vars(tables)["LIST_EVERY"] = float(os.environ.get("SLOTKEEPER_TEST_LIST_EVERY", tables.LIST_EVERY))
    vars(job)["ENTRIES"] = WorkerEntries(entries.stream, entries.copy)
    if runs_on == "local":
        vars(job)["open_runner"] = lambda *_: Local(2)
    return job.main()


if __name__ == "__main__":
    job.leave(main())
