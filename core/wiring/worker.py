"""The composition root: from a job's values to sources, sinks and sessions; the only place that names them together.

Next door: `core.engine` sees ports only; `core.wiring.driver` has the driver's side; `ENTRIES` is what workers call,
and `core.engine.worker.stream_task` keeps their sessions from task to task.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from core.config.secrets import resolve
from core.domain.spec import JobSpec
from core.engine.driver.context import WorkerEntries, lane_key
from core.engine.worker import copy_task, stream_task
from core.errors import ConfigError
from core.ports.progress import Runner
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.progress.store import PostgresProgress
from core.sinks.postgres.session import SinkSession
from core.sinks.postgres.write.sink import PostgresSink
from core.sources.dws.session import DwsSession
from core.sources.dws.source import DwsSlotAdmin, DwsSource, Selection


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
    """A source and a sink session of this worker; implements `core.engine.worker.stream_task.Pair`."""

    source: DwsSession
    sink: SinkSession

    def opened(self, job: JobSpec, copying: str) -> tuple[DwsSource, PostgresSink]:
        """The channel that `job` is narrowed to; asks both servers."""
        source = source_over(self.source, job)
        target = targets.target_of(job.channel, source.identify())
        limit = job.binlog.full_sync_binlog_read_timeout
        return source, PostgresSink(self.sink, targets.seen(self.sink, target), job.sink_options, copying, limit)

    def close(self) -> None:
        self.source.close()
        self.sink.close()


def open_pair(job: JobSpec, epoch: int) -> _Pair:
    """A source and a sink session for tasks of a job; ConfigError where a secret cannot be had on this worker."""
    with _named_worker():
        return _Pair(dws_session(job, str(epoch)), open_sink_session(job, str(epoch)))


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


ENTRIES = WorkerEntries(partial(stream_task.work, open_pair), partial(copy_task.work, open_pair))
"""What a driver hands to its workers."""
