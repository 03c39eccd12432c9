"""The composition root of a job's driver: the driver's sessions by name, and the tables of its patterns."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TypeVar, cast

from slotkeeper.core.config.patterns import take_in, with_known
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.inventory import Inventory, TablesFound, literal_schemas
from slotkeeper.core.domain.locks import LockWait, job_named
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.source_waits import SourceWait, of_job
from slotkeeper.core.domain.spec import JobSpec, TableAsked
from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.drivers.socket_folder import SocketFolder, socket_folder
from slotkeeper.core.engine.driver.upkeep import LocksAt, Pinged
from slotkeeper.core.errors import Busy, ConfigError, ErrorKind, SlotkeeperError
from slotkeeper.core.ports.driver import LaneFence, StartStore, Target
from slotkeeper.core.ports.kinds import BatchSession, Feed, FeedAsked, SinkSession, SourceSession, StoreSession
from slotkeeper.core.ports.sink import TargetReader, Views
from slotkeeper.core.ports.source import Source, SourceTable
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sinks.seen_beside import SeenBeside
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.state import files
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring.worker import (
    channel_part,
    encoding_of,
    end_channel_sessions,
    end_job_sessions,
    session_beside,
    session_name,
    show,
    source_session,
    store_session,
    who,
)

T = TypeVar("T")

STARTER = "starter"
VIEWS_LIMIT_MS = 30_000
"""Time limit of each transaction in which the driver asks about its views, in milliseconds; workers maintain them."""
END_LIMIT_MS = 2_000
"""Time limit in milliseconds of the statements that end an abandoned task's sessions."""
CLOSE_WITHIN = 2.0
"""Seconds to wait for running statements when sessions are closed."""


class _Opened:
    """A driver's sessions, which its channels share; a session that is named after an epoch ends with the epoch."""

    def __init__(self, job: JobSpec, run: str, owner: str) -> None:
        self.job = job
        self.runner = who(job, run, owner)
        self.epoch = "start"
        self.lease: StoreSession | None = None
        self._besides: dict[str, BatchSession] = {}
        self.lock = threading.RLock()
        self._sources: dict[str, SourceSession] = {}
        self._stores: dict[str, StoreSession] = {}
        self._feed: tuple[Feed, SocketFolder] | None = None

    @property
    def feed(self) -> str:
        """The address of the shared reader; "" if there is none."""
        return self._feed[0].address if self._feed is not None else ""

    @property
    def feed_error(self) -> SlotkeeperError | None:
        feed = self._feed
        return feed[0].error() if feed is not None else None

    def read_for_all(self, positions: Mapping[str, Position], least: int = 2) -> None:
        """Start a shared reader for at least `least` tables, if the kind has one and a socket has a folder."""
        self.end_feed()
        start = sources.open(self.job.source_kind).feed
        folder = socket_folder() if start is not None and len(positions) >= least else None
        if start is None or folder is None:
            return
        given = login(self.job.source, session_name(self.job.name, f"{self.epoch}/feed"))
        feed = None
        with suppress(SlotkeeperError, OSError):  # lanes read by themselves, and report server errors
            feed = start(given, FeedAsked(self.job.name, self.job.slot, positions, folder.path))
        if feed is None:
            folder.remove()
        else:
            self._feed = feed, folder

    def end_feed(self) -> None:
        if self._feed is not None:
            feed, folder = self._feed
            self._feed = None
            feed.close()
            folder.remove()

    def source(self, name: str, part: str) -> SourceSession:
        """Return the source session `name`; `part` becomes a part of the session's name on the server."""
        if name not in self._sources:
            self._sources[name] = source_session(self.job, f"{self.epoch}/{part}" if part else self.epoch)
        return self._sources[name]

    def rows(self, name: str) -> StoreSession:
        if name not in self._stores:
            self._stores[name] = store_session(self.job, self.epoch)
        return self._stores[name]

    def leased(self) -> StoreSession:
        """Return the start's session on the store, which holds the leases of all channels."""
        if self.lease is None:
            encoding_of(self.job)
            self.lease = store_session(self.job, "lease")
        return self.lease

    def beside(self, name: str) -> BatchSession:
        """Return the session `name` on a sink that has a separate store; `start` is the start's own session."""
        if name not in self._besides:
            self._besides[name] = session_beside(self.job, name)
        return self._besides[name]

    def end_start(self) -> None:
        """End the sessions that belong to the start."""
        _end(*(one for one in (self.lease, self._besides.pop("start", None)) if one is not None))
        self.lease = None

    def close(self) -> None:
        """End all sessions except those that belong to the start."""
        self.end_feed()
        with self.lock:
            watching = [self._besides.pop(name) for name in list(self._besides) if name != "start"]
            closing: list[SourceSession | SinkSession] = [*self._sources.values(), *self._stores.values(), *watching]
            self._sources.clear()
            self._stores.clear()
        _end(*closing)


def _end(*sessions: SourceSession | SinkSession) -> None:
    """Close sessions; abort calls of abandoned threads that still wait for the sessions after `CLOSE_WITHIN`."""

    def sever() -> None:
        for one in sessions:
            one.sever()

    late = threading.Timer(CLOSE_WITHIN, sever)
    late.daemon = True
    late.start()
    try:
        for one in sessions:
            one.close()
    finally:
        late.cancel()


def pinged(job: JobSpec) -> tuple[Pinged, Pinged]:
    """Return a job's source and store, each with a session that only checks whether the server answers.

    Their names differ from those of the job's other sessions, whose end a start awaits. Raises ConfigError.
    """
    name = f"slotkeeper-pulse/{job.name}"[:63]
    source = sources.open(job.source_kind).connect(login(job.source, name))
    endpoint, kind = job.store_at
    store = sinks.open(kind).connect(login(endpoint, name), job.progress_schema)
    return (
        Pinged("source", f"source {job.source.name}", f"source {job.source.place}", source.ping, source.sever),
        Pinged("sink", f"sink {endpoint.name}", f"sink {endpoint.place}", store.ping, store.sever),
    )


def source_waits_at(job: JobSpec) -> tuple[LocksAt[SourceWait], ...]:
    """Return the job's source, with a separate session; empty for a kind that reports no waits. Raises ConfigError."""
    session = sources.open(job.source_kind).connect(login(job.source, f"slotkeeper-locks/{job.name}"[:63]))
    reader = session.doctor.waits({one.source_table: {job.slot: job.name} for one in job.channels})
    if reader is None:
        return ()

    def read(now: float) -> tuple[SourceWait, ...]:
        return of_job(reader.read(now), job.name, job_named(session_name(job.name, "")))

    return (LocksAt(read, session.sever, lambda: reader.hidden),)


def locks_at(job: JobSpec) -> tuple[LocksAt[LockWait], ...]:
    """Return the servers where locks can block the job, each with a session: its store and, if separate, its sink.

    Sinks of a kind that reports no locks are omitted. Raises ConfigError.
    """
    name = f"slotkeeper-locks/{job.name}"[:63]
    endpoint, kind = job.store_at
    sessions: list[SinkSession] = [sinks.open(kind).connect(login(endpoint, name), job.progress_schema)]
    if job.in_two_parts:
        sessions.append(sinks.open(job.sink_kind).connect_beside(login(job.sink, name)))
    readers = ((one.locks(session_name(job.name, "")), one.sever) for one in sessions)
    return tuple(LocksAt(reader.read, sever) for reader, sever in readers if reader is not None)


class WiredSessions:
    """The driver's sessions by name; implements `slotkeeper.core.ports.driver.DriverSessions`.

    A name identifies the same session for all channels, so its callers take turns. `points_proven`: a probe has
    recorded that the source makes one sync point per transaction. `owner`: the state folder that must own the job.
    """

    def __init__(
        self, job: JobSpec, run: str, opened: _Opened | None = None, points_proven: bool = False, owner: str = ""
    ) -> None:
        self._points_proven = points_proven
        self._job = job
        self._run = run
        self._opened = opened or _Opened(job, run, owner)
        self._parts: dict[str, WiredSessions] = {}
        self._kept: dict[tuple[str, str], object] = {}
        self._store: StartStore | None = None
        self._target: Target | None = None

    @property
    def keeps_positions(self) -> bool:
        return sources.open(self._job.source_kind).traits.keeps_positions

    def prefer(self, server: str) -> None:
        job = self._opened.job
        if job.source.hosts and job.source.server != server:
            self._opened.job = replace(job, source=replace(job.source, server=server))

    def widen(self, job: JobSpec) -> None:
        self._job = job

    @property
    def shares_position(self) -> bool:
        return sources.open(self._job.source_kind).traits.shares_position

    @property
    def newest(self) -> Newest:
        return sources.open(self._job.source_kind).traits.newest

    @property
    def shards_apart(self) -> bool:
        return sources.open(self._job.source_kind).traits.apart

    @property
    def no_reset(self) -> str:
        return sinks.open(self._job.sink_kind).no_reset

    def of(self, table: str) -> WiredSessions:
        with self._opened.lock:
            if table not in self._parts:
                narrowed = self._job.of(table)
                part = self
                if narrowed is not self._job:
                    part = WiredSessions(narrowed, self._run, self._opened, self._points_proven)
                self._parts[table] = part
            return self._parts[table]

    def source(self, name: str) -> Source:
        asked = TableAsked.of(self._job, self._points_proven, feed=self._opened.feed)
        session = self._opened.source
        return self._keep("source", name, lambda: session(f"source {name}", "").table(asked).source)

    def admin(self, name: str) -> SourceTable:
        """Return the table over a registering session; the session's name on the server contains `name`."""
        return self._keep("admin", name, lambda: self._registering(name))

    @contextmanager
    def views(self) -> Iterator[Views]:
        session = store_session(self._job, "views", VIEWS_LIMIT_MS)
        try:
            yield session.views(self._job)
        finally:
            _end(session)

    def feed(self, positions: Mapping[str, Position]) -> str:
        self._opened.read_for_all(positions)
        return self._opened.feed

    def feed_error(self) -> SlotkeeperError | None:
        return self._opened.feed_error

    def starter(self) -> SourceTable:
        return self.admin(STARTER)

    def rows(self, name: str) -> LaneFence:
        return self._keep("rows", name, lambda: self._progress(self._opened.rows(name)))

    def know_columns(self, known: Sequence[Column]) -> None:
        with self._opened.lock:
            if self._job.channel.known == tuple(known):
                return
            self._job = replace(self._job, channels=(replace(self._job.channel, known=tuple(known)),))
            for key in [one for one in self._kept if one[0] in ("source", "admin")]:
                del self._kept[key]

    def log_in(self, where: str) -> None:
        job, opened = self._job, list[SourceSession | StoreSession | BatchSession]()
        if where != "sink":
            opened.append(source_session(job, "login"))
        if where != "source":
            opened.append(store_session(job, "login"))
            opened += [session_beside(job, "login")] if job.in_two_parts else []
        try:
            for one in opened:
                one.ping()
        finally:
            _end(*opened)

    def store(self) -> StartStore:
        if self._store is None:
            self._store = self._progress(self._opened.leased())
        return self._store

    def ending(self) -> StartStore:
        return self._progress(store_session(self._job, self._opened.epoch))

    def target(self) -> Target:
        if self._target is None:
            beside = self._opened.beside("start") if self._job.in_two_parts else None
            self._target = beside.target(self._job, self.store()) if beside else self._opened.leased().target(self._job)
        return self._target

    def targets(self) -> TargetReader | None:
        store = self._opened.rows("targets")
        if not self._job.in_two_parts:
            return self._keep("targets", "targets", store.targets)
        sight = self._opened.beside("targets").targets()
        if sight is None:
            return None
        return self._keep("targets", "targets", lambda: SeenBeside(sight, store.target_records()))

    def apart(self, job: JobSpec) -> WiredSessions:
        return WiredSessions(job, self._run, points_proven=self._points_proven, owner=self._opened.runner.owner)

    def begin(self, epoch: int, tables: Collection[str] = ()) -> bool:
        self._close_named()
        self._opened.epoch = str(epoch)
        if not tables:
            return end_job_sessions(self._job, self.of(self._job.channels[0].source_table).admin("start"))
        ended = [end_channel_sessions(self._job.of(one), self.of(one).admin("start")) for one in tables]
        return all(ended)

    def task_prefix(self) -> str:
        """Return the prefix for the names of the tasks' sessions: the job, the epoch, and six random digits.

        Jobs with the same name can write to one database, with different progress schemas, and groups of tables of one
        job can have the same epoch.
        """
        return session_name(self._job.name, f"{self._opened.epoch}.{secrets.token_hex(3)}.")

    def end_tasks(self, names: Mapping[str, Callable[[bool], None]]) -> None:
        """End the sessions with these names on the store; uses a separate session.

        Reads their activity first, because an ordinary DWS login can see its own sessions but cannot end them.
        """
        session = store_session(self._job, f"{self._opened.epoch}.ends", END_LIMIT_MS)
        try:
            for name, hear in names.items():
                hear(session.at_work(name))
            for name in names:
                session.end_sessions(name)
        finally:
            _end(session)

    def close(self) -> None:
        self._close_named()
        self._opened.end_start()
        self._store = self._target = None
        self._parts.clear()

    def _registering(self, name: str) -> SourceTable:
        asked = TableAsked.of(self._job, feed=self._opened.feed)
        made = self._opened.source(f"admin {name}", name).table(asked)
        return show(made, session_name(self._job.name, channel_part(self._job, f"{self._opened.epoch}/{name}")))

    def _progress(self, session: StoreSession) -> StartStore:
        return session.progress(self._job, self._opened.runner)

    def _keep(self, kind: str, name: str, made: Callable[[], T]) -> T:
        with self._opened.lock:
            if (kind, name) not in self._kept:
                self._kept[kind, name] = made()
            return cast("T", self._kept[kind, name])

    def _close_named(self) -> None:
        self._opened.close()
        with self._opened.lock:
            for part in (self, *self._parts.values()):
                part._kept.clear()


PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
"""Kinds of errors after which a start lists the source's tables again."""


class SourceTables:
    """Implements `slotkeeper.core.engine.driver.context.Discovery`; `job` has the channels of the configuration only.

    One session of its own, so that a source that hangs delays nothing else.
    """

    def __init__(self, job: JobSpec, folder: StateFolder) -> None:
        self._job, self._folder = job, folder
        self._last: Inventory | None = None
        self._session = sources.open(job.source_kind).connect(login(job.source, f"slotkeeper-tables/{job.name}"[:63]))

    def find(self) -> TablesFound:
        job = self._job
        listed = self._session.doctor.list_tables(literal_schemas(job.patterns), job.binlog.binlog)
        before = self._last or files.stored_tables(self._folder.path, job.name) or self._mirrored()
        found, kept = take_in(job, listed, before)
        self._last = kept
        if kept != before:
            with suppress(StateError):  # the mirror does not depend on this host's disk
                files.keep_tables(self._folder, job.name, kept)
        return found

    def _mirrored(self) -> Inventory | None:
        """Return the tables of the job's progress rows, for a host that has none stored; None before a first start."""
        own = {one.source_table for one in self._job.channels}
        with closing(store_session(self._job, "tables")) as session:
            rows = session.followed()
        mine = {table for job, source, table, _ in rows if (job, source) == (self._job.name, self._job.source.name)}
        tables = tuple(sorted(mine - own))
        return Inventory(tables, tables) if tables else None

    def first(self) -> JobSpec:
        """Return the job with its tables for a start: as the source lists them or, if it fails, as last known.

        Raises a SlotkeeperError: of the source if no table is known yet, and Busy if no table is left.
        """
        try:
            found = replace(self._job, channels=self.find().channels)
        except ConfigError:
            raise
        except SlotkeeperError:
            found = with_known({self._job.name: self._job}, self._folder.path)[self._job.name]
            if len(found.channels) == len(self._job.channels):
                raise
        if not found.channels:
            what = f"jobs.{self._job.name}: every table of its patterns was dropped at the source, or is hidden"
            raise Busy(what, "create a table, grant SELECT, or change the patterns", where="source")
        return found

    def close(self) -> None:
        self._session.sever()
