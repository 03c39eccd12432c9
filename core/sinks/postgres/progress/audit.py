"""The audit's copy in the sink: `slotkeeper_audit`, which every machine's commands append to.

Next door: `core.state.audit` is the file that decides; `audit.sql` holds the statements.
"""

from __future__ import annotations

import json

from core.domain.audit import AuditLine
from core.drivers import pg
from core.drivers.session import Book
from core.sinks.postgres.progress.locks import lock_number
from core.sinks.postgres.session import SinkSession

_SQL: Book = ("core.sinks.postgres.progress", "audit.sql")


class SinkAudit:
    """Appends lines over a session that is somebody else's."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session

    def append(self, line: AuditLine) -> None:
        """One line more, in a transaction of its own; raises what the sink raises."""
        values = line.as_json()
        row = {
            **{name: values[name] for name in ("action_id", "phase", "at", "action", "what", "reason", "outcome")},
            "who": line.actor.text,
            "line": json.dumps(values).replace("\\u0000", "\\ufffd"),  # PostgreSQL's json takes no NUL
        }
        with self._session.transaction() as cursor:
            self._make(cursor)
            self._session.run(cursor, "append", row, _SQL)

    def _make(self, cursor: pg.Cursor) -> None:
        if self._session.run(cursor, "exists", {"schema": self._session.schema.string}, _SQL).fetchone() is None:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("slotkeeper tables"),))
            self._session.run(cursor, "create", {}, _SQL)
