"""A take-over that passes another session's lock loses and repeats nothing; each rule switched off is found."""

from __future__ import annotations

import pytest

from .space import cannot_reach, explore, found
from .take_over import (
    ALL_TAKE_OVER_RULES,
    ANOTHER_SCHEMA,
    BESIDE,
    COMES_AND_GOES,
    FOR_EVER,
    LEADS,
    STRANGER,
    TAKE_OVERS,
    TWICE,
    Driver,
    Move,
    TakeOverBounds,
    TakeOverRules,
    TakeOverSetup,
    World,
    has_epochs,
    is_goal,
    judged,
    run,
    story,
    successors,
)

WITHOUT_END = ALL_TAKE_OVER_RULES.without("ends_by_target")


@pytest.mark.parametrize("bounds", TAKE_OVERS, ids=lambda bounds: bounds.name)
def test_nothing_is_lost_or_doubled_for_any_holder_of_the_leases_lock(bounds: TakeOverBounds) -> None:
    space, setup = run(bounds, ALL_TAKE_OVER_RULES), TakeOverSetup(bounds, ALL_TAKE_OVER_RULES)
    print(f"\n{space.summary()}")

    assert space.broken is None, story(space, setup, space.broken)
    stuck = cannot_reach(space, lambda state: is_goal(setup, state))
    assert not [number for number in stuck if has_epochs(setup, space.states[number])]


@pytest.mark.parametrize(
    ("bounds", "rules", "harm", "moves"),
    [
        (FOR_EVER, ("commit_compares_epoch", "commit_compares_position"), TWICE, 13),
        (FOR_EVER, ("raises_epoch", "commit_compares_position"), TWICE, 13),
        (FOR_EVER, ("registers_under_lock",), LEADS, 9),
        (ANOTHER_SCHEMA, ("keeps_off_target",), BESIDE, 4),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else None,
)
def test_each_rule_of_a_take_over_switched_off_is_found(
    bounds: TakeOverBounds, rules: tuple[str, ...], harm: str, moves: int
) -> None:
    without = ALL_TAKE_OVER_RULES.without(*rules)
    space = run(bounds, without)
    assert found(space, lambda at: story(space, TakeOverSetup(bounds, without), at)) == (harm, moves)


def test_a_start_that_does_not_pass_is_kept_out_by_a_stranger_for_ever() -> None:
    rules = ALL_TAKE_OVER_RULES.without("passes_stranger")
    space, setup = run(FOR_EVER, rules), TakeOverSetup(FOR_EVER, rules)
    print(f"\n{space.summary()}")

    assert space.broken is None
    stuck = [space.states[number] for number in cannot_reach(space, lambda state: is_goal(setup, state))]
    assert [state for state in stuck if has_epochs(setup, state) and state.lease == STRANGER]


@pytest.mark.parametrize(("rules", "arrives"), [(ALL_TAKE_OVER_RULES, True), (WITHOUT_END, False)])
def test_a_second_host_arrives_beside_a_first_that_never_moves_again(rules: TakeOverRules, arrives: bool) -> None:
    """The first host is past the other session's lock and has the target: only its session's end frees the target."""
    setup = TakeOverSetup(FOR_EVER, rules)
    first = setup.first_state()._replace(lease=STRANGER, target=0, epoch=2, drivers=(Driver("runs", 2), Driver()))

    def alone(world: World) -> list[Move]:
        return [(label, after) for label, after in successors(setup)(world) if label.startswith("host 1")]

    space = explore("alone", first, alone, judged)
    assert any(state.drivers[1].at == "runs" for state in space.states) is arrives


@pytest.mark.parametrize("bounds", [FOR_EVER, COMES_AND_GOES], ids=lambda bounds: bounds.name)
def test_safety_rests_on_neither_lock_within_one_progress_schema(bounds: TakeOverBounds) -> None:
    """There, neither lock is needed: even a start that passes the target of the same rows repeats nothing."""
    assert run(bounds, ALL_TAKE_OVER_RULES.without("keeps_off_target")).broken is None
