"""Asks sinks and their stores in the background: what is in quarantine, who waits for a lock, which queries read slots.

A sink that does not answer holds nothing up, and is not asked again meanwhile. Drivers are loaded when one is first
asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from textual.message import Message

from slotkeeper.console.monitor.snapshot import JobFacts, Level, SinkSeen, sink_of
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.query_report import WHERE_TO_ACT, WHERE_TO_START, QuerySeen
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.ttl import in_words

if TYPE_CHECKING:
    from slotkeeper.core.domain.quarantine import QuarantineCount, QuarantineEntry, Wanted
    from slotkeeper.core.ports.sink import Quarantine
    from slotkeeper.core.services.looking import LocksSeen, SinkLocks

QUARANTINE_EVERY = 10.0
"""So many seconds lie between two questions to one sink; asked for by a person, QUARANTINE_LEAST."""
QUARANTINE_LEAST = 2.0
_SLOWEST = 60.0
ACTION = "errors show"
Post = Callable[[Message], object]
T = TypeVar("T")


class SinkPolled(Message):
    """The quarantine of a sink was looked at, or could not be."""

    def __init__(self, seen: SinkSeen) -> None:
        super().__init__()
        self.seen = seen


@dataclass(frozen=True, slots=True)
class Whole:
    """An entry with its values; `masked` says that they may not be shown."""

    entry: QuarantineEntry
    masked: bool = False


class SinkQuarantines:
    """Reads the quarantine of a job's sink; raises what the sink raises. Drivers are loaded when one is first asked.

    Each question has a session of its own, which ends with it. Values of a PROD source are masked, as those of its
    binlog are; who wants them shown leaves two lines in the audit.
    """

    def counts(self, job: JobSpec) -> Sequence[QuarantineCount]:
        """How many are held, by slot, of all jobs of that sink."""
        return self._ask(job, lambda rows: rows.counts())

    def page(self, job: JobSpec, wanted: Wanted) -> Sequence[QuarantineEntry]:
        """Entries without their values, the newest first."""
        return self._ask(job, lambda rows: rows.page(wanted))

    def entry(self, loaded: Loaded, job: JobSpec, id: int, unmask: bool) -> Whole | None:
        """One entry whole; showing the values of a PROD source is audited, and refused where that cannot be written."""
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
            return Done("shown" if found[0] else "there is no such entry", {})

        line = intent(ACTION, f"job {job.name} entry {id}", "")
        audited(Audit(StateFolder.open(loaded.state_dir)), line, act)
        return found[0]


@dataclass
class _Sink:
    """A sink, a job of it to ask by, and when and how it was asked; `lock` is held while a question is on its way."""

    key: str
    job: JobSpec
    seen: SinkSeen
    asked: float = float("-inf")
    failed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def due(self, now: float, hurry: bool) -> bool:
        """Whether it may be asked again: one that does not answer is asked less often."""
        pause = min(_SLOWEST, QUARANTINE_EVERY * 2**self.failed)
        return now - self.asked >= (QUARANTINE_LEAST if hurry else pause)


class Sinks:
    """Asks each sink of a configuration how many rows are held there, each question in a thread of its own."""

    def __init__(self, loaded: Loaded | None, clock: Clock, quarantines: SinkQuarantines) -> None:
        self._clock = clock
        self._quarantines = quarantines
        by_key = {sink_of(job): job for job in loaded.jobs.values()} if loaded else {}
        self._sinks = [_Sink(key, job, SinkSeen(key)) for key, job in sorted(by_key.items())]
        self._hurry = False

    def hurry(self) -> None:
        """The next turn does not wait for the interval: a person wants to know now."""
        self._hurry = True

    def turn(self, post: Post) -> None:
        """Ask what is due, without waiting for the answers; each comes as a message."""
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
        except Exception as error:  # the top of a thread: whatever it is must be told, and asked again
            from slotkeeper.console.monitor.store_reader import message_of

            one.seen, one.failed = replace(one.seen, fault=message_of(error)), min(one.failed + 1, 10)
        finally:
            one.lock.release()
        post(SinkPolled(one.seen))


LOCKS_EVERY = 2.0
"""So many seconds lie between two questions."""


class LockPoller:
    """Asks all sinks of a configuration who waits for a lock; one question at a time.

    Sessions are opened at the first question.
    """

    def __init__(self) -> None:
        self._asking: SinkLocks | None = None
        self._lock = threading.Lock()

    def ask(self, loaded: Loaded, now: float) -> list[LocksSeen]:
        """What each sink says; `now` is this machine's clock in seconds since 1970."""
        from slotkeeper.core.services.looking import SinkLocks

        with self._lock:
            self._asking = self._asking or SinkLocks(loaded)
            return self._asking.ask(now)

    def rest(self) -> None:
        """End the sessions; a question that is under way fails. The next one opens new ones."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close()


QUERIES_EVERY, QUERIES_RESTING = 10.0, 30.0
"""So many seconds lie between two questions, where a query was seen and where none was."""
OLD = 60.0
"""Seconds without an answer from its store after which nobody knows whether a query lives."""
Found = Mapping[tuple[str, str], QuerySeen]
"""By job and source table."""
Ask = Callable[[Sequence[JobSpec], set[str]], Found]


def asked(jobs: Sequence[JobSpec], silent: set[str]) -> Found:
    """The real question; drivers are loaded when it is first put."""
    from slotkeeper.core.services.slot_commands import queries_of

    return queries_of(jobs, silent, unasked=True)


@dataclass(frozen=True, slots=True)
class _OfJob:
    at: datetime
    read: Mapping[str, QuerySeen]


class QueryPoller:
    """Asks the stores of one configuration, one question at a time; its calls come from one thread.

    Only jobs that were never started here may be queries, which run elsewhere; where there is none, no store is asked.
    """

    def __init__(self, loaded: Loaded | None, clock: Clock, ask: Ask = asked) -> None:
        self._loaded = loaded
        self._clock = clock
        self._ask = ask
        self._asked_at = float("-inf")
        self._asking = threading.Lock()
        self._seen: Mapping[str, _OfJob] = {}

    def among(self, jobs: Sequence[JobFacts]) -> list[JobFacts]:
        """The jobs, those that are queries by the newest answer as such; asks again where it is time."""
        seen, now = self._seen, self._clock.utc()
        self._turn(jobs)
        return [
            as_query(one, seen[one.name].read, seen[one.name].at, now)
            if may_be_query(one) and one.name in seen
            else one
            for one in jobs
        ]

    def _turn(self, jobs: Sequence[JobFacts]) -> None:
        now = self._clock.monotonic()
        if self._loaded is None or now - self._asked_at < (QUERIES_EVERY if self._seen else QUERIES_RESTING):
            return
        mine = [self._loaded.jobs[one.name] for one in jobs if may_be_query(one) and one.name in self._loaded.jobs]
        if mine and self._asking.acquire(blocking=False):
            self._asked_at = now
            threading.Thread(target=self._put, args=(mine,), name="slotkeeper-queries", daemon=True).start()

    def _put(self, jobs: Sequence[JobSpec]) -> None:
        silent: set[str] = set()
        try:
            found = self._ask(jobs, silent)
        except Exception:  # the top of a thread: nothing was answered, and it is asked again
            found, silent = {}, {job.name for job in jobs}
        by_job: dict[str, dict[str, QuerySeen]] = {}
        for (job, table), seen in sorted(found.items()):
            by_job.setdefault(job, {})[table] = seen
        at = self._clock.utc()
        kept = {name: one for name, one in self._seen.items() if name in silent}
        self._seen = kept | {name: _OfJob(at, read) for name, read in by_job.items()}
        self._asking.release()


def may_be_query(job: JobFacts) -> bool:
    """Whether it is configured and was never started here."""
    return job.state is None and not job.refused


def _later(age: float | None, by: float | None) -> float | None:
    return None if age is None else age + (by or 0.0)


def as_query(job: JobFacts, read: Mapping[str, QuerySeen], at: datetime, now: datetime) -> JobFacts:
    """A job whose slots are read by queries: it runs elsewhere as long as one of them lives."""
    old = elapsed(at, now)
    silent = f"its store has not answered for {in_words(old)}; " if old is not None and old > OLD else ""
    lives = any(one.lives for one in read.values())
    behind = [one.worst for one in read.values()]
    known = [one for one in behind if one is not None]
    return replace(
        job,
        level=Level.UNKNOWN if silent else Level.FINE if lives else Level.REST,
        state=JobState.RUNNING if lives else JobState.STOPPED,
        wrong=silent + "; ".join(replace(one, age=_later(one.age, old)).brief for one in read.values()),
        safe=WHERE_TO_ACT if lives else WHERE_TO_START,
        alive=None if lives else False,
        elsewhere=True,
        behind=max(known) if lives and known and len(known) == len(behind) else None,
        queries=read,
        queries_at=at,
    )
