"""After a rejected password the driver tries to log in itself; lanes wait no longer than the password is rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from slotkeeper.core import retry
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.engine.driver.upkeep import AT_ONCE, Upkeep
from slotkeeper.core.errors import ErrorKind, LoginRefused
from slotkeeper.core.retry import LOGIN_WAIT_MOST, Failure, RetryRules
from tests.support.crowd import Crowd


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class AtOnce:
    def submit(self, _line: str, work: Any) -> None:
        work()


class Side:
    """A loop of one lane, and its sessions; logins succeed if `open` is set."""

    def __init__(self) -> None:
        self.clock, self.open, self.logins = Clock(), True, 0
        crowd = Crowd(["dn_1"], step=0.0)
        loop = crowd.loop(0.1, lambda _: None)
        crowd.close()
        self.lanes: dict[str, Lane] = loop.lanes
        self.upkeep = Upkeep(cast(Any, self), loop.plan, cast(Any, self), cast(Any, AtOnce()), cast(Any, self.clock))

    def post(self, handle: Any, *arguments: object) -> None:
        handle(*arguments)

    def log_in(self, _where: str) -> None:
        self.logins += 1
        if not self.open:
            raise LoginRefused("password authentication failed", where="sink")

    def refuse(self) -> None:
        """Report that a worker's login was rejected in a step of the lane."""
        lane = self.lanes["dn_1"]
        history = retry.after(lane.history, Failure(ErrorKind.LOGIN, "sink"), RetryRules())
        ready_at = self.clock.now + LOGIN_WAIT_MOST
        self.lanes["dn_1"] = replace(lane, history=history, activity=Activity.WAITING, ready_at=ready_at)
        self.upkeep.login_refused("sink", history.login)

    def waited(self) -> float:
        """Seconds until a task may be started again."""
        begun = self.clock.now
        while self.upkeep.awaits_login(self.clock.now):
            self.clock.now += 0.5
            assert self.clock.now - begun < 600
        return self.clock.now - begun


@pytest.fixture
def side() -> Side:
    return Side()


def test_many_rotations_one_after_the_other_make_no_lane_wait(side: Side) -> None:
    for _ in range(20):
        side.refuse()
        assert side.waited() <= 0.5
        assert side.lanes["dn_1"].ready_at <= side.clock.now
        side.lanes["dn_1"] = side.lanes["dn_1"].answered
        side.clock.now += 2.0


def test_a_lane_whose_workers_alone_are_refused_waits_longer_each_time(side: Side) -> None:
    waits = []
    for _ in range(AT_ONCE + 8):
        side.refuse()
        waits.append(side.waited())
    assert max(waits[:AT_ONCE]) <= 0.5 and waits == sorted(waits) and waits[-1] >= LOGIN_WAIT_MOST


def test_a_driver_that_is_refused_compares_more_and_more_seldom_until_it_is_not(side: Side) -> None:
    side.open = False
    side.refuse()
    for _ in range(300):
        side.upkeep.awaits_login(side.clock.now)
        side.clock.now += 1.0
    assert 8 <= side.logins <= 12
    side.open = True
    assert side.waited() <= LOGIN_WAIT_MOST


def test_refusals_are_counted_in_a_row() -> None:
    history = NO_HISTORY
    for kind in (ErrorKind.LOGIN, ErrorKind.LOGIN, ErrorKind.TRANSIENT, ErrorKind.LOGIN):
        history = retry.after(history, Failure(kind, "sink"), RetryRules())
    assert history.login == 1
