"""Maintains a job's views in parallel with its lanes: decides when to build and to run rounds, as tasks of its runner.

A separate thread polls the sink and submits one task at a time. An error in a view does not affect lanes and slots: it
is recorded with the views, and the task is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, TimeoutError
from contextlib import contextmanager
from dataclasses import replace

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.views import ViewReport, ViewRow, ViewState
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.tasks import SharedRunner, ViewsOutcome, ViewsTask
from slotkeeper.core.errors import ErrorKind, SlotkeeperError, Unreachable, classed
from slotkeeper.core.ports.sink import Views

GROUP = "views"
TASK_SECONDS = 2.0
LONGEST_PAUSE = 1.0
"""Maximum seconds between two polls if nothing changes; ten times as long between two attempts after an error."""
BUILD_EVERY = 2.0
"""Seconds between two reads of the views that are due to be built; doubled after each build that waited for a lock.

Each such build makes the writers of its tables wait as long as it waits itself.
"""
BUILD_AT_LEAST_EVERY = 30.0
REPORT_EVERY = 1.0
LOST_AFTER = 60.0
"""Seconds in which the sink executes nothing for a task's session, after which its connection counts as lost.

A build has no time limit, so that nothing else ends a wait for an answer that a broken network has lost. They count
from the task's first statement, because a task can wait much longer for its runner.
"""
LAST_WITHIN = 20.0
"""Seconds for the last round of a job that ends once it has caught up."""
END_WITHIN = 4.0


@contextmanager
def maintained(ctx: JobContext) -> Iterator[JobContext]:
    """Maintain the job's views during the block; yield the context for its lanes, which leave one task for views."""
    if not ctx.job.views or ctx.work.views is None:
        yield ctx
        return
    rounds = Rounds(ctx)
    rounds.start()
    ended = False
    try:
        yield replace(ctx, runner=SharedRunner(ctx.runner, beside=1))
        ended = True
    finally:
        rounds.stop(ctx.until_caught_up and ended)


class Rounds(threading.Thread):
    """Builds views and runs their rounds until `stop`."""

    def __init__(self, ctx: JobContext) -> None:
        super().__init__(name="slotkeeper-views", daemon=True)
        self._ctx, self._closing = ctx, threading.Event()
        self._least = ctx.job.rounds.min_interval / 1_000
        self._build_at, self._build_every = 0.0, BUILD_EVERY
        self._last = False
        """Whether everything that waits must be applied before the end."""
        self._session = ""
        """The name of the session of this epoch's tasks at the sink."""
        self._reports: tuple[ViewReport, ...] = ()
        self._report_at = 0.0

    def stop(self, last: bool) -> None:
        """End the thread; `last`: first apply, in a last round, everything that was mirrored."""
        self._last = last
        self._closing.set()
        self.join(LAST_WITHIN if last else END_WITHIN)
        self._ctx.runner.cancel(GROUP)

    def run(self) -> None:
        wait = self._least
        while not self._closing.wait(wait):
            try:
                self._maintain()
                return
            except SlotkeeperError as error:
                if error.kind is ErrorKind.SUPERSEDED:
                    return
                wait = self._note(error)
            except Exception as error:
                wait = self._note(classed(error))

    def _note(self, error: SlotkeeperError) -> float:
        """Report why views are not maintained, and return the seconds until the next attempt."""
        self._ctx.tell_views(error.message)
        return 10 * LONGEST_PAUSE if error.kind is ErrorKind.OPERATOR else LONGEST_PAUSE

    def _maintain(self) -> None:
        with self._ctx.sessions.views() as views:
            working, there = views.activity(self._session) if self._session else (False, "")
            if there and not working:
                self._end_task()
            epoch, self._session = views.enter(), f"{self._ctx.sessions.task_prefix()}views"
            self._ctx.tell_views("")
            pause = self._least
            while not self._closing.wait(pause):
                if self._ctx.wanted() is not WantedState.RUN:
                    pause = LONGEST_PAUSE
                    continue
                worked = self._turn(views, epoch)
                pause = self._least if worked else min(LONGEST_PAUSE, pause * 1.5)
            if self._last:
                self._turn(views, epoch)
                self._turn(views, epoch)

    def _turn(self, views: Views, epoch: int) -> bool:
        builds: tuple[str, ...] = ()
        now = self._ctx.clock.monotonic()
        if now >= self._build_at or self._last:
            builds, self._build_at = tuple(views.due()), now + self._build_every
        if not builds and not views.waits(epoch):
            self._report(views)
            return False
        assert self._ctx.work.views is not None
        task = ViewsTask(self._ctx.job, epoch, builds, TASK_SECONDS, self._session)
        _, before = views.activity(self._session)
        future = self._ctx.runner.submit(self._ctx.work.views, task, GROUP)
        worked_at, last, began = now, before, False
        while True:
            self._report(views)
            try:
                outcome: ViewsOutcome = future.result(REPORT_EVERY)
                break
            except TimeoutError:
                working, changed = views.activity(self._session)
                began = began or changed not in (before, "")
                if working or not began or changed != last:
                    worked_at = self._ctx.clock.monotonic()
                last = changed
                if self._ctx.clock.monotonic() - worked_at >= LOST_AFTER:
                    self._end_task()
                    what = (
                        f"the sink executed nothing for the task of the views for {LOST_AFTER:.0f} s:"
                        " its connection is lost"
                    )
                    raise Unreachable(what, where="sink") from None
            except CancelledError:
                return False
        self._report(views)
        if builds:
            self._build_every = min(2 * self._build_every, BUILD_AT_LEAST_EVERY) if outcome.locked else BUILD_EVERY
            self._build_at = self._ctx.clock.monotonic() + self._build_every if outcome.locked else self._build_at
        if outcome.error is not None:
            raise outcome.error.error()
        return True

    def _end_task(self) -> None:
        """End this epoch's task, and its session at the sink: the locks of its transaction would stop the next one."""
        self._ctx.runner.cancel(GROUP)
        self._ctx.sessions.end_tasks({self._session: lambda busy: None})
        self._session = ""

    def _report(self, views: Views) -> None:
        """Report the states of the views if the last report is old: a build can take hours."""
        now = self._ctx.clock.monotonic()
        if now >= self._report_at:
            self._report_at = now + REPORT_EVERY
            rows, waiting = views.rows(), views.waiting()
            self._reports = reported(rows, waiting, self._reports, self._ctx.clock.utc().timestamp())
            self._ctx.report_views(self._reports)


def reported(
    rows: Sequence[ViewRow], waiting: Mapping[str, int], before: Sequence[ViewReport], now: float
) -> tuple[ViewReport, ...]:
    """Return the reports on views, from what the sink stores; `before`: the last reports. Times are this host's.

    A view is fresh at `now` if nothing waits. A round since the last report saw everything that was written before the
    round began. The sink's clock is not compared with this host's.
    """
    known, found = {one.target: one for one in before}, []
    for row in rows:
        last, state, left = known.get(row.target), row.state.value, waiting.get(row.target)
        fresh = last.fresh_at if last is not None else None
        if row.state is ViewState.RUNNING and left == 0:
            fresh = now
        elif last is not None and row.applied > last.applied:
            fresh = max(fresh or 0.0, last.at - (row.round_ms or 0) / 1_000)
        since = last.since if last is not None and last.state == state else now
        found.append(
            ViewReport(
                row.target, state, since, row.cause, row.method if row.built else "", row.size, left, fresh, now,
                row.applied, row.round_ms, row.verified, row.verified_at,
            )
        )  # fmt: skip
    return tuple(found)
