"""A sink that answers again is used at once: the job does not wait for each lane's next retry."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.spec import JobSpec, RetryOptions, SinkOptions
from slotkeeper.core.engine.driver.loop import Loop
from slotkeeper.core.engine.driver.upkeep import Upkeep
from slotkeeper.core.errors import Unreachable
from tests.support.crowd import Crowd
from tests.support.waiting import until

HOUR = 3_600_000


class Patient(Crowd):
    """A job that would wait an hour for its next retry."""

    @property
    def job(self) -> JobSpec:
        quick_is_over = SinkOptions(max_flush_retry_times=1)
        return replace(super().job, retry=RetryOptions(wait_initial=HOUR, wait_max=HOUR), sink_options=quick_is_over)


def test_a_lane_that_waits_for_a_sink_is_tried_as_soon_as_the_lease_is_answered_again() -> None:
    crowd = Patient(["dn_1"], step=0.0)
    crowd.clock = SystemClock()
    away = threading.Event()

    def keep() -> None:
        if away.is_set():
            raise Unreachable("sink mart (h:1 as u): connection refused", where="sink")

    waits: list[bool] = []

    def told(loop: Loop) -> None:
        waits.append(loop.lanes["dn_1"].error != "")

    loop: Any = crowd.loop(0.1, told)
    loop.plan = replace(loop.plan, keep_lease=keep)
    loop._upkeep = Upkeep(loop, loop.plan, crowd, loop._executor, crowd.clock)
    running = threading.Thread(target=loop.run)
    running.start()
    try:
        until(lambda: crowd.done["dn_1"] >= 1, 60, "a first step")
        away.set()
        until(lambda: waits and waits[-1], 60, "the lane fails by the sink")
        done = crowd.done["dn_1"]
        away.clear()
        until(
            lambda: crowd.done["dn_1"] > done and not waits[-1], 60, "it continues, and no fault is reported any more"
        )
    finally:
        crowd.close()
        running.join(30)
