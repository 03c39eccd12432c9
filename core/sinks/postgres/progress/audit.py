"""The audit's copy in the sink: `slotkeeper_audit`, which every machine's commands append to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from slotkeeper.core.domain.audit import AuditLine, CopiedHead
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.session import SinkSession

_SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "audit.sql")


class SinkAudit:
    """Appends lines over a session that is somebody else's."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session

    def append(self, line: AuditLine, chain: str, head: str) -> None:
        """One line more, in a transaction of its own, with whose it is and its hash; raises what the sink raises."""
        values = line.as_json()
        row = {
            **{name: values[name] for name in ("action_id", "phase", "at", "action", "what", "reason", "outcome")},
            "who": line.actor.text,
            "chain": chain,
            "head": head,
            "line": json.dumps(values).replace("\\u0000", "\\ufffd"),  # PostgreSQL's json takes no NUL
        }
        with self._session.transaction() as cursor:
            own_tables.prepare(self._session, cursor, "audit")
            self._session.run(cursor, "append", row, _SQL)

    def heads(self, chains: Sequence[str]) -> list[CopiedHead]:
        """The hashes of these audits' lines, the oldest first; none where nothing was ever copied. Makes nothing."""
        with self._session.transaction() as cursor:
            there = {"schema": self._session.schema.string}
            if not self._session.run(cursor, "has_heads", there, _SQL).fetchone():
                return []
            rows = self._session.run(cursor, "heads", {"chains": list(chains)}, _SQL).fetchall()
        return [CopiedHead(str(head), at, str(about)) for head, at, about in rows]
