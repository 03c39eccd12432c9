"""Scripts call `jobs list --json` every few seconds: its processor time, compared with that of its libraries alone."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.core.state.sqlite import Store
from tests.unit.console.test_completion import CONFIG, JOB

MOST = 3.0
"""The limit, as a multiple of the processor time that importing typer, psycopg2 and sqlite3 takes."""
ROUNDS = 7
LIBRARIES = [sys.executable, "-c", "import typer, psycopg2, sqlite3"]
LISTED = [sys.executable, "-m", "slotkeeper.console", "jobs", "list", "--json"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A configuration with one job that was started once, and a folder for compiled modules, as in an installation. For
    a job that was never started, the store would be queried whether a DataFrame query reads its slot."""
    (tmp_path / "config.toml").write_text(CONFIG + JOB.format(name="orders_rt", table="ods.orders"))
    with closing(Store.open(tmp_path / "state")) as store:
        store.register_job("orders_rt", str(tmp_path / "config.toml"))
        store.begin_run("orders_rt", "run-1")
        store.end_run("run-1", 0, "ended")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    places = {"CONFIG": tmp_path / "config.toml", "STATE_DIR": tmp_path / "state"}
    return (
        kept
        | {f"SLOTKEEPER_{name}": str(path) for name, path in places.items()}
        | {"PYTHONPYCACHEPREFIX": str(tmp_path / "pyc")}
    )


def spent(words: list[str], env: dict[str, str]) -> float:
    """The processor time of a program, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_listing_jobs_costs_no_more_than_three_times_its_libraries(env: dict[str, str]) -> None:
    for words in (LIBRARIES, LISTED):
        spent(words, env)  # compiles
    ratios = [spent(LISTED, env) / spent(LIBRARIES, env) for _ in range(ROUNDS)]
    print(f"jobs list --json beside its libraries: {statistics.median(ratios):.2f}")
    assert statistics.median(ratios) <= MOST, ratios


def test_listing_jobs_loads_nothing_that_it_does_not_need(env: dict[str, str]) -> None:
    heavy = "{'psycopg2', 'pydantic', 'pyspark', 'rich', 'textual',"
    heavy += " 'slotkeeper.core.launch.supervisor', 'slotkeeper.core.domain.reset'}"
    asking = "import sys, slotkeeper.console.__main__ as m; m.main(['jobs', 'list', '--json']);"
    asking += f" sys.exit(str({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", asking], env=env, check=False, capture_output=True, text=True)
    assert ended.stderr.strip() == "set()"
