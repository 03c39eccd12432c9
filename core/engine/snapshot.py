"""The copy: chunks dealt to tasks until all are done, with the slot kept alive beside it (design 4.4).

Next door: `start.py` comes before, `copy.py` runs on the worker, `loop.py` streams afterwards.
"""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from typing import Any

from core import retry
from core.domain.job import JobEvent, Wish
from core.domain.progress import LaneState
from core.domain.slot import Look, Shard
from core.domain.start import compare
from core.engine.nodes import changed, refuse
from core.engine.plan import CopyOutcome, CopySpec, ErrorValues
from core.engine.ports import Surroundings
from core.engine.progress import XminChoice
from core.engine.quiet import Interrupted, wait_for_open_transactions
from core.engine.register import Registration, exactly, register
from core.engine.start import Begun
from core.errors import Busy, ErrorKind, SlotkeeperError, Superseded, Trouble, Unclassified
from core.ports import Chunk
from core.retry import Failure, History, RetryRules

COPY = "core.wiring.run_copy"
TASK_SECONDS = 4.0
CHUNKS_PER_TASK = 8
GROUP = "copy"


def plan(all_: Surroundings, begun: Begun) -> Begun:
    """Cut the table and record the chunks; the copy may begin."""
    chunks = all_.sessions.source("start").plan_chunks(all_.job.binlog.full_sync_binlog_batch_read_size)
    all_.sessions.target().begin_copy(all_.sessions.store(), begun.epoch, chunks, begun.copying)
    return replace(begun, state=LaneState.COPYING)


class Snapshot:
    """One copy, from the chunks that are left to the points noted at its end."""

    def __init__(self, all_: Surroundings, begun: Begun) -> None:
        self._all = all_
        self._begun = begun
        self._left: list[Chunk] = []
        self._planned = 0
        self._running: dict[Future[Any], tuple[Chunk, ...]] = {}
        self._history: History = retry.NO_HISTORY
        self._failing_since = 0.0
        self._kept_at = self._checked_at = all_.clock.monotonic()

    def run(self) -> LaneState:
        """Copy what is left; returns the state that the lanes are in now."""
        store = self._all.sessions.store()
        self._left = store.chunks_left()
        self._planned = store.chunk_counts().total
        try:
            while self._left or self._running:
                self._refuse_wish()
                self._deal()
                self._collect()
                self._check_nodes()
                self._keep_alive()
                self._all.narrator.copy(store.chunk_counts(), self._begun.epoch)
                if self._all.job.sink_options.quarantines:
                    self._all.narrator.held(store.held())
        finally:
            self._all.runner.cancel(GROUP)
        return self._end()

    def _refuse_wish(self) -> None:
        told = False
        while self._all.wish() is Wish.PAUSE:
            if not told:
                self._all.narrator.event(JobEvent.PAUSED)
                told = True
            self._keep_alive()  # the slot is there already, and its TTL runs
            self._all.pause(0.5)
        if told and self._all.wish() is Wish.RUN:
            self._all.narrator.event(JobEvent.RESUMED)
        if told or self._all.wish() is not Wish.RUN:
            raise Interrupted

    def _deal(self) -> None:
        seats = self._all.runner.seats
        while self._left and len(self._running) < seats:
            share = max(1, min(CHUNKS_PER_TASK, len(self._left) // seats))
            chunks, self._left = tuple(self._left[:share]), self._left[share:]
            spec = CopySpec(self._all.job, self._begun.epoch, chunks, self._begun.copying, TASK_SECONDS)
            self._running[self._all.runner.submit(COPY, spec, GROUP)] = chunks

    def _collect(self) -> None:
        done, _ = wait(self._running, timeout=0.25, return_when="FIRST_COMPLETED")
        outcomes = []
        for future in done:
            chunks, outcome = self._running.pop(future), self._outcome(future)
            outcomes.append(outcome)
            self._left.extend(one for one in chunks if one.number not in outcome.done)
        self._left.sort(key=lambda one: one.number)
        if any(outcome.refused for outcome in outcomes):
            self._taken()
        # what ended several tasks at once is one failure
        error = next((outcome.error for outcome in outcomes if outcome.error), None)
        if error:
            self._failed(error.error())
        elif any(outcome.done for outcome in outcomes):
            self._history = retry.NO_HISTORY
            self._all.narrator.retrying("")

    def _outcome(self, future: Future[Any]) -> CopyOutcome:
        try:
            outcome: CopyOutcome = future.result()
        except CancelledError:
            return CopyOutcome((), 0)
        except Unclassified as error:
            return CopyOutcome((), 0, error=ErrorValues.of(error))
        return outcome

    def _taken(self) -> None:
        """A chunk was not there to be taken: a killed task of ours has committed it, or another start took over."""
        store = self._all.sessions.store()
        ours = all(row.epoch == self._begun.epoch for row in store.rows())
        if not ours or store.chunk_counts().total != self._planned:
            raise Superseded("a chunk was not ours to take: another start has taken over")
        planned = {chunk.number for chunk in store.chunks_left()}
        self._left = [chunk for chunk in self._left if chunk.number in planned]

    def _failed(self, error: SlotkeeperError) -> None:
        clock = self._all.clock
        if error.where == "source" and error.kind is ErrorKind.UNKNOWN and self._all.job.binlog.binlog:
            self._judged()  # it may be DDL: then its trouble says more than the error
        if not self._history.failures:
            self._failing_since = clock.monotonic()
        history = replace(self._history, elapsed=clock.monotonic() - self._failing_since)
        rules = RetryRules.of(self._all.job)
        decision = retry.decide(Failure.of(error), history, rules, clock.random())
        self._history = retry.after(history, Failure.of(error), rules)
        if not isinstance(decision, retry.RetryAfter):
            raise error
        text = f"retrying {decision.attempt}, next in {decision.seconds:.1f} s: {error.message}"
        self._all.narrator.retrying(text)
        self._all.pause(decision.seconds)

    def _keep_alive(self) -> None:
        """Register the same points again, so that a copy that takes long does not lose its slot to the TTL."""
        now = self._all.clock.monotonic()
        if not self._all.job.binlog.binlog or now - self._kept_at < self._all.keepalive:
            return
        self._kept_at = now
        for row in self._begun.rows:
            points = row.registered
            if points is None or row.position is None:
                continue
            shard = Shard(row.key.shard, row.node_id)
            wanted = Registration(
                row.key,
                shard,
                self._begun.epoch,
                exactly(points, row.incarnation),
                points.live,
                XminChoice(points.xmin, None, points.xmin),
            )
            try:
                register(self._all.sessions.admin("start"), self._all.sessions.rows("keep"), wanted, self._all.clock)
            except (Trouble, Superseded):
                raise
            except SlotkeeperError as error:
                self._all.narrator.retrying(f"keeping the slot alive: {error.message}")

    def _check_nodes(self) -> None:
        """Another set of DNs ends this run of the copy: the next start says whether it goes on (`nodes.py`)."""
        now, options = self._all.clock.monotonic(), self._all.job.binlog
        if options.binlog and now - self._checked_at >= options.check_node_change_interval / 1000:
            self._refuse_changed_nodes()
            self._checked_at = now

    def _refuse_changed_nodes(self) -> None:
        names = changed(self._all.sessions.source("start"), (Shard(r.key.shard, r.node_id) for r in self._begun.rows))
        if names:
            raise Busy(f"the DN set changed during the copy: {names}", where="source")

    def _judged(self) -> list[Look]:
        """Looks at all DNs; raises the trouble that they show: a copy over a wiped slot is worth nothing."""
        self._refuse_changed_nodes()
        looks = self._all.sessions.admin("start").look(None)
        rows = {row.key.shard: row for row in self._all.sessions.store().rows()}
        for look in looks:
            refuse(compare(rows.get(look.shard.name), look))
        return looks

    def _end(self) -> LaneState:
        all_, begun = self._all, self._begun
        state = LaneState.RUNNING
        noted: dict[str, int] = {}
        if all_.job.binlog.binlog:
            # a conservative latest can lie below a commit that the copy saw, so those commits are waited for first
            wait_for_open_transactions(all_, all_.sessions.source("start"))
            noted = {look.shard.name: look.latest for look in self._judged()}
            state = LaneState.CATCHING_UP
        all_.sessions.target().end_copy(all_.sessions.store(), begun.epoch, state, noted, begun.copying)
        return state
