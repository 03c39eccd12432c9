"""What DataFrame queries say of themselves, beside their progress rows: a table that only informs.

It is apart from the rows, so that a store whose tables are older, or whose login may create none, serves queries all
the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.query_report import QueryReport
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.session import SinkSession

_SQL: Book = ("slotkeeper.core.sinks.postgres.stream", "accounts.sql")
LIMIT_MS = 2_000
"""Of one transaction: nobody waits for longer for what only informs."""


class PostgresAccounts:
    """Implements `slotkeeper.core.ports.sink.QueryAccounts` for one slot."""

    def __init__(self, session: SinkSession, key: LaneKey) -> None:
        self.session = session
        self._slot = {"source": key.source, "source_table": key.source_table, "slot": key.slot}

    def begin(self, epoch: int, anew: bool) -> None:
        """Make room for a query of this epoch, and the table where it is missing; what was said stays, unless anew.

        Nothing where the slot's rows are of another epoch.
        """
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            own_tables.prepare(self.session, cursor, "queries")
            values = {**self._slot, "epoch": epoch}
            newest = self.session.run(cursor, "newest", self._slot, _SQL).fetchone()
            if newest != (epoch,):
                return  # it was superseded while it began: the account is the newer one's
            self.session.run(cursor, "end", {**values, "anew": anew}, _SQL)
            self.session.run(cursor, "go_on", values, _SQL)
            self.session.run(cursor, "begin", values, _SQL)

    def write(self, report: QueryReport) -> bool:
        """Keep an account; False where the query's epoch is not the newest, or nothing was begun."""
        values = {
            **self._slot,
            "epoch": report.epoch,
            "query": report.query,
            "name": report.name,
            "batch": report.batch,
            "checkpoint": report.checkpoint,
            "newest": json.dumps(dict(report.newest), sort_keys=True),
        }
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            if not self._exists(cursor):
                return False
            return bool(self.session.run(cursor, "write", values, _SQL).rowcount)

    def read(self) -> QueryReport | None:
        """The newest account; None where there is none."""
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            if not self._exists(cursor):
                return None
            found = self.session.run(cursor, "read", self._slot, _SQL).fetchone()
        return _report(found) if found else None

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()

    def _exists(self, cursor: pg.Cursor) -> bool:
        return self.session.run(cursor, "exists", {"schema": self.session.schema.string}, _SQL).fetchone() is not None


def _report(found: tuple[Any, ...]) -> QueryReport:
    epoch, query, name, batch, checkpoint, newest, age = found
    try:
        places = json.loads(newest) if newest else {}
    except (ValueError, RecursionError):  # others may have written it
        places = {}
    kept = {str(dn): str(place) for dn, place in places.items()} if isinstance(places, Mapping) else {}
    known = age is not None and math.isfinite(age)  # a timestamp may be infinity
    return QueryReport(epoch, query, name, batch, checkpoint, kept, age if known else None)
