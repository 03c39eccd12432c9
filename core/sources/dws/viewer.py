"""Reads DWS for commands and screens: slots, unread rows, versions, privileges. Nothing here creates a slot.

The vendor's sync-point function creates the slot that is queried, so this module does not call that function. A screen
uses one quiet session (`DwsStatusPoller`): its settings are sent with the login, and each query is one statement that
only reads, because DWS has no read-only session (vendor's psycopg2 page).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, TableAnswer, UnreadRows
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.ttl import Ttl, ttl_of
from slotkeeper.core.drivers.pg import number
from slotkeeper.core.drivers.session import Book, Rows, Session, names_of_path
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.source import SlotCalls
from slotkeeper.core.sources.dws.eligibility import ServerFacts, TableFacts
from slotkeeper.core.sources.dws.position import place
from slotkeeper.core.sources.dws.session import DWS, DwsSession
from slotkeeper.core.sources.dws.words import TIMEOUT, WORDS

COUNT_LIMIT_MS = 30_000
"""Timeout of a count of unread rows, in milliseconds: the count reads the binlog itself."""

NO_FUNCTION = frozenset({"42883", "0A000"})
"""SQLSTATEs for a function that does not exist or that rejects this kind of table."""

_SQL: Book = ("slotkeeper.core.sources.dws", "viewer.sql")
_NO_RELATION = "42P01"
_CLOSED = frozenset({"42501", "42703"})
"""SQLSTATEs for a missing privilege on pgxc_class, or for a catalog without one of the columns."""

_UNKNOWN = frozenset({"42501", "42703", "42883", "42P01"})
"""SQLSTATEs for a missing privilege on a catalog, or for a catalog with a different structure."""

USEFUL = ("pgxc_get_binlog_slots", "pgxc_get_binlog_consume_progress", "pgxc_binlog_clear_target_slot")
"""The functions needed to list, measure and drop slots; kernel 9.1.0.223 and newer kernels have them."""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """The connected server: `clock` is its time in seconds since 1970, `superuser` is None if unknown."""

    version: str
    user: str
    clock: float
    superuser: bool | None


@dataclass(frozen=True, slots=True)
class TableSeen:
    """Properties of a table, without slots; `complaint` is the error message of the binlog functions."""

    facts: TableFacts
    complaint: str


CALLS = SlotCalls(
    create=tuple(f"SELECT * FROM pgxc_get_binlog_sync_point({{}}, {flag}, 0)" for flag in ("false", "true")),
    register="SELECT * FROM pgxc_register_full_sync_point({})",
    drop="SELECT pgxc_binlog_clear_target_slot({})",
    drops="pgxc_binlog_clear_target_slot",
)


class DwsViewer:
    """Reads DWS over one session; implements `slotkeeper.core.ports.source.SlotViewer`."""

    calls = CALLS
    words = WORDS

    def __init__(self, session: DwsSession) -> None:
        self.session = session

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        rows = self._or_none(lambda: self.session.rows("slots", {"table": table}))
        return None if rows is None else points_of(rows)

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        rows = self._or_none(lambda: self.session.rows("consume_progress", {"table": table}, COUNT_LIMIT_MS))
        return None if rows is None else unread_of(rows)

    def latest(self, table: str) -> dict[str, Position | None] | None:
        rows = self._or_none(lambda: self._rows("latest", {"table": table}))
        return None if rows is None else {str(node): place(number(point)) for node, point in rows}

    def nodes(self, table: str) -> dict[str, int]:
        return {name: node for name, node, here in homes(self.session, table) if here}

    def consumed(self, table: str, node: int = 0) -> bool | None:
        rows = self._or_none(lambda: self._rows("consumed_on", {"table": table, "node": node}, COUNT_LIMIT_MS))
        return bool(rows[0][0]) if rows and rows[0][0] is not None else None

    def server(self) -> ServerSeen:
        version, user, clock, superuser = self._rows("server", {})[0]
        return ServerSeen(str(version), str(user), float(clock), superuser)

    def open_schemas(self, user: str) -> list[str]:
        """Return the schemas on the login's own search_path in which PUBLIC can create objects; empty if unknown."""
        try:
            path = self._rows("own_path", {})
            names = names_of_path(str(path[0][0]), user) if path else []
            return [str(name) for (name,) in self._rows("open_schemas", {"names": names})]
        except SlotkeeperError as error:
            if error.code not in _UNKNOWN:
                raise
            return []

    def now(self) -> datetime:
        return moment(self.server().clock)

    def ttl(self, table: str) -> Ttl | None:
        rows = self._rows("table", named(table))
        return ttl_of(str(rows[0][5])) if rows else None

    def consume_timeout(self) -> int | None:
        return whole(self.settings().get(TIMEOUT, ""))

    def settings(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._rows("settings", {})}

    def functions(self) -> dict[str, bool]:
        """Return the existing binlog functions and whether this login can call each of them."""
        return {str(name): bool(allowed) for name, allowed in self._rows("functions", {})}

    def may_drop(self) -> bool | None:
        return self.functions().get(CALLS.drops)

    def server_facts(self) -> ServerFacts:
        return ServerFacts(self.server().version, self.functions(), self.settings())

    def table(self, table: str) -> TableSeen | None:
        facts = self.table_facts(table)
        if facts is None:
            return None
        complaint = ""
        if facts.readable:
            try:
                self._rows("consumed", {"table": table}, COUNT_LIMIT_MS)
            except SlotkeeperError as error:
                complaint = error.message
        return TableSeen(facts, complaint)

    def table_facts(self, table: str) -> TableFacts | None:
        rows = self._rows("table", named(table))
        if not rows:
            return None
        oid, usage, select, keys, deferrable, options, kind, persistence, *more = rows[0]
        owned, administers, secures, parts, masks = more
        spread = self._or_none(lambda: self._rows("distribution", {"oid": oid}))
        distribution = str(spread[0][0]) if spread else None
        columns = self._rows("columns", {"oid": oid})
        return TableFacts(
            bool(usage and select),
            bool(keys),
            bool(deferrable),
            str(options),
            distribution,
            str(kind),
            str(persistence),
            row_security=self._flag("row_security", oid) if secures else None,
            redacted=self._flag("redaction", oid) if masks else None,
            owned=bool(owned),
            administers=bool(administers),
            partitioned=kind == "p" or str(parts or "n") != "n",
            columns=tuple(str(name) for name, _ in columns),
            virtual=tuple(str(name) for name, generated in columns if generated == "v"),
            inheritors=tuple(str(name) for (name,) in self._rows("inheritors", {"oid": oid})),
            usable=bool(usage),
        )

    def close(self) -> None:
        self.session.close()

    def _flag(self, statement: str, oid: int) -> bool | None:
        """Return a boolean property of a table; None if the login cannot read it."""
        try:
            return bool(self._rows(statement, {"oid": oid})[0][0])
        except SlotkeeperError as error:
            if error.code in _UNKNOWN:
                return None
            raise

    def _rows(self, name: str, parameters: dict[str, Any], limit_ms: int | None = None) -> Rows:
        return self.session.rows(name, parameters, limit_ms, _SQL)

    def _or_none(self, ask: Callable[[], Rows]) -> Rows | None:
        try:
            return ask()
        except SlotkeeperError as error:
            if error.code in NO_FUNCTION or (error.code == _NO_RELATION and "pgxc_class" in error.message):
                return None
            if error.code == _NO_RELATION:  # no job follows the table yet, so this is not SCHEMA CHANGED
                raise Refused(error.message, "check the table's name", error.code, "source") from error
            raise


def homes(session: DwsSession, table: str) -> list[tuple[str, int, bool]]:
    """Return (name, id, whether the DN holds the table) of every DN, from the catalogs; no slot is touched.

    If the DNs of the table are unknown, the table counts as present on all DNs.
    """
    try:
        rows = session.rows("nodes", {"table": table})
    except SlotkeeperError as error:
        if error.code not in _CLOSED and not (error.code == _NO_RELATION and "pgxc_class" in error.message):
            raise
        rows = [(name, node, True) for name, node in session.rows("all_nodes")]
    return [(str(name), int(node), bool(here)) for name, node, here in rows]


def points_of(rows: Iterable[Sequence[Any]]) -> list[RegisteredPoint]:
    """Return the points contained in rows of `pgxc_get_binlog_slots`."""
    return [
        RegisteredPoint(str(node), str(slot), bool(flag), place(number(point)), at, number(xmin))
        for node, slot, point, at, xmin, flag in rows
    ]


def unread_of(rows: Iterable[Sequence[Any]]) -> list[UnreadRows]:
    """Return the counts contained in rows of `pgxc_get_binlog_consume_progress`."""
    return [UnreadRows(str(node), str(slot), bool(flag), number(count)) for node, _, slot, flag, _, _, count in rows]


def moment(clock: float) -> datetime:
    """Convert a server's time in seconds since 1970 to a datetime."""
    return datetime.fromtimestamp(float(clock), timezone.utc)


def named(table: str) -> dict[str, str]:
    """Return a table's schema and name as parameters of the catalog statements."""
    schema, _, name = table.rpartition(".")
    return {"schema": schema or "public", "name": name}


LIMIT_MS = 3_000
QUIET = replace(DWS, settings={"statement_timeout": str(LIMIT_MS)}, limit_ms=None, quiet=True)
_POLL_SQL: Book = ("slotkeeper.core.sources.dws", "poll.sql")


class DwsStatusPoller:
    """The queries of a status screen, sent over a session that is reused as long as it answers."""

    words = WORDS

    def __init__(self, endpoint: Endpoint, password: Secret | str, application_name: str) -> None:
        self._session = Session(endpoint, password, application_name, QUIET)
        self._lists = True

    def read_table(self, table: str) -> TableAnswer | None:
        try:
            rows = self._rows("points" if self._lists else "clock", {"table": table, **named(table)}, _POLL_SQL)
        except SlotkeeperError as error:
            if error.code not in NO_FUNCTION or not self._lists:
                raise
            self._lists = False
            return None
        clock, options, timeout = rows[0][:3]
        points = points_of(row[3:] for row in rows if row[3] is not None) if self._lists else None
        ttl = None if options is None else ttl_of(str(options))
        return TableAnswer(moment(clock), ttl, whole(timeout), points)

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        try:
            return unread_of(self._rows("consume_progress", {"table": table}))
        except SlotkeeperError as error:
            if error.code in NO_FUNCTION:
                return None
            raise

    def close(self) -> None:
        """End the session; a later query opens a new session."""
        self._session.close()

    def _rows(self, name: str, parameters: dict[str, Any], of: Book | None = None) -> Rows:
        try:
            return self._session.rows(name, parameters, of=of)
        except SlotkeeperError as error:
            if error.code == "42P01":  # no job follows the table here, so this is not SCHEMA CHANGED
                raise Refused(error.message, "check the table's name", error.code, "source") from error
            raise
