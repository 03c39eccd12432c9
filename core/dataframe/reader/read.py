"""Reads a part on a worker: statuses before and behind the rows, the rows as Arrow batches.

A status behind the rows that shows other points or another table means that what was read may be the hole that a
TRUNCATE left, so the task fails, and with it its batch. Sessions stay with the worker from task to task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow

from slotkeeper.core.dataframe.reader import arrow
from slotkeeper.core.dataframe.reader.faults import named
from slotkeeper.core.dataframe.reader.parts import ChunkPart, Part, RangePart
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.watch import exactly, judge, trouble
from slotkeeper.core.drivers.copy_pipe import pieces
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.ports.kinds import Changelog, ChangelogSession
from slotkeeper.core.wiring.worker import changelog_session

MOST_KEPT = 4
"""Sessions that a worker keeps for its next task."""
_kept: dict[tuple[JobSpec, int], ChangelogSession] = {}


def read(part: Part) -> Iterator[pyarrow.RecordBatch]:
    """The part's batches; raises ReadFailed."""
    with named(), _session(part.job, part.epoch) as session:
        log = session.changelog(part.job)
        yield from _range(log, part) if isinstance(part, RangePart) else _chunk(log, part)


def _range(log: Changelog, part: RangePart) -> Iterator[pyarrow.RecordBatch]:
    """In steps of `binlog_sync_point_size`: a server may materialize all that one question asks for."""
    status = _status(log, part)
    columns, at = part.layout.columns, part.after
    while at < part.up_to:
        end = log.next_range(at, status, part.job.binlog.binlog_sync_point_size)
        if not end < part.up_to:
            end = part.up_to
        rows = pieces(partial(log.copy_images, part.shard, at, end, columns, part.only), arrow.PIECE)
        yield from arrow.changes(rows, part.layout, part.shard.name)
        at = end
    _status(log, part)


def _chunk(log: Changelog, part: ChunkPart) -> Iterator[pyarrow.RecordBatch]:
    _same_table(log, part)
    rows = pieces(partial(log.copy_rows, part.chunk, part.layout.columns, part.only), arrow.PIECE)
    yield from arrow.copied(rows, part.layout)
    _same_table(log, part)


def _same_table(log: Changelog, part: ChunkPart) -> None:
    if log.identify().text != part.layout.fingerprint:
        raise trouble(TroubleName.SCHEMA_CHANGED, "the table was changed or made again while it was read")


def _status(log: Changelog, part: RangePart) -> SlotStatus:
    """The status of the part's DN; raises where the range may not be there as a whole.

    The slot stands at the part's begin or before it: what lies behind is kept for it.
    """
    (status,) = log.read_status(part.shard)
    wrong = judge(status, exactly(status.kept, part.layout.fingerprint))
    if wrong:
        raise wrong
    there = status.kept.furthest
    if there is not None and there > part.after:
        what = f"{part.shard.name}: the slot is registered at {there.shown}, beyond {part.after.text}"
        raise trouble(TroubleName.SLOT_MOVED, f"{what}, from where on this batch reads")
    return status


@contextmanager
def _session(job: JobSpec, epoch: int) -> Iterator[ChangelogSession]:
    """A session of this worker's, left for its next task; dropped after any error, and where a task stops early."""
    session = _kept.pop((job, epoch), None) or changelog_session(job, epoch, "read")
    try:
        yield session
    except BaseException:
        session.close()
        raise
    while len(_kept) >= MOST_KEPT:
        _kept.pop(next(iter(_kept))).close()
    _kept[job, epoch] = session
