"""A task commits and its outcome is lost: its lane's figures are those of the progress row."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.errors import Busy
from tests.support.crowd import Crowd
from tests.support.waiting import until


@dataclass
class LosesOutcomes(Crowd):
    """The outcomes of the first `lose` tasks are lost; `told` contains the changes that the loop last reported."""

    lose: int = 2

    def submit(self, entry: Any, spec: object, group: str) -> Future[Any]:
        real = super().submit(entry, spec, group)
        if self.tasks_started > self.lose:
            return real
        lost: Future[Any] = Future()
        real.add_done_callback(lambda _: lost.set_exception(Busy("a worker was lost")))
        return lost


def test_changes_are_counted_that_a_lost_task_had_applied() -> None:
    crowd = LosesOutcomes(["dn_1"], step=0.01)
    crowd.clock = SystemClock()
    loop = crowd.loop(0.1, lambda _: None)
    running = threading.Thread(target=loop.run)
    running.start()
    try:
        until(lambda: crowd.tasks_started >= crowd.lose + 2, 60, "tasks after those that were lost")
    finally:
        crowd.close()
        running.join(30)
    assert [lane.changes for lane in loop.lanes.values()] == list(crowd.done.values())
