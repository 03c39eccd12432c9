"""The reports of groups of tables are merged; each has its share of capacity; a removed group is not polled again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity, LaneState
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.watch import exactly
from slotkeeper.core.engine.driver.joint_narrator import GroupNarrator, JointNarrator
from slotkeeper.core.engine.driver.poll_schedule import PollSchedule
from slotkeeper.core.engine.tasks import SharedRunner
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints
from tests.support.mirror import Heard
from tests.unit.engine.test_poll_schedule import lanes as names_of
from tests.unit.test_error_values import JOB

TWO = replace(
    JOB,
    binlog=replace(JOB.binlog, binlog=True),
    channels=(ChannelSpec("ods.a", "mart.a"), ChannelSpec("ods.b", "mart.b")),
)
POINTS = SyncPoints(1, 1)


def lane(table: str, state: LaneState = LaneState.RUNNING) -> dict[str, Lane]:
    key = TWO.of(table).lane_key("dn_1")
    made = Lane(key, Shard("dn_1", 1), DwsPosition(1), POINTS, exactly(POINTS, "i"), 100, state=state)
    return {f"{table} dn_1": replace(made, label=f"{table} dn_1")}


def together() -> tuple[Heard, JointNarrator, GroupNarrator]:
    heard = Heard()
    telling = JointNarrator(heard, TWO)
    return heard, telling, GroupNarrator(telling, ("ods.a", "ods.b"), leads=True)


def test_a_table_that_fails_keeps_its_lanes_as_stopped_beside_those_that_go_on() -> None:
    heard, telling, leader = together()
    leader.event(JobEvent.CAUGHT_UP)
    leader.stored(dict.fromkeys(("ods.a", "ods.b"), LaneState.RUNNING))
    leader.lanes(lane("ods.a") | lane("ods.b"), LaneState.RUNNING, 7, 3)
    leader.tables = ("ods.a",)
    telling.failed("ods.b", Refused("no such column"), lane("ods.b"))
    leader.lanes(lane("ods.a"), LaneState.RUNNING, 7, 4)
    assert {name: one.activity for name, one in heard.now.items()} == {
        "ods.a dn_1": Activity.IDLE,
        "ods.b dn_1": Activity.STOPPED,
    }
    assert heard.now["ods.b dn_1"].error == "no such column"
    assert {name: one.state for name, one in heard.tables.items()} == {"ods.a": "RUNNING", "ods.b": "FAILED"}
    assert heard.state is LaneState.RUNNING


def test_an_event_of_one_table_is_not_an_event_of_the_job_until_the_others_have_ended() -> None:
    heard, telling, leader = together()
    leader.event(JobEvent.CAUGHT_UP)
    leader.tables = ("ods.a",)
    alone = GroupNarrator(telling, ("ods.b",), leads=False)
    for event in (JobEvent.BEGAN, JobEvent.COPY_BEGAN, JobEvent.COPY_DONE, JobEvent.CAUGHT_UP):
        alone.event(event)
    alone.stored({"ods.b": LaneState.RUNNING})
    assert heard.events == [JobEvent.CAUGHT_UP]
    leader.event(JobEvent.PAUSED)
    assert (heard.tables["ods.a"].state, heard.tables["ods.b"].state) == ("PAUSED", JobState.RUNNING.value)
    telling.leader_ended()
    alone.event(JobEvent.CAUGHT_UP)
    assert heard.events == [JobEvent.CAUGHT_UP, JobEvent.PAUSED, JobEvent.CAUGHT_UP]


def test_the_job_catches_up_as_long_as_any_table_does() -> None:
    heard, telling, leader = together()
    alone = GroupNarrator(telling, ("ods.b",), leads=False)
    alone.lanes(lane("ods.b", LaneState.CATCHING_UP), LaneState.CATCHING_UP, 9, 1)
    leader.lanes(lane("ods.a"), LaneState.RUNNING, 7, 2)
    assert (heard.state, heard.epoch, heard.registrations) == (LaneState.CATCHING_UP, 9, 3)
    assert set(telling.without(alone)) == {"ods.b dn_1"}


def test_a_table_is_as_far_as_its_own_rows_whatever_the_others_of_its_group_do() -> None:
    heard, _, leader = together()
    leader.event(JobEvent.BEGAN)
    leader.stored(dict.fromkeys(("ods.a", "ods.b"), LaneState.COPYING))
    leader.event(JobEvent.COPY_BEGAN)
    leader.stored({"ods.a": LaneState.CATCHING_UP})
    assert {name: one.state for name, one in heard.tables.items()} == {"ods.a": "CATCHING UP", "ods.b": "SNAPSHOT"}
    leader.stored({"ods.b": LaneState.CATCHING_UP})
    leader.event(JobEvent.COPY_DONE)
    leader.stored({"ods.a": LaneState.RUNNING})
    assert {name: one.state for name, one in heard.tables.items()} == {"ods.a": "RUNNING", "ods.b": "CATCHING UP"}


def test_no_event_of_a_group_reports_a_table_before_its_rows() -> None:
    heard, telling, leader = together()
    leader.event(JobEvent.BEGAN)
    for event in (JobEvent.COPY_BEGAN, JobEvent.COPY_DONE, JobEvent.CAUGHT_UP):
        leader.event(event)
        assert {one.state for one in heard.tables.values()} == {"PENDING"}
    telling.failed("ods.b", Refused("no such column"), {})
    leader.stored({"ods.b": LaneState.RUNNING})
    assert heard.tables["ods.b"].state == "FAILED", "its rows outlive its failure"


def test_a_table_that_waits_for_the_copy_of_another_says_so_until_it_streams() -> None:
    heard, _, leader = together()
    leader.event(JobEvent.BEGAN)
    leader.waits(["ods.b"], "waits for the copy of ods.a")
    assert (heard.tables["ods.b"].state, heard.tables["ods.b"].reason) == ("PENDING", "waits for the copy of ods.a")
    leader.stored({"ods.b": LaneState.RUNNING})
    assert heard.tables["ods.b"].reason == ""


def test_what_a_group_has_told_counts_whatever_it_does_with_its_lanes_meanwhile() -> None:
    """Its thread removes lanes while the thread of another group reads all of them."""
    heard, telling, leader = together()
    alone, mine = GroupNarrator(telling, ("ods.b",), leads=False), lane("ods.a")
    leader.lanes(mine, LaneState.RUNNING, 7, 2)
    mine.clear()
    alone.lanes(lane("ods.b"), LaneState.RUNNING, 9, 1)
    assert set(heard.now) == {"ods.a dn_1", "ods.b dn_1"}


def test_rows_in_quarantine_of_a_table_that_left_are_counted_and_none_twice() -> None:
    heard, telling, leader = together()
    leader.quarantined(5)
    alone = GroupNarrator(telling, ("ods.b",), leads=False)
    alone.quarantined(3)
    assert heard.rows_quarantined == 5, "tables that run together are queried at once"
    telling.leader_ended()
    alone.quarantined(4)
    assert heard.rows_quarantined == 4


def test_a_table_alone_says_why_it_waits_until_it_continues() -> None:
    """The tables that stream overwrite the job's own reason."""
    heard, telling, _ = together()
    alone = GroupNarrator(telling, ("ods.b",), leads=False)
    telling.starts("ods.b")
    alone.retrying("ods.b: altering the target, next in 5 s: a lock")
    assert (heard.tables["ods.b"].state, heard.tables["ods.b"].reason) == (
        "PENDING",
        "altering the target, next in 5 s: a lock",
    )
    alone.retrying("")
    assert heard.tables["ods.b"].reason == ""
    telling.failed("ods.b", Refused("no such column"), {})
    alone.retrying("too late")
    assert heard.tables["ods.b"].reason == "no such column"


class Runner:
    """A runner with this capacity that records the calls."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.tasks_started = capacity, 0
        self.asked: list[str] = []

    def submit(self, entry: Any, spec: object, group: str) -> Any:
        self.asked.append(group)

    def cancel(self, group: str) -> None:
        self.asked.append(f"cancel {group}")

    def close(self) -> None:
        raise AssertionError("the runner is the job's")


def test_tables_alone_share_half_of_the_capacity_and_each_has_some() -> None:
    for capacity, beside, ours, each in ((8, 0, 8, 4), (8, 1, 7, 4), (8, 3, 5, 1), (8, 9, 4, 1), (1, 2, 1, 1)):
        shared = SharedRunner(Runner(capacity), beside)
        assert (shared.capacity, shared.apart("ods.b").capacity) == (ours, each), (capacity, beside)


def test_a_table_alone_cancels_its_own_tasks_only() -> None:
    runner = Runner(4)
    alone = SharedRunner(runner).apart("ods.b")
    alone.submit(print, "x", "task-1")
    alone.cancel("task-1")
    alone.close()
    assert runner.asked == ["ods.b/task-1", "cancel ods.b/task-1"]


def test_a_table_that_left_is_polled_no_more_and_its_line_goes_to_the_next() -> None:
    schedule = PollSchedule({f"t{n}": {one: place for place, one in enumerate(names_of(f"t{n}"))} for n in range(5)})
    idle = {one for n in range(5) for one in names_of(f"t{n}")}
    first = schedule.due(idle, 0.0)
    assert {one.table for one in first} == {"t0", "t1", "t2", "t3"}, "four lines"
    schedule.drop("t0")
    assert "t0" not in schedule
    assert schedule.due(idle, 0.0) == []
    schedule.free("t0")
    assert [one.table for one in schedule.due(idle, 0.0)] == ["t4"]
