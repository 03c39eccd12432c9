"""Dealing due lanes to stints: seats, waiting order, lanes of their own, and never one lane twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.domain.lane import FEWEST, Activity, Lane, Stint, deal, due
from core.domain.position import Position
from core.domain.progress import LaneKey, Registered
from core.domain.slot import Shard
from core.domain.watch import Expected


def lane(name: str, since: float = 0.0, alone: bool = False, activity: Activity = Activity.DUE) -> Lane:
    return Lane(
        LaneKey("dws1", "ods.t", "s", name),
        Shard(name, 1),
        Position(1),
        Registered(1, 1, 1),
        Expected(frozenset({1}), frozenset({1}), "i"),
        100,
        activity=activity,
        since=since,
        alone=alone,
    )


def dealt(lanes: list[Lane], busy: list[Stint], seats: int) -> list[tuple[tuple[str, ...], bool]]:
    return [(one.lanes, one.alone) for one in deal(lanes, busy, seats, 1, 10.0, 3.0)]


def test_only_due_lanes_are_dealt() -> None:
    others = [lane(one.value, activity=one) for one in Activity if one is not Activity.DUE]
    assert dealt([*others, lane("a")], [], 4) == [(("a",), False)]


def test_the_longest_waiting_lane_comes_first() -> None:
    lanes = [lane("young", 9), lane("old", 1), lane("middle", 5)]
    assert dealt(lanes, [], 2) == [(("old", "young"), False), (("middle",), False)]


def test_a_lane_that_failed_has_a_stint_of_its_own() -> None:
    assert dealt([lane("bad", 1, True), lane("a", 2), lane("b", 3)], [], 2) == [(("bad",), True), (("a", "b"), False)]


def test_lanes_that_failed_leave_one_seat_to_the_others() -> None:
    bad = [lane(f"bad{n}", n, True) for n in range(4)]
    assert dealt([*bad, lane("a", 9)], [], 3) == [(("bad0",), True), (("bad1",), True), (("a",), False)]
    assert dealt(bad, [], 3) == [(("bad0",), True), (("bad1",), True)]


def test_a_free_seat_takes_its_share_of_a_crowd_and_no_more_than_it_reaches() -> None:
    crowd = [lane(f"a{n:03}", since=float(n)) for n in range(100)]
    busy = [Stint(1, ("x",), 9.0, False)]
    (only,) = deal(crowd, busy, 2, 2, 0.0, 3.0)
    assert only.lanes == tuple(one.name for one in crowd[:50]), "those that wait longest; the rest for the other seat"
    (only,) = deal(crowd, busy, 2, 2, 0.0, 3.0, 20)
    assert only.lanes == tuple(one.name for one in crowd[:20])
    (only,) = deal(crowd[:FEWEST], busy, 2, 2, 0.0, 3.0, 1)
    assert len(only.lanes) == FEWEST, "a few are no crowd"


def test_an_overrun_stint_holds_its_seat_and_counts_among_the_failing_ones() -> None:
    hung = Stint(1, ("x",), 0.0, False, overrun=True)
    assert dealt([lane("bad", 1, True), lane("a", 2)], [hung], 2) == [(("a",), False)]
    assert dealt([lane("bad", 1, True), lane("a", 2)], [hung], 3) == [(("bad",), True), (("a",), False)]


def test_nothing_is_dealt_where_no_seat_is_free() -> None:
    busy = [Stint(n, (f"x{n}",), 9.0, False) for n in range(3)]
    for seats in (1, 2, 3):  # fewer seats than stints: an executor was lost
        assert dealt([lane("a"), lane("b"), lane("c", 0, True), lane("d", 0, True)], busy, seats) == []


def test_numbers_go_up_and_deadlines_follow_the_clock() -> None:
    found = deal([lane("a"), lane("b")], [], 2, 7, 10.0, 3.0)
    assert [(one.number, one.deadline, one.group) for one in found] == [(7, 13.0, "stint-7"), (8, 13.0, "stint-8")]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.booleans(), st.sampled_from(Activity)), max_size=12),
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=5),
    st.integers(2, 6),
)
def test_dealing_keeps_its_rules(
    given_lanes: list[tuple[float, bool, Activity]], given_busy: list[tuple[bool, bool]], seats: int
) -> None:
    lanes = [lane(f"l{n}", *one) for n, one in enumerate(given_lanes)]
    busy = [Stint(n, (f"x{n}",), 0.0, alone, overrun) for n, (alone, overrun) in enumerate(given_busy)]
    found = deal(lanes, busy, seats, 100, 0.0, 3.0)
    names = [name for stint in found for name in stint.lanes]
    by_name = {one.key.shard: one for one in lanes}
    assert len(names) == len(set(names)), "no lane twice"
    assert all(by_name[name].activity is Activity.DUE for name in names)
    assert not found or len(found) + len(busy) <= seats
    assert all(len(stint.lanes) == 1 for stint in found if stint.alone)
    assert all(by_name[name].alone == stint.alone for stint in found for name in stint.lanes)
    shy = sum(stint.alone or stint.overrun for stint in busy) + sum(stint.alone for stint in found)
    assert not any(stint.alone for stint in found) or shy <= seats - 1
    sound = [one for one in lanes if one.activity is Activity.DUE and not one.alone]
    given_sound = [name for stint in found if not stint.alone for name in stint.lanes]
    assert len(given_sound) in (0, len(sound)), "sound lanes are dealt all at once or wait for a seat"
    alone = sorted((one.since, one.key.shard) for one in lanes if one.activity is Activity.DUE and one.alone)
    first = sum(stint.alone for stint in found)
    assert {by_name[stint.lanes[0]].since for stint in found if stint.alone} == {since for since, _ in alone[:first]}


def test_waiting_lanes_get_a_seat_as_soon_as_one_is_free() -> None:
    assert dealt([lane("a")], [Stint(1, ("x",), 9.0, True)], 2) == [(("a",), False)]


def test_a_lane_is_due_from_the_moment_it_is_told() -> None:
    assert due(replace(lane("a"), activity=Activity.WAITING), 4.0).since == 4.0
