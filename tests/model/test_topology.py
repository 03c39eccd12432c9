"""A changed set of DNs is adopted without a wrong row, or reported; each of its rules switched off is found."""

from __future__ import annotations

import pytest

from .space import cannot_reach
from .topology import (
    ADDED,
    ADDED_FORCED,
    ADDED_SILENT,
    ALL_TOPOLOGY_RULES,
    LOST,
    OLDER,
    REMOVED_FORCED,
    RENAMED,
    SCALINGS,
    TWICE,
    UNSUPPORTED_SCALING,
    Cluster,
    Scaling,
    is_goal,
    run,
    story,
)


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.name)
def test_no_interleaving_applies_a_wrong_row_or_loses_one_in_silence(scaling: Scaling) -> None:
    space = run(scaling, ALL_TOPOLOGY_RULES)
    print(f"\n{space.summary()}")

    assert space.broken is None, story(space, scaling, ALL_TOPOLOGY_RULES, space.broken)
    dead_ends = cannot_reach(space, lambda state: is_goal(scaling, state) or unchanged(scaling, state))
    assert dead_ends == []


def unchanged(scaling: Scaling, state: Cluster) -> bool:
    """Everything was written and applied before any DN was added or removed."""
    return not state.changed and len(state.events) == scaling.points == len(state.applied)


@pytest.mark.parametrize("scaling", [ADDED, RENAMED], ids=lambda scaling: scaling.name)
def test_a_server_that_waits_is_followed_without_a_person(scaling: Scaling) -> None:
    space = run(scaling, ALL_TOPOLOGY_RULES)

    assert not any(state.named for state in space.states)
    assert any(state.knows and is_goal(scaling, state) for state in space.states)


@pytest.mark.parametrize(
    ("rule", "scaling", "verdict", "moves"),
    [
        ("needs_points", ADDED_SILENT, LOST, 3),
        ("begins_at_point", ADDED, LOST, 3),
        ("nothing_unread", ADDED_FORCED, OLDER, 6),
        ("refuses_gone", REMOVED_FORCED, LOST, 3),
        ("knows_renamed", RENAMED, TWICE, 5),
    ],
)
def test_each_rule_switched_off_is_found(rule: str, scaling: Scaling, verdict: str, moves: int) -> None:
    rules = ALL_TOPOLOGY_RULES.without(rule)
    space = run(scaling, rules)

    assert space.broken is not None, space.summary()
    print(f"\n{space.summary()}\n{story(space, scaling, rules, space.broken)}")
    assert (space.verdict, len(space.way_to(space.broken)) - 1) == (verdict, moves)


def test_rows_moved_between_old_dns_past_unread_changes_are_beyond_all_rules() -> None:
    """DWS documents otherwise: it waits until everything is consumed. Named in docs/delivery.md."""
    space = run(UNSUPPORTED_SCALING, ALL_TOPOLOGY_RULES)

    assert space.broken is not None
    print(f"\n{story(space, UNSUPPORTED_SCALING, ALL_TOPOLOGY_RULES, space.broken)}")
    assert space.verdict == OLDER
