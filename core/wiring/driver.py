"""The composition root of a job's driver: its sessions by name, and the target as a start sees it.

Next door: `core.wiring.worker` opens sessions and has the worker's side; `core.spark.job` and the tests start with
`WiredSessions`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, cast

from core.domain.objection import refuse
from core.domain.slot import TableIdentity
from core.domain.spec import JobSpec
from core.domain.text import typed
from core.domain.turn import Turn
from core.drivers import pg
from core.engine.driver.context import lane_key
from core.errors import Refused
from core.ports.progress import Store
from core.ports.source import Chunk
from core.sinks.postgres.check import eligibility
from core.sinks.postgres.check import target as targets
from core.sinks.postgres.progress.store import PostgresProgress
from core.sinks.postgres.session import SinkSession, lengthen
from core.sinks.postgres.write.statements import TargetTable
from core.sources.dws.retention import DwsRetention
from core.sources.dws.session import DwsSession
from core.sources.dws.source import DwsSlotAdmin, DwsSource, Selection
from core.wiring.worker import dws_session, open_sink_session, session_name, source_over, who

T = TypeVar("T")
A = TypeVar("A", bound=DwsSlotAdmin)

STARTER = "starter"
CLOSE_WITHIN = 2.0
"""Seconds for which closing sessions waits for statements that are under way in them."""
NOT_FIRST = "if this job ran before, its progress rows are lost: do not empty it"


class WiredTarget:
    """The target table over the start's sink session; implements `core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, session: SinkSession) -> None:
        self._job = job
        self._session = session
        self._target: TargetTable | None = None

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source, or cannot be made; makes nothing. Whether the table is there."""
        channel = self._job.channel
        target, image = targets.target_of(channel, identity), targets.image_of(channel, identity)
        if channel.create_target and not targets.exists(self._session, channel.target):
            refuse(eligibility.type_objections(channel.target, image, self._session), "sink")
            return False
        targets.check(self._session, target, image, self._job.sink_options)
        self._target = targets.seen(self._session, target)
        return True

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Make it on request where `makes`, and refuse by name what cannot hold the source; whether it was made."""
        channel = self._job.channel
        target, image = targets.target_of(channel, identity), targets.image_of(channel, identity)
        made = False
        if not makes and not targets.exists(self._session, channel.target):
            raise Refused(f"target {channel.target} is gone: take a new snapshot", self._snapshot, where="sink")
        if makes and channel.create_target:
            made = targets.create(self._session, channel.target, image)
        targets.check(self._session, target, image, self._job.sink_options)
        self._target = targets.seen(self._session, target)
        return made

    def copying(self) -> str:
        """How the chunks of a copy that begins are to go in."""
        target, wanted = self._known(), self._job.on_existing
        if wanted == "merge":
            return "merge"
        if targets.is_empty(self._session, target):
            return "direct"
        if wanted == "replace":
            return "shadow"
        raise Refused(
            f"target {target.name} is not empty",
            f'set on_existing = "replace" or "merge", or empty it; {NOT_FIRST}',
            where="sink",
        )

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; None where it can."""
        name = self._job.channel.target
        if not way:
            what = f"how the half-done copy into {name} goes in is not recorded: it is not guessed"
        elif way == "shadow" and not targets.has_shadow(self._session, self._known()):
            what = f"the shadow table of the half-done copy into {name} is gone, and what was copied with it"
        else:
            return None
        return Refused(what, self._snapshot, where="sink")

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way; what an earlier copy left is dropped, and a replacing one gets its shadow."""

        def prepare(cursor: pg.Cursor) -> None:
            targets.drop_shadow(cursor, self._known())
            if copying == "shadow":
                targets.make_shadow(cursor, self._known(), self._job.sink_options.quarantines)

        assert isinstance(store, PostgresProgress)
        store.begin_copy(turn, chunks, copying, prepare)

    def end_copy(self, store: Store, turn: Turn, noted: dict[str, int], copying: str) -> None:
        """Exchange a shadow, then turn the lanes, in one transaction; refuse where a chunk is not done."""

        def finish(cursor: pg.Cursor) -> None:
            if copying == "shadow":
                lengthen(cursor, self._job.binlog.full_sync_binlog_read_timeout)
                targets.exchange_shadow(cursor, self._known(), self._job.sink_options)

        assert isinstance(store, PostgresProgress)
        store.end_copy(turn, noted, finish)

    @property
    def _snapshot(self) -> str:
        return f"slotkeeper slots reset {typed(self._job.channel.source_table, self._job.slot)} --to snapshot"

    def _known(self) -> TargetTable:
        assert self._target is not None, "ready() comes first"
        return self._target


class _Opened:
    """The sessions of a driver, which its channels share; one that an epoch has named ends with it."""

    def __init__(self, job: JobSpec, run: str) -> None:
        self.job = job
        self.runner = who(job, run)
        self.epoch = "start"
        self.lease: SinkSession | None = None
        self.lock = threading.RLock()
        self._sources: dict[str, DwsSession] = {}
        self._sinks: dict[str, SinkSession] = {}

    def source(self, name: str, part: str) -> DwsSession:
        """The source session `name`; `part` stands in its own name at the server."""
        if name not in self._sources:
            self._sources[name] = dws_session(self.job, f"{self.epoch}/{part}" if part else self.epoch)
        return self._sources[name]

    def sink(self, name: str) -> SinkSession:
        """The sink session `name`."""
        if name not in self._sinks:
            self._sinks[name] = open_sink_session(self.job, self.epoch)
        return self._sinks[name]

    def leased(self) -> SinkSession:
        """The start's own sink session, which holds the leases of all channels."""
        if self.lease is None:
            self.lease = open_sink_session(self.job, "lease")
        return self.lease

    def close(self) -> None:
        """End all but the lease's."""
        with self.lock:
            closing: list[DwsSession | SinkSession] = [*self._sources.values(), *self._sinks.values()]
            self._sources.clear()
            self._sinks.clear()
        _end(*closing)


def _end(*sessions: DwsSession | SinkSession) -> None:
    """Close them; what threads that were left behind still wait for is cut off after a moment."""

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


def end_job_sessions(job: JobSpec, admin: DwsSlotAdmin) -> bool:
    """End the job's other sessions at the source, of any epoch; False where it is not certain."""
    pattern = session_name(job.name, "%").replace("_", r"\_")
    return admin.end_sessions(pattern, admin.session.application_name)


class WiredSessions:
    """The driver's sessions by name; implements `core.ports.driver.DriverSessions`.

    Sessions of one name are one session for all channels, so whoever uses them takes turns. `points_proven`: a probe
    has recorded that the source makes one sync point per transaction.
    """

    def __init__(self, job: JobSpec, run: str, opened: _Opened | None = None, points_proven: bool = False) -> None:
        self._points_proven = points_proven
        self._job = job
        self._run = run
        self._opened = opened or _Opened(job, run)
        self._parts: dict[str, WiredSessions] = {}
        self._kept: dict[tuple[str, str], object] = {}
        self._store: PostgresProgress | None = None
        self._target: WiredTarget | None = None

    def of(self, table: str) -> WiredSessions:
        """The sessions for the channel of a source table."""
        with self._opened.lock:
            if table not in self._parts:
                narrowed = self._job.of(table)
                part = self
                if narrowed is not self._job:
                    part = WiredSessions(narrowed, self._run, self._opened, self._points_proven)
                self._parts[table] = part
            return self._parts[table]

    def source(self, name: str) -> DwsSource:
        """The source session `name`."""
        proven = self._points_proven
        return self._keep(
            "source", name, lambda: source_over(self._opened.source(f"source {name}", ""), self._job, proven)
        )

    def admin(self, name: str) -> DwsSlotAdmin:
        """The registering session `name`; its own name at the server carries it."""
        return self._keep("admin", name, lambda: self._registering(DwsSlotAdmin, name))

    def starter(self) -> DwsRetention:
        """A registering session of a start without a copy."""
        return self._keep("starter", STARTER, lambda: self._registering(DwsRetention, STARTER))

    def rows(self, name: str) -> PostgresProgress:
        """The sink session `name` for progress rows."""
        return self._keep("rows", name, lambda: self._progress(self._opened.sink(name)))

    def store(self) -> PostgresProgress:
        """The channel's rows over the start's own sink session, which holds the lease."""
        if self._store is None:
            self._store = self._progress(self._opened.leased())
        return self._store

    def ending(self) -> PostgresProgress:
        """The channel's rows over a session of their own; whoever asks ends it."""
        return self._progress(open_sink_session(self._job, self._opened.epoch))

    def target(self) -> WiredTarget:
        """The target, over the start's sink session."""
        if self._target is None:
            self._target = WiredTarget(self._job, self._opened.leased())
        return self._target

    def begin(self, epoch: int) -> bool:
        """Name sessions after the epoch and end those of earlier ones; False where it is not certain."""
        self._close_named()
        self._opened.epoch = str(epoch)
        return end_job_sessions(self._job, self.of(self._job.channels[0].source_table).admin("start"))

    def close(self) -> None:
        """End all sessions."""
        self._close_named()
        if self._opened.lease is not None:
            _end(self._opened.lease)
            self._opened.lease = None
        self._store = self._target = None
        self._parts.clear()

    def _registering(self, kind: type[A], name: str) -> A:
        session, channel = self._opened.source(f"admin {name}", name), self._job.channel
        return kind(session, channel.source_table, self._job.slot, self._job.binlog, Selection.of(channel))

    def _progress(self, session: SinkSession) -> PostgresProgress:
        quarantines = self._job.sink_options.quarantines
        return PostgresProgress(session, lane_key(self._job, ""), self._opened.runner, quarantines)

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
