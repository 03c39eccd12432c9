"""A lane tries optimistic steps less and less often while they miss, and always while they succeed. No server."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.sinks.postgres.write.optimistic import LONGEST, Lane


def pauses(misses: int) -> list[int]:
    """The number of general steps after each of `misses` misses in a row."""
    lane, found = Lane(), []
    for _ in range(misses):
        assert lane.may_try()
        lane.missed()
        found.append(0)
        while lane.waits:
            assert not lane.may_try()
            found[-1] += 1
    return found


def test_pauses_double_up_to_a_bound() -> None:
    assert pauses(9) == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_a_step_that_succeeds_starts_over() -> None:
    lane = Lane()
    for _ in range(3):
        lane.missed()
    lane.pause = 0
    lane.hit()
    assert lane.may_try()
    lane.missed()
    assert lane.pause == 1


@given(st.lists(st.booleans(), max_size=300))
def test_of_many_steps_that_miss_only_few_were_tried(holds: list[bool]) -> None:
    """Without a step that succeeds, pauses never become shorter and never exceed the bound."""
    lane, gap, last = Lane(), 0, 0
    for one in holds:
        if not lane.may_try():
            gap += 1
            assert gap <= LONGEST
        elif one:
            lane.hit()
            gap = last = 0
        else:
            assert gap >= last
            last, gap = gap, 0
            lane.missed()
