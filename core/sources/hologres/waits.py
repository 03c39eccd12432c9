"""Find sessions on Hologres that wait for a table lock held by a job's session, if this login can see them.

Hologres, "Locks: types, behavior, and troubleshooting": its front end has PostgreSQL's table locks (pg_locks). From
version 2.0 on, a statement that conflicts with a DDL statement fails at once unless hg_experimental_disable_pg_locks is
off, so few sessions wait. Hologres, "Manage queries": a Superuser sees the queries of all users, any other user only
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slotkeeper.core.domain.locks import HIDDEN
from slotkeeper.core.domain.source_waits import SourceWait, lasting
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.source import WaitsAsked
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.waits import EVERY, LIMIT_MS, Pair, by_locks, session

LACKS = f"{HIDDEN}: this login cannot see other users' queries; a Superuser of the instance can"


class HoloWaits:
    """Implements `slotkeeper.core.ports.source.SourceWaitReader`."""

    def __init__(self, session: HoloSession, asked: WaitsAsked) -> None:
        self._session, self._asked = session, asked
        self._before: tuple[SourceWait, ...] = ()
        self._known_at, self._lacks = 0.0, LACKS
        self.hidden = ""

    def read(self, now: float) -> Sequence[SourceWait]:
        if not 0.0 <= now - self._known_at < EVERY:
            self._lacks, self._known_at = "" if self._sees_all() else LACKS, now
        self.hidden = self._lacks
        pairs = []
        for table, wanted, granted, lasts, *sessions in self._rows("lock_pairs"):
            waiter, holder = (
                replace(session(now, [*its[:-1], None]), began=its[-1]) for its in (sessions[:7], sessions[7:])
            )
            pairs.append(Pair(str(table), waiter, str(wanted), float(lasts), holder, str(granted)))
        self._before = lasting(self._before, by_locks(pairs, now, lambda mode: None))
        return self._before

    def _sees_all(self) -> bool:
        try:
            rows = self._rows("superuser")
        except Unreachable:
            raise
        except SlotkeeperError:
            return False
        return bool(rows and rows[0][0])

    def _rows(self, name: str) -> Rows:
        return self._session.rows(name, {"tables": list(self._asked.tables)}, LIMIT_MS)
