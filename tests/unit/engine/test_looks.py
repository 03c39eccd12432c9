"""One DN that does not answer never holds back the look at another."""

from __future__ import annotations

import pytest

from core.engine.looks import ALL_AGAIN, Due, Looks, look_pause

LANES = ("dn_1", "dn_2", "dn_3")


@pytest.mark.parametrize(
    ("rounds", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (7, 3.5), (19, 9.5), (20, 10.0), (21, 10.0), (5_000, 10.0)]
)
def test_the_pause_between_looks_grows_with_empty_rounds_up_to_its_limit(rounds: int, seconds: float) -> None:
    assert look_pause(rounds, 500, 10_000) == seconds


def test_while_all_answer_one_query_looks_at_all_idle_lanes_and_no_second_one_beside_it() -> None:
    looks = Looks()
    assert looks.due(LANES, 0) == Due(together=LANES)
    assert looks.due(LANES, 0) == Due()
    looks.together_ended()
    looks.paced(found=False, now=0, sleep_ms=500, max_sleep_ms=10_000)
    assert looks.due(LANES, 0.4) == Due()
    assert looks.due((), 0.6) == Due(), "nothing idle, nothing to look at"
    assert looks.due(LANES, 0.6) == Due(together=LANES)


def test_after_a_failure_each_is_looked_at_by_itself_and_the_one_that_hangs_waits_alone() -> None:
    looks = Looks()
    looks.due(LANES, 0)
    looks.together_failed(2)
    assert looks.due(LANES, 2) == Due(alone=LANES)
    looks.alone_ended("dn_2")
    looks.alone_ended("dn_3")
    looks.paced(found=False, now=2, sleep_ms=500, max_sleep_ms=10_000)
    assert looks.due(LANES, 2.5) == Due(alone=("dn_2", "dn_3"))


def test_beside_that_it_is_tried_now_and_then_whether_all_answer_again() -> None:
    looks = Looks()
    looks.due(LANES, 0)
    looks.together_failed(0)
    assert looks.due((), ALL_AGAIN - 1).together is None
    assert looks.due((), ALL_AGAIN).together == ()
    assert looks.due((), ALL_AGAIN + 1).together is None, "one such query at a time"
    looks.together_failed(ALL_AGAIN + 2)
    assert looks.due(("dn_2",), ALL_AGAIN + 3) == Due(alone=("dn_2",))
    assert looks.due((), 2 * ALL_AGAIN + 2).together == ()
    looks.together_ended()
    assert looks.due(LANES, 2 * ALL_AGAIN + 3) == Due(together=("dn_1", "dn_3")), "dn_2's own look is still under way"


def test_pauses_grow_with_empty_rounds_and_shrink_when_a_lane_is_due() -> None:
    looks, now, pauses = Looks(), 0.0, []
    for found in (False, False, False, True):
        looks.due(LANES, now)
        looks.together_ended()
        looks.paced(found, now, 500, 10_000)
        later = now
        while looks.due(LANES, later).together is None:
            later += 0.25
        pauses.append(later - now)
        looks.together_ended()
        now = later
    assert pauses == [0.5, 1.0, 1.5, 0.5]
