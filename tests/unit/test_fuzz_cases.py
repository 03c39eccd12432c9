"""Inputs that once broke a parser of external bytes, and random changes of valid inputs, raise only named errors.

`make fuzz` searches for more, by coverage.
"""

from __future__ import annotations

import random

import pytest

from tests.support.fuzz.__main__ import FOUND, cases, mutated
from tests.support.fuzz.targets import TARGETS

TRIED = 40


@pytest.mark.parametrize("name", TARGETS)
def test_examples_found_cases_and_random_changes_raise_named_errors_only(name: str, seed: int) -> None:
    target, chance = TARGETS[name], random.Random(seed)
    for data in (*target.examples, *cases(name), *(mutated(target.examples, chance) for _ in range(TRIED))):
        target.run(data)


def test_each_folder_of_cases_belongs_to_a_target() -> None:
    assert {one.name for one in FOUND.iterdir()} <= TARGETS.keys()
