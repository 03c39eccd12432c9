"""A task of the views whose connection is lost: a build has no time limit, so the driver asks the sink about it."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from slotkeeper.core.domain.spec import RoundOptions
from slotkeeper.core.engine.driver import views as driven
from slotkeeper.core.engine.driver.views import LOST_AFTER, Rounds
from slotkeeper.core.errors import Unreachable


def test_a_build_may_last_as_long_as_the_sink_executes_it_and_is_ended_once_the_sink_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each check takes ten seconds: the sink executes the build for an hour, and then nothing."""
    monkeypatch.setattr(driven, "REPORT_EVERY", 0.0)
    now, acts = [0.0], list[object]()

    def at_work(session: str) -> bool:
        now[0] += 10.0
        return now[0] <= 3_600.0

    views: Any = SimpleNamespace(
        due=lambda: ["dws.a"], rows=list, waiting=dict, at_work=at_work, waits=lambda epoch: False
    )
    ctx: Any = SimpleNamespace(
        job=SimpleNamespace(rounds=RoundOptions(200, 1)),
        clock=SimpleNamespace(monotonic=lambda: now[0], utc=lambda: SimpleNamespace(timestamp=lambda: now[0])),
        work=SimpleNamespace(views=None.__class__),
        runner=SimpleNamespace(submit=lambda *given: Future[Any](), cancel=acts.append),
        sessions=SimpleNamespace(end_tasks=acts.extend),
        report_views=lambda reports: None,
    )
    rounds = Rounds(ctx)
    rounds._session = "slotkeeper/j/1.abc.views"
    with pytest.raises(Unreachable, match="executed nothing"):
        rounds._turn(views, 1)
    assert 3_600.0 + LOST_AFTER <= now[0] < 3_600.0 + LOST_AFTER + 20.0
    assert acts == [driven.GROUP, "slotkeeper/j/1.abc.views"]
