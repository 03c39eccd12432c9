"""The batches of a query or program whose sink is separate from this store: staged here, sent under a label (ADR 106).

The row in `slotkeeper_streams` has the plan of at most one batch. Only the load that it names is committed, by the
process that finds the plan (ADR 41). In contrast to a lane, an unfinished plan is withdrawn, not sent again: Spark runs
the batch again, and a program continues after its last position.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from slotkeeper.core.domain.endpoint import place_of
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.ports.kinds import BatchSession
from slotkeeper.core.ports.sink import Batch, Fields, LabelSink, Outcome, QueryBatch, QueryTarget, Staged
from slotkeeper.core.sinks.postgres.session import COPY_LIMIT_MS, SinkSession, lengthen
from slotkeeper.core.sinks.postgres.write import query_staging
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink, refuse_job, take_target
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

IN_MEMORY = 8 << 20
"""Size in bytes above which a batch's rows are in a file."""
_TRIES = 5
"""Maximum number of plans that a commit resolves before its own: another process of the query can plan meanwhile."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The planned batch of a target; `load` is "" until the load can be committed."""

    number: int
    rows: int
    label: str
    load: str = ""

    @property
    def text(self) -> str:
        return f"{self.number} {self.rows} {self.label} {self.load}"

    @classmethod
    def read(cls, text: str) -> _Plan:
        number, rows, label, load = text.split(" ")
        return cls(int(number), int(rows), label, load)


def _addresses(written: str) -> set[tuple[object, int]]:
    """Return the IP addresses of `host:port`, with the port; none if it has no port or cannot be resolved."""
    with suppress(OSError, ValueError):
        host, port = place_of(written)
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if port else []
        return {(one[4][0], port) for one in found}
    return set()


class PlannedQuerySink(PostgresQuerySink):
    """Implements `slotkeeper.core.ports.sink.QuerySink` for a target of another server, whose loads have labels.

    `place` names the target in the store, with its server; `beside` is a session on that server, closed by this sink.
    """

    def __init__(self, session: SinkSession, target: QueryTarget, place: str, beside: BatchSession) -> None:
        if target.options != SinkOptions():
            what = f"{target.name}: options that select or merge rows apply to sinks of kind postgres and dws only"
            raise Refused(what, "remove them, and transform the DataFrame instead", where="sink")
        super().__init__(session, replace(target, name=place))
        self._beside, self._named = beside, target

    def close(self) -> None:
        super().close()
        self._beside.close()

    @cached_property
    def _sink(self) -> LabelSink:
        creates = self._named.create_target and self._written() is None  # a dropped target is not recreated empty
        return self._beside.labelled(replace(self._named, create_target=creates))

    @property
    def _known(self) -> TargetTable:
        """The staged rows: as text, except a key sent as text, whose equal values ("1", "01") must be one key."""
        if self._table is None:
            target, dialect = self._target, self.session.dialect
            types = tuple(
                type_ if column.type == "text" and column.name in target.key else "text"
                for column, type_ in zip(target.columns, self._sink.types, strict=True)
            )
            columns = tuple(column.name for column in target.columns)
            self._table = TargetTable(target.name, columns, target.key, types=types, dialect=dialect)
        return self._table

    def admit(self) -> str:
        refuse_job(self.session, self._target.name)
        self._make()
        self._refuse_other_address()
        return query_staging.place(self._known)

    def _refuse_other_address(self) -> None:
        """Raise Refused if the store has this target under another address of its server, as localhost for 127.0.0.1.

        Otherwise neither the fence nor the position of that writer would be found.
        """
        name = self._named.name
        with self.session.transaction() as cursor:
            found = self._run(cursor, "elsewhere", target=self._target.name, name=name).fetchall()
        here = _addresses(self._target.name.removesuffix(f".{name}")) if found else set()
        for target, query in found:
            if here & _addresses(there := target.removesuffix(f".{name}")):
                what = f"{name}: query {query} wrote this table at {there}, another address of this server"
                raise Refused(what, f"set host and http_port of the sink to {there}", where="sink")

    def claim(self, query: str, of: str) -> int | None:
        position = super().claim(query, of)
        if position is not None and self._resolved():
            position = super().claim(query, of)
        return None if position is None or position < 0 else position

    def commit(self, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
        rows = sum(one.rows for one in staged)
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as file:

            def read() -> Iterator[Fields]:
                file.seek(0)
                return rows_of(file)

            body = Batch(LaneKey("", "", batch.query, ""), f"batch {batch.number}", rows, read)
            plan = _Plan(batch.number, rows + sum(one.left_out for one in staged), self._sink.label(body))
            if not self._planned(batch, plan):
                return False
            if not rows:
                self._swap(plan, None, settles=True)
                return True
            with self.session.transaction() as cursor:  # checked as for a target in this server
                lengthen(cursor, COPY_LIMIT_MS)
                self._show(cursor, batch, [one.token for one in staged if one.rows], rows)
                self._refuse_twice(cursor, batch)
                cursor.copy_expert(query_staging.copied(self._known).as_string(cursor), file)
            armed = self._armed(plan, body)
        if not self._carried_out(armed):
            what = f"{self._target.name}, batch {batch.number}: the sink ended load {armed.load}"
            raise Busy(what, "run the batch again", where="sink")
        return True

    def _planned(self, batch: QueryBatch, plan: _Plan) -> bool:
        """Write the plan, and return True, or False if the batch is already committed; raise Refused for another's."""
        who = {"host": socket.gethostname(), "os_user": getpass.getuser(), "pid": os.getpid()}
        values = {"target": self._target.name, "query": batch.query, "batch": batch.number, "plan": plan.text}
        more = {"successor_of": self._target.successor_of or None}
        for _ in range(_TRIES):
            with self.session.transaction() as cursor:
                take_target(self.session, cursor, self._target.name)
                if self._run(cursor, "plan", **values, **who, **more).rowcount == 1:
                    return True
                found = self._run(cursor, "last", target=self._target.name).fetchone()
                if found and found[0] not in (batch.query, self._target.successor_of):
                    raise self._of_another(*found)
                if self._waiting(cursor) is None:
                    return self._refused(cursor, batch)
            self._resolved()
        raise Busy(f"{self._target.name}: another process writes batches of this query", where="sink")

    def _armed(self, plan: _Plan, body: Batch) -> _Plan:
        """Send the rows, and write the load that can be committed into the plan."""
        load = self._sink.send(body, plan.label)
        armed = replace(plan, load=load)
        if not load or not self._swap(plan, armed):
            self._sink.abort(load)
            what = f"{self._target.name}: another process has withdrawn batch {plan.number}"
            raise Busy(what, "run the batch again", where="sink")
        return armed

    def _resolved(self) -> bool:
        """Carry out or withdraw the plan that an earlier run left; return whether there was one."""
        with self.session.transaction() as cursor:
            plan = self._waiting(cursor)
        if plan is None:
            return False
        if plan.load:
            self._carried_out(plan)
        else:
            self._sink.clear(plan.label)
            self._swap(plan, None)
        return True

    def _carried_out(self, plan: _Plan) -> bool:
        """Commit the plan's load and record the batch; return False if the load is not visible and never will be."""
        outcome = self._sink.commit(plan.label, plan.load)
        if outcome is Outcome.UNKNOWN:
            _LOG.warning("%s: label %s has expired; batch %d can repeat", self._target.name, plan.label, plan.number)
        self._swap(plan, None, settles=outcome is Outcome.COMMITTED)
        return outcome is Outcome.COMMITTED

    def _waiting(self, cursor: pg.Cursor) -> _Plan | None:
        found = self._run(cursor, "planned", target=self._target.name).fetchone()
        return _Plan.read(found[0]) if found and found[0] else None

    def _swap(self, old: _Plan, new: _Plan | None, settles: bool = False) -> bool:
        """Replace the plan if it is still `old`; with `settles`, its batch is recorded as committed."""
        batch, rows = (old.number, old.rows) if settles else (None, 0)
        values = {"target": self._target.name, "old": old.text, "new": new.text if new else None}
        with self.session.transaction() as cursor:
            return self._run(cursor, "swap_plan", **values, batch=batch, rows=rows).rowcount == 1
