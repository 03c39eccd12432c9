"""The DataFrame queries that read slots, as the store's rows tell of them: jobs that run elsewhere. Only looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress

from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.query_report import QueryReport, QuerySeen
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.services.sessions import open_store
from slotkeeper.core.services.slot_commands import FOLLOWED_LIMIT_MS
from slotkeeper.core.sources import registry
from slotkeeper.core.wiring import worker

WITHIN = 3.0
"""Seconds for which a command waits for all stores together: that is told beside something else."""
Queries = Mapping[tuple[str, str], QuerySeen]
"""What was seen, by job and source table."""


def query_of(job: JobSpec) -> QuerySeen | None:
    """The query that reads the slot of a job's channel; None where none does, or the store does not answer at once."""
    return queries_of([job]).get((job.name, job.channel.source_table))


def queries_of(jobs: Iterable[JobSpec], silent: set[str] | None = None, unasked: bool = False) -> Queries:
    """The queries that read slots of these jobs, all channels of each; of a store that does not answer in time, none.

    `silent` gets the names of the jobs whose store has not. Each store is asked over one session in a thread of its
    own, which is left behind where it hangs. Where nobody has asked for it (`unasked`), no store is whose password a
    command gives, which may ask a person.
    """
    by_store: dict[object, list[JobSpec]] = {}
    for job in jobs:  # also those that are to copy once only: a query reads the binlog all the same
        by_store.setdefault((job.store_at, job.progress_schema), []).append(job)
    answers: dict[object, Queries] = {}
    asking = [
        threading.Thread(target=_ask, args=(store, mine, answers), daemon=True)
        for store, mine in by_store.items()
        if not (unasked and _by_command(mine[0]))
    ]
    for one in asking:
        one.start()
    end = time.monotonic() + WITHIN
    for one in asking:
        one.join(max(0.0, end - time.monotonic()))
    there = dict(answers)
    if silent is not None:
        silent.update(job.name for store, mine in by_store.items() if store not in there for job in mine)
    return {name: seen for found in there.values() for name, seen in found.items()}


def _by_command(job: JobSpec) -> bool:
    endpoint, _ = job.store_at
    return "command" in (endpoint.password.how, endpoint.sslpassword.how)


def _ask(store: object, jobs: list[JobSpec], answers: dict[object, Queries]) -> None:
    found: dict[tuple[str, str], QuerySeen] = {}
    # the top of a thread: whatever it is, this store has not answered
    with suppress(Exception), closing(open_store(jobs[0], FOLLOWED_LIMIT_MS)) as session:
        there = set(session.queried())
        for job in jobs:
            for one in job.narrowed:
                if (job.source.name, one.channel.source_table, job.slot) in there:
                    seen = _seen(session, one)
                    if seen is not None:
                        found[job.name, one.channel.source_table] = seen
        answers[store] = found


def _seen(session: StoreSession, job: JobSpec) -> QuerySeen | None:
    progress = session.progress(job, worker.who(job, "slots show"))
    rows = progress.rows()
    if not rows or not all(row.of_query for row in rows):
        return None
    positions = {row.key.shard: row.position.text for row in rows if row.position is not None}
    report = _account(session, job, {row.epoch for row in rows})
    texts = registry.open(job.source_kind).positions
    return QuerySeen(
        bool(progress.lease_owners()),
        progress.holder(),
        positions,
        report.query,
        report.name,
        report.batch,
        report.checkpoint,
        report.newest,
        {name: _behind(texts, place, report.newest.get(name)) for name, place in positions.items()},
        texts.unit,
        report.age if report.query else None,
    )


def _account(session: StoreSession, job: JobSpec, epochs: set[int]) -> QueryReport:
    """What the query says of itself: nothing, where that cannot be read, or is of one before its rows were made.

    One that begins raises their epoch, and has said nothing yet: what it said in an earlier life is still so.
    """
    nothing = QueryReport(0)
    try:
        report = session.accounts(job.lane_key()).read()
    except SlotkeeperError:  # a login that may read the rows only
        return nothing
    return report if report is not None and report.epoch <= max(epochs) else nothing


def _behind(texts: Positions, place: str, newest: str | None) -> int | None:
    if newest is None:
        return None
    try:
        return texts.place(newest).ahead_of(texts.position(place))
    except (ValueError, SlotkeeperError):
        return None
