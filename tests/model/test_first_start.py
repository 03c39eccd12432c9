"""The rows identify a first start: no other life's slot is taken over, and no slot of the job is reported lost."""

from __future__ import annotations

import pytest

from .first_start import ALARM, ALL_FIRST_RULES, TAKEN, First, FirstRules, first_states, run, story
from .space import cannot_reach


def whose(state: First) -> str:
    return f"slot {state.false:d}/{state.true:d}"


@pytest.mark.parametrize("start", first_states(), ids=whose)
def test_a_start_that_is_broken_off_anywhere_neither_takes_over_nor_cries_wolf(start: First) -> None:
    space = run(ALL_FIRST_RULES, start)
    print(f"\n{space.summary()}")

    assert space.broken is None, story(space, ALL_FIRST_RULES, space.broken)
    if start.ours:
        assert any(state.at == "streaming" for state in space.states)
        # after STARTS interruptions it does not move; in other states it can still arrive, or a life was lost
        rests = cannot_reach(space, lambda state: state.at in ("streaming", "rest") or state.trouble)
        assert rests == []


def found(rules: FirstRules) -> tuple[str, int]:
    """The first violation from any initial state, and its number of moves."""
    harms = []
    for start in first_states():
        space = run(rules, start)
        if space.broken is not None:
            moves = len(space.way_to(space.broken)) - 1
            harms.append((moves, space.verdict, story(space, rules, space.broken)))
    moves, verdict, told = min(harms)
    print(f"\n{verdict}, {moves} moves:\n{told}")
    return verdict, moves


def test_a_start_that_only_knows_what_it_wrote_itself_takes_over_a_lost_lifes_slot() -> None:
    assert found(ALL_FIRST_RULES.without("first_by_the_rows")) == (TAKEN, 6)


def test_a_start_that_registers_before_it_says_so_takes_its_own_slot_for_a_lost_one() -> None:
    assert found(ALL_FIRST_RULES.without("meant_before_registered")) == (ALARM, 7)


def test_a_reset_that_forgets_what_was_registered_makes_every_later_start_cry_wolf() -> None:
    assert found(ALL_FIRST_RULES.without("reset_keeps_registered")) == (ALARM, 8)
