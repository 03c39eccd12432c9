"""One position for two channels loses nothing, in the end confirms all of it, and each rule switched off is found."""

from __future__ import annotations

import pytest

from .one_stream import EVENTS, LOST, StreamRules, run, story, without
from .space import cannot_reach


def test_what_one_channel_confirms_is_passed_by_both() -> None:
    rules = StreamRules()
    space = run(rules)
    print(f"\n{space.summary()}")
    assert space.broken is None, story(space, rules, space.broken)
    assert cannot_reach(space, lambda at: at.kept == EVENTS or at.fell_back) == []


@pytest.mark.parametrize(("rule", "moves"), [("least", 5), ("never_back", 9)])
def test_each_rule_switched_off_is_found(rule: str, moves: int) -> None:
    space = run(without(rule))
    assert space.broken is not None, space.summary()
    assert space.verdict == LOST
    assert len(space.way_to(space.broken)) - 1 == moves
    told = story(space, without(rule), space.broken)
    print(f"\n{told}")
