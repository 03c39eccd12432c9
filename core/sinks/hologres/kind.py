"""The sink kind Hologres, which is written over its PostgreSQL protocol and has its progress rows in a separate store.

The guarantee is "at least once; repeats are counted" (ADR 47), because nothing has been tested against a live Hologres.
Errors are classified by SQLSTATE if PostgreSQL defines it, otherwise by the error texts that holo-client checks for
(ExceptionCode, ConnectionUtil); a message never contains a row's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, refuse
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import passing, pg
from slotkeeper.core.drivers.pg_table import PgTables
from slotkeeper.core.drivers.session import PING_LIMIT_MS, Dialect, Session
from slotkeeper.core.errors import Busy, Refused, RowRefused, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.ports.driver import CopyStore
from slotkeeper.core.ports.kinds import SinkAsked, SinkKind
from slotkeeper.core.sinks.beside import BesideConnection, BesideKind
from slotkeeper.core.sinks.hologres import doctor, shape, traits
from slotkeeper.core.sinks.hologres.sink import LIMIT_MS, HologresSink
from slotkeeper.core.sinks.hologres.target import HologresSight, HologresTarget

_LIMIT = "57014"
_PASSING: tuple[tuple[str, type[SlotkeeperError]], ...] = (
    ("not allowed in readonly mode", Unreachable),
    ("mismatches the version of the table", Busy),
    ("invalid table id", Busy),
    ("replay not finished yet", Busy),
    ("could not open relation with oid", Busy),
    ("resource busy", Busy),
    ("remaining connection slots are reserved", Busy),
)
"""Transient errors according to holo-client: a role change, or a coordinator with outdated metadata of a table."""


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Busy) -> SlotkeeperError:
    """Convert a database driver's error to Slotkeeper's; `place`: the endpoint, `timed_out`: the class for timeouts."""
    code, text = pg.failure(error)
    if isinstance(error, pg.NoAnswer):
        return Unreachable(f"sink {place} {text}", "", code, "sink").after_limit()
    message = f"sink {place}: {safe(pg.LINE.sub('', pg.without_values(text, code)), 300)}"
    if refusals.refusal(code, text):
        return refusals.error_of(text)(message, refusals.cure(text), code, "sink")
    if code == _LIMIT:
        return timed_out(message, "", code, "sink").after_limit()
    lower = text.lower()
    for words, kind in _PASSING:
        if words in lower:
            return kind(message, "", code, "sink")
    if code in passing.BY_CODE:
        return passing.BY_CODE[code](message, "", code, "sink")
    if code.startswith("08"):
        return passing.lost_line(text)(message, "", code, "sink")
    if code[:2] in ("22", "23"):
        hint = "Alter the target so that it accepts the row (its columns and types), or correct it in the source"
        return RowRefused(message, hint, code, "sink")
    if code[:2] in ("42", "0A", "25"):
        return Refused(
            message, "Restore the target as it was; `slotkeeper doctor` names what is missing.", code, "sink"
        )
    return Unclassified(message, "", code, "sink")


DIALECT = Dialect(
    "sink", ("slotkeeper.core.sinks.hologres", "shape.sql"), {}, classify, autocommit=True, limit_ms=LIMIT_MS
)


class HologresConnection(BesideConnection[Session]):
    """One session; implements `slotkeeper.core.ports.kinds.BatchSession`."""

    def __init__(self, login: Login) -> None:
        super().__init__(Session(login.endpoint, login.password, login.name, DIALECT))

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> HologresSink:
        table, image = shape.read(self._session, job.channel.target), image_of(job.channel, identity)
        options = job.sink_options
        refuse(list(shape.objections(table, image, options)), "sink")
        target = shape.written(table, image, options)
        required = frozenset(one.name for one in table.columns if one.required)
        whole = len(target.columns) + len(target.nulled) == len(table.columns)
        return HologresSink(self._session, target, options, required, whole)

    def target(self, job: JobSpec, store: CopyStore | None = None) -> HologresTarget:
        return HologresTarget(job, self.targets(), store)

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(self._session, asked, utc)

    def targets(self) -> HologresSight:
        return HologresSight(self._session)

    def ping(self) -> None:
        self._session.composed_rows(pg.sql.SQL("SELECT 1"), None, PING_LIMIT_MS)


class HologresKind(BesideKind):
    """The sink kind Hologres; implements `slotkeeper.core.ports.kinds.SinkKind`."""

    name = "hologres"
    traits = traits.HOLOGRES

    def connect_beside(self, login: Login) -> HologresConnection:
        return HologresConnection(login)

    def tables(self, login: Login, limit_ms: int) -> PgTables:
        return PgTables(login, DIALECT, limit_ms)

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        return doctor.grants(endpoint.user, jobs)


HOLOGRES: SinkKind = HologresKind()
