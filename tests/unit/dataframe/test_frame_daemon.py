"""What Spark's Pythons are forked with where a session names our daemon, and what each of them loads without it.

Next door: `tests/unit/test_worker_preload.py` is the same for a job's workers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from core.dataframe.daemon import MODULES
from core.dataframe.writer.source import COMMITTING

_PRELOAD = """
import json, os, sys
from core.dataframe import daemon
before = len(os.listdir("/proc/self/fd"))
daemon.preload()
opened = len(os.listdir("/proc/self/fd")) - before
print(json.dumps([len(os.listdir("/proc/self/task")), opened, sorted(sys.modules)]))
"""
_LOADS = "import json, sys; import core.dataframe.writer.source; print(json.dumps([0, 0, sorted(sys.modules)]))"


def ran(program: str) -> tuple[int, int, list[str]]:
    """Threads, descriptors opened, and modules of a process that runs this."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    threads, opened, names = json.loads(done.stdout)
    return threads, opened, names


def test_all_that_is_forked_is_loaded_and_nothing_that_a_fork_would_harm() -> None:
    threads, opened, names = ran(_PRELOAD)
    assert (threads, opened) == (1, 0)
    assert {*MODULES, "core.sources.dws.kind", "core.sinks.postgres.kind"} <= set(names)
    assert COMMITTING not in names, "by this module a writer knows that it is made anew behind a batch"


def test_a_process_that_begins_or_commits_a_batch_loads_neither_arrow_nor_pandas_nor_a_jobs_engine() -> None:
    _, _, names = ran(_LOADS)
    assert not {"pyarrow", "pandas", "numpy", "core.engine.driver.loop", "core.dataframe.reader.query"} & set(names)
