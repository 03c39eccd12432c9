"""The composition root: opens a job's source and sink sessions by their kinds."""

from __future__ import annotations

import getpass
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import Images, JobSpec, TableAsked
from slotkeeper.core.domain.traits import Encoding, chosen
from slotkeeper.core.engine.driver.context import WorkerEntries
from slotkeeper.core.engine.worker import entries, rounds
from slotkeeper.core.engine.worker.two_part import PlannedSink, TwoPartSink
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.ports.driver import Runner, StartStore
from slotkeeper.core.ports.kinds import BatchSession, SourceSession, StoreSession
from slotkeeper.core.ports.sink import LabelSink, StepSink, Views
from slotkeeper.core.ports.source import Source, SourceTable
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources


def session_name(job: str, part: str) -> str:
    """Return `slotkeeper/<job>/<part>`, at most 63 characters, so that a session can be found and ended by its name.

    A search would miss a name that the server truncates (PostgreSQL and DWS: NAMEDATALEN, 63 bytes). The longest part
    belongs to a registering session: its channel, an epoch of 13 digits, and the number of a DN with up to 11
    characters.

    >>> session_name("orders_rt", "7")
    'slotkeeper/orders_rt/7'
    """
    short = job if len(job) <= 19 else f"{job[:10]}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"
    return f"slotkeeper/{short}/{part}"


def channel_part(job: JobSpec, part: str) -> str:
    """Return the part of a session's name that identifies the channel, followed by `part`: `9f3a.<part>`.

    The channel is four digits of a hash. If two channels of a job have the same digits, ending the sessions of one
    channel can also end a session of the other, which is then opened again.
    """
    return f"{hashlib.sha256(job.channel.source_table.encode()).hexdigest()[:4]}.{part}"


def end_job_sessions(job: JobSpec, table: SourceTable) -> bool:
    """End the job's other sessions on the source, of any epoch; return False if it is not certain that all ended."""
    return _end(table, _pattern(job, ""))


def end_channel_sessions(job: JobSpec, table: SourceTable) -> bool:
    """End only the registering sessions for the channel of `job`, because other channels may be streaming."""
    return _end(table, _pattern(job, channel_part(job, "")))


def _end(table: SourceTable, pattern: str) -> bool:
    return table.slot is None or table.slot.end_sessions(pattern)


def show(table: SourceTable, name: str) -> SourceTable:
    """Return the table, whose session is shown under this name on the server while it registers."""
    if table.slot is not None:
        table.slot.shown_as = name
    return table


def _pattern(job: JobSpec, part: str) -> str:
    return session_name(job.name, part).replace("_", r"\_") + "%"


def source_session(job: JobSpec, part: str) -> SourceSession:
    endpoint = replace(job.source, socket_timeout_ms=job.binlog.connection_socket_timeout)
    return sources.open(job.source_kind).connect(login(endpoint, session_name(job.name, part)))


def store_session(job: JobSpec, part: str, limit_ms: int = 0, name: str = "") -> StoreSession:
    """Open a session of a job on the server of its progress rows: its sink, or the store that the sink names.

    `limit_ms` is the time limit of a statement and of the login; 0: those of a step. `name` replaces the name made from
    `part`.
    """
    endpoint, kind = job.store_at
    if limit_ms:
        login_ms = min(limit_ms, endpoint.connect_timeout_ms)
        endpoint = replace(endpoint, socket_timeout_ms=limit_ms, connect_timeout_ms=login_ms)
    positions = sources.open(job.source_kind).positions
    given = login(endpoint, name or session_name(job.name, part))
    return sinks.open(kind).connect(given, job.progress_schema, positions)


def session_beside(job: JobSpec, part: str) -> BatchSession:
    """Open a session on the sink of a job whose store is separate from its sink."""
    return sinks.open(job.sink_kind).connect_beside(login(job.sink, session_name(job.name, part)))


def encoding_of(job: JobSpec) -> Encoding:
    """Return the batch encoding that a job's source and sink share; raises Refused with both names if none."""
    pair = f"{job.source_kind} to {job.sink_kind}"
    return chosen(sources.open(job.source_kind).gives, sinks.open(job.sink_kind).takes, pair)


@contextmanager
def open_source(job: JobSpec, part: str) -> Iterator[Source]:
    """Open the source of a job's channel over a separate session for the block."""
    with closing(source_session(job, part)) as session:
        yield session.table(TableAsked.of(job)).source


def open_progress(job: JobSpec, part: str, runner: Runner) -> StartStore:
    """Open a separate session for access to the progress rows of a job's channel."""
    return store_session(job, part).progress(job, runner)


def who(job: JobSpec, run: str, owner: str = "") -> Runner:
    """Return the description of this process that is stored in progress rows; `owner`: of a job of several hosts."""
    return Runner(job.name, run, socket.gethostname(), getpass.getuser(), os.getpid(), owner)


# -- the worker's side ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pair:
    """A source and a sink session of this worker; implements `slotkeeper.core.engine.worker.entries.Pair`.

    `beside` is the session of the sink itself if the sink cannot store progress rows.
    """

    source: SourceSession
    store: StoreSession
    beside: BatchSession | None = None

    def opened(self, job: JobSpec, copying: str, feed: str) -> tuple[Source, StepSink]:
        """Open the channel of `job`, which contains only this channel; queries both servers."""
        source = self.source.table(TableAsked.of(job, feed=feed)).source
        identity = source.identify()
        if self.beside is None:
            return source, self.store.step_sink(job, identity, copying)
        sink = self.beside.batch_sink(job, identity, copying)
        if isinstance(sink, LabelSink):
            return source, PlannedSink(sink, self.store.decisions(job.sink_options.quarantines), job.sink_options)
        return source, TwoPartSink(sink, self.store.decisions())

    def resolve(self, ref: SecretRef) -> str:
        with _named_worker():
            return resolve(ref)

    def close(self) -> None:
        self.source.close()
        self.store.close()
        if self.beside is not None:
            self.beside.close()


def open_pair(job: JobSpec, epoch: int, session: str = "") -> _Pair:
    """Open a source and a sink session for a job's tasks; raises ConfigError if this worker cannot resolve a secret.

    `session` is the name of the store's session.
    """
    with _named_worker():
        part = str(epoch)
        beside = session_beside(job, part) if job.in_two_parts else None
        return _Pair(source_session(job, part), store_session(job, part, name=session), beside)


def changelog_session(job: JobSpec, epoch: int, part: str) -> SourceSession:
    """Open a session that reads changelogs.

    `epoch` is the epoch of a query; a later run of the query uses it to find and end this session. Without a query (0),
    the session is never ended in this way. Raises ConfigError if a secret cannot be resolved here.
    """
    name = session_name(job.name, f"{epoch}/{part}") if epoch else f"slotkeeper-frames/{job.name}/{part}"[:63]
    with _named_worker():
        endpoint = replace(job.source, socket_timeout_ms=job.binlog.connection_socket_timeout)
        return sources.open(job.source_kind).connect(login(endpoint, name))


def changelog_of(session: SourceSession, job: JobSpec, images: Images | None = None, feed: str = "") -> SourceTable:
    """Return a job's channel over a session of `changelog_session`, with its source as a changelog reads it.

    `feed` is the address of the query's shared reader, "" if there is none.
    """
    read = images or Images()
    channel = replace(job.channel, columns=tuple((one.name, one.name) for one in read.columns))
    return session.table(TableAsked.of(replace(job, channels=(channel,)), images=read, feed=feed))


@contextmanager
def _named_worker() -> Iterator[None]:
    """Add the worker's name to a ConfigError: a secret that is missing here may be available to the driver."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(
            f"on the worker {socket.gethostname()}, as {getpass.getuser()}: {error.message}",
            error.hint
            or "provide each worker with the same file, variable or command: workers resolve passwords themselves",
        ) from None


@dataclass(slots=True)
class _OpenedViews:
    """A job's views over a session of this worker; implements `slotkeeper.core.engine.worker.rounds.Opened`."""

    session: StoreSession
    views: Views

    def close(self) -> None:
        self.session.close()


def open_views(job: JobSpec, name: str) -> _OpenedViews:
    """Open a session for the rounds of a job's views; raises ConfigError if this worker cannot resolve a secret."""
    with _named_worker():
        session = store_session(job, "", name=name)
        return _OpenedViews(session, session.views(job))


ENTRIES = WorkerEntries(
    partial(entries.run_stream, open_pair),
    partial(entries.run_copy, open_pair),
    partial(rounds.run_views, open_views),
)
"""The functions that a driver passes to its workers."""
