"""Assigning due lanes to tasks: capacity, waiting order, dedicated lanes, and never one lane twice."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.domain.lane import FEWEST, GATHER, Assignment, Lane, Lanes, assign, due
from slotkeeper.core.domain.progress import Activity, LaneKey, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints


def lane(name: str, since: float = 0.0, alone: bool = False, activity: Activity = Activity.DUE) -> Lane:
    return Lane(
        LaneKey("dws1", "ods.t", "s", name),
        Shard(name, 1),
        DwsPosition(1),
        SyncPoints(1, 1, 1),
        exactly(SyncPoints(1, 1), "i"),
        100,
        activity=activity,
        since=since,
        alone=alone,
    )


def assigned(lanes: list[Lane], busy: list[Assignment], capacity: int) -> list[tuple[tuple[str, ...], bool]]:
    return [(one.lanes, one.alone) for one in assign(lanes, busy, capacity, 1, 10.0, 3.0)]


def test_only_due_lanes_are_dealt() -> None:
    others = [lane(one.value, activity=one) for one in Activity if one is not Activity.DUE]
    assert assigned([*others, lane("a")], [], 4) == [(("a",), False)]


def test_the_longest_waiting_lane_comes_first() -> None:
    lanes = [lane("young", 9), lane("old", 1), lane("middle", 5)]
    assert assigned(lanes, [], 2) == [(("old", "young"), False), (("middle",), False)]


def test_a_lane_that_failed_has_a_task_of_its_own() -> None:
    assert assigned([lane("bad", 1, True), lane("a", 2), lane("b", 3)], [], 2) == [
        (("bad",), True),
        (("a", "b"), False),
    ]


def test_lanes_that_failed_leave_one_seat_to_the_others() -> None:
    bad = [lane(f"bad{n}", n, True) for n in range(4)]
    assert assigned([*bad, lane("a", 9)], [], 3) == [(("bad0",), True), (("bad1",), True), (("a",), False)]
    assert assigned(bad, [], 3) == [(("bad0",), True), (("bad1",), True)]


def test_a_free_seat_takes_its_share_of_a_crowd_and_no_more_than_it_reaches() -> None:
    crowd = [lane(f"a{n:03}", since=float(n)) for n in range(100)]
    busy = [Assignment(1, ("x",), 9.0, False)]
    (only,) = assign(crowd, busy, 2, 2, 0.0, 3.0)
    assert only.lanes == tuple(one.name for one in crowd[:50]), (
        "those that wait longest; the others get the other place"
    )
    (only,) = assign(crowd, busy, 2, 2, 0.0, 3.0, 20)
    assert only.lanes == tuple(one.name for one in crowd[:20])
    (only,) = assign(crowd[:FEWEST], busy, 2, 2, 0.0, 3.0, 1)
    assert len(only.lanes) == FEWEST, "a few are no crowd"


def test_an_overrun_stream_task_holds_its_seat_and_counts_among_the_failing_ones() -> None:
    hung = Assignment(1, ("x",), 0.0, False, overrun=True)
    assert assigned([lane("bad", 1, True), lane("a", 2)], [hung], 2) == [(("a",), False)]
    assert assigned([lane("bad", 1, True), lane("a", 2)], [hung], 3) == [(("bad",), True), (("a",), False)]


def test_nothing_is_dealt_where_no_seat_is_free() -> None:
    busy = [Assignment(n, (f"x{n}",), 9.0, False) for n in range(3)]
    for capacity in (1, 2, 3):  # fewer task slots than tasks: an executor was lost
        assert assigned([lane("a"), lane("b"), lane("c", 0, True), lane("d", 0, True)], busy, capacity) == []


def test_numbers_go_up_and_deadlines_follow_the_clock() -> None:
    found = assign([lane("a"), lane("b")], [], 2, 7, 10.0, 3.0)
    assert [(one.number, one.deadline, one.group) for one in found] == [(7, 13.0, "task-7"), (8, 13.0, "task-8")]


def trickling(*names: str, load: float = 0.1, since: float = 10.0, activity: Activity = Activity.DUE) -> list[Lane]:
    return [replace(lane(name, since, activity=activity), load=load) for name in names]


def test_lanes_with_few_rows_share_a_task_and_with_many_lanes_a_few() -> None:
    assert assigned(trickling("a", "b", "c", "d"), [], 4) == [(("a", "b", "c", "d"), False)]
    crowd = trickling(*(f"a{n:02}" for n in range(FEWEST + 1)), load=0.01)
    assert len(assigned(crowd, [], 4)) == 2
    assert len(assigned([*trickling("a", "b", "c"), lane("busy", 10.0)], [], 4)) == 4


@pytest.mark.parametrize(("load", "tasks"), [(0.05, 1), (0.2, 1), (0.3, 2), (0.5, 3), (0.51, 4), (1.0, 4)])
def test_lanes_share_only_as_much_as_their_load_allows(load: float, tasks: int) -> None:
    assert len(assigned(trickling("a", "b", "c", "d", load=load), [], 4)) == tasks


def test_lanes_with_few_rows_wait_shortly_for_those_that_are_being_registered() -> None:
    others = trickling("b", activity=Activity.REGISTERING)
    early, late = trickling("a"), trickling("a", since=10.0 - 2 * GATHER)
    assert assigned([*early, *others], [], 4) == []
    assert assigned([*late, *others], [], 4) == assigned(early, [], 4) == [(("a",), False)]


def test_tasks_of_lanes_with_few_rows_end_together() -> None:
    running = trickling("x", activity=Activity.APPLYING)
    busy = [Assignment(1, ("x",), 11.5, False)]
    (only,) = assign([*trickling("a"), *running], busy, 4, 2, 10.0, 3.0)
    assert only.deadline == 11.5
    (only,) = assign([*trickling("a"), *running], [replace(busy[0], deadline=10.2)], 4, 2, 10.0, 3.0)
    assert only.deadline == 11.0, "a task lasts at least a third of its time"


def test_a_tables_lanes_are_in_one_task_if_there_are_two_tables_for_each() -> None:
    lanes = [
        replace(lane(f"t{table}_{n}"), key=LaneKey("dws1", f"ods.t{table}", "s", f"dn_{n}"), label=f"t{table}_{n}")
        for n in range(2)
        for table in range(4)
    ]
    tasks = [set(names) for names, _ in assigned(lanes, [], 2)]
    assert tasks == [{"t0_0", "t0_1", "t2_0", "t2_1"}, {"t1_0", "t1_1", "t3_0", "t3_1"}]


@given(
    st.lists(st.tuples(st.floats(0, 100), st.booleans(), st.sampled_from(Activity)), max_size=12),
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=5),
    st.integers(2, 6),
)
def test_dealing_keeps_its_rules(
    given_lanes: list[tuple[float, bool, Activity]], given_busy: list[tuple[bool, bool]], capacity: int
) -> None:
    lanes = [lane(f"l{n}", *one) for n, one in enumerate(given_lanes)]
    busy = [Assignment(n, (f"x{n}",), 0.0, alone, overrun) for n, (alone, overrun) in enumerate(given_busy)]
    found = assign(lanes, busy, capacity, 100, 0.0, 3.0)
    names = [name for task in found for name in task.lanes]
    by_name = {one.key.shard: one for one in lanes}
    assert len(names) == len(set(names)), "no lane twice"
    assert all(by_name[name].activity is Activity.DUE for name in names)
    assert not found or len(found) + len(busy) <= capacity
    assert all(len(task.lanes) == 1 for task in found if task.alone)
    assert all(by_name[name].alone == task.alone for task in found for name in task.lanes)
    suspects = sum(task.alone or task.overrun for task in busy) + sum(task.alone for task in found)
    assert not any(task.alone for task in found) or suspects <= capacity - 1
    sound = [one for one in lanes if one.activity is Activity.DUE and not one.alone]
    given_sound = [name for task in found if not task.alone for name in task.lanes]
    assert len(given_sound) in (0, len(sound)), "sound lanes are assigned together or wait for a place"
    alone = sorted((one.since, one.key.shard) for one in lanes if one.activity is Activity.DUE and one.alone)
    first = sum(task.alone for task in found)
    assert {by_name[task.lanes[0]].since for task in found if task.alone} == {since for since, _ in alone[:first]}


def test_waiting_lanes_get_a_seat_as_soon_as_one_is_free() -> None:
    assert assigned([lane("a")], [Assignment(1, ("x",), 9.0, True)], 2) == [(("a",), False)]


def test_a_lane_is_due_from_the_moment_of_the_request() -> None:
    assert due(replace(lane("a"), activity=Activity.WAITING), 4.0).since == 4.0


@pytest.mark.parametrize("seed", range(20))
def test_the_indexes_of_lanes_agree_with_the_lanes_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"dn_{number}" for number in range(8)]
    lanes, changed = Lanes({name: replace(lane(name), label=name) for name in names}), set(names)
    for _ in range(300):
        turn, name = chance.random(), chance.choice(names)
        if turn < 0.05 and name in lanes:
            lanes.pop(name)
            changed.discard(name)
        elif turn < 0.1:
            assert {one.name for one in lanes.take_changed()} == changed
            changed.clear()
        else:
            state = chance.choice([LaneState.RUNNING, LaneState.RUNNING, LaneState.CATCHING_UP])
            one = replace(lane(name), label=name, activity=chance.choice(list(Activity)), state=state)
            if turn < 0.5:
                lanes.update({name: one})
            else:
                lanes[name] = one
            changed.add(name)
        for activity in Activity:
            expected = [one for one in lanes.values() if one.activity is activity]
            assert sorted(one.name for one in lanes.of(activity)) == sorted(one.name for one in expected)
        assert lanes.idle == {name for name, one in lanes.items() if one.activity is Activity.IDLE}
        running = all(one.state is LaneState.RUNNING for one in lanes.values())
        assert lanes.state is (LaneState.RUNNING if running else LaneState.CATCHING_UP), f"seed {seed}"
