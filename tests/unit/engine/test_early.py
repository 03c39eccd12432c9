"""A requested retry comes early, counts like any other, and never happens if it could lock an account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core import retry
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.report import GIVEN_UP
from slotkeeper.core.domain.tries import NO_HISTORY, History, Requests, TryAnswer, TryAsked
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.failure import PAUSED, retry_early, retry_sink_lanes, wait_to_try
from slotkeeper.core.errors import ErrorKind
from slotkeeper.core.retry import LOGIN_REFUSED, Failure, RetryRules, Stop
from tests.unit.engine.test_tables_told import TWO, lane

NAMES = {"ods.a": ("ods.a dn_1",), "ods.b": ("ods.b dn_1",)}
WAITING = {"activity": Activity.WAITING, "ready_at": 600.0, "history": History(failures=3, sink=2, long=1)}


def lanes(**of_a: Any) -> dict[str, Lane]:
    both = lane("ods.a") | lane("ods.b")
    return both | {"ods.a dn_1": replace(both["ods.a dn_1"], **of_a)}


def test_a_lane_that_waits_is_tried_now_with_its_history_and_an_idle_one_is_polled() -> None:
    before = lanes(**WAITING)
    changed, answers = retry_early(before, NAMES, "", 100.0, paused=False)
    assert answers == [TryAnswer("ods.a", tried=("ods.a dn_1",)), TryAnswer("ods.b", polled=("ods.b dn_1",))]
    assert changed == {"ods.a dn_1": replace(before["ods.a dn_1"], ready_at=100.0)}, "nothing else is another"


@pytest.mark.parametrize(
    ("told", "at"),
    [
        ({"side": "sink", "error": "sink mart (h:1 as u): does not answer"}, 100.0),
        ({"side": "sink", "error": "sink mart (h:1 as u): does not answer", "not_before": 112.0}, 112.0),
        ({"error": f"dn_1: {GIVEN_UP}"}, 100.0),
        ({"side": "source", "error": "dn_1: connection refused"}, None),
        ({"side": "sink", "error": "password refused", "history": History(failures=1, access=1)}, None),
        ({"side": "sink", "error": "a lock", "activity": Activity.APPLYING}, None),
    ],
)
def test_a_sink_that_is_back_frees_what_waits_by_it(told: dict[str, Any], at: float | None) -> None:
    before = lanes(**(WAITING | told))
    found = retry_sink_lanes(before, 100.0)
    assert found == ({} if at is None else {"ods.a dn_1": replace(before["ods.a dn_1"], ready_at=at)})


def test_one_table_is_asked_for_alone_and_what_is_under_way_is_left_so() -> None:
    _, (answer,) = retry_early(lanes(**WAITING), NAMES, "ods.b", 100.0, paused=False)
    assert answer == TryAnswer("ods.b", polled=("ods.b dn_1",))
    for activity in (Activity.DUE, Activity.APPLYING, Activity.REGISTERING):
        changed, (answer,) = retry_early(lanes(activity=activity), NAMES, "ods.a", 100.0, paused=False)
        assert (changed, answer) == ({}, TryAnswer("ods.a", busy=("ods.a dn_1",)))


def test_after_a_refused_login_nothing_is_tried_early_by_any_lane_of_its_account() -> None:
    refused = replace(lane("ods.b")["ods.b dn_1"], activity=Activity.WAITING, history=History(failures=1, access=1))
    before = lanes(**WAITING) | {"ods.b dn_1": refused}
    changed, answers = retry_early(before, NAMES, "", 100.0, paused=False)
    assert changed == {}
    assert [one.refused for one in answers] == [{"ods.a dn_1": LOGIN_REFUSED}, {"ods.b dn_1": LOGIN_REFUSED}]
    last = retry.decide(Failure(ErrorKind.ACCESS), refused.history, RetryRules(), 0.5)
    assert isinstance(last, Stop), "the remaining attempt is the last one, at its own time"


def test_a_registration_that_may_still_be_in_transit_is_waited_out_despite_any_request() -> None:
    before = lanes(**(WAITING | {"not_before": 112.0}))
    changed, (answer,) = retry_early(before, NAMES, "ods.a", 100.0, paused=False)
    assert changed["ods.a dn_1"].ready_at == 112.0
    assert not answer.tried and "retrying in 12 s" in answer.refused["ods.a dn_1"]


def test_a_job_that_is_paused_tries_nothing() -> None:
    changed, answers = retry_early(lanes(**WAITING), NAMES, "", 100.0, paused=True)
    assert changed == {} and {why for one in answers for why in one.refused.values()} == {PAUSED}


# -- a start, or a copy, that waits


@dataclass
class Asked:
    """Requests that arrive during a wait; implements `Tries`."""

    comes: dict[int, str] = field(default_factory=dict)
    answered: list[tuple[int, TryAnswer]] = field(default_factory=list)

    def last(self) -> int:
        return max(self.comes, default=0)

    def since(self, number: int) -> Sequence[TryAsked]:
        return [TryAsked(each, table) for each, table in sorted(self.comes.items()) if each > number]

    def answer(self, number: int, answers: Iterable[TryAnswer]) -> None:
        self.answered += [(number, one) for one in answers]


class Waiter:
    """A context whose clock advances by the pauses; at `at` seconds it calls `then`."""

    def __init__(self, asked: Asked | None, at: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        self.now, self.at, self.then, self.wanted_now = 0.0, at, then, WantedState.RUN
        self.clock = SimpleNamespace(monotonic=lambda: self.now)
        self.job, self.requests = TWO, Requests(asked)

    def wanted(self) -> WantedState:
        return self.wanted_now

    def pause(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if before < self.at <= self.now:
            self.then()

    def wait(self, history: History = NO_HISTORY) -> float:
        wait_to_try(cast(JobContext, self), "the start", 600.0, history)
        return self.now


@pytest.mark.parametrize("table", ["", "ods.b"])
def test_a_start_that_waits_ten_minutes_is_tried_within_a_second_of_being_asked(table: str) -> None:
    asked = Asked()
    assert Waiter(asked, 5.0, lambda: asked.comes.update({7: table})).wait() <= 6.0
    tables = [table] if table else ["ods.a", "ods.b"]
    assert asked.answered == [(7, TryAnswer(one, tried=("the start",))) for one in tables]


def test_a_start_whose_login_was_refused_waits_its_time_and_says_why() -> None:
    asked = Asked()
    assert Waiter(asked, 5.0, lambda: asked.comes.update({7: "ods.a"})).wait(History(1, access=1)) >= 600.0
    assert asked.answered == [(7, TryAnswer("ods.a", refused={"the start": LOGIN_REFUSED}))]


def test_who_asks_while_it_is_being_tried_hears_so_and_what_is_of_another_table_is_not_answered() -> None:
    asked = Asked()
    waiter = Waiter(asked)
    asked.comes |= {3: "ods.a", 4: "ods.elsewhere"}
    assert waiter.wait() >= 600.0
    assert asked.answered == [(3, TryAnswer("ods.a", busy=("the start",)))]


def test_requests_before_the_start_and_a_missing_store_change_nothing() -> None:
    assert Waiter(Asked({2: ""})).wait() >= 600.0
    assert Waiter(None).wait() == 600.0
    stopped = Waiter(Asked(), 5.0)
    stopped.then = lambda: setattr(stopped, "wanted_now", WantedState.STOP)
    assert stopped.wait() < 6.0
