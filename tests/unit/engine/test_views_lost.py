"""A task of the views whose connection is lost: a build has no time limit, so the driver asks the sink about it."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from slotkeeper.core.domain.spec import RoundOptions
from slotkeeper.core.engine.driver import views as driven
from slotkeeper.core.engine.driver.views import LOST_AFTER, Rounds
from slotkeeper.core.engine.tasks import ViewsOutcome
from slotkeeper.core.errors import Unreachable


@pytest.mark.parametrize("kept", ["", "2026-11-29 18:00:00"])
def test_a_build_may_wait_for_a_worker_and_last_as_long_as_the_sink_executes_it_and_is_then_ended(
    monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """Each check takes ten seconds: a worker comes after half an hour, the sink executes for as long, then nothing.

    The worker opens a session, or has `kept` the one of its last task until Spark ends that worker.
    """
    monkeypatch.setattr(driven, "REPORT_EVERY", 0.0)
    now, acts = [0.0], list[object]()

    def activity(session: str) -> tuple[bool, str]:
        now[0] += 10.0
        if now[0] <= 1_800.0:
            return False, kept if now[0] <= 900.0 else ""
        return now[0] <= 3_600.0, "2026-11-29 18:30:00"

    views: Any = SimpleNamespace(
        due=lambda: ["dws.a"], rows=list, waiting=dict, activity=activity, waits=lambda epoch: False
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


def test_a_task_is_not_lost_whose_statements_are_too_short_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of many small views over a long line: each check, every ten seconds, finds the session idle."""
    monkeypatch.setattr(driven, "REPORT_EVERY", 0.0)
    now, task = [0.0], Future[Any]()

    def activity(session: str) -> tuple[bool, str]:
        now[0] += 10.0
        if now[0] > 600.0 and not task.done():
            task.set_result(ViewsOutcome())
        return False, str(now[0])

    views: Any = SimpleNamespace(due=lambda: ["dws.a"], rows=list, waiting=dict, activity=activity)
    ctx: Any = SimpleNamespace(
        job=SimpleNamespace(rounds=RoundOptions(200, 1)),
        clock=SimpleNamespace(monotonic=lambda: now[0], utc=lambda: SimpleNamespace(timestamp=lambda: now[0])),
        work=SimpleNamespace(views=None.__class__),
        runner=SimpleNamespace(submit=lambda *given: task, cancel=lambda group: None),
        sessions=SimpleNamespace(end_tasks=lambda names: None),
        report_views=lambda reports: None,
    )
    assert Rounds(ctx)._turn(views, 1)


@pytest.mark.parametrize(("working", "ends"), [(False, 2), (True, 0)])
def test_a_lost_task_that_could_not_be_ended_is_ended_before_the_next_epoch_unless_the_sink_executes_it(
    working: bool, ends: int
) -> None:
    """Its transaction locks the rows of the views, for which each further epoch would wait; a build is not repeated."""
    name, ended, silent = "slotkeeper/j/1.abc.views", list[object](), [Unreachable("the sink does not answer")]

    def end_tasks(names: dict[str, object]) -> None:
        ended.extend(names)
        if silent:
            raise silent.pop()

    def enter() -> int:
        rounds._closing.set()
        return 2

    views: Any = SimpleNamespace(enter=enter, activity=lambda session: (working, "2026-11-29 18:00:00"))
    sessions = SimpleNamespace(
        views=lambda: nullcontext(views), end_tasks=end_tasks, task_prefix=lambda: "slotkeeper/j/1.def."
    )
    ctx: Any = SimpleNamespace(
        job=SimpleNamespace(rounds=RoundOptions(200, 1)),
        runner=SimpleNamespace(cancel=lambda group: None),
        sessions=sessions,
        tell_views=lambda text: None,
    )
    rounds = Rounds(ctx)
    rounds._session = name
    if not working:
        with pytest.raises(Unreachable, match="does not answer"):
            rounds._maintain()
    rounds._maintain()
    assert ended == [name] * ends and rounds._session == "slotkeeper/j/1.def.views"
