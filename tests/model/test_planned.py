"""Exactly once into a sink with labels and two-phase commit; each rule of it switched off is found."""

from __future__ import annotations

import pytest

from .planned import (
    ALL_PLANNED_RULES,
    COPIED,
    CUT,
    EXPLAINED,
    ISOLATED,
    ISOLATED_TWICE,
    KEPT,
    ORPHAN,
    OUTLASTED,
    PLANNED,
    REFUSED,
    REPEATED,
    STOPPED,
    WIDE,
    PlannedBounds,
    PlannedSetup,
    is_goal,
    run,
    story,
)
from .space import cannot_reach, found, refuse_broken
from .two_parts import LOST, TWICE, UNCOUNTED, UNEQUAL


def holds(bounds: PlannedBounds) -> None:
    space, setup = run(bounds, ALL_PLANNED_RULES), PlannedSetup(bounds, ALL_PLANNED_RULES)
    refuse_broken(space, lambda at: story(space, setup, at), lambda state: is_goal(setup, state))


@pytest.mark.parametrize("bounds", PLANNED, ids=lambda bounds: bounds.name)
def test_exactly_once_wherever_a_worker_is_killed_or_an_answer_lost(bounds: PlannedBounds) -> None:
    holds(bounds)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("bounds", WIDE, ids=lambda bounds: bounds.name)
def test_the_same_in_wider_bounds(bounds: PlannedBounds) -> None:
    holds(bounds)


@pytest.mark.parametrize(
    ("bounds", "rules", "harm", "moves"),
    [
        (KEPT, "plan_before_send", ORPHAN, 4),
        (KEPT, "label_of_range", ORPHAN, 6),
        (COPIED, "one_plan", ORPHAN, 8),
        (REFUSED, "arm_before_commit", TWICE, 14),
        (OUTLASTED, "arm_before_commit", UNCOUNTED, 11),
        (KEPT, "plan_kept", TWICE, 11),
        (KEPT, "the_planned_range", LOST, 9),
        (CUT, "count_compared", LOST, 6),
        (CUT, "unknown_is_aborted", LOST, 7),
        (OUTLASTED, "gone_is_counted", UNCOUNTED, 10),
        (KEPT, "commit_before_settle", LOST, 6),
        (ISOLATED, "entries_with_plan", LOST, 8),
        (ISOLATED, "left_out_is_withdrawn", TWICE, 10),
        (ISOLATED, "withdrawn_when_certain", TWICE, 13),
        (ISOLATED_TWICE, "label_of_plan", LOST, 12),
        (EXPLAINED, "free_is_withdrawn", STOPPED, 7),
        (REPEATED, "settle_compares_load", UNEQUAL, 21),
    ],
)
def test_each_rule_switched_off_is_found(bounds: PlannedBounds, rules: str, harm: str, moves: int) -> None:
    without = ALL_PLANNED_RULES.without(rules)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, PlannedSetup(bounds, without), at)) == (harm, moves)


@pytest.mark.parametrize("rule", ["plan_before_send", "label_of_range"])
def test_where_workers_commit_what_they_sent_all_rests_on_the_plan_and_its_label(rule: str) -> None:
    """A sink of two writes to the row, plan and settle, rests on labels alone; with the third one, loads are strays."""
    alone = run(KEPT, ALL_PLANNED_RULES.without(rule), frozenset({ORPHAN}))
    both = run(KEPT, ALL_PLANNED_RULES.without(rule, "arm_before_commit"), frozenset({ORPHAN}))
    print(f"\n{alone.summary()}\n{both.summary()}")

    assert alone.broken is None
    assert both.verdict == TWICE


def test_a_start_that_plans_before_it_resolves_does_not_advance_and_doubles_where_plans_may_be_replaced() -> None:
    rules = ALL_PLANNED_RULES.without("resolve_first")
    space, setup = run(KEPT, rules), PlannedSetup(KEPT, rules)
    assert space.broken is None
    assert cannot_reach(space, lambda state: is_goal(setup, state)) != []

    replaced = run(KEPT, ALL_PLANNED_RULES.without("resolve_first", "one_plan"), frozenset({ORPHAN}))
    print(f"\n{replaced.summary()}")
    assert replaced.verdict == TWICE


@pytest.mark.parametrize("rule", ["arm_compares_epoch", "arm_compares_load"])
def test_what_is_planned_fences_loads_without_the_epoch(rule: str) -> None:
    """Both are still compared: an earlier start begins nothing, and two tasks do not send alternately for ever."""
    assert run(KEPT, ALL_PLANNED_RULES.without(rule)).broken is None


def test_only_labels_that_are_kept_make_it_exactly_once() -> None:
    assert any(max(state.counts) > 1 for state in run(OUTLASTED, ALL_PLANNED_RULES).states)
