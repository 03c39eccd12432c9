"""Copies a job's new channels: assigns their chunks to tasks while keeping all slots alive (design 4.4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from slotkeeper.core.domain.copy_limit import CopyLimit, Share, Shares
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.start import compare
from slotkeeper.core.domain.tries import NO_HISTORY, History
from slotkeeper.core.domain.watch import Turn, explain_chunks, explain_turn
from slotkeeper.core.engine.driver.context import (
    Interrupted,
    JobContext,
    about,
    do_nothing,
    run_beside,
    wait_for_open_transactions,
)
from slotkeeper.core.engine.driver.failure import refuse, wait_after
from slotkeeper.core.engine.driver.registration import KeepAlive, Kept
from slotkeeper.core.engine.driver.start import Begun
from slotkeeper.core.engine.driver.upkeep import changed_nodes
from slotkeeper.core.engine.tasks import CopyOutcome, CopyTask
from slotkeeper.core.errors import Busy, ErrorKind, ErrorValues, LoginRefused, SlotkeeperError, TooLarge, Unclassified
from slotkeeper.core.ports.driver import ChunkCounts, StartStore, TaskEnds
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.retry import RetryRules

TASK_SECONDS = 4.0
CHUNKS_PER_TASK = 8
GROUP = "copy"
LONGER = "raise full_sync_binlog_read_timeout: it also limits a chunk and the table exchange in the sink"
REPORT_EVERY = 1.0
LIMIT_AFTER = 2.0
"""Seconds past its deadline after which a task with an earlier rate limit is abandoned, because a chunk can be long."""


@dataclass(slots=True)
class _Copy:
    """The copy of one channel: its remaining chunks, and the number of its running tasks."""

    begun: Begun
    left: list[Chunk] = field(default_factory=list)
    planned: int = 0
    chunk_rows: int = 0
    """The most rows that a chunk has, if no row was added to it since it was planned."""
    tasks: int = 0

    @property
    def store(self) -> StartStore:
        return self.begun.part.sessions.store()


@dataclass(slots=True)
class _Task:
    """A running task and its chunks."""

    copy: _Copy
    chunks: tuple[Chunk, ...]
    session: str
    """The name of the task's store session."""
    share: Share | None
    """The task's share of the rate limit; None without one."""


class Snapshot:
    """Runs the initial copies: copies the remaining chunks, then records the positions to catch up to.

    The channels share the task capacity. The slot of a channel whose copy is complete is kept alive until all are.
    """

    def __init__(self, ctx: JobContext, begun: tuple[Begun, ...]) -> None:
        self._ctx, self._begun = ctx, begun
        self._copies: list[_Copy] = []
        self._running: dict[Future[Any], _Task] = {}
        self._number = 0
        self._task_sessions = TaskSessions(ctx.sessions)
        self._history: History = NO_HISTORY
        self._failing_since, self._report_at = 0.0, 0.0
        self._checked_at = self._changed_at = ctx.clock.monotonic()
        self._limit: tuple[CopyLimit, int] | None = None
        """The limit of the running tasks, and the number of copies that share it."""
        self._shares = Shares(0, 0.0)
        self._keep = KeepAlive(ctx, (Kept(one.part, one.epoch, one.rows) for one in begun))

    def run(self) -> tuple[Begun, ...]:
        """Plan the new channels' chunks and copy all remaining chunks; return the channels with their new state."""
        for one in self._begun:
            if one.state in (LaneState.CREATING, LaneState.COPYING):
                with about(self._ctx, one.part):
                    self._copies.append(_plan_copy(one, self._ctx.copies.limit(self._ctx.job)))
        self._ctx.copies.running.add(self._ctx.group)
        try:
            while self._running or any(one.left for one in self._copies):
                self._keep.wait_out_pause()
                self._assign_chunks()
                self._collect_tasks()
                self._check_nodes()
                self._keep.renew_due()
                if not self._running or self._ctx.clock.monotonic() >= self._report_at:
                    self._report_counts()
        finally:
            self._ctx.copies.running.discard(self._ctx.group)
            self._abandon_tasks()
        return self._end_copies()

    def _abandon_tasks(self) -> None:
        self._ctx.runner.cancel(GROUP)
        for task in self._running.values():
            self._task_sessions.end(task.session)

    def _report_counts(self) -> None:
        self._report_at = self._ctx.clock.monotonic() + REPORT_EVERY
        counts = [one.store.chunk_counts() for one in self._copies]
        done, total, rows = (sum(part) for part in zip(*((c.done, c.total, c.rows) for c in counts), strict=True))
        summed = ChunkCounts(done, total, rows, self._ctx.copies.limit(self._ctx.job))
        self._ctx.narrator.copy(summed, self._begun[0].epoch)
        if self._ctx.job.sink_options.quarantines:
            self._ctx.narrator.quarantined(sum(one.part.sessions.store().quarantined() for one in self._begun))

    def _assign_chunks(self) -> None:
        """Start tasks up to the capacity, each for the channel with the fewest tasks, so that all copies advance."""
        capacity = self._ctx.runner.capacity
        limit, copies = self._divided_limit(capacity)
        while limit is not None and (self._shares.free if limit.limits else len(self._running) < capacity):
            copy = min((one for one in self._copies if one.left), key=lambda one: one.tasks, default=None)
            if copy is None:
                return
            count = max(1, min(CHUNKS_PER_TASK, len(copy.left) // capacity))
            left = sum(len(one.left) for one in self._copies)
            chunks, copy.left = tuple(copy.left[:count]), copy.left[count:]
            begun = copy.begun
            self._number += 1
            session, group = f"{self._task_sessions.prefix}{self._number:x}", self._ctx.group
            share = self._shares.take(self._ctx.clock.monotonic(), left) if limit.limits else None
            spec = CopyTask(begun.part.job, begun.epoch, chunks, begun.copying, TASK_SECONDS, group, session)
            if share is not None:
                parts = self._shares.number * copies / share.of
                spec = replace(spec, limit=limit, parts=parts, credit=share.credit)
            future = self._ctx.runner.submit(self._ctx.work.copy, spec, GROUP)
            self._running[future] = _Task(copy, chunks, session, share)
            copy.tasks += 1

    def _divided_limit(self, capacity: int) -> tuple[CopyLimit | None, int]:
        """Return the rate limit and the number of copies that share it; None while tasks with an earlier limit run.

        A changed limit applies once these tasks have ended. A task that does not end soon is abandoned, because its
        chunk can take minutes at the earlier limit; the chunk is then copied again.
        """
        budget, now = self._ctx.copies, self._ctx.clock.monotonic()
        current = budget.limit(self._ctx.job), max(1, len(budget.running))
        if current == self._limit:
            self._changed_at = now
            return current
        if self._running:
            if now >= self._changed_at + TASK_SECONDS + LIMIT_AFTER:
                self._abandon_tasks()
                self._changed_at = now
            return None, 1
        limit = current[0]
        rows = max((one.chunk_rows for one in self._copies if one.left), default=0)
        tasks = limit.tasks(rows, min(capacity, max(1, sum(len(one.left) for one in self._copies))))
        self._limit, self._shares = current, Shares(tasks, now)
        return current

    def _collect_tasks(self) -> None:
        done, _ = wait(self._running, timeout=0.25, return_when="FIRST_COMPLETED")
        ended = []
        for future in done:
            task, outcome = self._running.pop(future), self._outcome(future)
            if task.share is not None:
                self._shares.give_back(task.share, outcome.spent)
            if outcome.error is not None and outcome.error.where == "spark":
                self._task_sessions.end(task.session)  # its worker may have exited
            ended.append((task.copy, outcome))
            task.copy.tasks -= 1
            task.copy.left.extend(one for one in task.chunks if one.number not in outcome.done)
            task.copy.left.sort(key=lambda one: one.number)
        for copy, outcome in ended:
            if outcome.refused:
                self._recheck_chunks(copy)
        # several tasks that fail at once count as one failure
        failed = next(((copy, outcome.error) for copy, outcome in ended if outcome.error), None)
        if failed:
            with about(self._ctx, failed[0].begun.part):
                self._retry_later(failed[0], failed[1].error())
        elif any(outcome.done for _, outcome in ended):
            self._history = NO_HISTORY
            self._ctx.narrator.retrying("")

    def _outcome(self, future: Future[Any]) -> CopyOutcome:
        try:
            outcome: CopyOutcome = future.result()
        except CancelledError:
            return CopyOutcome((), 0)
        except Unclassified as error:
            return CopyOutcome((), 0, error=ErrorValues.of(error))
        return outcome

    def _recheck_chunks(self, copy: _Copy) -> None:
        """Handle a chunk that was not free: a killed task of this job committed it, or another run has taken over."""
        rows, begun = copy.store.rows(), copy.begun
        still = Turn(begun.epoch, len(begun.rows), (LaneState.COPYING,), LaneState.COPYING)
        ours = [row for row in rows if (row.epoch, row.state) == (begun.epoch, LaneState.COPYING)]
        if len(ours) != still.lanes:
            raise explain_turn(rows, still)
        counts = copy.store.chunk_counts()
        if counts.total != copy.planned:
            raise explain_chunks(counts.done, counts.total, copy.planned)
        planned = {chunk.number for chunk in copy.store.chunks_left()}
        copy.left = [chunk for chunk in copy.left if chunk.number in planned]

    def _retry_later(self, copy: _Copy, error: SlotkeeperError) -> None:
        """Wait before the next attempt; after a rejected password, wait until the driver's own login succeeds."""
        refused_at = self._wait_to_retry(copy, error)
        while refused_at is not None and self._ctx.wanted() is WantedState.RUN:
            try:
                self._ctx.sessions.log_in(refused_at)
                return
            except LoginRefused as again:
                refused_at = self._wait_to_retry(copy, again)
            except SlotkeeperError:
                return  # the next chunk reports this error

    def _wait_to_retry(self, copy: _Copy, error: SlotkeeperError) -> str | None:
        """Wait as the retry rules require; return the side that rejected a password, None for other failures."""
        if error.where == "source" and error.kind is ErrorKind.UNKNOWN and self._ctx.job.binlog.binlog:
            # after DDL, the problem that a status reports is more specific than the error
            self._check_statuses(copy.begun)
        if not self._history.failures:
            self._failing_since = self._ctx.clock.monotonic()
        rules = RetryRules.of(self._ctx.job)
        waited = wait_after(self._ctx, "the copy", error, self._history, self._failing_since, rules)
        if waited is None:
            raise _add_advice(error)
        self._history = waited
        return error.where if error.kind is ErrorKind.LOGIN else None

    def _check_nodes(self) -> None:
        """End this run of the copy if the DN set changed; the next start decides how to continue (`start.py`)."""
        now, options = self._ctx.clock.monotonic(), self._ctx.job.binlog
        if options.binlog and now - self._checked_at >= options.check_node_change_interval / 1000:
            self._refuse_changed_nodes(self._copies[0].begun)
            self._checked_at = now

    def _refuse_changed_nodes(self, begun: Begun) -> None:
        shards = (Shard(row.key.shard, row.node_id) for row in begun.rows)
        names = changed_nodes(begun.part.sessions.source("start"), shards)
        if names:
            raise Busy(f"the DN set changed during the copy: {names}", where="source")

    def _check_statuses(self, begun: Begun) -> list[SlotStatus]:
        """Check all DNs and raise any problem that a status reports: a copy is useless if its slot was cleared."""
        self._refuse_changed_nodes(begun)
        statuses = begun.part.sessions.admin("start").source.read_status(None)
        rows = {row.key.shard: row for row in begun.part.sessions.store().rows()}
        for status in statuses:
            refuse(compare(rows.get(status.shard.name), status))
        return statuses

    def _end_copies(self) -> tuple[Begun, ...]:
        """Record, for each copied channel, the positions to catch up to."""
        if self._ctx.job.binlog.binlog:
            # a conservative latest position can precede a commit whose rows were copied, so wait for such commits first
            source = self._copies[0].begun.part.sessions.source("start")
            wait_for_open_transactions(self._ctx, source, self._keep.wait_and_renew)
        ended = {id(copy.begun): self._end_channel(copy.begun) for copy in self._copies}
        return tuple(ended.get(id(one), one) for one in self._begun)

    def _end_channel(self, begun: Begun) -> Begun:
        with about(self._ctx, begun.part):
            sessions, state = begun.part.sessions, LaneState.RUNNING
            noted: Mapping[str, Position] = {}
            if self._ctx.job.binlog.binlog:
                noted = {status.shard.name: status.latest for status in self._check_statuses(begun)}
                state = LaneState.CATCHING_UP
            sessions.source("start").admit()  # a row security policy created during the copy has hidden rows from it
            self._write_end(begun, Turn(begun.epoch, len(begun.rows), (LaneState.COPYING,), state), noted)
            # report now, because the copies end one after another and an exchange of tables takes long
            self._ctx.narrator.stored({begun.part.job.channel.source_table: state})
            return replace(begun, state=state, rows=tuple(sessions.store().rows()))

    def _write_end(self, begun: Begun, turn: Turn, noted: Mapping[str, Position]) -> None:
        """End the copy in one transaction, in a separate thread and session because exchanging tables takes long."""
        sessions = begun.part.sessions
        if begun.copying != "shadow":
            sessions.target().end_copy(sessions.store(), turn, noted, begun.copying)
            return
        store, target = sessions.ending(), sessions.target()

        def exchange() -> None:
            try:
                target.end_copy(store, turn, noted, begun.copying)
            except TooLarge as error:
                raise _add_advice(error) from error
            finally:
                store.close()

        try:
            run_beside(self._ctx, exchange, store, self._keep.renew_due)
        except Interrupted:
            self._keep.wait_out_pause()
            raise  # the exchange was cancelled, even if the desired state is RUN again


def _plan_copy(begun: Begun, limit: CopyLimit) -> _Copy:
    part = begun.part
    chunk_rows = part.job.binlog.full_sync_binlog_batch_read_size
    if begun.state is LaneState.CREATING:
        chunk_rows = limit.chunk_rows(chunk_rows)
        chunks = part.sessions.source("start").plan_chunks(chunk_rows)
        turn = Turn(begun.epoch, len(begun.rows), (LaneState.CREATING,), LaneState.COPYING)
        part.sessions.target().begin_copy(part.sessions.store(), turn, chunks, begun.copying)
        part.probe("after_copy_began")
        if part.consents is not None:
            # the rows no longer name a plan, so the consent is used up; this only removes its file
            with suppress(SlotkeeperError):
                part.consents.drop(part.job.channel.source_table)
    store = part.sessions.store()
    return _Copy(begun, store.chunks_left(), store.chunk_counts().total, chunk_rows)


def _add_advice(error: SlotkeeperError) -> SlotkeeperError:
    """Return the error; if a time limit in the sink was exceeded, its hint explains how to raise the limit."""
    if error.where == "sink" and error.timed_out and not error.silent:
        error.hint = error.hint or LONGER
    return error


class TaskSessions:
    """The sessions of the tasks of one loop or one copy; `prefix`: the prefix of the sessions' names.

    Ends the store sessions of abandoned tasks, because otherwise their statements continue and the next attempt waits.
    A cancelled worker is killed. PostgreSQL 14 and later ends a lost client's statement within seconds (Connections and
    Authentication, client_connection_check_interval); on an older server, on DWS or through a pooler, the statement
    completes and keeps its locks until then. Safety does not depend on ending the sessions, because the progress row
    fences a surviving session. A separate thread ends them, because the server may not respond, which can be why the
    task was abandoned.
    """

    def __init__(self, ends: TaskEnds) -> None:
        self.prefix = ends.task_prefix()
        self._ends = ends
        self._lock = threading.Lock()
        self._waiting: dict[str, Callable[[bool], None]] = {}
        self._under_way = False

    def end(self, name: str, hear: Callable[[bool], None] = do_nothing) -> None:
        """Request the end of the sessions named `name`; does not wait, and ignores failures.

        A thread then calls `hear`, which receives whether the store was executing a statement of the task.
        """
        with self._lock:
            if name:
                self._waiting[name] = hear
            if self._under_way or not self._waiting:
                return
            self._under_way = True
        threading.Thread(target=self._run, name="slotkeeper-task-ends", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                names, self._waiting = self._waiting, {}
                self._under_way = bool(names)
            if not names:
                return
            # if this is not allowed or not answered, the statement ends at its session's own time limit
            with suppress(Exception):
                self._ends.end_tasks(names)
