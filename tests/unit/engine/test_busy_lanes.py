"""Lanes that always have rows: registered now and then, not after each task, and always when the job stops.

The loop and its tasks are the product's, the servers only count (`tests.support.crowd`). Next door:
`tests/fault/test_fairness.py` has more lanes than places.
"""

from __future__ import annotations

import pytest

from core.engine.driver import loop
from core.engine.driver.loop import Loop
from core.sources.dws.position import SyncPoints
from tests.support.crowd import Crowd

NAMES = ["dn_1", "dn_2", "dn_3"]
EVERY, DEADLINE, STEP = 0.5, 0.06, 0.01
"""Seconds of the crowd's own clock."""
TASKS = 30


def streamed(crowd: Crowd) -> tuple[Loop, float]:
    """A loop that has ended after so many tasks, and the crowd's seconds that this took."""

    def tick(running: Loop) -> None:
        if crowd.tasks_started >= TASKS:
            crowd.over.set()

    began, made = crowd.now(), crowd.loop(DEADLINE, tick)
    try:
        made.run()
    finally:
        crowd.close()
    return made, crowd.now() - began


def test_a_lane_that_always_has_rows_is_registered_now_and_then_and_when_the_job_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "REGISTER_EVERY", EVERY)
    crowd = Crowd(NAMES, STEP, capacity=len(NAMES))
    made, seconds = streamed(crowd)
    print(f"{made.registrations} registrations of {crowd.tasks_started} tasks in {seconds:.2f} s")
    assert len(NAMES) <= made.registrations <= len(NAMES) * (seconds / EVERY + 1)
    for row in crowd.rows_.values():
        assert row.position is not None
        point = row.position.pair[0]
        assert row.registered == SyncPoints(point, point, 1), "a stop registers what was applied last"


def test_without_that_every_task_is_followed_by_a_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "REGISTER_EVERY", 0.0)
    crowd = Crowd(NAMES, STEP, capacity=len(NAMES))
    made, _ = streamed(crowd)
    assert made.registrations >= TASKS - len(NAMES)
