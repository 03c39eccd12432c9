"""The comparison of a job's two tables, over sessions that only look.

Nothing here creates a slot, a table or a progress row. Next door: `core.verify` compares and sees protocols only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

from core.config.secrets import resolve
from core.domain.endpoint import Endpoint
from core.domain.objection import refuse
from core.domain.spec import JobSpec
from core.domain.starting import start_at
from core.drivers.session import Dialect, Session
from core.engine.driver.context import lane_key
from core.errors import Refused
from core.services.sessions import open_sink, open_viewer, poll_name
from core.sinks.postgres.progress.store import PostgresProgress
from core.sinks.postgres.quarantine.entries import QuarantineRows
from core.sinks.postgres.session import POSTGRES
from core.sources.dws import eligibility as source_rules
from core.sources.dws.session import DWS
from core.sources.dws.viewer import DwsViewer
from core.verify.compare import compare
from core.verify.keys import KeyColumn
from core.verify.pg import open_pair
from core.verify.reader import Comparison, Key, Options
from core.wiring import worker

SETTLE_SECONDS = 60.0


def verify(job: JobSpec, runs: bool, on_range: Callable[[int, int], None]) -> Comparison:
    """Compare the tables of a job's channel; where the job runs, a difference counts only once its lanes caught up."""
    if start_at(job.start).partial:
        what = f"{job.channel.target} holds only what changed since the start of job {job.name} ({job.start})"
        raise Refused(f"{what}: it cannot be compared as a whole", 'only start = "initial" makes a whole copy')
    with ExitStack() as stack:
        _refuse_hidden(job)
        source = stack.enter_context(closing(_reading(job, job.source, DWS)))
        sink = stack.enter_context(closing(_reading(job, job.sink, POSTGRES)))
        channel = job.channel
        mapping = dict(channel.columns) or None
        left, right = open_pair(
            source.transaction, channel.source_table, sink.transaction, channel.target, mapping, channel.where
        )
        settled = stack.enter_context(_settler(job)) if runs and job.binlog.binlog else None
        rows = QuarantineRows(stack.enter_context(closing(open_sink(job))))
        quarantined = partial(_quarantined, job, rows, right.key)
        options = Options(settled=settled, quarantined=quarantined, on_range=on_range)
        return compare(left, right, options)


def _refuse_hidden(job: JobSpec) -> None:
    """Rows that are hidden or masked from the source's login would be called extra, or be missing on both sides."""
    with closing(open_viewer(job.source)) as viewer:
        facts = viewer.table_facts(job.channel.source_table)
    refuse(list(source_rules.hidden_objections(job.channel.source_table, facts)) if facts else [], "source")


def _quarantined(
    job: JobSpec, rows: QuarantineRows, columns: Sequence[KeyColumn], keys: Collection[Key]
) -> Collection[Key]:
    """Picks the keys that are held in quarantine now, both halves of a changed key among them."""
    values = rows.values(lane_key(job, ""))
    return {tuple(one.of_copy(row.get(one.name) or "") for one in columns) for row in values}.intersection(keys)


def _reading(job: JobSpec, endpoint: Endpoint, dialect: Dialect) -> Session:
    """An open session that reads a whole table, in short transactions."""
    limit = {"statement_timeout": str(job.binlog.full_sync_binlog_read_timeout)}
    read = replace(dialect, settings=limit, autocommit=False, limit_ms=None)
    session = Session(endpoint, resolve(endpoint.password), poll_name(job.name), read)
    session.ready()
    return session


@contextmanager
def _settler(job: JobSpec) -> Iterator[Callable[[], bool]]:
    progress = PostgresProgress(open_sink(job), lane_key(job, ""), worker.who(job, "verify"))
    with closing(open_viewer(job.source)) as viewer, closing(progress):
        yield partial(settled, viewer, progress, job.channel.source_table)


def settled(viewer: DwsViewer, progress: PostgresProgress, table: str, seconds: float = SETTLE_SECONDS) -> bool:
    """Wait until every lane has passed what the source's newest point is now; False where that cannot be seen.

    Asks for the newest point without naming a slot: naming one that is gone would create it.
    """
    latest = viewer.latest(table)
    if latest is None:
        return False
    homes = viewer.nodes(table)
    latest = {shard: point for shard, point in latest.items() if shard in homes}
    end = time.monotonic() + seconds
    while True:
        positions = {row.key.shard: row.position for row in progress.rows()}
        if not positions.keys() >= latest.keys():
            return False
        behind = [
            shard
            for shard, point in latest.items()
            if point is not None and ((at := positions[shard]) is None or at.point < point)
        ]
        if not behind:
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.25)
