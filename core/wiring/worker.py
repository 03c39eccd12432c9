"""The composition root: from a job's values to sources, sinks and sessions; the only place that names them together.

Next door: `core.engine` sees ports only; `core.wiring.driver` has the driver's side; workers call `run_stream_task` and
`run_copy_task` by name. Worker sessions live in this module and survive from task to task, keyed by endpoint and epoch;
the channels of a job share them.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from core.clock import SystemClock
from core.config.secrets import resolve
from core.domain.endpoint import Endpoint
from core.domain.spec import JobSpec
from core.engine.driver.context import lane_key
from core.engine.messages import CopyOutcome, CopyTask, StreamOutcome, StreamTask
from core.engine.worker import copy_task, stream_task
from core.engine.worker.step import Probe, nothing
from core.errors import ConfigError, ErrorKind, SlotkeeperError
from core.ports.progress import Runner
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.progress.store import PostgresProgress
from core.sinks.postgres.session import SinkSession
from core.sinks.postgres.write.sink import PostgresSink
from core.sources.dws.selection import Selection
from core.sources.dws.session import DwsSession
from core.sources.dws.slot_admin import DwsSlotAdmin
from core.sources.dws.source import DwsSource

probe: Probe = nothing
"""Called at named points of steps and copies on a worker; tests put theirs here."""


def session_name(job: str, part: str) -> str:
    """`slotkeeper/<job>/<part>`, at most 63 characters, so that a session can be found and ended by its name.

    >>> session_name("orders_rt", "7")
    'slotkeeper/orders_rt/7'
    """
    short = job if len(job) <= 24 else f"{job[:15]}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"
    return f"slotkeeper/{short}/{part}"


def open_source(job: JobSpec, part: str) -> DwsSource:
    """A source session of a job's channel."""
    return source_over(dws_session(job, part), job)


def open_admin(job: JobSpec, part: str) -> DwsSlotAdmin:
    """A source session of a job's channel that may register."""
    return DwsSlotAdmin(
        dws_session(job, part), job.channel.source_table, job.slot, job.binlog, Selection.of(job.channel)
    )


def source_over(session: DwsSession, job: JobSpec, points_proven: bool = False) -> DwsSource:
    """A job's channel over a source session; `points_proven` as a probe has recorded it."""
    source = DwsSource(session, job.channel.source_table, job.slot, job.binlog, Selection.of(job.channel))
    source.points_proven = points_proven
    return source


def dws_session(job: JobSpec, part: str) -> DwsSession:
    """A source session of a job."""
    endpoint = replace(job.source, socket_timeout_ms=job.binlog.connection_socket_timeout)
    return DwsSession(endpoint, resolve(endpoint.password), session_name(job.name, part))


def open_sink_session(job: JobSpec, part: str) -> SinkSession:
    """A sink session of a job."""
    return SinkSession(
        job.sink, resolve(job.sink.password), session_name(job.name, part), job.progress_schema, job.sink_kind
    )


def open_progress(job: JobSpec, part: str, runner: Runner) -> PostgresProgress:
    """The progress rows of a job's channel over a session of their own."""
    quarantines = job.sink_options.quarantines
    return PostgresProgress(open_sink_session(job, part), lane_key(job, ""), runner, quarantines)


def who(job: JobSpec, run: str) -> Runner:
    """This process as the progress rows name it."""
    return Runner(job.name, run, socket.gethostname(), getpass.getuser(), os.getpid())


# -- the worker's side ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pair:
    """A source and a sink session of this worker; `parts` are the channels over them, by (source table, copying)."""

    job: JobSpec
    source: DwsSession
    sink: SinkSession
    parts: dict[tuple[str, str], tuple[DwsSource, PostgresSink]]

    def opened(self, table: str, copying: str = "direct") -> tuple[DwsSource, PostgresSink]:
        """The channel of a source table over these sessions; asks both servers the first time."""
        part = self.parts.get((table, copying))
        if part is None:
            job = self.job.of(table)
            source = source_over(self.source, job)
            target = targets.target_of(job.channel, source.identify())
            limit = job.binlog.full_sync_binlog_read_timeout
            sink = PostgresSink(self.sink, targets.seen(self.sink, target), job.sink_options, copying, limit)
            part = self.parts[table, copying] = (source, sink)
        return part

    def rest(self) -> None:
        """Between two tasks: roll back whatever is open, and end a sink session that has been used for long enough."""
        self.sink.rollback()
        self.sink.retire(self.job.sink_options.connection_max_use_time)

    def close(self) -> None:
        self.source.close()
        self.sink.close()


_idle: dict[tuple[Endpoint, Endpoint, str, str, int], list[_Pair]] = {}
_lock = threading.Lock()


@contextmanager
def _pair(job: JobSpec, epoch: int) -> Iterator[_Pair]:
    """A source and a sink session of this worker; kept for the next task unless the block raised."""
    key = (job.source, job.sink, job.name, job.slot, epoch)
    with _lock:
        old = [kept for other, pairs in _idle.items() if other[:4] == key[:4] and other[4] != epoch for kept in pairs]
        for other in [one for one in _idle if one[:4] == key[:4] and one[4] != epoch]:
            del _idle[other]
        kept = _idle.setdefault(key, [])
        pair = kept.pop() if kept else None
    for one in old:
        one.close()
    if pair is None:
        with _named_worker():
            pair = _Pair(job, dws_session(job, str(epoch)), open_sink_session(job, str(epoch)), {})
    pair.job = job
    try:
        pair.rest()
        yield pair
    except BaseException:
        pair.close()
        raise
    with _lock:
        _idle.setdefault(key, []).append(pair)


@contextmanager
def _named_worker() -> Iterator[None]:
    """A secret that cannot be had here may be had by the driver: say whose it is that is missing."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            f"on the worker {socket.gethostname()}, as {getpass.getuser()}: {error.message}",
            error.hint or "workers resolve passwords themselves: give each of them the same file, variable or command",
        ) from None


def close_idle(job: JobSpec) -> None:
    """End the sessions that this process keeps for a job's next tasks."""
    with _lock:
        mine = [key for key in _idle if key[:4] == (job.source, job.sink, job.name, job.slot)]
        closing = [pair for key in mine for pair in _idle.pop(key)]
    for one in closing:
        one.close()


def run_stream_task(spec: StreamTask) -> StreamOutcome:
    """A task, on a worker."""
    with ExitStack() as stack:
        wanted = min(spec.parallel, len(spec.lanes))
        pairs = [stack.enter_context(_pair(spec.job, spec.epoch)) for _ in range(wanted)]
        for pair in pairs:
            _reach(pair, spec)
        return stream_task.run(spec, [pair.opened for pair in pairs], SystemClock(), probe)


def _reach(pair: _Pair, spec: StreamTask) -> None:
    """Open the sessions before any lane's turn: a server that does not answer is no lane's failure but all lanes'.

    What is wrong with one table of several stops its own lanes alone.
    """
    try:
        pair.opened(spec.lanes[0].table)
    except SlotkeeperError as error:
        if len(spec.job.channels) == 1 or error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS):
            raise


def run_copy_task(spec: CopyTask) -> CopyOutcome:
    """Some chunks, on a worker."""
    with _pair(spec.job, spec.epoch) as pair:
        source, sink = pair.opened(spec.job.channel.source_table, spec.copying)
        return copy_task.run(spec, source, sink, SystemClock(), probe)
