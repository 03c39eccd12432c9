"""The composition root: from a job's values to sources, sinks and sessions; the only place that names them together.

Next door: `core.engine` sees ports only; `core.spark.job` and the tests start with `WiredSessions`; workers call
`run_stint` and `run_copy` by name. Worker sessions live in this module and survive from task to task, keyed by
endpoint and epoch.
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
from core.domain.progress import LaneState
from core.domain.slot import TableIdentity
from core.domain.spec import JobSpec
from core.drivers import pg
from core.engine import copy, stint
from core.engine.plan import CopyOutcome, CopySpec, StintOutcome, StintSpec
from core.engine.ports import Store, lane_key
from core.engine.step import Probe, nothing
from core.errors import ConfigError, Refused
from core.ports import Chunk, Runner
from core.sinks.postgres import target as targets
from core.sinks.postgres.progress import PostgresProgress
from core.sinks.postgres.session import SinkSession
from core.sinks.postgres.sink import PostgresSink
from core.sinks.postgres.statements import TargetTable
from core.sources.dws.reach import DwsReach
from core.sources.dws.selection import Selection
from core.sources.dws.session import DwsSession
from core.sources.dws.slot_admin import DwsSlotAdmin
from core.sources.dws.source import DwsSource

probe: Probe = nothing
"""Called at named points of steps and copies on a worker; tests put theirs here."""


STARTER = "starter"


def session_name(job: str, part: str) -> str:
    """`slotkeeper/<job>/<part>`, at most 63 characters, so that a session can be found and ended by its name.

    >>> session_name("orders_rt", "7")
    'slotkeeper/orders_rt/7'
    """
    short = job if len(job) <= 24 else f"{job[:15]}-{hashlib.sha256(job.encode()).hexdigest()[:8]}"
    return f"slotkeeper/{short}/{part}"


def open_source(job: JobSpec, part: str) -> DwsSource:
    """A source session of a job."""
    selection = Selection.of(job.channel)
    return DwsSource(_dws(job, part), job.channel.source_table, job.slot, job.binlog, selection)


def open_admin(job: JobSpec, part: str) -> DwsSlotAdmin:
    """A source session of a job that may register."""
    selection = Selection.of(job.channel)
    return DwsSlotAdmin(_dws(job, part), job.channel.source_table, job.slot, job.binlog, selection)


def _dws(job: JobSpec, part: str) -> DwsSession:
    endpoint = replace(job.source, socket_timeout_ms=job.binlog.connection_socket_timeout)
    return DwsSession(endpoint, resolve(endpoint.password), session_name(job.name, part))


def open_sink_session(job: JobSpec, part: str) -> SinkSession:
    """A sink session of a job."""
    return SinkSession(
        job.sink, resolve(job.sink.password), session_name(job.name, part), job.progress_schema, job.sink_kind
    )


def open_progress(job: JobSpec, part: str, runner: Runner) -> PostgresProgress:
    """The progress rows of a job over a session of their own."""
    quarantines = job.sink_options.quarantines
    return PostgresProgress(open_sink_session(job, part), lane_key(job, ""), runner, quarantines)


def who(job: JobSpec, run: str) -> Runner:
    """This process as the progress rows name it."""
    return Runner(job.name, run, socket.gethostname(), getpass.getuser(), os.getpid())


# -- the worker's side ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pair:
    source: DwsSource
    sink: PostgresSink

    def close(self) -> None:
        self.source.close()
        self.sink.close()


_idle: dict[tuple[Endpoint, Endpoint, str, str, int, str], list[_Pair]] = {}
_lock = threading.Lock()


@contextmanager
def _pair(job: JobSpec, epoch: int, copying: str) -> Iterator[_Pair]:
    """A source and a sink session of this worker; kept for the next task unless the block raised."""
    key = (job.source, job.sink, job.name, job.slot, epoch, copying)
    with _lock:
        old = [kept for other, pairs in _idle.items() if other[:4] == key[:4] and other[4] != epoch for kept in pairs]
        for other in [one for one in _idle if one[:4] == key[:4] and one[4] != epoch]:
            del _idle[other]
        kept = _idle.setdefault(key, [])
        pair = kept.pop() if kept else None
    for one in old:
        one.close()
    pair = pair or _open_pair(job, epoch, copying)
    try:
        pair.sink.rest()
        yield pair
    except BaseException:
        pair.close()
        raise
    with _lock:
        _idle.setdefault(key, []).append(pair)


def _open_pair(job: JobSpec, epoch: int, copying: str) -> _Pair:
    with _named_worker():
        source = open_source(job, str(epoch))
        session = open_sink_session(job, str(epoch))
    target = targets.target_of(job.channel, source.identify())
    return _Pair(source, PostgresSink(session, targets.seen(session, target), job.sink_options, copying))


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


def run_stint(spec: StintSpec) -> StintOutcome:
    """A stint, on a worker."""
    with ExitStack() as stack:
        wanted = min(spec.parallel, len(spec.lanes))
        pair, *others = [stack.enter_context(_pair(spec.job, spec.epoch, "direct")) for _ in range(wanted)]
        beside = [(one.source, one.sink) for one in others]
        return stint.run(spec, pair.source, pair.sink, SystemClock(), probe, beside)


def run_copy(spec: CopySpec) -> CopyOutcome:
    """Some chunks, on a worker."""
    with _pair(spec.job, spec.epoch, spec.copying) as pair:
        return copy.run(spec, pair.source, pair.sink, SystemClock(), probe)


# -- the driver's side ----------------------------------------------------------------------------------------------


class WiredTarget:
    """The target table over the start's sink session; implements `core.engine.ports.Target`."""

    def __init__(self, job: JobSpec, session: SinkSession) -> None:
        self._job = job
        self._session = session
        self._target: TargetTable | None = None

    def ready(self, identity: TableIdentity) -> None:
        """Make it on request and refuse by name what cannot hold the source."""
        channel = self._job.channel
        target, image = targets.target_of(channel, identity), targets.image_of(channel, identity)
        if channel.create_target:
            targets.create(self._session, channel.target, image)
        targets.check(self._session, target, image, self._job.sink_options)
        self._target = targets.seen(self._session, target)

    def copying(self, begun: bool) -> str:
        """How chunks go in; what was begun goes on in the way in which it was begun."""
        target, wanted = self._known(), self._job.on_existing
        if wanted == "merge":
            return "merge"
        if begun:
            return "shadow" if targets.has_shadow(self._session, target) else "direct"
        if targets.is_empty(self._session, target):
            return "direct"
        if wanted == "replace":
            return "shadow"
        raise Refused(
            f"target {target.name} is not empty",
            'set on_existing = "replace" or "merge", or empty it',
            where="sink",
        )

    def begin_copy(self, store: Store, epoch: int, chunks: list[Chunk], copying: str) -> None:
        """Record the plan; a replacing copy gets its shadow in the same transaction."""

        def prepare(cursor: pg.Cursor) -> None:
            if copying == "shadow":
                targets.make_shadow(cursor, self._known(), self._job.sink_options.quarantines)

        assert isinstance(store, PostgresProgress)
        store.begin_copy(epoch, chunks, prepare)

    def end_copy(self, store: Store, epoch: int, state: LaneState, noted: dict[str, int], copying: str) -> None:
        """Exchange a shadow and turn to `state`, in one transaction."""

        def finish(cursor: pg.Cursor) -> None:
            if copying == "shadow":
                targets.exchange_shadow(cursor, self._known(), self._job.sink_options)

        assert isinstance(store, PostgresProgress)
        store.end_copy(epoch, state, noted, finish)

    def _known(self) -> TargetTable:
        assert self._target is not None, "ready() comes first"
        return self._target


class WiredSessions:
    """The driver's sessions by name; implements `core.engine.ports.DriverSessions`."""

    def __init__(self, job: JobSpec, run: str) -> None:
        self._job = job
        self._runner = who(job, run)
        self._epoch = "start"
        self._sources: dict[str, DwsSource] = {}
        self._admins: dict[str, DwsSlotAdmin] = {}
        self._rows: dict[str, PostgresProgress] = {}
        self._store: PostgresProgress | None = None
        self._lock = threading.Lock()

    def source(self, name: str) -> DwsSource:
        """The source session `name`."""
        with self._lock:
            return self._sources.setdefault(name, open_source(self._job, self._part("")))

    def admin(self, name: str) -> DwsSlotAdmin:
        """The registering session `name`; its own name at the server carries it."""
        with self._lock:
            return self._admins.setdefault(name, open_admin(self._job, self._part(name)))

    def starter(self) -> DwsReach:
        """A registering session of a start without a copy."""
        with self._lock:
            made = self._admins.get(STARTER)
            if not isinstance(made, DwsReach):
                job = self._job
                session = _dws(job, self._part(STARTER))
                made = DwsReach(session, job.channel.source_table, job.slot, job.binlog)
                self._admins[STARTER] = made
            return made

    def rows(self, name: str) -> PostgresProgress:
        """The sink session `name` for progress rows."""
        with self._lock:
            return self._rows.setdefault(name, open_progress(self._job, self._part(""), self._runner))

    def store(self) -> PostgresProgress:
        """The start's own sink session, which holds the lease."""
        if self._store is None:
            self._store = open_progress(self._job, "lease", self._runner)
        return self._store

    def target(self) -> WiredTarget:
        """The target, over the start's sink session."""
        if not hasattr(self, "_target"):
            self._target = WiredTarget(self._job, self.store().session)
        return self._target

    def begin(self, epoch: int) -> bool:
        """Name sessions after the epoch and end those of earlier ones; False where it is not certain."""
        self._close_named()
        self._epoch = str(epoch)
        pattern = session_name(self._job.name, "%").replace("_", r"\_")
        return self.admin("start").end_sessions(pattern, self.admin("start").session.application_name)

    def close(self) -> None:
        """End all sessions."""
        self._close_named()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _part(self, name: str) -> str:
        return f"{self._epoch}/{name}" if name else self._epoch

    def _close_named(self) -> None:
        with self._lock:
            closing: list[DwsSource | PostgresProgress] = [*self._sources.values(), *self._admins.values()]
            closing.extend(self._rows.values())
            for kept in (self._sources, self._admins, self._rows):
                kept.clear()
        for one in closing:
            one.close()
