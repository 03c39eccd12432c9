"""The hand-written faults of `make mutants` still fit the code: each text occurs once, and each named test exists."""

from __future__ import annotations

import re

from bench.planted import Planted, faults
from tests.architecture.checkout import ROOT


def test_each_planted_fault_can_be_planted_and_names_a_test() -> None:
    every = faults()
    assert len(every) >= 80 and len({one.name for one in every}) == len(every)
    assert [one.name for one in every if not _fits(one)] == []


def _fits(one: Planted) -> bool:
    file, _, name = one.test.partition("::")
    text = (ROOT / file).read_text("utf-8")
    there = not name or re.search(rf"def {re.escape(name.partition('[')[0])}\(", text) is not None
    return there and bool(one.change.text)
