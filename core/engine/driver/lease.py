"""Takes and checks the lease of each channel and the lock on each target, which all progress schemas share.

A progress schema's rows fence the steps of its own jobs. Schemas share no fence, so only this lock prevents two jobs
from writing to one target (docs/adr/0019-one-writer-per-target.md). The lease's session holds the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.locks import UNSEEN, LockOwner, explain_lease, lease_cure, target_cure
from slotkeeper.core.engine.driver.context import JobContext, about, pause
from slotkeeper.core.engine.driver.reshape import name_the_command
from slotkeeper.core.engine.driver.switch import may_be_switch
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Superseded, Unreachable
from slotkeeper.core.ports.driver import Lease

TARGET_WAIT = 5.0
"""Maximum seconds for which a session that has just been ended can still hold its locks."""
SAID_AFTER = 2.0
"""Seconds that a start waits for a lease before it reports the wait; an ended start's session releases it sooner."""
END_WAIT = 2.0
"""Seconds that `Leases.end` waits for the answer to a lease query before it closes the session."""
LOST_WAIT = 30.0
"""Seconds for which a server can retain a session whose connection is lost (keepalives: 10 s and three times 5 s)."""


def take_target(ctx: JobContext, part: JobContext) -> None:
    """Take the lock on the channel's target; raises Refused, which names the other job that holds the lock.

    If the start continues without the lease, this lock decides between starts of one job. The start then ends the
    session that holds the lock; otherwise it ends the session that holds the lease.
    """
    store, end = part.sessions.store(), ctx.clock.monotonic() + TARGET_WAIT
    while not store.take_target(part.job.locked_target):
        if ctx.clock.monotonic() >= end:
            raise _target_taken(part, store.writer(part.job.locked_target))
        if store.passes and not is_taken(part):
            store.end_others()
        pause(ctx, 0.1 if store.passes else 0.5)  # a driver that has lost the lock retries every second


def take_lease(ctx: JobContext, part: JobContext, end: float) -> None:
    """Take the channel's lease, with retries until `end` (monotonic); raises Refused, which names the holder.

    While the start waits, it reports the holder of the lease.

    `--take-over` ends the sessions of this job's earlier starts, and continues without the lock if another session
    holds it: the progress rows' epoch is the fence (ADR 31). A session that also holds the lock on these rows belongs
    to a job that could not be ended: the start then fails.
    """
    store, says_at, said = part.sessions.store(), ctx.clock.monotonic() + SAID_AFTER, False
    while not store.take_lease():
        ends = ctx.take_over and not is_taken(part)
        if ends:
            store.end_others()
        now = ctx.clock.monotonic()
        if now >= end or store.passes:
            found, what = _who_has_it(part, store)
            if not ends or any(one.rows for one in found):
                raise Refused(what, lease_cure(found, part.job.name, part.passed_by), where="sink")
            store.pass_lease()
            ctx.narrator.retrying(f"{what}; continuing without the lease", Party.LOCK)
            return
        if now >= says_at and not said:
            said = True
            wait = SAID_AFTER + end - now
            ctx.narrator.retrying(f"{_who_has_it(part, store)[1]}; waiting at most {wait:.0f} s", Party.LOCK)
        pause(ctx, 0.5)
    if said:
        ctx.narrator.retrying("")


def _who_has_it(part: JobContext, store: Lease) -> tuple[list[LockOwner], str]:
    found, place = store.lease_owners(), f"{part.job.channel.source_table} slot {part.job.slot}"
    return found, explain_lease(place, found, store.holder())


def is_taken(part: JobContext) -> bool:
    """Whether a job with other progress rows writes to the channel's target; that job's sessions must not be ended."""
    return bool(part.sessions.store().writer(part.job.locked_target))


def _target_taken(part: JobContext, holder: str) -> Refused:
    owners = part.sessions.store().target_owners(part.job.locked_target)
    whose = holder or ("another start of this job" if owners else f"an unknown session: {UNSEEN}")
    what = f"target {part.job.sink.database}.{part.job.locked_target} belongs to {whose}"
    return Refused(what, target_cure(owners), where="sink")


class Leases:
    """The leases and target locks of a running job; one session holds them, and a new session must take them again.

    `epoch`: the epoch of the job's rows unless another run has taken over. `lock` is held while the session is in use,
    because the driver's loop uses the same session.
    """

    def __init__(self, ctx: JobContext, epoch: int) -> None:
        self._ctx, self._epoch = ctx, epoch
        self._lost: float | None = None
        self._ended = False
        self._leaving: list[tuple[str, SlotkeeperError | None, Mapping[str, Lane]]] = []
        self._gone: set[str] = set()
        self.lock = threading.Lock()

    def keep(self) -> None:
        """Return if all locks are held; raise otherwise.

        Raises Busy or Unreachable if the locks can be taken again, Refused if another job holds the lock on a target,
        and Superseded if another run has taken over.
        """
        with self.lock:
            self._release_leaving()
            parts = () if self._ended else self._ctx.parts
            for number, part in enumerate(one for one in parts if one.job.channel.source_table not in self._gone):
                if not _leased(part.sessions.store(), asks=number == 0):  # one session holds all locks
                    if self._ended:
                        return  # `end` was called: a session opened now would have no owner
                    with about(self._ctx, part):
                        self._retake_lease(part)
            self._lost = None

    def release_table(self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane]) -> None:
        """Record a table that ended separately; the next `keep` releases its lease, and calls `Desk.receive_table`."""
        self._leaving.append((table, error, lanes))

    @property
    def leaving(self) -> bool:
        """Whether a table that has ended separately remains to be reported."""
        return bool(self._leaving)

    def _release_leaving(self) -> None:
        while self._leaving:
            table, error, lanes = self._leaving.pop(0)
            self._gone.add(table)
            if error is not None:
                name_the_command(self._ctx.of(table), error)
            try:
                give_back(self._ctx.of(table))
            finally:  # the table stops here even after an error in the sink
                if self._ctx.desk is not None:
                    again = error is not None and may_be_switch(self._ctx.of(table), error)
                    self._ctx.desk.receive_table(table, error, lanes, again)

    def report_released(self) -> None:
        """Release and report the tables that have ended separately, without waiting for another `keep`."""
        with self.lock:
            self._release_leaving()

    def end(self, waits: bool) -> None:
        """Stop the lease queries; `waits`: wait for a running query, because the caller uses the session afterwards.

        Two threads must not share the session's transaction. A session that does not answer is closed, which limits the
        wait: a login has its own time limit.
        """
        self._ended = True
        while waits and not self.lock.acquire(timeout=END_WAIT):
            self.sever()
        if waits:
            self.lock.release()

    def sever(self) -> None:
        """Close the locks' session without waiting; the thread that waits on that session takes the locks again."""
        self._ctx.parts[0].sessions.store().sever()

    def _retake_lease(self, part: JobContext) -> None:
        now, store = self._ctx.clock.monotonic(), part.sessions.store()
        self._lost = now if self._lost is None else self._lost
        if (store.take_lease() or store.passes) and store.take_target(part.job.locked_target):
            return
        found = max((row.epoch for row in store.rows()), default=self._epoch)
        if found > self._epoch:  # the lease belongs to the run that has raised the epoch of these rows
            by = f": {holder}" if (holder := store.holder()) else ""
            raise Superseded(
                f"another run has taken over (epoch {found}; this run has epoch {self._epoch}){by}", where="sink"
            )
        holder = store.writer(part.job.locked_target)
        # a session of this job that is ending releases its locks one by one; meanwhile it looks like another job's
        if holder and store.writer(part.job.locked_target) == holder:
            raise _target_taken(part, holder)
        if now - self._lost >= LOST_WAIT:
            raise Superseded(f"the lease was lost and is now held by {store.holder()}", where="sink")
        raise Busy("the lease's session was lost, and the server has not released the lease yet", where="sink")


def give_back(part: JobContext) -> None:
    """Release a channel's lease, so that a reset can take it; a session that has ended holds no lease."""
    with suppress(Unreachable, Busy):
        part.sessions.store().give_back(part.job.locked_target)


def _leased(store: Lease, asks: bool) -> bool:
    try:
        return store.leased(asks)
    except Unreachable:
        return False
