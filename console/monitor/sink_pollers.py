"""Queries sinks in the background for quarantined-row counts and, while the locks screen is shown, for lock waits.

A sink that does not answer delays nothing, and is not queried again until it does. Drivers are loaded on the first
query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from textual.message import Message

from slotkeeper.console.monitor.snapshot import SinkSeen, sink_of

if TYPE_CHECKING:
    from slotkeeper.core.clock import Clock
    from slotkeeper.core.config.model import Loaded
    from slotkeeper.core.domain.quarantine import QuarantineCount, QuarantineEntry, Wanted
    from slotkeeper.core.domain.spec import JobSpec
    from slotkeeper.core.ports.sink import Quarantine
    from slotkeeper.core.services.looking import LocksSeen, ServerLocks

QUARANTINE_EVERY = 10.0
"""Seconds between two queries to one sink; QUARANTINE_LEAST applies if a user requested the query."""
QUARANTINE_LEAST = 2.0
_SLOWEST = 60.0
ACTION = "errors show"
Post = Callable[[Message], object]
T = TypeVar("T")


class SinkPolled(Message):
    """A sink has answered a query about its quarantine, or the query has failed."""

    def __init__(self, seen: SinkSeen) -> None:
        super().__init__()
        self.seen = seen


@dataclass(frozen=True, slots=True)
class Whole:
    """An entry with its values; `masked` means that they must not be shown."""

    entry: QuarantineEntry
    masked: bool = False


class SinkQuarantines:
    """Reads the quarantine of a job's sink; raises the sink's errors. Drivers are loaded on the first query.

    Each query uses a separate session. Values from a PROD source are masked, like those of its binlog; showing them
    writes two lines to the audit.
    """

    def counts(self, job: JobSpec) -> Sequence[QuarantineCount]:
        """Return the number of quarantined rows by slot, for all jobs of that sink."""
        return self._ask(job, lambda rows: rows.counts())

    def page(self, job: JobSpec, wanted: Wanted) -> Sequence[QuarantineEntry]:
        """Return entries without their values, newest first."""
        return self._ask(job, lambda rows: rows.page(wanted))

    def entry(self, loaded: Loaded, job: JobSpec, id: int, unmask: bool) -> Whole | None:
        """Return one entry with its values. If the source is PROD, this is audited and refused without an audit."""
        from slotkeeper.core.slots.change import PROD

        if job.environment.upper() != PROD:
            return self._entry(job, id, False)
        return self._audited(loaded, job, id) if unmask else self._entry(job, id, True)

    def _entry(self, job: JobSpec, id: int, masked: bool) -> Whole | None:
        found = self._ask(job, lambda rows: rows.entry(id))
        return Whole(found, masked) if found else None

    def _ask(self, job: JobSpec, question: Callable[[Quarantine], T]) -> T:
        from slotkeeper.core.services.quarantine import polling

        with polling(job) as rows:
            return question(rows)

    def _audited(self, loaded: Loaded, job: JobSpec, id: int) -> Whole | None:
        from slotkeeper.core.services.audit import audited
        from slotkeeper.core.slots.change import Done
        from slotkeeper.core.state.audit import Audit, intent
        from slotkeeper.core.state.folder import StateFolder

        found: list[Whole | None] = []

        def act() -> Done:
            found.append(self._entry(job, id, False))
            return Done("shown" if found[0] else "unknown entry", {})

        line = intent(ACTION, f"job {job.name} entry {id}", "")
        audited(Audit(StateFolder.open(loaded.state_dir)), line, act)
        return found[0]


@dataclass
class _Sink:
    """A sink, the job through which it is queried, and the last query. `lock` is held during a query."""

    key: str
    job: JobSpec
    seen: SinkSeen
    asked: float = float("-inf")
    failed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self, now: float, hurry: bool) -> bool:
        """Return whether the next query is due. A sink that does not answer is queried less often."""
        pause = min(_SLOWEST, QUARANTINE_EVERY * 2**self.failed)
        return now - self.asked >= (QUARANTINE_LEAST if hurry else pause)


class Sinks:
    """Queries each sink of a configuration, in a separate thread, for its number of quarantined rows."""

    def __init__(self, loaded: Loaded | None, clock: Clock, quarantines: SinkQuarantines) -> None:
        self._clock = clock
        self._quarantines = quarantines
        by_key = {sink_of(job): job for job in loaded.jobs.values()} if loaded else {}
        self._sinks = [_Sink(key, job, SinkSeen(key)) for key, job in sorted(by_key.items())]
        self._hurry = False

    def hurry(self) -> None:
        """Make the next turn ignore the interval, because a user requested it."""
        self._hurry = True

    def turn(self, post: Post) -> None:
        """Query the sinks that are due, without waiting. Each answer is sent as a message to `post`."""
        hurry, self._hurry = self._hurry, False
        now = self._clock.monotonic()
        for one in self._sinks:
            if one.due(now, hurry) and one.lock.acquire(blocking=False):
                one.asked = now
                threading.Thread(target=self._ask, args=(one, post), name="slotkeeper-quarantine", daemon=True).start()

    def _ask(self, one: _Sink, post: Post) -> None:
        try:
            counts = tuple(self._quarantines.counts(one.job))
            one.seen, one.failed = SinkSeen(one.key, self._clock.utc(), counts), 0
        except Exception as error:  # top level of a thread: any error is reported and the query repeated
            from slotkeeper.console.monitor.store_reader import message_of

            one.seen, one.failed = replace(one.seen, fault=message_of(error)), min(one.failed + 1, 10)
        finally:
            one.lock.release()
        post(SinkPolled(one.seen))


LOCKS_EVERY, LOCKS_WITHIN = 2.0, 5.0
"""Seconds between two queries, and seconds to wait for a server before showing the other servers' answers."""


class LockPoller:
    """Queries all sinks and sources of a configuration for waiting sessions, one query at a time.

    Sessions are opened on the first query.
    """

    def __init__(self) -> None:
        self._asking: ServerLocks | None = None
        self._lock = threading.Lock()

    def ask(self, loaded: Loaded, now: float) -> list[LocksSeen]:
        """Return the waits of each server. `now` is this host's clock in seconds since 1970."""
        from slotkeeper.core.services.looking import ServerLocks

        with self._lock:
            self._asking = self._asking or ServerLocks(loaded)
            return self._asking.ask(now, LOCKS_WITHIN)

    def rest(self) -> None:
        """Close the sessions; a running query fails. The next query opens new sessions."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()
