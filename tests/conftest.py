"""What every test sees: the fixtures of `tests.support`, and a printed seed, so that a failure can be repeated.

`make test` runs in several processes (pytest-xdist), a file's tests in one of them.
"""

from __future__ import annotations

import gc
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.report import FOLDER_VARIABLE

pytest_plugins = [
    "tests.support.standin",
    "tests.support.maria",
    "tests.support.mirror",
    "tests.support.pairs",
    "tests.support.sqlite_pair.pair",
    "tests.support.hologres",
    "tests.support.promised",
    "tests.support.pooler",
]

settings.register_profile("slotkeeper", deadline=None, print_blob=True)  # a busy machine is no failure
settings.load_profile("slotkeeper")
SEED_VARIABLE = "SLOTKEEPER_TEST_SEED"
FAST = {"architecture", "unit", "contract", "property", "net"}
"""The folders of the tests of `make check`; ``make test` leaves out those that have passed since the last change."""
_SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 1_000_000))


def pytest_configure(config: pytest.Config) -> None:
    """The pages of docs/reports are those of chaos runs: a run without them keeps its own out of the tree."""
    hear_interrupts()
    if config.option.markexpr.startswith("not chaos"):
        os.environ.setdefault(FOLDER_VARIABLE, str(Path(__file__).parents[1] / ".cache" / "reports"))


def hear_interrupts() -> None:
    """SIGINT is heard, although whoever started us may ignore it, as a script does for its background jobs and many CI
    runners do; children inherit that, and tests on Ctrl-C are about programs that somebody started from a prompt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"slotkeeper: seed {_SEED} (set {SEED_VARIABLE} to repeat it)"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = _SEED


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark fast tests; files with Spark start first in a run of several processes: they are the longest."""
    folder = Path(__file__).parent
    for item in items:
        is_slow = any(item.get_closest_marker(name) for name in ("spark", "slow", "chaos"))
        if not is_slow and any(item.path.is_relative_to(folder / name) for name in FAST):
            item.add_marker(pytest.mark.fast)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("spark") is None)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: no later collection of garbage goes through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    return int(getattr(pytestconfig, "workerinput", {}).get("seed", _SEED))


@pytest.fixture(scope="session")
def spark_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A home's cache folder, empty at first, of all processes of a run: a class archive takes ten seconds to make."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(pytestconfig, "workerinput") else base) / "cache"
    folder.mkdir(exist_ok=True)
    return folder
