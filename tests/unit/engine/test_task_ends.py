"""Sessions that tasks left at the store are ended by a thread: the loop waits for no answer, and no failure reaches
it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import contains

from slotkeeper.core.engine.driver.copy import TaskSessions
from slotkeeper.core.errors import Refused, Unreachable
from tests.support.waiting import until


class Ends:
    """A store that answers once `let` is set, after raising its remaining errors."""

    def __init__(self, *errors: Exception) -> None:
        self.asked: list[list[str]] = []
        self.let = threading.Event()
        self._errors = list(errors)

    def task_prefix(self) -> str:
        return "slotkeeper/j/7.abc123."

    def end_tasks(self, names: Mapping[str, Callable[[bool], None]]) -> None:
        self.asked.append(list(names))
        assert self.let.wait(20)
        if self._errors:
            raise self._errors.pop(0)
        for name, hear in names.items():
            hear(name == "two")


def test_no_task_waits_for_a_store_that_hangs_and_tasks_that_come_meanwhile_are_ended_together() -> None:
    ends = Ends()
    sessions = TaskSessions(ends)
    sessions.end("one")
    until(lambda: ends.asked, 20, "the first to be asked for")
    heard: dict[str, bool] = {}
    for name in ("two", "three", "four"):
        sessions.end(name, partial(heard.__setitem__, name))
    assert ends.asked == [["one"]]
    ends.let.set()
    until(lambda: len(ends.asked) == 2, 20, "the others to be asked for")
    assert ends.asked[1] == ["two", "three", "four"]
    until(lambda: heard == {"two": True, "three": False, "four": False}, 20, "who was at work to be heard")


def test_a_lost_answer_a_refusal_and_a_defect_keep_nothing_from_being_ended_later() -> None:
    ends = Ends(Unreachable("gone", where="sink"), Refused("permission denied", where="sink"), ValueError("a defect"))
    ends.let.set()
    sessions = TaskSessions(ends)
    for number in range(1, 5):
        sessions.end(f"task {number}")
        until(partial(contains, ends.asked, [f"task {number}"]), 20, "it to be asked for")
    assert len(ends.asked) == 4


def test_a_task_without_a_name_belongs_to_no_job() -> None:
    ends = Ends()
    TaskSessions(ends).end("")
    assert not ends.asked
    assert TaskSessions(ends).prefix == "slotkeeper/j/7.abc123."
