"""Determine which other sessions this login can see, and which earlier open transactions are still open.

Rows that such a transaction wrote before that moment are not in the binlog and not yet visible to a copy (design 4.4
step 3). The list of sessions contains the visible transactions, including those without a transaction id. In addition,
the snapshot's own xmin always has to exceed the transaction counter read at that moment. If the list is not proven
complete, every DN's xmin has to exceed the counter as well. The check never guesses.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Protocol

from slotkeeper.core.domain.locks import Sight
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.source import Waiter
from slotkeeper.core.sources.dws.position import points_of
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import statements

_SQL: Book = ("slotkeeper.core.sources.dws", "sight.sql")
CURE = "GRANT gs_role_read_all_stats TO {user}"
"""DWS "Preset roles": members see the sessions of all users (PG_STAT_ACTIVITY) and of all coordinators."""


def read(session: DwsSession) -> Sight:
    """Return which sessions the login can see now; the sessions in a view that it cannot read are hidden."""
    counted = _rows_of(session, "coordinators")
    return Sight(
        coordinators=int(counted[0][0]) or None if counted else None,
        everyone=_administers(session) or _count(_rows_of(session, "statistics")),
        across=_count(_rows_of(session, "list_across")) and _rows_of(session, "open_across", _own(session)) is not None,
    )


def open_transactions(session: DwsSession, across: bool) -> list[Waiter]:
    """Return other sessions inside a transaction, and prepared transactions, each once."""
    found = {
        (pid, start or ""): Waiter(pid, start or "", user or "of another login", name or "", hidden)
        for pid, start, user, name, hidden in session.rows("open_here", of=_SQL)
    }
    for pid, start, user, name in session.rows("open_across", _own(session), of=_SQL) if across else ():
        found.setdefault((pid, start), Waiter(pid, start, user or "?", name or ""))
    prepared = _rows_of(session, "prepared") or []
    return [*found.values(), *(Waiter(0, safe(gid, 80), owner, safe(base, 80)) for gid, owner, base in prepared)]


def shown_in_full(session: DwsSession, pids: Set[int]) -> set[int]:
    """Return those of these sessions of this coordinator that the list of sessions now shows in full."""
    return {pid for (pid,) in session.rows("shown_in_full", {"pids": sorted(pids)}, of=_SQL)}


def snapshot_xmin(session: DwsSession) -> int:
    """Return the lowest transaction number that is open in the coordinator's snapshot."""
    return int(session.rows("snapshot", of=_SQL)[0][0])


def left_across(session: DwsSession, names: dict[str, str]) -> int:
    """Return the number of the login's sessions with these names in the whole cluster."""
    return int(session.rows("left_across", {**names, "name": session.application_name}, of=_SQL)[0][0])


def _administers(session: DwsSession) -> bool:
    try:
        statement = pg.sql.SQL(statements(*_SQL)["login"])
        names, rows = session.answered(statement, None)
    except SlotkeeperError:
        return False
    found = dict(zip(names, rows[0], strict=True)) if rows else {}
    return any(found.get(name) is True for name in ("rolsuper", "rolsystemadmin"))


def _own(session: DwsSession) -> dict[str, str]:
    return {"own": session.application_name}


def _count(rows: Rows | None) -> bool:
    return bool(rows and rows[0][0])


def _rows_of(session: DwsSession, name: str, parameters: dict[str, Any] | None = None) -> Rows | None:
    try:
        return session.rows(name, parameters, of=_SQL)
    except SlotkeeperError:
        return None


WHERE = "pg_prepared_xacts, pgxc_stat_activity and each database's pg_stat_activity"
"""The views in which an administrator sees open transactions."""


class Seeing(Protocol):
    """The calls of a session that this module needs."""

    def sight(self) -> Sight: ...

    def open_transactions(self, across: bool = False) -> list[Waiter]: ...

    def shown_in_full(self, pids: Set[int]) -> set[int]: ...

    def snapshot_xmin(self) -> int: ...

    def transaction_id(self) -> int: ...

    def read_status(self, shard: Shard | None) -> list[SlotStatus]: ...


class DwsOpenTransactions:
    """Transactions open when this object was created."""

    def __init__(self, source: Seeing) -> None:
        self._source = source
        self._counter, self._sight = source.transaction_id(), source.sight()
        self._waiting: Sequence[Waiter] = source.open_transactions(self._sight.across)
        self._once = {one.pid for one in self._waiting if one.hidden}
        self._hidden: set[int] = set()

    @property
    def _lacks(self) -> str:
        return self._sight.lacks or ("other sessions are hidden" if self._hidden else "")

    @property
    def advice(self) -> str:
        more = ", or let this login see all sessions (`slotkeeper doctor` prints the GRANT)" if self._lacks else ""
        job = "{job}"
        return f"end the transaction (an administrator can see it in {WHERE}), or raise `wait` in [jobs.{job}]{more}"

    def left(self) -> str:
        now = self._source.open_transactions(self._sight.across)
        now_open = {(one.pid, one.started) for one in now}
        self._note_hidden(now)
        self._waiting = [one for one in self._waiting if one.started and (one.pid, one.started) in now_open]
        if not self._waiting:
            return self._retained(now)
        named = ", ".join(waiter.text for waiter in self._waiting[:5])
        more = f" and {len(self._waiting) - 5} more" if len(self._waiting) > 5 else ""
        return f"waiting for transactions that were open when recording started: {named}{more}"

    def _note_hidden(self, now: Sequence[Waiter]) -> None:
        """Count a session as hidden if two queries did not show it in full, and none does later.

        A session that is opened or closed during a query can have locks and no entry in the list.
        """
        self._once &= {one.pid for one in now if one.hidden}
        self._hidden |= self._once
        if self._hidden:
            self._hidden -= self._source.shown_in_full(self._hidden)

    def _retained(self, now: Sequence[Waiter]) -> str:
        """Return why unlisted transactions may still be open; "" if all have ended.

        The counter was assigned after recording started, so all older transactions have a lower number, or none yet.
        """
        if self._source.snapshot_xmin() <= self._counter:
            prepared = ", ".join(one.text for one in now if not one.pid)
            whose = f"; it may be {prepared}" if prepared else " (of another database, login or coordinator)"
            return f"waiting for an unlisted transaction that was open when recording started{whose}"
        if self._lacks and any(points_of(one.kept).xmin <= self._counter for one in self._source.read_status(None)):
            # an xmin advances only when transaction ids are assigned, and on an idle cluster no other session gets one.
            # DWS, "Transaction IDs and Snapshots": txid_current gets the transaction's id; PostgreSQL: it assigns an id
            self._source.transaction_id()
            return f"{self._lacks} and a DN's xmin does not advance: an open transaction may exist"
        return ""
