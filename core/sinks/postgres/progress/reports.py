"""Tables for information only: the audit copy and the reports of DataFrame queries."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from slotkeeper.core.domain.audit import AuditLine, CopiedHead
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.query_report import QueryReport
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.session import SinkSession

_AUDIT: Book = ("slotkeeper.core.sinks.postgres.progress", "audit.sql")


class SinkAudit:
    """Appends audit lines over the caller's session."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session

    def append(self, line: AuditLine, chain: str, head: str) -> None:
        values = line.as_json()
        row = {
            **{name: values[name] for name in ("action_id", "phase", "at", "action", "what", "reason", "outcome")},
            "who": line.actor.text,
            "chain": chain,
            "head": head,
            "line": json.dumps(values).replace("\\u0000", "\\ufffd"),  # PostgreSQL's json does not accept NUL
        }
        with self._session.transaction() as cursor:
            own_tables.prepare(self._session, cursor, "audit")
            self._session.run(cursor, "append", row, _AUDIT)

    def heads(self, chains: Sequence[str]) -> list[CopiedHead]:
        with self._session.transaction() as cursor:
            if not self._session.has(cursor, "has_heads", _AUDIT):
                return []
            rows = self._session.run(cursor, "heads", {"chains": list(chains)}, _AUDIT).fetchall()
        return [CopiedHead(str(head), at, str(about)) for head, at, about in rows]


_ACCOUNTS: Book = ("slotkeeper.core.sinks.postgres.progress", "accounts.sql")
LIMIT_MS = 2_000
"""Timeout of one transaction, in milliseconds: reports are informative only and do not justify a longer wait."""


class PostgresAccounts:
    """Implements `slotkeeper.core.ports.sink.QueryAccounts` for one slot."""

    def __init__(self, session: SinkSession, key: LaneKey) -> None:
        self.session = session
        self.close = session.close
        self._slot = asdict(key)

    def begin(self, epoch: int, fresh: bool) -> None:
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            own_tables.prepare(self.session, cursor, "queries")
            values = {**self._slot, "epoch": epoch}
            newest = self.session.run(cursor, "newest", self._slot, _ACCOUNTS).fetchone()
            if newest != (epoch,):
                return  # a newer query has taken over during the start, so the report belongs to that query
            self.session.run(cursor, "end", {**values, "fresh": fresh}, _ACCOUNTS)
            self.session.run(cursor, "go_on", values, _ACCOUNTS)
            self.session.run(cursor, "begin", values, _ACCOUNTS)

    def write(self, report: QueryReport) -> bool:
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
            if not self.session.has(cursor, "exists", _ACCOUNTS):
                return False
            return bool(self.session.run(cursor, "write", values, _ACCOUNTS).rowcount)

    def read(self) -> QueryReport | None:
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            if not self.session.has(cursor, "exists", _ACCOUNTS):
                return None
            found = self.session.run(cursor, "read", self._slot, _ACCOUNTS).fetchone()
        return _report(found) if found else None


def _report(found: tuple[Any, ...]) -> QueryReport:
    epoch, query, name, batch, checkpoint, newest, age = found
    try:
        places = json.loads(newest) if newest else {}
    except (ValueError, RecursionError):  # another program may have written this value
        places = {}
    kept = {str(dn): str(place) for dn, place in places.items()} if isinstance(places, Mapping) else {}
    known = age is not None and math.isfinite(age)  # a timestamp can be infinity
    return QueryReport(epoch, query, name, batch, checkpoint, kept, age if known else None)
