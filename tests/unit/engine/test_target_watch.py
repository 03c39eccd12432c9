"""When the targets of a job are checked next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.engine.driver.target_watch import EVERY, SHARE, TargetWatch
from core.errors import Busy, SlotkeeperError, Unreachable

TABLE = "ods.orders"


@pytest.mark.parametrize(
    ("error", "pause"),
    [(Busy("locked"), EVERY), (Unreachable("silent"), 2.0 * SHARE)],
    ids=["a lock, which is no load", "anything else"],
)
def test_a_check_that_waited_for_a_lock_is_made_again_as_soon_as_any(error: SlotkeeperError, pause: float) -> None:
    now, asked = [100.0], list[float]()

    def read(some: object) -> dict[str, SlotkeeperError]:
        asked.append(now[0])
        now[0] += 2.0
        return {TABLE: error}

    lane = SimpleNamespace(name="dn_1", position=0, key=SimpleNamespace(source_table=TABLE))
    watched = SimpleNamespace(job=SimpleNamespace(channel=SimpleNamespace(source_table=TABLE)), columns=(), record=None)
    loop = SimpleNamespace(lanes={"dn_1": lane}, post=lambda work, *given: work(*given))
    plan = SimpleNamespace(targets=SimpleNamespace(reader=SimpleNamespace(read=read), tables={TABLE: watched}), epoch=1)
    executor = SimpleNamespace(submit=lambda line, work: work())
    clock = SimpleNamespace(monotonic=lambda: now[0])
    watch = TargetWatch(*cast(Any, (loop, plan, executor, clock, None)))
    watch.check(now[0])
    for now[0] in (102.0 + pause - 0.1, 102.0 + pause):
        watch.check(now[0])
    assert asked == [100.0, 102.0 + pause]
