"""The explorer: a search without findings proves something only if the explorer can find violations."""

from __future__ import annotations

from collections.abc import Iterable

from .space import cannot_reach, explore, trace

Step = tuple[str, int]


def count_up_to_five(state: int) -> Iterable[Step]:
    if state < 5:
        yield "one more", state + 1
        yield "two more", min(state + 2, 5)


def nothing_wrong(state: int) -> str:
    return ""


def show(state: int) -> str:
    return f"at {state}"


def test_every_state_is_visited_once() -> None:
    space = explore("numbers", 0, count_up_to_five, nothing_wrong)

    assert sorted(space.states) == [0, 1, 2, 3, 4, 5]


def test_the_trace_to_a_violation_is_the_shortest() -> None:
    space = explore("numbers", 0, count_up_to_five, lambda n: "too far" if n == 4 else "")

    assert space.broken is not None
    assert space.verdict == "too far"
    assert trace(space, space.broken, count_up_to_five, show) == [
        "  0. at the beginning  [at 0]",
        "  1. two more  [at 2]",
        "  2. two more  [at 4]",
    ]


def test_states_that_cannot_return_are_named() -> None:
    space = explore("numbers", 0, count_up_to_five, nothing_wrong)

    astray = cannot_reach(space, lambda state: state == 3)

    assert sorted(space.states[number] for number in astray) == [4, 5]
