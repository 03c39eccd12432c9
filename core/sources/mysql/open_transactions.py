"""Who may have written to the binlog, before a place that was noted, what a reader does not see yet.

A commit is in the binlog before its rows are seen (MySQL, "Binary Logging Format": group commit). MariaDB tells a place
behind which that cannot be, so nobody is waited for; MySQL tells none, so writers that were open are waited for.
Next door: `starts.py` notes the place.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import AccessRefused, SlotkeeperError
from core.sources.mysql.session import MysqlSession

_OPEN = "SELECT trx_id, trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_modified > 0"


@dataclass(frozen=True, slots=True)
class MysqlOpen:
    """The writers that were open; implements `core.ports.source.OpenTransactions`."""

    session: MysqlSession
    were: frozenset[str]

    def left(self) -> str:
        """Whom is waited for, in words."""
        still = self.were.intersection(_writers(self.session)) if self.were else ()
        named = ", ".join(sorted(still)[:5])
        return f"{len(still)} transaction(s) that were open when the copy began: {named}" if still else ""

    def advice(self, job: str) -> str:
        """What a person may do."""
        return "end them (SHOW ENGINE INNODB STATUS, KILL), or give the job a longer wait"


def open_now(session: MysqlSession) -> MysqlOpen:
    """The writers that are open now; nobody of MariaDB. Raises AccessRefused with the GRANT where none is shown."""
    if session.facts.is_mariadb:
        return MysqlOpen(session, frozenset())
    return MysqlOpen(session, _writers(session))


def _writers(session: MysqlSession) -> frozenset[str]:
    try:
        rows = session.rows(_OPEN)
    except SlotkeeperError as error:
        if error.code != "1227":
            raise
        cure = f"GRANT PROCESS ON *.* TO {session.user}"
        raise AccessRefused(error.message, cure, error.code, "source") from None
    return frozenset(f"{trx} (session {thread})" for trx, thread in rows)
