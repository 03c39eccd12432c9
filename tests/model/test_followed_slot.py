"""A slot that follows the progress rows is never ahead of them and never read from; each rule counts."""

from __future__ import annotations

import pytest

from .followed_slot import AHEAD, EVENTS, FALSE_ALARM, SKIPPED, SlotRules, run, story, without
from .space import cannot_reach


def test_nothing_is_skipped_for_any_mover_of_the_slot_and_only_a_stranger_stops_the_job() -> None:
    rules = SlotRules()
    space = run(rules)
    print(f"\n{space.summary()}")
    assert space.broken is None, story(space, rules, space.broken)
    assert cannot_reach(space, lambda at: at.row == EVENTS or at.ended) == []
    assert cannot_reach(space, lambda at: at.slot == EVENTS or at.strange) == [], "and the slot follows"


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("committed", AHEAD),
        ("own_answers", AHEAD),
        ("waits", FALSE_ALARM),
        ("widened", FALSE_ALARM),
    ],
)
def test_each_rule_switched_off_is_found(rule: str, told: str) -> None:
    space = run(without(rule))
    assert space.broken is not None, space.summary()
    print(f"\n{story(space, without(rule), space.broken)}")
    assert space.verdict == told


def test_a_slot_that_a_stranger_moved_ahead_skips_nothing_by_either_of_two_rules() -> None:
    """A job that resumes from its row is not misled; one that did not would be stopped by its start."""
    for alone in ("from_row", "compares"):
        space = run(without(alone))
        assert space.broken is None, story(space, without(alone), space.broken)
    space = run(without("from_row", "compares"))
    assert space.verdict == SKIPPED
