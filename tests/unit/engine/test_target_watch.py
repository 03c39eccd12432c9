"""The time of the next check of a job's targets."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.engine.driver.registration import EVERY, FEW, ROUNDS, SHARE, TargetWatch
from slotkeeper.core.errors import Busy, SlotkeeperError, Unreachable

TABLE = "ods.orders"


class Watched:
    """A watch of one table whose checks take the set number of seconds, with the times at which they started."""

    def __init__(self, error: SlotkeeperError) -> None:
        self.now, self.takes, self.asked = 100.0, 2.0, list[float]()
        self.error: SlotkeeperError | None = error
        self.said: list[str] = []

        def read(some: object) -> dict[str, SlotkeeperError]:
            self.asked.append(self.now)
            self.now += self.takes
            return {TABLE: self.error} if self.error is not None else {}

        lane = SimpleNamespace(name="dn_1", position=0, key=SimpleNamespace(source_table=TABLE), activity=Activity.IDLE)
        watched = SimpleNamespace(
            job=SimpleNamespace(channel=SimpleNamespace(source_table=TABLE)), columns=(), record=None
        )
        self.lane = lane
        loop = SimpleNamespace(lanes={"dn_1": lane}, post=lambda work, *given: work(*given), sharing=lambda lane: ())
        targets = SimpleNamespace(reader=SimpleNamespace(read=read), tables={TABLE: watched})
        plan = SimpleNamespace(targets=targets, epoch=1, retrying=lambda text, by: self.said.append(text))
        self.works: list[Callable[[], None]] = []
        self.answers = True
        executor = SimpleNamespace(submit=lambda line, work: work() if self.answers else self.works.append(work))
        clock = SimpleNamespace(monotonic=lambda: self.now)
        self.watch = TargetWatch(*cast(Any, (loop, plan, executor, clock, None)))

    def pause(self, takes: float) -> float:
        """Seconds from the end of a check until the next one, which takes `takes` seconds."""
        ended, before, self.takes = self.now, len(self.asked), takes
        while len(self.asked) == before:
            assert self.now < ended + 100
            self.watch.check(self.now)
            self.now += 0.0 if len(self.asked) > before else 0.125
        return self.asked[-1] - ended


@pytest.mark.parametrize(
    ("error", "pause"),
    [(Busy("locked"), EVERY), (Unreachable("silent"), 2.0 * SHARE)],
    ids=["a lock, which adds no load", "anything else"],
)
def test_checks_that_waited_for_a_lock_are_made_as_soon_as_any(error: SlotkeeperError, pause: float) -> None:
    watched = Watched(error)
    watched.pause(2.0)
    watched.pause(2.0)
    assert watched.pause(2.0) == pause


def test_one_check_that_took_long_alone_delays_none() -> None:
    watched = Watched(Unreachable("silent"))
    assert [watched.pause(takes) for takes in (0.0, 8.0, 0.0, 0.0)] == [0.0, EVERY, EVERY, EVERY]


def test_checks_that_fail_for_three_seconds_are_reported_and_so_is_their_end() -> None:
    watched = Watched(Unreachable("the sink refuses connections"))
    watched.pause(0.0)
    assert watched.said == []
    for _ in range(4):
        watched.pause(0.0)
    assert watched.said and "the sink refuses connections" in watched.said[0]
    assert all("so no position is confirmed" in text for text in watched.said)
    watched.error = None
    watched.pause(0.0)
    assert watched.said[-1] == ""


def test_one_check_that_fails_after_a_long_wait_is_reported_at_once_and_a_lock_is_not() -> None:
    silent, locked = Watched(Unreachable("no answer within 5 s")), Watched(Busy("locked"))
    silent.pause(5.0)
    locked.pause(5.0)
    assert len(silent.said) == 1 and locked.said == []


def test_a_check_that_is_not_answered_for_eight_seconds_is_reported_until_one_passes() -> None:
    watched = Watched(Unreachable("never raised"))
    watched.error, watched.answers = None, False
    for _ in range(12):
        watched.watch.check(watched.now)
        watched.now += 1.0
    assert len(watched.said) == 1 and "no answer for 8 s" in watched.said[0]
    watched.works.pop()()
    assert watched.said[-1] == ""


def test_a_lane_registers_no_further_than_it_was_when_its_target_was_checked() -> None:
    watched = Watched(Unreachable("silent"))
    find = watched.watch.find_proven
    watched.lane.position = 5
    for why in ("no check", "a check that returned an error"):
        proven = find(cast(Any, watched.lane))
        assert proven is not None and cast(Any, proven.place) == 0, why
        watched.pause(0.0)


class Many:
    """A watch of many tables, with the tables of each check; the tables in `fails` return an error."""

    def __init__(self, count: int) -> None:
        self.now, self.checks, self.fails = 100.0, list[set[str]](), set[str]()
        self.tables = [f"ods.t{n:03}" for n in range(count)]

        def read(asked: list[Any]) -> dict[str, SlotkeeperError]:
            found = {one.job.channel.source_table for one in asked}
            self.checks.append(found)
            return {table: Unreachable("silent") for table in found & self.fails}

        self.lanes = {
            table: SimpleNamespace(
                name=table, position=0, key=SimpleNamespace(source_table=table), activity=Activity.IDLE
            )
            for table in self.tables
        }
        watched = {
            table: SimpleNamespace(
                job=SimpleNamespace(channel=SimpleNamespace(source_table=table)), columns=(), record=None
            )
            for table in self.tables
        }
        loop = SimpleNamespace(lanes=self.lanes, post=lambda work, *given: work(*given))
        targets = SimpleNamespace(reader=SimpleNamespace(read=read), tables=watched)
        plan = SimpleNamespace(targets=targets, epoch=1, retrying=lambda text, by: None)
        executor = SimpleNamespace(submit=lambda line, work: work())
        clock = SimpleNamespace(monotonic=lambda: self.now)
        self.watch = TargetWatch(*cast(Any, (loop, plan, executor, clock, None)))

    def check(self, times: int = 1) -> list[set[str]]:
        for _ in range(times):
            self.now += EVERY
            self.watch.check(self.now)
        return self.checks[-times:]


def test_idle_targets_are_checked_in_turn_and_all_of_them_within_ten_checks() -> None:
    many = Many(200)
    checks = many.check(ROUNDS)
    assert {len(one) for one in checks} == {200 // ROUNDS}
    assert set[str]().union(*checks) == set(many.tables)


def test_a_target_that_lanes_write_or_wait_for_is_in_every_check() -> None:
    many = Many(200)
    many.lanes["ods.t007"].activity = Activity.APPLYING
    many.watch.waiting.add("ods.t150")
    assert all("ods.t007" in one and len(one) <= 200 // ROUNDS + 2 for one in many.check(5))
    assert "ods.t150" in many.checks[0]


def test_a_target_whose_check_failed_is_in_the_next_check() -> None:
    many = Many(200)
    many.fails = {"ods.t003"}
    failing = [("ods.t003" in many.check()[0], many.watch.failing) for _ in range(3)]
    many.fails = set()
    failing += [("ods.t003" in many.check()[0], many.watch.failing) for _ in range(2)]
    assert failing == [(True, True)] * 3 + [(True, False), (False, False)]


@pytest.mark.parametrize("count", [1, FEW])
def test_few_targets_are_checked_together(count: int) -> None:
    assert Many(count).check(3) == [{f"ods.t{n:03}" for n in range(count)}] * 3


def test_the_last_check_of_a_loop_includes_every_target() -> None:
    many = Many(200)
    many.watch.check(many.now, at_once=True)
    assert many.checks == [set(many.tables)]
