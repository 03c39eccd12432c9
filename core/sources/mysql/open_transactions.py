"""Who may have written to the binlog, before a place that was noted, what a reader does not see yet.

A commit is in the binlog before its rows are seen (MySQL, "Binary Logging Format": group commit). MariaDB tells a place
behind which that cannot be, so nobody is waited for; MySQL tells none, so writers that were open are waited for.
MySQL, "Persistence and Consistency of InnoDB Transaction and Locking Information": the list is made anew only where
nobody has read it for 0.1 s. So it is read seldom, and what is first taken of it is from behind the place.
"""

from __future__ import annotations

import time

from slotkeeper.core.errors import AccessRefused, SlotkeeperError
from slotkeeper.core.sources.mysql.session import MysqlSession

_OPEN = "SELECT trx_id, trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_modified > 0"
READ_EVERY = 0.25
"""Seconds between two readings: more than twice what it takes until the list is made anew."""
_UNKNOWN = "the list of open transactions may be from before the copy's place"


class MysqlOpen:
    """The writers that were open; implements `slotkeeper.core.ports.source.OpenTransactions`."""

    def __init__(self, session: MysqlSession) -> None:
        self._session = session
        self._next = time.monotonic() + READ_EVERY
        self._were: frozenset[str] | None = None
        self._left = _UNKNOWN

    def left(self) -> str:
        """Whom is waited for, in words."""
        if time.monotonic() >= self._next:
            now = writers(self._session)
            self._were = now if self._were is None else self._were & now
            named = ", ".join(sorted(self._were)[:5])
            self._left = f"{len(self._were)} transaction(s) that were open when the copy began: {named}"
            self._next = time.monotonic() + READ_EVERY
        return "" if self._were is not None and not self._were else self._left

    def advice(self, job: str) -> str:
        """What a person may do."""
        return "end them (SHOW ENGINE INNODB STATUS, KILL), or give the job a longer wait"


class NobodyOpen:
    """Nobody has to be waited for: the place says so. Implements `slotkeeper.core.ports.source.OpenTransactions`."""

    def left(self) -> str:
        """Nothing."""
        return ""

    def advice(self, job: str) -> str:
        """Nothing."""
        return ""


def open_now(session: MysqlSession) -> MysqlOpen | NobodyOpen:
    """The writers that are open now; nobody of MariaDB. Raises AccessRefused with the GRANT where none is shown."""
    if session.facts.is_mariadb:
        return NobodyOpen()
    writers(session)
    return MysqlOpen(session)


def writers(session: MysqlSession) -> frozenset[str]:
    """The transactions that have changed rows and are open; AccessRefused with the GRANT where none is shown."""
    try:
        rows = session.rows(_OPEN)
    except SlotkeeperError as error:
        if error.code != "1227":
            raise
        cure = f"GRANT PROCESS ON *.* TO {session.user}"
        raise AccessRefused(error.message, cure, error.code, "source") from None
    return frozenset(f"{trx} (session {thread})" for trx, thread in rows)
