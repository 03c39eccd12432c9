"""The modules that Spark's Python processes load: Spark starts two in each batch of a query that writes, and each of
them imports these modules again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def loaded_by(name: str) -> set[str]:
    """The modules of a process after it has imported this one."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    program = f"import json, sys; import {name}; print(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    return set(json.loads(done.stdout))


def test_a_process_that_begins_or_commits_a_batch_loads_neither_arrow_nor_pandas_nor_a_reader() -> None:
    found = loaded_by("slotkeeper.core.dataframe.writer.source")
    assert (
        not {
            "pyarrow",
            "pandas",
            "numpy",
            "slotkeeper.core.engine.driver.loop",
            "slotkeeper.core.dataframe.reader.query",
        }
        & found
    )


def test_a_process_that_only_hands_a_reader_on_loads_neither_pandas_nor_a_job_s_driver() -> None:
    found = loaded_by("slotkeeper.core.dataframe.reader.source")
    assert not {"pandas", "slotkeeper.core.engine.driver.start", "slotkeeper.core.dataframe.reader.batch"} & found
