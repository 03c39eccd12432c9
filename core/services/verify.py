"""Compare a job's two tables, over read-only sessions.

Nothing here creates a slot, a table or a progress row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from functools import partial

from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain.columns import mirrored
from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.spec import JobSpec, TableAsked, start_at
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import LaneFence
from slotkeeper.core.ports.kinds import Key
from slotkeeper.core.ports.source import SourceTable
from slotkeeper.core.services.looking import inspecting, open_source, open_store, poll_name
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.verify.compare import ComparedRow, Comparison, Options, compare, open_pair
from slotkeeper.core.wiring import worker

SETTLE_SECONDS = 60.0


def verify(job: JobSpec, runs: bool, on_rows: Callable[[int, int], None]) -> Comparison:
    """Compare the tables of a job's channel; while it runs, a difference counts only after its lanes have caught up."""
    if start_at(job.start).partial:
        what = f"{job.channel.target} contains only the changes since the start of job {job.name} ({job.start})"
        raise Refused(f"{what}: a full comparison is not possible", 'only start = "initial" makes a full copy')
    with ExitStack() as stack:
        # rows hidden or masked from the source's login would be reported as extra, or be missing on both sides
        with closing(open_source(job.source_kind, job.source)) as looking:
            refuse(looking.doctor.hidden(job.channel.source_table), "source")
        name, limit, channel = poll_name(job.name), job.binlog.full_sync_binlog_read_timeout, job.channel
        source = stack.enter_context(closing(sources.open(job.source_kind).tables(login(job.source, name), limit)))
        sink = stack.enter_context(closing(sinks.open(job.sink_kind).tables(login(job.sink, name), limit)))
        mapping = dict(channel.columns) or None
        apart = channel.constant is not None or channel.soft_delete is not None
        part = sinks.open(job.sink_kind).condition(channel) if apart else ""
        tables = source.table, channel.source_table, sink.table, channel.target
        left, right = open_pair(*tables, mapping, channel.where, part, compared_row(job) if channel.compute else None)
        settles = None
        if runs and job.binlog.binlog:
            at = stack.enter_context(inspecting(job.source_kind, job.source, job.channel.source_table))
            session = stack.enter_context(closing(open_store(job)))
            progress = session.progress(job, worker.who(job, "verify"))
            settles = partial(settled, at, progress)
        rows = stack.enter_context(closing(open_store(job))).quarantine()

        def quarantined(keys: Collection[Key]) -> Collection[Key]:
            """Return the keys that are quarantined now, including both halves of a changed key."""
            values = rows.values(job.lane_key())
            return {tuple(one.of_copy(row.get(one.name) or "") for one in right.key) for row in values}.intersection(
                keys
            )

        options = Options(settled=settles, quarantined=quarantined, on_rows=on_rows)
        return compare(left, right, options)


def compared_row(job: JobSpec) -> ComparedRow:
    """Return how a row of the source becomes the compared row of the target, with the function that a worker uses.

    A column whose expression uses the change (`CHANGE`) is not compared: a table does not have it.
    """
    from slotkeeper.core.domain.expressions import Row, compiled  # the parser's import takes half a second

    channel = job.channel
    with closing(open_source(job.source_kind, job.source)) as looking:
        read = Mapped.of(channel).columns(looking.table(TableAsked.of(job)).source.identify())
    kept, salt = mirrored(channel, read), resolve(channel.salt)
    parts = [(one.name, compiled(one, read, salt)) for one in channel.compute if not one.of_change]

    def values(texts: Sequence[str | None]) -> list[str | None]:
        row = Row(texts)
        found = [part.cast_text(row) for _, part in parts]
        return [*(texts[place] for place, _ in kept), *found]

    names = [*(column.name for _, column in kept), *(name for name, _ in parts)]
    return ComparedRow([column.name for column in read], names, values)


def settled(table: SourceTable, progress: LaneFence, seconds: float = SETTLE_SECONDS) -> bool:
    """Wait until every lane has passed the source's current newest point; return False if that fails or is unknown.

    The newest point is queried without a slot: naming a missing slot would create it.
    """
    latest = table.inspector.latest()
    if latest is None:
        return False
    homes = {shard.name for shard in table.source.nodes()}
    latest = {shard: point for shard, point in latest.items() if shard in homes}
    end = time.monotonic() + seconds
    while True:
        positions = {row.key.shard: row.position for row in progress.rows()}
        if not positions.keys() >= latest.keys():
            return False
        behind = [
            shard
            for shard, point in latest.items()
            if point is not None and ((at := positions[shard]) is None or at < point)
        ]
        if not behind:
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.25)
