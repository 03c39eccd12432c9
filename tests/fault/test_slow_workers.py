"""A worker or a step that exceeds the limit of an overrun task gets more time at each attempt, until it completes.

Ending a task costs its worker. If a new worker is slow to start, each would otherwise be ended before its first step; a
step that exceeds the limit of every task would be cancelled again and again.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.spec import JobSpec, RetryOptions
from slotkeeper.core.engine.driver import loop
from slotkeeper.core.engine.tasks import StreamTask
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.engine.worker.step import nothing
from tests.support.crowd import Crowd, One
from tests.support.waiting import until


@dataclass
class SlowToStart(Crowd):
    """Each task needs `start` seconds before its first step, and needs them again after a cancellation."""

    start: float = 0.7
    cancelled: int = 0
    under_way: dict[str, tuple[threading.Timer, Future[Any]]] = field(default_factory=dict)

    def submit(self, entry: Any, spec: object, group: str) -> Future[Any]:
        assert isinstance(spec, StreamTask)
        task, future = spec, Future[Any]()
        self.sessions.add(1)

        def work() -> None:
            pairs: list[Any] = [lambda table: (One(self), One(self))]
            with suppress(InvalidStateError):  # it was cancelled meanwhile
                future.set_result(entries.stream_lanes(task, pairs, SystemClock(), nothing))

        self.under_way[group] = (threading.Timer(self.start, work), future)
        self.under_way[group][0].start()
        return future

    def cancel(self, group: str) -> None:
        timer, future = self.under_way[group]
        timer.cancel()
        self.cancelled += 1
        future.set_exception(CancelledError())


def test_a_worker_that_starts_slower_than_a_task_is_given_gets_more_time_at_each_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "OVERRUN", 0.3)
    monkeypatch.setattr(loop, "CANCEL_AFTER", 0.1)
    crowd = SlowToStart(["dn_1"], step=0.0)
    crowd.clock = SystemClock()  # while a worker starts, time passes without any work
    running = threading.Thread(target=crowd.loop(0.1, lambda _: None).run)
    running.start()
    try:
        until(lambda: crowd.done["dn_1"] >= 1, 30, "a first step")
    finally:
        crowd.close()
        running.join(30)
    assert crowd.cancelled >= 1, "the first attempt had too little time"


@dataclass
class LongSteps(SlowToStart):
    """The first tasks exceed their limit, whatever it is; `given` has the limit of each.

    A job that tries again at once.
    """

    longer: int = 4
    given: list[float] = field(default_factory=list)

    @property
    def job(self) -> JobSpec:
        return replace(super().job, retry=RetryOptions(wait_initial=10, wait_max=10, wait_jitter=0))

    def submit(self, entry: Any, spec: object, group: str) -> Future[Any]:
        self.start = 3_600.0 if len(self.given) < self.longer else 0.0
        self.began = time.monotonic()
        return super().submit(entry, spec, group)

    def cancel(self, group: str) -> None:
        self.given.append(time.monotonic() - self.began)
        super().cancel(group)


def test_a_step_longer_than_any_task_is_given_gets_twice_the_time_at_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "OVERRUN", 0.1)
    monkeypatch.setattr(loop, "MOST_SLACK", 0.1)
    monkeypatch.setattr(loop, "CANCEL_AFTER", 0.1)
    crowd = LongSteps(["dn_1"], step=0.0)
    crowd.clock = SystemClock()
    running = threading.Thread(target=crowd.loop(0.1, lambda _: None).run)
    running.start()
    try:
        until(lambda: crowd.done["dn_1"] >= 1, 60, "a first step")
    finally:
        crowd.close()
        running.join(30)
    least = [0.2 + 0.1 * 2**tries for tries in range(crowd.longer)]
    assert all(was >= wanted for was, wanted in zip(crowd.given, least, strict=False)), crowd.given
