"""Hologres as a kind of sink: written over its PostgreSQL protocol, and no store, so it names one.

What is promised is "at least once, repeats are counted" (ADR 47): nothing of it was run against a live Hologres. Next
door: `sink.py` writes, `target.py` and `doctor.py` look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, refuse
from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table.reader import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS, Dialect, Session
from slotkeeper.core.errors import Defect
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.kinds import SinkAsked, SinkKind, StoreSession
from slotkeeper.core.sinks.hologres import doctor, shape, traits
from slotkeeper.core.sinks.hologres.faults import classify
from slotkeeper.core.sinks.hologres.seen import HologresSight
from slotkeeper.core.sinks.hologres.sink import LIMIT_MS, HologresSink
from slotkeeper.core.sinks.hologres.target import HologresTarget

DIALECT = Dialect(
    "sink", ("slotkeeper.core.sinks.hologres", "shape.sql"), {}, classify, autocommit=True, limit_ms=LIMIT_MS
)


class HologresConnection:
    """One session; implements `slotkeeper.core.ports.kinds.BatchSession`."""

    def __init__(self, login: Login) -> None:
        self._session = Session(login.endpoint, login.password, login.name, DIALECT)

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> HologresSink:
        """A worker's ranges and chunks; the target is read once more, because it may have changed."""
        table, image = shape.read(self._session, job.channel.target), image_of(job.channel, identity)
        options = job.sink_options
        refuse(list(shape.objections(table, image, options)), "sink")
        target = shape.written(table, image, options)
        required = frozenset(one.name for one in table.columns if one.required)
        whole = len(target.columns) + len(target.nulled) == len(table.columns)
        return HologresSink(self._session, target, options, required, whole)

    def target(self, job: JobSpec, store: Store | None = None) -> HologresTarget:
        """The target of a job's channel, compared with what `store` has recorded of it."""
        return HologresTarget(job, self._session, store)

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """What `doctor` says."""
        return doctor.findings(self._session, asked, utc)

    def targets(self) -> HologresSight:
        """Looks at its targets."""
        return HologresSight(self._session)

    def ping(self) -> None:
        """Return once the server has answered something."""
        self._session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)

    def locks(self, prefix: str) -> None:
        """Nobody waits for a lock there that a session could name."""
        return

    def sever(self) -> None:
        """Cut the session off, from any thread."""
        self._session.sever()

    def close(self) -> None:
        """End the session; safe to call twice."""
        self._session.close()


class HologresKind:
    """A kind of sink; implements `slotkeeper.core.ports.kinds.SinkKind`."""

    no_reset = ""
    takes: tuple[Encoding, ...] = (Encoding.ROWS,)
    traits = traits.HOLOGRES

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> StoreSession:
        """It keeps no progress rows."""
        raise Defect("a sink of kind hologres is no store")

    def connect_beside(self, login: Login) -> HologresConnection:
        """A session, opened at its first call."""
        return HologresConnection(login)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        """A session that reads whole tables for a comparison."""
        return PgTables(login, DIALECT, limit_ms)

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        """The least rights that these jobs need."""
        return doctor.grants(endpoint.user, jobs)


HOLOGRES: SinkKind = HologresKind()
