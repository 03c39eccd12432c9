"""Spark's workers are forked with a job's kinds, loaded by a process that opens nothing and starts no thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.spark.settings import spark_settings
from slotkeeper.core.spark.task import KINDS

_PROGRAM = """
import json, os, sys, threading
from slotkeeper.core.spark import daemon
before = len(os.listdir("/proc/self/fd"))
daemon.preload(sys.argv[1])
opened = len(os.listdir("/proc/self/fd")) - before
print(json.dumps([threading.active_count(), opened, sorted(name for name in sys.modules if name.endswith(".kind"))]))
"""


def loaded(kinds: str) -> tuple[int, int, list[str]]:
    """Threads, opened descriptors, and modules of kinds, in a process that has loaded these kinds."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-P", "-c", _PROGRAM, kinds]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=env)
    threads, opened, names = json.loads(ran.stdout)
    return threads, opened, names


def test_a_process_that_forks_workers_loads_a_jobs_kinds_alone_and_nothing_that_a_fork_would_harm() -> None:
    assert loaded("dws postgres") == (1, 0, ["slotkeeper.core.sinks.postgres.kind", "slotkeeper.core.sources.dws.kind"])


def test_every_kind_can_be_loaded_before_a_fork() -> None:
    for source, sink in zip_longest(sources.KINDS, sinks.KINDS, fillvalue="dws"):
        threads, opened, modules = loaded(f"{source} {sink}")
        assert (threads, opened) == (1, 0), f"{source} {sink}"
        assert {sources.KINDS[source][0], sinks.KINDS[sink][0]} <= set(modules)


def test_what_cannot_be_loaded_is_left_to_the_task_that_needs_it() -> None:
    assert loaded("absent nothing") == (1, 0, [])


@pytest.mark.parametrize("master", ["local[2]", "spark://somewhere:7077"])
def test_workers_get_the_kinds_and_a_job_that_names_another_daemon_gets_it(tmp_path: Path, master: str) -> None:
    own = SparkOptions(master, settings=(("spark.python.daemon.module", "of.theirs"),))
    found = spark_settings(own, tmp_path, None, (), "package.zip", ("dws", "doris"))
    assert found[f"spark.executorEnv.{KINDS}"] == "dws doris"
    assert found["spark.python.daemon.module"] == "of.theirs"
