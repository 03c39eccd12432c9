"""What every test sees: the fixtures of `tests.support`, and a printed seed, so that a failure can be repeated.

`make test` runs in several processes (pytest-xdist); here is which tests stay together in one of them.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

pytest_plugins = ["tests.support.standin", "tests.support.mirror"]

SEED_VARIABLE = "SLOTKEEPER_TEST_SEED"
_SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 1_000_000))


def pytest_report_header() -> str:
    return f"slotkeeper: seed {_SEED} (set {SEED_VARIABLE} to repeat it)"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """The processes of one run share its seed."""
    node.workerinput["seed"] = _SEED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a fixture of their module stay in one process, so that it is made once."""
    for item in items:
        shared = {made.scope for made in _fixtures(item)} & {"module", "package", "class"}
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _fixtures(item: pytest.Item) -> list[pytest.FixtureDef[object]]:
    known = getattr(item, "_fixtureinfo", None)
    return [made[-1] for made in known.name2fixturedefs.values()] if known else []


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of everything random in this run."""
    return int(getattr(pytestconfig, "workerinput", {}).get("seed", _SEED))
