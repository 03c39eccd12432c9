"""The sink of a Spark query: tasks stage rows, and one fenced transaction applies a batch to the target.

The transaction takes the target's lock, checks the fence, counts the staged rows, applies the net effect with the
statements of a step, and commits. A process that is killed before the COMMIT leaves only staged rows, which no later
run reads. After a COMMIT, the next run finds the number of the batch in the fence.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.sink import QueryBatch, QueryTarget, Staged
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.viewer import PostgresViewer
from slotkeeper.core.sinks.postgres.progress.locks import lock_number, target_lock
from slotkeeper.core.sinks.postgres.session import COPY_LIMIT_MS, SETTINGS, SinkSession, lengthen
from slotkeeper.core.sinks.postgres.write import optimistic, query_staging, routing, session_tables
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

_SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "stream.sql")
_STREAMS = "slotkeeper_streams"
STALE_BYTES = 8_388_608
"""Size in bytes above which staged rows of finished batches are truncated; below it, skipping them is cheaper."""

LOCK_WAIT = "5s"


WRITER = "writer "
"""The beginning of the id of a program that writes single records."""


def take_target(session: SinkSession, cursor: pg.Cursor, name: str) -> None:
    """Lock a target for the transaction (PostgreSQL, "Advisory Locks"); a running job's session holds that lock.

    Waits briefly, because a killed session of the same program can still hold the lock. Raises Busy.
    """
    session.run(cursor, "limit_wait", {"limit": LOCK_WAIT}, _SQL)
    try:
        session.run(cursor, "take_target", {"lock": target_lock(name)}, _SQL)
    except pg.DriverError as error:
        if pg.failure(error)[0] != "55P03":  # lock_not_available
            raise
        what = f"{name} is locked by a job or another query"
        raise Busy(what, "run `slotkeeper locks`: it names the other writer", where="sink") from None
    session.run(cursor, "limit_wait", {"limit": SETTINGS["lock_timeout"]}, _SQL)


def refuse_job(session: SinkSession, name: str) -> None:
    """Raise Refused if a target belongs to a job, according to the progress rows."""
    schema = session.schema.string
    if not session.fetched("exists", {"schema": schema, "name": "slotkeeper_progress"}, _SQL):
        return
    for job, table, slot in session.fetched("job", {"target": name}, _SQL):
        what = f"{name} is the target of job {safe(job, 40)} ({safe(table, 80)}, slot {safe(slot, 40)})"
        raise Refused(what, "write to another table, or drop that job's slot first", where="sink")


class _Missed(Exception):
    """Raised if a check of the optimistic step has failed."""


class PostgresQuerySink:
    """Implements `slotkeeper.core.ports.sink.QuerySink` for one target."""

    def __init__(self, session: SinkSession, target: QueryTarget) -> None:
        self.session = session
        self._target = target
        self._table: TargetTable | None = None

    def close(self) -> None:
        self.session.close()

    # -- before the first batch -------------------------------------------------------------------------------------

    def admit(self) -> str:
        refuse(PostgresViewer(self.session).objections(), "sink")
        asked, image = self._target, self._image()
        if asked.create_target and not targets.exists(self.session, asked.name):
            if found := self._written():
                what = f"{asked.name} was dropped after batch {found[1]} of query {found[0]}: its rows are missing"
                hint = f'restore it, or start over: a new slot, a new checkpoint and successor_of = "{found[0]}"'
                raise Refused(what, hint, where="sink")
            targets.create(self.session, asked.name, image)
            image = self._image()
        targets.check(self.session, self._of(image), image, asked.options)
        refuse_job(self.session, asked.name)
        self._table = targets.seen(self.session, self._of(image))
        self._make()
        return query_staging.place(self._table)

    def _written(self) -> tuple[str, int] | None:
        """Return the query that has written batches to the target, and the last batch; None before the first batch.

        Also None for the query that this one succeeds: its successor starts with a table that it can create.
        """
        if not self.session.fetched("exists", {"schema": self.session.schema.string, "name": _STREAMS}, _SQL):
            return None
        for query, batch, *_ in self.session.fetched("last", {"target": self._target.name}, _SQL):
            if batch >= 0 and query != self._target.successor_of:
                return query, batch
        return None

    def _of(self, image: TableIdentity) -> TargetTable:
        return targets.target_of(ChannelSpec("", self._target.name), image)

    def _image(self) -> TableIdentity:
        """Return the required columns; a text column gets the type of the target column to which it is written."""
        there = eligibility.columns(self.session, self._target.name)

        def wanted(column: Column) -> Column:
            found = there.get(column.name)
            takes = column.type == "text" and found is not None
            return replace(column, type=found.base or found.type) if takes and found else column

        return TableIdentity(0, tuple(map(wanted, self._target.columns)), self._target.key, "")

    def _make(self) -> None:
        table, schema = self._known, self.session.schema.string
        with self.session.transaction() as cursor:
            own_tables.prepare(self.session, cursor, "streams")
            # if two queries start at once, only one creates the staging table: CREATE TABLE can collide in the catalog
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("slotkeeper tables"),))
            found = self._run(cursor, "places", schema=schema, prefix=query_staging.prefix(table)).fetchall()
            if query_staging.place(table) not in [name for name, _ in found]:
                cursor.execute(query_staging.create(table, self.session.schema))

    # -- tasks ------------------------------------------------------------------------------------------------------

    def stage(self, place: str, query: str, token: int, lines: BinaryIO) -> int:
        with self.session.transaction() as cursor:
            found = self._run(cursor, "last", target=self._target.name).fetchone()
            if found and found[0] not in (query, self._target.successor_of):
                raise self._of_another(*found)
            lengthen(cursor, COPY_LIMIT_MS)
            return pg.copy_in(cursor, query_staging.fill(self.session.schema, place, len(self._target.columns)), lines)

    def claim(self, query: str, of: str) -> int | None:
        with self.session.transaction() as cursor:
            take_target(self.session, cursor, self._target.name)
            who = {"host": socket.gethostname(), "os_user": getpass.getuser(), "pid": os.getpid()}
            found = self._run(cursor, "claim", target=self._target.name, query=query, of=of, **who).fetchone()
            if found is not None:
                return int(found[0])
            if other := self._run(cursor, "last", target=self._target.name).fetchone():
                raise self._of_another(*other)
        return None

    # -- a batch ----------------------------------------------------------------------------------------------------

    def commit(self, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
        if optimistic.fits(self._known, self._target.options):
            try:
                return self._write(batch, staged, tries=True)
            except _Missed:
                pass  # rolled back, including its fence
        return self._write(batch, staged, tries=False)

    def _write(self, batch: QueryBatch, staged: Sequence[Staged], tries: bool) -> bool:
        table, rows = self._known, sum(one.rows for one in staged)
        with self.session.transaction() as cursor:
            lengthen(cursor, COPY_LIMIT_MS)
            take_target(self.session, cursor, self._target.name)
            if not self._fenced(cursor, batch, rows + sum(one.left_out for one in staged)):
                return False
            if rows:
                inserts = self._show(cursor, batch, [one.token for one in staged if one.rows], rows)
                if tries and rows >= routing.LEAST and inserts * routing.SHARE >= rows and self._once(cursor):
                    if not optimistic.apply_staged(cursor, table, self._target.options):
                        raise _Missed
                else:
                    self._refuse_twice(cursor, batch)
                    compose.execute(cursor, compose.plan(table, self._target.options, rows))
        return True

    def _fenced(self, cursor: pg.Cursor, batch: QueryBatch, rows: int) -> bool:
        """Return whether this process has to write the batch.

        Returns False if the batch is already committed; raises Refused if it must not be written.
        """
        values = {"target": self._target.name, "query": batch.query, "batch": batch.number, "rows": rows}
        who = {"host": socket.gethostname(), "os_user": getpass.getuser(), "pid": os.getpid()}
        more = {"successor_of": self._target.successor_of or None}
        if self._run(cursor, "fence", **values, **who, **more).rowcount == 1:
            return True
        return self._refused(cursor, batch)

    def _refused(self, cursor: pg.Cursor, batch: QueryBatch) -> bool:
        """Return False if the batch is already committed; raise Refused if the target's row belongs to another."""
        found = self._run(cursor, "last", target=self._target.name).fetchone()
        if found is None:
            raise Busy(f"{self._target.name}: its row in {_STREAMS} was just removed", where="sink")
        if found[0] != batch.query:
            raise self._of_another(*found)
        if found[1] > batch.number:
            what = f"{self._target.name} already has batch {found[1]} of this query; this is batch {batch.number}"
            hint = "its checkpoint is older than the table (restored, or from a replaced driver): start over"
            raise Refused(what, f"{hint} with an empty target and a new checkpoint", where="sink")
        return False

    def _of_another(self, query: str, number: int, host: str, os_user: str) -> Refused:
        what = f"query {query} writes {self._target.name} (batch {number}, {safe(os_user, 40)}@{safe(host, 60)})"
        hint = f'end that query permanently, then set the option successor_of = "{query}" here'
        if query.startswith(WRITER):
            hint = "one process writes a target at a time: end the other one, or write to another target"
        return Refused(f"{what}; this checkpoint belongs to another query", hint, where="sink")

    def _show(self, cursor: pg.Cursor, batch: QueryBatch, tokens: Sequence[int], rows: int) -> int:
        """Expose the batch's rows to the statements of a step, count and check them; return the number of inserts."""
        table, where = self._known, f"{self._target.name}, batch {batch.number}"
        cursor.execute(query_staging.show(table, self.session.schema, tokens))
        if compose.needs_net(table, self._target.options):
            cursor.execute(session_tables.create_net(table))
        cursor.execute(query_staging.counted(table))
        found, keyless, inserts = cursor.fetchone() or (0, False, 0)
        if found != rows:
            what = f"{where}: found {found} of {rows} staged rows"
            hint = "the sink restarted, or another run of this query cleared them: the next run stages them again"
            raise Unreachable(what, hint, where="sink")
        if keyless:
            what = f"{where}: a row has NULL in a key column ({', '.join(self._target.key)})"
            raise Refused(what, "filter such rows out, or name another key", where="sink")
        return int(inserts)

    def _once(self, cursor: pg.Cursor) -> bool:
        """Return whether each key has at most one event besides its B; results of earlier batches are not used."""
        cursor.execute(query_staging.repeated(self._known))
        return cursor.fetchone() is None

    def _refuse_twice(self, cursor: pg.Cursor, batch: QueryBatch) -> None:
        """Raise Refused if two rows with the same key have the same position, which makes an optimistic step miss."""
        cursor.execute(query_staging.twice(self._known))
        if not cursor.fetchone():
            return
        where = f"{self._target.name}, batch {batch.number}"
        if self._target.ordered:
            what = f"{where}: one change to a key arrived as several unordered rows"
            hint = "a join or explode split one row into several: aggregate them, or extend the key"
        else:
            what = f"{where}: a key arrived in several rows without changelog columns that order them"
            hint = "send one row per key in a batch: aggregate, or select slotkeeper_change, _point and _sequence"
        raise Refused(what, hint, where="sink")

    # -- afterwards -------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        with suppress(SlotkeeperError):
            own, schema = query_staging.place(self._known), self.session.schema
            named = {"schema": schema.string, "prefix": query_staging.prefix(self._known)}
            for name, size in self.session.fetched("places", named, _SQL):
                if name != own:
                    self._alone(*query_staging.drop(schema, name))
                elif (size or 0) >= STALE_BYTES:
                    self._alone(*query_staging.clear(schema, name))

    def _alone(self, *statements: pg.sql.Composable) -> None:
        """Run statements on a staging table unless another session uses it."""
        with suppress(SlotkeeperError), self.session.transaction() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @property
    def _known(self) -> TargetTable:
        if self._table is None:  # this process only commits; the process that started the batch has checked the target
            self._table = targets.seen(self.session, self._of(self._image()))
        return self._table

    def _run(self, cursor: pg.Cursor, statement: str, /, **values: object) -> pg.Cursor:
        return self.session.run(cursor, statement, values, _SQL)
