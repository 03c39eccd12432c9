"""With all rules on, nothing is lost, repeated, hidden or reported without a cause; work completes."""

from __future__ import annotations

import pytest

from . import stream
from .bounds import (
    ALL_RULES,
    BOTH,
    CREATION,
    CREATION_HIDDEN,
    EXCLUSIVE,
    EXPLORED,
    INCLUSIVE,
    RANGES,
    Bounds,
    CreationBounds,
    Server,
)
from .findings import creation_with_all_rules, with_all_rules
from .space import cannot_reach, explore
from .state import Setup, State

PLACES = [pytest.param(bounds, server, id=f"{bounds.name}, {server.name}") for bounds, server in EXPLORED]
CREATIONS = [
    pytest.param(bounds, server, id=f"{bounds.name}, {server.name}")
    for bounds, server in ((CREATION, EXCLUSIVE), (CREATION, INCLUSIVE), (CREATION_HIDDEN, EXCLUSIVE))
]


@pytest.mark.parametrize(("bounds", "server"), PLACES)
def test_no_interleaving_breaks_an_invariant(bounds: Bounds, server: Server) -> None:
    finding = with_all_rules(bounds, server).tell()

    assert finding.verdict == "", finding.story


@pytest.mark.parametrize(("bounds", "server"), PLACES)
def test_every_state_can_still_arrive_or_has_a_named_stop(bounds: Bounds, server: Server) -> None:
    assert with_all_rules(bounds, server).stuck == 0


@pytest.mark.parametrize(("bounds", "server"), CREATIONS)
def test_a_copy_begun_beside_open_transactions_is_equal_once_it_is_running(
    bounds: CreationBounds, server: Server
) -> None:
    finding = creation_with_all_rules(server, bounds).tell()

    assert finding.verdict == "", finding.story


@pytest.mark.parametrize(("bounds", "server"), CREATIONS)
def test_every_copy_can_still_arrive(bounds: CreationBounds, server: Server) -> None:
    assert creation_with_all_rules(server, bounds).stuck == 0


def test_the_spaces_are_as_large_as_the_readme_says() -> None:
    places = [with_all_rules(bounds, server) for bounds, server in EXPLORED]
    copies = [creation_with_all_rules(server) for server in BOTH]
    copies.append(creation_with_all_rules(EXCLUSIVE, CREATION_HIDDEN))
    total = sum(finding.states for finding in (*places, *copies))
    print(f"\n{total:,} states in {len(places) + len(copies)} spaces")

    assert total > 800_000


def test_a_protocol_that_never_advances_does_not_pass() -> None:
    """Without the registration of `true` nothing is ever lost, and nothing ever arrives."""
    setup = Setup(RANGES, INCLUSIVE, ALL_RULES)
    moves = stream.successors(setup)

    def lazy(state: State) -> list[tuple[str, State]]:
        return [move for move in moves(state) if "registers true" not in move[0]]

    space = explore("lazy", setup.first_state(), lazy, lambda state: state.wrong)

    assert space.broken is None
    astray = cannot_reach(space, lambda state: stream.is_goal(setup, state))
    assert len(astray) == len(space.states)


def test_the_first_state_can_arrive_with_an_exclusive_server() -> None:
    setup = Setup(RANGES, EXCLUSIVE, ALL_RULES)
    space = explore("ranges", setup.first_state(), stream.successors(setup), lambda s: s.wrong)

    assert any(stream.is_goal(setup, state) for state in space.states)
