"""The lock on each target, shared with jobs of other progress schemas, and whether a running job still holds it.

A progress schema's rows fence the steps of its own jobs; schemas share no fence, so this lock is all that
keeps two jobs from one target (docs/adr/0019-one-writer-per-target.md). The lease's session holds it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.locks import UNSEEN, LockOwner, explain_lease, lease_cure, target_cure
from slotkeeper.core.engine.driver.context import JobContext, about
from slotkeeper.core.engine.driver.reshape import name_the_command
from slotkeeper.core.engine.driver.waits import pause
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Superseded, Unreachable
from slotkeeper.core.ports.driver import Store

TARGET_WAIT = 5.0
"""Seconds in which a session that was just ended can still hold its locks."""
SAID_AFTER = 2.0
"""Seconds that a start waits for a lease without a log line: an ended start's session releases it faster."""
END_WAIT = 2.0
"""Seconds that the end of a lease query waits for an answer before it cuts the session off."""
LOST_WAIT = 30.0
"""Seconds in which a server can still hold a session with a lost connection (keepalives: 10 s and three times 5 s)."""


def take_target(ctx: JobContext, part: JobContext) -> None:
    """Take the lock on the channel's target; raises Refused, which names the other job that holds it.

    After a passed lease, starts of one job take turns by this lock: its holder is ended, as the lease's session
    otherwise.
    """
    store, end = part.sessions.store(), ctx.clock.monotonic() + TARGET_WAIT
    while not store.take_target(part.job.locked_target):
        if ctx.clock.monotonic() >= end:
            raise _taken(part, store.writer(part.job.locked_target))
        if store.passes and not is_taken(part):
            store.end_others()
        pause(ctx, 0.1 if store.passes else 0.5)  # a driver that lost the lock asks for it again every second


def take_lease(ctx: JobContext, part: JobContext, end: float) -> None:
    """Take the channel's lease until `end` by the monotonic clock; raises Refused, which names the holder.

    While it waits, it reports the holder, so that the start is never silent.

    `--take-over` ends sessions of earlier starts of this job, and continues without the lock if another session has it:
    the progress rows' epoch is the fence (ADR 31). A session that also has the lock of these rows belongs to a job that
    could not be ended: the start does not pass it.
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


def _who_has_it(part: JobContext, store: Store) -> tuple[list[LockOwner], str]:
    """Return the lease's holders, and a text that names them."""
    found, place = store.lease_owners(), f"{part.job.channel.source_table} slot {part.job.slot}"
    return found, explain_lease(place, found, store.holder())


def is_taken(part: JobContext) -> bool:
    """Whether a job of other progress rows writes to the channel's target: this job must not end its sessions."""
    return bool(part.sessions.store().writer(part.job.locked_target))


def _taken(part: JobContext, holder: str) -> Refused:
    owners = part.sessions.store().target_owners(part.job.locked_target)
    whose = holder or ("another start of this job" if owners else f"an unknown session: {UNSEEN}")
    what = f"target {part.job.sink.database}.{part.job.locked_target} belongs to {whose}"
    return Refused(what, target_cure(owners), where="sink")


class Leases:
    """The leases and target locks of a running job: they end with their session, and a new one has to take them again.

    `epoch` is what the job's rows have as long as no later start has taken over. `lock` is held while their session is
    used, which the driver's loop uses as well.
    """

    def __init__(self, ctx: JobContext, epoch: int) -> None:
        self._ctx, self._epoch = ctx, epoch
        self._lost: float | None = None
        self._ended = False
        self._leaving: list[tuple[str, SlotkeeperError | None, Mapping[str, Lane]]] = []
        self._gone: set[str] = set()
        self.lock = threading.Lock()

    def keep(self) -> None:
        """Return if all locks are held; else raise.

        Busy, Unreachable: they can be taken again. Refused: another job has a target. Superseded: another start has
        them.
        """
        with self.lock:
            self._give_back()
            parts = () if self._ended else self._ctx.parts
            for number, part in enumerate(one for one in parts if one.job.channel.source_table not in self._gone):
                if not _leased(part.sessions.store(), asks=number == 0):  # one session holds them all
                    if self._ended:
                        return  # a session opened by now would have no owner
                    with about(self._ctx, part):
                        self._again(part)
            self._lost = None

    def let_go(self, table: str, error: SlotkeeperError | None, lanes: Mapping[str, Lane]) -> None:
        """A table has ended alone: its lease is given back with the next `keep`, and then it is handed in."""
        self._leaving.append((table, error, lanes))

    @property
    def leaving(self) -> bool:
        """Whether a table has ended alone and is not handed in yet."""
        return bool(self._leaving)

    def _give_back(self) -> None:
        while self._leaving:
            table, error, lanes = self._leaving.pop(0)
            self._gone.add(table)
            if error is not None:
                name_the_command(self._ctx.of(table), error)
            try:
                give_back(self._ctx.of(table))
            finally:  # whatever the sink answers, the table stops here
                if self._ctx.desk is not None:
                    self._ctx.desk.left(table, error, lanes)

    def hand_in(self) -> None:
        """Pass on the tables that waited for the next `keep`, which no longer comes."""
        with self.lock:
            self._give_back()

    def end(self, waits: bool) -> None:
        """Stop asking; with `waits` the caller uses the session next, and two threads must not share its transaction.

        A silent session is cut off: each wait ends, as a login has its own limit.
        """
        self._ended = True
        while waits and not self.lock.acquire(timeout=END_WAIT):
            self.sever()
        if waits:
            self.lock.release()

    def sever(self) -> None:
        """Cut off the locks' session without waiting: the thread that waits for its answer takes them again."""
        self._ctx.parts[0].sessions.store().sever()

    def _again(self, part: JobContext) -> None:
        now, store = self._ctx.clock.monotonic(), part.sessions.store()
        self._lost = now if self._lost is None else self._lost
        if (store.take_lease() or store.passes) and store.take_target(part.job.locked_target):
            return
        found = max((row.epoch for row in store.rows()), default=self._epoch)
        if found > self._epoch:  # a start that has raised the epoch of these rows does not release the lease
            by = f": {holder}" if (holder := store.holder()) else ""
            raise Superseded(
                f"a later start has taken over (epoch {found}; this run has epoch {self._epoch}){by}", where="sink"
            )
        holder = store.writer(part.job.locked_target)
        # an ending session of this job releases its locks one by one: between two of them it looks foreign
        if holder and store.writer(part.job.locked_target) == holder:
            raise _taken(part, holder)
        if now - self._lost >= LOST_WAIT:
            raise Superseded(f"the lease was lost and is now held by {store.holder()}", where="sink")
        raise Busy("the lease's session was lost, and the server has not released the lease yet", where="sink")


def give_back(part: JobContext) -> None:
    """Give a channel's lease back, so that a reset can have it; a session that is gone holds nothing."""
    with suppress(Unreachable, Busy):
        part.sessions.store().give_back(part.job.locked_target)


def _leased(store: Store, asks: bool) -> bool:
    try:
        return store.leased(asks)
    except Unreachable:
        return False
