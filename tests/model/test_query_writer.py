"""A query's writer writes each batch once, for a kill at any point; and each of its rules switched off is found."""

from __future__ import annotations

import pytest

from .query_writer import (
    ALL_WRITING_RULES,
    ALONE,
    BESIDE,
    LATER,
    LOST,
    MIXED,
    TWICE,
    WRITING,
    WritingBounds,
    WritingSetup,
    is_goal,
    run,
    story,
)
from .space import found, refuse_broken


@pytest.mark.parametrize("bounds", WRITING, ids=lambda bounds: bounds.name)
def test_each_batch_is_there_once_wherever_anything_is_killed(bounds: WritingBounds) -> None:
    space, setup = run(bounds, ALL_WRITING_RULES), WritingSetup(bounds, ALL_WRITING_RULES)
    refuse_broken(space, lambda at: story(space, setup, at), lambda state: is_goal(setup, state))


@pytest.mark.parametrize(
    ("bounds", "rule", "harm", "moves"),
    [
        (ALONE, "fence", TWICE, 11),
        (ALONE, "one_transaction", LOST, 6),
        (ALONE, "tokens", TWICE, 7),
        (ALONE, "count", LOST, 7),
        (ALONE, "clear_waits", LOST, 7),
        (ALONE, "abort_keeps", LOST, 7),
        (LATER, "abort_keeps_fence", TWICE, 12),
        (BESIDE, "query_in_fence", MIXED, 10),
    ],
)
def test_each_rule_of_the_writer_switched_off_is_found(bounds: WritingBounds, rule: str, harm: str, moves: int) -> None:
    without = ALL_WRITING_RULES.without(rule)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, WritingSetup(bounds, without), at)) == (harm, moves)
