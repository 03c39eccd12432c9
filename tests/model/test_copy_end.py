"""A copy ends once, whole, for every fallback of the sink; and each rule of its end switched off is found."""

from __future__ import annotations

import pytest

from .copy_end import (
    ALL_END_RULES,
    DIRECT,
    ENDS,
    HALF,
    SHADOW,
    UNEQUAL,
    EndBounds,
    EndSetup,
    is_goal,
    run,
    story,
)
from .space import found, refuse_broken

CLAIMED = frozenset({UNEQUAL})


@pytest.mark.parametrize("bounds", ENDS, ids=lambda bounds: bounds.name)
def test_running_is_claimed_only_of_a_whole_copy(bounds: EndBounds) -> None:
    space, setup = run(bounds, ALL_END_RULES), EndSetup(bounds, ALL_END_RULES)
    refuse_broken(space, lambda at: story(space, setup, at), lambda state: is_goal(setup, state) or state.fallen)


@pytest.mark.parametrize(
    ("bounds", "rules", "harm", "moves"),
    [
        (DIRECT, ("end_finds_all_chunks",), UNEQUAL, 5),
        (DIRECT, ("steps_name_states",), HALF, 6),
        (DIRECT, ("running_from_catching_up",), UNEQUAL, 5),
        (DIRECT, ("running_checks_the_row",), UNEQUAL, 8),
        (SHADOW, ("end_finds_all_chunks",), UNEQUAL, 5),
        (SHADOW, ("steps_name_states",), HALF, 6),
        (SHADOW, ("running_from_catching_up",), UNEQUAL, 5),
        (SHADOW, ("running_checks_the_row",), UNEQUAL, 8),
    ],
)
def test_each_rule_of_a_copys_end_switched_off_is_found(
    bounds: EndBounds, rules: tuple[str, ...], harm: str, moves: int
) -> None:
    without = ALL_END_RULES.without(*rules)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, EndSetup(bounds, without), at)) == (harm, moves)


def test_steps_into_a_half_done_copy_are_overwritten_by_its_shadow() -> None:
    """Where only the steps' rule is missing, a restart ends the copy, and its older rows come over newer ones.

    With chunks in the target itself no row gets lost that way.
    """
    rules = ALL_END_RULES.without("steps_name_states")
    space = run(SHADOW, rules, CLAIMED)

    assert space.broken is not None, space.summary()
    print(f"\n{space.summary()}\n{story(space, EndSetup(SHADOW, rules), space.broken)}")
    assert run(DIRECT, rules, CLAIMED).broken is None
