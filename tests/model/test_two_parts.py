"""A sink with a separate store loses nothing and counts every repeat; each rule of it switched off is found."""

from __future__ import annotations

import pytest

from .space import cannot_reach, found, refuse_broken
from .two_parts import (
    ALL_PARTS_RULES,
    BY_KEY,
    FORGOTTEN,
    LOST,
    NOTHING_KEPT,
    PARTS,
    TOKENS,
    UNCOUNTED,
    UNEQUAL,
    PartsBounds,
    PartsSetup,
    is_goal,
    run,
    story,
)


@pytest.mark.parametrize("bounds", PARTS, ids=lambda bounds: bounds.name)
def test_nothing_is_lost_and_every_repeat_is_counted_wherever_a_worker_is_killed(bounds: PartsBounds) -> None:
    space, setup = run(bounds, ALL_PARTS_RULES), PartsSetup(bounds, ALL_PARTS_RULES)
    refuse_broken(space, lambda at: story(space, setup, at), lambda state: is_goal(setup, state))


@pytest.mark.parametrize(
    ("bounds", "rule", "harm", "moves"),
    [
        (NOTHING_KEPT, "decide_before_write", UNCOUNTED, 5),
        (NOTHING_KEPT, "write_before_settle", LOST, 3),
        (NOTHING_KEPT, "one_decision", UNCOUNTED, 9),
        (NOTHING_KEPT, "decide_compares_position", UNCOUNTED, 10),
        (NOTHING_KEPT, "the_decided_range", UNCOUNTED, 12),
        (NOTHING_KEPT, "count_before_repeat", UNCOUNTED, 8),
        (NOTHING_KEPT, "count_compares", UNCOUNTED, 9),
        (NOTHING_KEPT, "confirm_settled", LOST, 9),
        (TOKENS, "decide_before_write", UNCOUNTED, 5),
        (TOKENS, "one_decision", UNCOUNTED, 9),
        (BY_KEY, "later_wins", UNEQUAL, 16),
        (BY_KEY, "write_before_settle", LOST, 3),
        (FORGOTTEN, "confirm_settled", LOST, 8),
    ],
)
def test_each_rule_of_a_sink_in_two_parts_switched_off_is_found(
    bounds: PartsBounds, rule: str, harm: str, moves: int
) -> None:
    without = ALL_PARTS_RULES.without(rule)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, PartsSetup(bounds, without), at)) == (harm, moves)


def test_a_start_that_plans_before_it_finishes_what_is_decided_does_not_advance() -> None:
    rules = ALL_PARTS_RULES.without("finish_first")
    space, setup = run(NOTHING_KEPT, rules), PartsSetup(NOTHING_KEPT, rules)
    print(f"\n{space.summary()}")

    assert space.broken is None
    assert cannot_reach(space, lambda state: is_goal(setup, state)) != []


@pytest.mark.parametrize("bounds", [TOKENS, FORGOTTEN], ids=lambda bounds: bounds.name)
def test_what_is_decided_fences_ranges_without_the_epoch(bounds: PartsBounds) -> None:
    """The epoch keeps an earlier start from beginning a range; loss and repeats depend only on the decision."""
    assert run(bounds, ALL_PARTS_RULES.without("decide_compares_epoch")).broken is None


def test_it_doubles_where_a_decision_may_be_replaced_besides() -> None:
    space = run(NOTHING_KEPT, ALL_PARTS_RULES.without("finish_first", "one_decision"))

    assert space.verdict == UNCOUNTED, space.summary()


def test_only_a_token_that_is_never_forgotten_makes_it_exactly_once() -> None:
    assert TOKENS.keeps and not TOKENS.forgets, "with these tokens, a second application is already a violation"
    forgotten = run(FORGOTTEN, ALL_PARTS_RULES)

    assert any(max(state.counts) > 1 for state in forgotten.states)
