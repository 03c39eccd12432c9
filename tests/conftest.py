"""What every test sees: the fixtures of `tests.support`, and a printed seed, so that a failure can be repeated."""

from __future__ import annotations

import os
import random

import pytest

pytest_plugins = ["tests.support.standin", "tests.support.mirror"]

SEED_VARIABLE = "SLOTKEEPER_TEST_SEED"
_SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1, 1_000_000))


def pytest_report_header() -> str:
    return f"slotkeeper: seed {_SEED} (set {SEED_VARIABLE} to repeat it)"


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of everything random in this run."""
    return _SEED
