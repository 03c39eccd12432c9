"""Queries stores to find DataFrame queries that read slots of configured jobs and therefore run elsewhere.

Only jobs that were never started on this host can be such queries; if there is no such job, no store is queried. One
query runs at a time, in a separate thread, so that a store that does not answer delays nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slotkeeper.console.monitor.snapshot import JobFacts, Level, aged
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.query_report import WHERE_TO_ACT, WHERE_TO_START, QuerySeen
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.ttl import in_words

EVERY, RESTING = 10.0, 30.0
"""Seconds between two queries: after a DataFrame query was found, and after no query was found."""
OLD = 60.0
"""Seconds without an answer from the store after which it is unknown whether a query runs."""
Found = Mapping[tuple[str, str], QuerySeen]
"""The queries by job and source table."""
Ask = Callable[[Sequence[JobSpec], set[str]], Found]


def asked(jobs: Sequence[JobSpec], silent: set[str]) -> Found:
    """Return the queries that read slots of these jobs. Drivers are loaded at the first call."""
    from slotkeeper.core.services.slot_commands import queries_of

    return queries_of(jobs, silent, unasked=True)


@dataclass(frozen=True, slots=True)
class _OfJob:
    at: datetime
    read: Mapping[str, QuerySeen]


class QueryPoller:
    """Queries the stores of one configuration; called from one thread."""

    def __init__(self, loaded: Loaded | None, clock: Clock, ask: Ask = asked) -> None:
        self._loaded = loaded
        self._clock = clock
        self._ask = ask
        self._asked_at = float("-inf")
        self._asking = threading.Lock()
        self._seen: Mapping[str, _OfJob] = {}

    def among(self, jobs: Sequence[JobFacts]) -> list[JobFacts]:
        """Return the jobs, as queries if the newest answer reports them as such. Polls the stores if due."""
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
        if self._loaded is None or now - self._asked_at < (EVERY if self._seen else RESTING):
            return
        mine = [self._loaded.jobs[one.name] for one in jobs if may_be_query(one) and one.name in self._loaded.jobs]
        if mine and self._asking.acquire(blocking=False):
            self._asked_at = now
            threading.Thread(target=self._put, args=(mine,), name="slotkeeper-queries", daemon=True).start()

    def _put(self, jobs: Sequence[JobSpec]) -> None:
        silent: set[str] = set()
        try:
            found = self._ask(jobs, silent)
        except Exception:  # top level of a thread: without an answer, the query is repeated
            found, silent = {}, {job.name for job in jobs}
        by_job: dict[str, dict[str, QuerySeen]] = {}
        for (job, table), seen in sorted(found.items()):
            by_job.setdefault(job, {})[table] = seen
        at = self._clock.utc()
        kept = {name: one for name, one in self._seen.items() if name in silent}
        self._seen = kept | {name: _OfJob(at, read) for name, read in by_job.items()}
        self._asking.release()


def may_be_query(job: JobFacts) -> bool:
    """Return whether the job is configured and was never started on this host."""
    return job.state is None and not job.refused


def as_query(job: JobFacts, read: Mapping[str, QuerySeen], at: datetime, now: datetime) -> JobFacts:
    """Return a job whose slots are read by queries. The job runs elsewhere as long as one of the queries is running."""
    old = elapsed(at, now)
    silent = f"its store has not answered for {in_words(old)}; " if old is not None and old > OLD else ""
    lives = any(one.lives for one in read.values())
    behind = [one.worst for one in read.values()]
    known = [one for one in behind if one is not None]
    return replace(
        job,
        level=Level.UNKNOWN if silent else Level.FINE if lives else Level.REST,
        state=JobState.RUNNING if lives else JobState.STOPPED,
        wrong=silent + "; ".join(one.brief for one in aged(read, old or 0.0).values()),
        safe=WHERE_TO_ACT if lives else WHERE_TO_START,
        alive=None if lives else False,
        elsewhere=True,
        behind=max(known) if lives and known and len(known) == len(behind) else None,
        queries=read,
        queries_at=at,
    )
