"""The sink alone: a round's steps are read in advance, then one or two sessions stage and commit them without other
load. The result shows the throughput for a user whose sink has its own host.

It is compared with logical replication's apply worker on the same changes, which does not wait for another process
either: its publisher decodes faster than one worker applies.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import BinaryIO, cast

from bench.ours import job_of
from bench.rig import Rig, Span
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Shard, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, TableAsked
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.wiring import worker
from slotkeeper.demo.orders import TABLE


@dataclass(frozen=True, slots=True)
class Step:
    """A lane's changes of a round, as its source sends them, in a file."""

    lane: LaneKey
    after: DwsPosition
    up_to: DwsPosition
    rows: int
    text: BinaryIO


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of all lanes of a round, and the identity of their table."""

    identity: TableIdentity
    steps: Sequence[Step]


@contextmanager
def read(rig: Rig, spans: Sequence[Span]) -> Iterator[Steps]:
    """Read a round's changes as a worker does: one step per lane, as after a backlog."""
    spec = job_of(rig, "alone")
    source = worker.source_session(spec, "alone").table(TableAsked.of(spec)).source
    assert isinstance(source, DwsSource)
    with ExitStack() as stack:
        stack.callback(source.session.close)
        identity = source.identify()
        source.nodes()
        steps = []
        for span in spans:
            text = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(dir=rig.folder)))
            shard, after, up_to = Shard(span.name, span.node), DwsPosition(span.after), DwsPosition(span.latest)
            source.read_status(shard)
            rows = source.copy_changes(shard, after, up_to, text)
            lane = LaneKey(spec.source.name, TABLE, spec.slot, span.name)
            steps.append(Step(lane, after, up_to, rows, text))
        yield Steps(identity, steps)


def apply(rig: Rig, database: str, found: Steps, sessions: int) -> float:
    """Apply all steps to `ods.orders` in that database with `sessions` sessions; return the seconds."""
    spec = replace(job_of(rig, database), channels=(ChannelSpec(TABLE, TABLE),))
    epoch = begun(spec, [(step.lane, step.after) for step in found.steps])
    left: SimpleQueue[Step] = SimpleQueue()
    for step in found.steps:
        left.put(step)
    sinks = [_sink(spec, found.identity) for _ in range(sessions)]
    with ThreadPoolExecutor(sessions) as pool:
        began = time.monotonic()
        for done in [pool.submit(_take, sink, left, epoch) for sink in sinks]:
            done.result()
        seconds = time.monotonic() - began
    for sink in sinks:
        sink.close()
    return seconds


def _take(sink: PostgresSink, left: SimpleQueue[Step], epoch: int) -> None:
    while True:
        try:
            step = left.get_nowait()
        except Empty:
            return
        step.text.seek(0)
        rows = sink.stage(step.text)
        sink.top(step.up_to)
        if rows != step.rows or not sink.commit(step.lane, epoch, step.after, step.up_to, rows):
            raise RuntimeError(f"{step.lane.shard}: {rows} of {step.rows} rows were staged, or the fence was not hit")


def _sink(spec: JobSpec, identity: TableIdentity) -> PostgresSink:
    session = session_of(spec)
    target = targets.seen(session, targets.target_of(spec.channel, identity))
    return PostgresSink(session, POSITIONS, target, spec.sink_options)


def begun(spec: JobSpec, lanes: Sequence[tuple[LaneKey, DwsPosition]]) -> int:
    """Insert progress rows like those of a job at this point; return their epoch."""
    progress = PostgresProgress(
        session_of(spec), POSITIONS, lanes[0][0], Runner(spec.name, "run", "host", "user", 1), True
    )
    progress.create_tables()
    progress.insert(
        ProgressRow(lane, 1, TABLE, position, 0, 0, LaneState.RUNNING, None, None, "channel", "fingerprint", None)
        for lane, position in lanes
    )
    epoch = progress.raise_epoch()
    progress.close()
    return epoch


def session_of(spec: JobSpec) -> SinkSession:
    """Return a sink session like a worker's."""
    return SinkSession(spec.sink, resolve(spec.sink.password), f"slotkeeper/{spec.name}/1")
