"""Shared by all tests: the fixtures of `tests.support`, and a printed seed to repeat a failure with.

`make test` runs several processes (pytest-xdist); all tests of a file run in the same process.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.memory import memory_disk
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
    "tests.support.virtual",
    "tests.support.views",
    "tests.support.sides",
]

settings.register_profile("slotkeeper", deadline=None, print_blob=True)  # a busy host must not fail a test
settings.load_profile("slotkeeper")
SEED_VARIABLE = "SLOTKEEPER_TEST_SEED"
FAST = {"architecture", "unit", "contract", "property", "net"}
"""The folders of the tests of `make check`; `make test` skips those that have passed since the last change."""
_SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 1_000_000))


def pytest_configure(config: pytest.Config) -> None:
    """`reports/` holds the pages of chaos runs only: any other run writes its pages into the cache."""
    hear_interrupts()
    if not hasattr(config, "workerinput") and (disk := memory_disk(with_programs=True)) is not None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(disk))  # pytest creates the temporary folders of tests there
    if config.option.markexpr.startswith("not chaos"):
        os.environ.setdefault(FOLDER_VARIABLE, str(Path(__file__).parents[1] / ".cache" / "reports"))


def hear_interrupts() -> None:
    """Handle SIGINT even if the parent process ignores it, as scripts do for background jobs and many CI runners do.

    Children inherit an ignored signal, and the tests of Ctrl-C are about programs started from a prompt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"slotkeeper: seed {_SEED} (set {SEED_VARIABLE} to repeat it)"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = _SEED


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In a run without the fast tests, do not import a file that marks no other test: every process would."""
    if "not fast" not in config.option.markexpr or not collection_path.name.startswith("test_"):
        return None
    if not any(collection_path.is_relative_to(Path(__file__).parent / name) for name in FAST):
        return None
    return not re.search(r"\b(spark|slow|chaos)\b", collection_path.read_text("utf-8")) or None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark fast tests before -m selects.

    In a run of several processes, files with Spark start first, as they take longest, and every second file is not
    a Spark file: it uses the CPU while the Spark files wait.
    """
    folder = Path(__file__).parent
    for item in items:
        is_slow = any(item.get_closest_marker(name) for name in ("spark", "slow", "chaos"))
        if not is_slow and any(item.path.is_relative_to(folder / name) for name in FAST):
            item.add_marker(pytest.mark.fast)
    yield
    if hasattr(config, "workerinput"):
        on_spark, others = list[list[pytest.Item]](), list[list[pytest.Item]]()
        for _, tests in itertools.groupby(items, lambda item: item.path):
            file = list(tests)
            (on_spark if any(item.get_closest_marker("spark") for item in file) else others).append(file)
        pairs = itertools.zip_longest(on_spark, others, fillvalue=list[pytest.Item]())
        items[:] = [item for pair in pairs for file in pair for item in file]


def pytest_collection_finish() -> None:
    """Freeze the imported and collected objects: they live to the end, and garbage collection then skips them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    return int(getattr(pytestconfig, "workerinput", {}).get("seed", _SEED))


@pytest.fixture(scope="session")
def spark_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A cache folder, initially empty, that all processes of a run share: a class archive takes ten seconds to make."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(pytestconfig, "workerinput") else base) / "cache"
    folder.mkdir(exist_ok=True)
    return folder
