"""Sweeps lose and repeat nothing, and no session waits indefinitely; each rule switched off is found."""

from __future__ import annotations

import pytest

from .space import found, refuse_broken
from .sweeps import (
    AHEAD,
    ALL_SWEEP_RULES,
    BEHIND,
    DEADLOCK,
    LOST,
    OVERTAKEN,
    RESET,
    STARTED,
    SWEEPS,
    TWICE,
    WIPED,
    SweepBounds,
    is_goal,
    run,
    story,
)


@pytest.mark.parametrize("bounds", SWEEPS, ids=lambda bounds: bounds.name)
def test_a_sweep_neither_loses_nor_doubles_nor_blocks_whoever_has_its_lanes_as_well(bounds: SweepBounds) -> None:
    space = run(bounds, ALL_SWEEP_RULES)
    refuse_broken(space, lambda at: story(space, ALL_SWEEP_RULES, at), is_goal)


@pytest.mark.parametrize(
    ("bounds", "rule", "harm", "moves"),
    [
        (RESET, "compares_epoch", OVERTAKEN, 8),
        (BEHIND, "compares_position", TWICE, 7),
        (BEHIND, "skips_locked", DEADLOCK, 7),
        (STARTED, "skips_locked", DEADLOCK, 5),
        (BEHIND, "skipped_goes_alone", AHEAD, 5),
        (STARTED, "skipped_goes_alone", AHEAD, 3),
        (BEHIND, "effects_of_passed_only", TWICE, 7),
        (BEHIND, "one_transaction", LOST, 3),
        (BEHIND, "rollback_of_all", AHEAD, 3),
        (BEHIND, "rejected_compares", TWICE, 9),
        (BEHIND, "reads_after_loss", TWICE, 6),
        (WIPED, "second_status", LOST, 3),
        (RESET, "reset_raises_epoch", AHEAD, 5),
    ],
)
def test_each_rule_of_sweeps_switched_off_is_found(bounds: SweepBounds, rule: str, harm: str, moves: int) -> None:
    without = ALL_SWEEP_RULES.without(rule)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, without, at)) == (harm, moves)


def test_without_a_reset_the_position_alone_fences_a_worker_of_an_earlier_epoch() -> None:
    assert run(WIPED, ALL_SWEEP_RULES.without("compares_epoch")).broken is None
