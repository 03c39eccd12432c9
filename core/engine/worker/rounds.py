"""Builds and rounds of views on a worker, until no change waits. A task returns each error in its outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.engine.tasks import ViewsOutcome, ViewsTask
from slotkeeper.core.errors import ErrorKind, ErrorValues, SlotkeeperError
from slotkeeper.core.ports.sink import Views

LINGER = 0.3
"""Seconds for which a task waits for further changes: a new Spark task costs tens of milliseconds."""
PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS, ErrorKind.LOGIN)
"""Kinds of errors after which a build or a round is repeated."""


class Opened(Protocol):
    """The views of a job, and their session."""

    @property
    def views(self) -> Views: ...

    def close(self) -> None: ...


OpenViews = Callable[[JobSpec, str], Opened]
"""Opens the views of a job, over a session of this name."""
_kept: dict[tuple[Endpoint, str], tuple[int, Opened]] = {}
"""The session that this worker retains for a job's next task, with its epoch."""
_lock = threading.Lock()


def run_views(open_views: OpenViews, task: ViewsTask) -> ViewsOutcome:
    key = task.job.sink, task.job.name
    with _lock:
        epoch, opened = _kept.pop(key, (0, None))
    if opened is not None and epoch != task.epoch:
        opened.close()
        opened = None
    try:
        opened = opened or open_views(task.job, task.session)
        outcome = work(opened.views, task, SystemClock())
    except Exception as error:
        if opened is not None:
            opened.close()
        return ViewsOutcome(error=ErrorValues.of(error))
    with _lock:
        if key not in _kept:
            _kept[key] = task.epoch, opened
            return outcome
    opened.close()
    return outcome


def close_kept(job: JobSpec) -> None:
    """Close the session that this process retains for a job's views."""
    with _lock:
        _, opened = _kept.pop((job.sink, job.name), (0, None))
    if opened is not None:
        opened.close()


def work(views: Views, task: ViewsTask, clock: Clock) -> ViewsOutcome:
    """Build the task's views, then apply changes until none has waited for `LINGER`, or until the deadline."""
    began = clock.monotonic()
    locked = ErrorKind.CONTENTION in [build(views, target, task.epoch) for target in task.builds]
    rounds = applied = 0
    last = clock.monotonic()
    pause = task.job.rounds.min_interval / 1_000
    waiting = threading.Event()
    while True:
        found = views.round(task.epoch)
        now = clock.monotonic()
        if found.applied or found.stale:
            rounds, applied, last = rounds + 1, applied + sum(found.applied.values()), now
        if found.stale or now - last >= LINGER or now + pause - began >= task.seconds:
            return ViewsOutcome(rounds, applied, locked=locked)
        waiting.wait(pause)


def build(views: Views, target: str, epoch: int) -> ErrorKind | None:
    """Build a view; a transient error makes it STALE, any other error FAILED. Raises Superseded.

    Return the kind of the error, None if there was none.
    """
    try:
        views.build(target, epoch)
    except SlotkeeperError as error:
        if error.kind is ErrorKind.SUPERSEDED:
            raise
        state = ViewState.STALE if error.kind in PASSING else ViewState.FAILED
        cause = f"{error.message}; {error.hint}" if error.hint and state is ViewState.FAILED else error.message
        views.set_state(target, state, cause, epoch)
        return error.kind
    return None
