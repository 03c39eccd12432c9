"""Copies chunks of a table on a worker. Each chunk is one sink transaction, fenced by the chunk's own row.

Never raises: a failure is part of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.drivers.pipe import copy_through
from slotkeeper.core.engine.messages import CopyOutcome, CopyTask
from slotkeeper.core.engine.worker import stream_task
from slotkeeper.core.engine.worker.step import Probe, hides, may_isolate, nothing
from slotkeeper.core.engine.worker.stream_task import OpenPair, lend, peak_kib
from slotkeeper.core.errors import ErrorValues, RowRefused
from slotkeeper.core.ports.sink import StepSink
from slotkeeper.core.ports.source import Chunk, Source


def work(open_pair: OpenPair, task: CopyTask) -> CopyOutcome:
    """Run a copy task on a worker."""
    with lend(open_pair, task.job, task.epoch, task.group, task.session) as lent:
        source, sink = lent.opened(task.job.channel.source_table, task.copying)
        return run(task, source, sink, SystemClock(), stream_task.probe)


def run(spec: CopyTask, source: Source, sink: StepSink, clock: Clock, probe: Probe = nothing) -> CopyOutcome:
    """Copy the chunks in order until the deadline; try at least one chunk."""
    deadline = clock.monotonic() + spec.seconds
    key = LaneKey(spec.job.source.name, spec.job.channel.source_table, spec.job.slot, "")
    done: list[int] = []
    rows = 0
    try:
        for chunk in spec.chunks:
            copied = _copy(spec, key, chunk, source, sink, probe)
            if copied is None:
                return CopyOutcome(tuple(done), rows, refused=True, peak_kib=peak_kib())
            done.append(chunk.number)
            rows += copied
            if clock.monotonic() >= deadline:
                break
    except Exception as error:  # a task never raises; see stream_task.py
        sink.abandon()
        return CopyOutcome(tuple(done), rows, error=ErrorValues.of(error), peak_kib=peak_kib())
    return CopyOutcome(tuple(done), rows, peak_kib=peak_kib())


def _copy(spec: CopyTask, key: LaneKey, chunk: Chunk, source: Source, sink: StepSink, probe: Probe) -> int | None:
    def copy(into: Callable[[LaneKey, int, int, BinaryIO], int | None]) -> int | None:
        return copy_through(
            lambda out: source.copy_chunk(chunk, out),
            lambda reader: into(key, spec.epoch, chunk.number, reader),
            sink.encoding,
        )

    try:
        copied = copy(sink.copy_chunk)
    except RowRefused as error:
        if not may_isolate(error, spec.job.sink_options, sink):
            raise
        sink.abandon()
        probe("before_isolated_chunk")
        try:
            copied = copy(sink.copy_chunk_isolating)
        except Exception as other:
            if hides(other, spec.job.sink_options):
                raise error from other
            raise
    if copied is not None:
        probe("before_chunk_commit")
        sink.finish_chunk()
        probe("after_chunk_commit")
    return copied
