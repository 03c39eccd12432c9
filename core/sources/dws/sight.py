"""Reads from a DWS what our login sees of other sessions, and which transactions are open."""

from __future__ import annotations

from typing import Any

from slotkeeper.core.domain.locks import Sight
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.source import Waiter
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import statements

_SQL: Book = ("slotkeeper.core.sources.dws", "sight.sql")
CURE = "GRANT gs_role_read_all_stats TO {user}"
"""DWS "Preset roles": members see all users' sessions (PG_STAT_ACTIVITY), and those of all coordinators."""


def read(session: DwsSession) -> Sight:
    """What our login can see now; what a server refuses to tell is not seen."""
    counted = _rows_of(session, "coordinators")
    return Sight(
        coordinators=int(counted[0][0]) or None if counted else None,
        everyone=_administers(session) or _count(_rows_of(session, "statistics")),
        across=_count(_rows_of(session, "list_across")) and _rows_of(session, "open_across", _own(session)) is not None,
    )


def open_transactions(session: DwsSession, across: bool) -> list[Waiter]:
    """Other sessions inside a transaction, and prepared transactions, each once."""
    found = {
        (pid, start or ""): Waiter(pid, start or "", user or "of another login", name or "", hidden)
        for pid, start, user, name, hidden in session.rows("open_here", of=_SQL)
    }
    for pid, start, user, name in session.rows("open_across", _own(session), of=_SQL) if across else ():
        found.setdefault((pid, start), Waiter(pid, start, user or "?", name or ""))
    prepared = _rows_of(session, "prepared") or []
    return [*found.values(), *(Waiter(0, safe(gid, 80), owner, safe(base, 80)) for gid, owner, base in prepared)]


def snapshot_xmin(session: DwsSession) -> int:
    """The oldest transaction number that is open by the coordinator's snapshot."""
    return int(session.rows("snapshot", of=_SQL)[0][0])


def left_across(session: DwsSession, names: dict[str, str]) -> int:
    """How many of our sessions of these names are connected anywhere in the cluster."""
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
