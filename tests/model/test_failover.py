"""Whenever the address leads to another server, the row matches exactly what was applied; each rule is needed."""

from __future__ import annotations

import pytest

from .failover import EVENTS, WRONG, SwitchRules, before, log, run, story, without
from .space import cannot_reach

BOUNDS = [(common, alike) for common in range(EVENTS + 1) for alike in (False, True)]


@pytest.mark.parametrize(("common", "alike"), BOUNDS)
def test_the_row_stands_for_exactly_what_was_applied(common: int, alike: bool) -> None:
    rules = SwitchRules()
    space = run(rules, common, alike)
    print(f"\n{space.summary()}")
    assert space.broken is None, story(space, rules, space.broken)
    whole = [at for at in space.states if before(at, *at.row) == log(at, at.row[0])[at.row[0] :]]
    assert {at.row[0] for at in whole} == {0, 1} if common else {0}, "it applies all transactions of a server"
    assert cannot_reach(space, lambda at: at.refused or at.switches == 2 or at.leads == at.row[0]) == []


@pytest.mark.parametrize("rule", ["stream_and_opening", "status_and_opening", "own", "fence", "whole", "contains"])
def test_each_rule_switched_off_is_found(rule: str) -> None:
    rules = without(*rule.split("_and_"))
    found = [space for bounds in BOUNDS if (space := run(rules, *bounds)).broken is not None]
    assert found, f"nothing goes wrong without {rule}"
    space = found[0]
    assert space.broken is not None and space.verdict == WRONG
    print(f"\n{story(space, rules, space.broken)}")


def test_without_the_check_at_the_opening_only_servers_that_look_alike_are_mixed_up() -> None:
    rules = without("opening")
    assert all((run(rules, *bounds).broken is not None) == bounds[1] for bounds in BOUNDS)
