"""The sink kind Doris. It is not a store, so its configuration names one. Labeled loads are committed in two phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, refuse
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import CopyStore
from slotkeeper.core.ports.kinds import Probe, SinkAsked, SinkKind
from slotkeeper.core.ports.sink import QueryTarget
from slotkeeper.core.sinks.beside import BesideConnection, BesideKind
from slotkeeper.core.sinks.doris import doctor, shape, traits
from slotkeeper.core.sinks.doris.http import DorisHttp
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.core.sinks.doris.tables import DorisTables
from slotkeeper.core.sinks.doris.target import SHADOW, DorisSight, DorisTarget


class DorisConnection(BesideConnection[MysqlQueries]):
    """One session; implements `slotkeeper.core.ports.kinds.BatchSession`."""

    def __init__(self, login: Login) -> None:
        super().__init__(MysqlQueries(login, "sink"))
        self._http = DorisHttp(login, lambda: shape.backends(self._session))

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> DorisSink:
        name = shape.shadow_of(job.channel.target) if copying == SHADOW else job.channel.target
        table, image = shape.read(self._session, name), image_of(job.channel, identity)
        found = list(shape.objections(table, image))
        if found:
            raise Refused(found[0].what, found[0].cure, where="sink")
        return DorisSink(self._http, job.name, name, shape.layout(table, image))

    def labelled(self, target: QueryTarget) -> DorisSink:
        if target.create_target:
            image = TableIdentity(0, target.columns, target.key, "")
            refuse(list(shape.unmakeable(target.name, image)), "sink")
            self._session.rows(shape.statement(target.name, image))
        table = shape.read(self._session, target.name)
        image = TableIdentity(0, shape.typed_as(table, target.columns), target.key, "")
        refuse(list(shape.objections(table, image)), "sink")
        if table.sequence:
            what = f"{table.name} has a sequence column, but a program's records have no order that lasts"
            raise Refused(what, "recreate it without a sequence column", where="sink")
        return DorisSink(self._http, "query", target.name, shape.layout(table, image))

    def target(self, job: JobSpec, store: CopyStore | None = None) -> DorisTarget:
        return DorisTarget(job, self.targets(), store)

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        return doctor.findings(self._session, asked, utc)

    def targets(self) -> DorisSight:
        return DorisSight(self._session)

    def ping(self) -> None:
        self._session.rows("SELECT 1")

    def sever(self) -> None:
        self._http.sever()
        super().sever()


class DorisKind(BesideKind):
    """The sink kind Doris; implements `slotkeeper.core.ports.kinds.SinkKind`."""

    name = "doris"
    traits = traits.DORIS

    @staticmethod
    def probe(login: Login) -> Probe:
        from slotkeeper.core.sinks.doris.probe import probe  # only the probe needs this file

        return probe(login)

    def connect_beside(self, login: Login) -> DorisConnection:
        return DorisConnection(login)

    def tables(self, login: Login, limit_ms: int) -> DorisTables:
        return DorisTables(login, limit_ms)

    def condition(self, channel: ChannelSpec) -> str:
        assert channel.constant is not None
        return shape.condition(channel.constant)

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        return doctor.grants(endpoint.user, jobs)


DORIS: SinkKind = DorisKind()
