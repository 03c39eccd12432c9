"""Reads information about a PostgreSQL sink for commands and screens: version, clock, privileges, and lock waits.

Nothing here creates or locks anything. Between two attempts, a job's wait is reported as continuing while the blocking
transaction holds the lock. DWS does not report this, so its waits end with the attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.domain.ending import NOTHING, SAME_MOMENT, InFront
from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.locks import Blocker, LockWait, continued, ended_at, ordered, without_literals
from slotkeeper.core.domain.progress import QUERY_TARGET
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book, Rows, names_of_path
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import LaneSeen
from slotkeeper.core.sinks.postgres.session import SinkSession

LIMIT_MS = 5_000
"""Timeout of a query for a screen, in milliseconds; the timeout of a step is ten minutes."""
_SQL: Book = ("slotkeeper.core.sinks.postgres.check", "viewer.sql")


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """The connected server; `clock` is its time in seconds since 1970.

    `temporary`: the login can create temporary tables, which staging needs; `creates`: it can create schemas.
    """

    version: str
    user: str
    clock: float
    superuser: bool
    temporary: bool
    creates: bool


SCHEMA_RIGHTS = ("USAGE", "CREATE")
_ALTERS = (
    "owns the table", "owns its schema", "has UPDATE", "has DELETE", "has TRUNCATE", "has TRIGGER",
)  # fmt: skip
TABLE_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")


@dataclass(frozen=True, slots=True)
class Rights:
    """The login's privileges in a schema or on a table, under the server's names."""

    granted: frozenset[str]

    def lacks(self, *needed: str) -> str:
        """Return the privileges of `needed` that are missing, as a string; empty if none is missing.

        >>> Rights(frozenset({"SELECT"})).lacks("SELECT", "INSERT", "UPDATE")
        'INSERT, UPDATE'
        """
        return ", ".join(one for one in needed if one not in self.granted)


class PostgresViewer:
    """Reads the server over one session."""

    def __init__(self, session: SinkSession) -> None:
        self.session = session
        self.close = session.close

    def server(self) -> ServerSeen:
        """Return the version, login, clock and privileges of the connected server."""
        version, user, clock, superuser, temporary, creates = self._rows("server", {})[0]
        return ServerSeen(str(version), str(user), float(clock), bool(superuser), bool(temporary), bool(creates))

    def objections(self) -> list[Objection]:
        """Return the objections to this server's settings that apply to every job with this sink.

        DWS, "Syntax Compatibility Differences Among Oracle, Teradata, and MySQL" (dws_04_0042): with ORA, the default
        of CREATE DATABASE, an empty string is NULL.
        """
        rows = self._rows("mode", {}) if self.session.dialect.has_modes else []
        if not rows or str(rows[0][0]).upper() != "ORA":
            return []
        what = (
            "its database is ORA-compatible (sql_compatibility): it stores empty strings as NULL, also Slotkeeper's own"
        )
        return [Objection(what, "name a database that was created with DBCOMPATIBILITY 'TD' or 'MySQL'")]

    def open_schemas(self, user: str) -> list[str]:
        """Return the schemas on the login's own search_path in which PUBLIC can create objects."""
        path = self._rows("own_path", {})
        names = names_of_path(str(path[0][0]), user) if path else []
        return [str(name) for (name,) in self._rows("open_schemas", {"names": names})]

    def schema(self, schema: str) -> Rights | None:
        """Return the login's privileges in a schema; None if the schema does not exist."""
        return _rights(SCHEMA_RIGHTS, self._rows("schema", {"schema": schema}))

    def table(self, table: str) -> Rights | None:
        """Return the login's privileges on a table; None if the table does not exist."""
        schema, _, name = table.partition(".")
        return _rights(TABLE_RIGHTS, self._rows("table", {"schema": schema, "name": name}))

    def alters(self, schema: str, name: str) -> list[str] | None:
        """Return the privileges that let this login change a table or its rows; None if the table does not exist."""
        rows = self._rows("alters", {"schema": schema, "name": name})
        return [word for word, can in zip(_ALTERS, rows[0], strict=True) if can] if rows else None

    def lanes(self, schema: str, source: str, table: str, slot: str) -> list[LaneSeen]:
        """Return the lanes of a slot; empty if the progress table does not exist."""
        place = {"source": source, "source_table": table, "slot": slot}
        return [LaneSeen(*row) for row in self._progress(schema, "lanes", place)]

    def followed(self, schema: str) -> list[tuple[str, str, str, str]]:
        """Return (job, source, source table, slot) of all progress rows; empty if the progress table does not exist."""
        found = self._progress(schema, "followed", {})
        return [(str(job), str(source), str(table), str(slot)) for job, source, table, slot in found]

    def queried(self, schema: str) -> list[tuple[str, str, str]]:
        """Return (source, source table, slot) of all progress rows of DataFrame queries; empty without the table."""
        found = self._progress(schema, "queried", {"target": f".{QUERY_TARGET}"})
        return [(str(source), str(table), str(slot)) for source, table, slot in found]

    def _progress(self, schema: str, name: str, parameters: dict[str, Any]) -> Rows:
        there = self.table(f"{schema}.slotkeeper_progress") is not None
        return self._rows(name, parameters) if there else []

    def _rows(self, name: str, parameters: dict[str, Any]) -> Rows:
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            return self.session.run(cursor, name, parameters, _SQL).fetchall()


def _rights(names: tuple[str, ...], rows: Rows) -> Rights | None:
    if not rows:
        return None
    return Rights(frozenset(name for name, granted in zip(names, rows[0], strict=True) if granted))


WAITS_LIMIT_MS = 2_000
"""Timeout of each statement, in milliseconds; a later answer is of no use on a screen."""
DEEPEST = 5
"""Maximum number of sessions followed in a lock queue; in a longer queue, the last one is shown as waiting."""
MOST, ASKED = 20, 100
"""Maximum number of blocking sessions shown per wait, and queried per reading; further sessions are only counted."""
_WAITS: Book = ("slotkeeper.core.sinks.postgres.check", "lock_waits.sql")
_ENDING: Book = ("slotkeeper.core.sinks.postgres.check", "ending.sql")
_CONCEALED = "<insufficient privilege>"
_PREPARED = 0
"""The pid that pg_blocking_pids reports for a prepared transaction."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A wait with the server's tag for the lock, and the pids and transactions that block it directly."""

    wait: LockWait
    tag: str
    pids: tuple[int, ...]
    transactions: tuple[str, ...] = ()


class PostgresLockWaits:
    """Lock waits of sessions whose names start with `prefix`; implements `slotkeeper.core.ports.sink.LockReader`."""

    def __init__(self, session: SinkSession, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._before: tuple[_Seen, ...] = ()

    def read(self, now: float) -> tuple[LockWait, ...]:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, WAITS_LIMIT_MS)
            seen = self._waiting(cursor, now)
            kept = self._still_there(cursor, {one.wait.thing for one in seen})
            found = self._with_blockers(cursor, now, [*seen, *kept]) if seen or kept else []
        before = [one.wait for one in self._before]
        waits = continued(before, (one.wait for one in found))
        self._before = tuple(replace(one, wait=wait) for one, wait in zip(found, waits, strict=True))
        return waits

    def in_front(self, pid: int, now: float, end: float | None = None) -> InFront | None:
        asked = {"prefix": self._prefix, "deepest": DEEPEST, "pid": pid, "began": end, "same": SAME_MOMENT}
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, WAITS_LIMIT_MS)
            rows = self._session.run(cursor, "in_front", asked, _ENDING).fetchall()
        for _, user, name, state, seconds, query, began, login, client, right, guarded, sent in rows:
            one = Blocker(pid, user, name, state, _at(now, seconds), _said(query), began=began)
            return InFront(one, str(login), bool(client), str(right), bool(guarded), bool(sent))
        return None

    def is_there(self, pid: int, began: float) -> bool:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, WAITS_LIMIT_MS)
            asked = {"pid": pid, "began": began, "same": SAME_MOMENT}
            return bool(self._session.run(cursor, "session", asked, _ENDING).fetchall()[0][0])

    def _waiting(self, cursor: pg.Cursor, now: float) -> list[_Seen]:
        found: dict[int, _Seen] = {}
        for pid, name, query, mode, kind, tag, seconds, pids, schema, relation in self._run(
            cursor, "waiting", {"prefix": self._prefix}
        ):
            since = now - max(0.0, seconds or 0.0)
            thing = _thing(kind, schema, relation)
            wait = LockWait(int(pid), str(name), thing, str(mode), since, _said(query))
            found[wait.pid] = _Seen(wait, str(tag), tuple(dict.fromkeys(pids)))
        return list(found.values())

    def _still_there(self, cursor: pg.Cursor, waited_for: set[str]) -> list[_Seen]:
        """Return waits of the previous reading whose sessions no longer wait but whose blockers still hold the lock."""
        gone = [one for one in self._before if one.wait.thing not in waited_for]
        pairs = [(one.tag, each) for one in gone for each in one.transactions]
        if not pairs:
            return []
        asked = {"tags": [tag for tag, _ in pairs], "transactions": [each for _, each in pairs]}
        there = {(str(tag), str(each)) for tag, each in self._run(cursor, "there", asked)}
        return [
            replace(one, wait=replace(one.wait, waits=False))
            for one in gone
            if any((one.tag, each) in there for each in one.transactions)
        ]

    def _with_blockers(self, cursor: pg.Cursor, now: float, seen: Sequence[_Seen]) -> list[_Seen]:
        share = max(1, ASKED // len(seen))
        sessions, front = self._sessions(cursor, now, {pid for one in seen for pid in one.pids[:share]})
        tags = [one.tag for one in seen if _PREPARED in one.pids]
        prepared: dict[str, list[Blocker]] = {}
        for tag, transaction, gid, owner, seconds in self._run(cursor, "prepared", {"tags": tags}) if tags else ():
            left = Blocker(None, owner, since=_at(now, seconds), transaction=str(transaction), gid=str(gid))
            prepared.setdefault(str(tag), []).append(left)
        found = []
        for one in seen:
            pids = _behind_each_other(one.pids, front) - {one.wait.pid}
            own = [*(sessions[pid] for pid in pids if pid in sessions), *prepared.get(one.tag, ())]
            direct = [each for each in own if each.pid is None or each.pid in one.pids]
            transactions = tuple(each.transaction for each in direct if each.transaction)
            listed = ordered(own)[:MOST]
            more = len(pids) + len(prepared.get(one.tag, ())) - len(listed)
            found.append(replace(one, wait=replace(one.wait, blockers=listed, more=more), transactions=transactions))
        return found

    def _sessions(
        self, cursor: pg.Cursor, now: float, pids: set[int]
    ) -> tuple[dict[int, Blocker], dict[int, tuple[int, ...]]]:
        """Return these sessions and the sessions that block them, and the direct blockers of each session."""
        sessions: dict[int, Blocker] = {}
        front: dict[int, tuple[int, ...]] = {}
        asked = pids - {_PREPARED}
        for _ in range(DEEPEST):
            asked = set(sorted(asked)[: max(0, ASKED - len(front))])
            if not asked:
                break
            for pid, own, user, name, state, seconds, query, transaction, ahead, began in self._run(
                cursor, "sessions", {"pids": sorted(asked)}
            ):
                front[pid] = tuple(ahead)
                shown = "" if own else user
                since, said = _at(now, seconds), _said(query)
                waits, at = bool(ahead), str(transaction)
                sessions[pid] = Blocker(pid, shown, name, state, since, said, waits, at, began=began)
            asked = {each for pid in asked for each in front.get(pid, ())} - {_PREPARED} - front.keys()
        return sessions, front

    def _run(self, cursor: pg.Cursor, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        return self._session.run(cursor, name, parameters, _WAITS).fetchall()


class DwsLockWaits:
    """The lock waits that DWS reports; implements `slotkeeper.core.ports.sink.LockReader`.

    DWS reports the pids of its nodes, but a session can be ended only on its coordinator, so none can be ended here.
    """

    def __init__(self, session: SinkSession, prefix: str) -> None:
        self._session = session
        self._prefix = prefix
        self._before: tuple[LockWait, ...] = ()

    def read(self, now: float) -> tuple[LockWait, ...]:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, WAITS_LIMIT_MS)
            rows = [_Conflict(*row) for row in self._session.run(cursor, "conflicts", {}, _WAITS).fetchall()]
        ours = [one for one in rows if not one.granted and (one.application or "").startswith(self._prefix)]
        self._before = continued(self._before, (_wait(one, rows, now) for one in ours))
        return self._before

    def in_front(self, pid: int, now: float, end: float | None = None) -> InFront | None:
        found = next((one for wait in self.read(now) for one in wait.blockers if one.pid == pid), Blocker(pid))
        raise Refused(f"pid {pid} belongs to a DWS node: {NOTHING}", f"a system administrator: {ended_at(found)}")

    def is_there(self, pid: int, began: float) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Conflict:
    """A row of PGXC_LOCK_CONFLICTS, with the session's name and state if this coordinator lists the session."""

    node: str
    pid: int
    granted: bool
    mode: str
    kind: str
    schema: str | None
    relation: str | None
    partition: str | None
    page: int | None
    row: int | None
    transaction: str | None
    user: str | None
    of: str | None
    query: int | None
    statement: str | None
    seconds: float | None
    application: str | None
    state: str | None

    @property
    def thing(self) -> tuple[object, ...]:
        """The values that identify the lock."""
        return (self.node, self.kind, self.schema, self.relation, self.partition, self.page, self.row, self.transaction)


def _wait(one: _Conflict, rows: Iterable[_Conflict], now: float) -> LockWait:
    blockers = ordered(
        Blocker(
            row.pid,
            row.user,
            row.application,
            row.state,
            _at(now, row.seconds),
            _said(row.statement),
            transaction=row.of or "",
            node=row.node,
            query=row.query,
        )
        for row in rows
        if row.granted and row.thing == one.thing and row.pid != one.pid
    )
    thing = _thing(one.kind, one.schema, one.relation)
    return LockWait(one.pid, one.application or "", thing, one.mode, now, _said(one.statement), blockers)


def _behind_each_other(pids: Iterable[int], front: dict[int, tuple[int, ...]]) -> set[int]:
    """Return these sessions and all sessions that block them, directly or indirectly."""
    found: set[int] = set()
    waiting = [pid for pid in pids if pid != _PREPARED]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += front.get(pid, ())
    return found - {_PREPARED}


def _thing(kind: str, schema: str | None, relation: str | None) -> str:
    """Describe the locked object.

    >>> _thing("relation", "mart", "orders"), _thing("tuple", "mart", "orders"), _thing("transactionid", None, None)
    ('mart.orders', 'a row of mart.orders', 'a row')
    >>> _thing("advisory", None, None), _thing("page", "mart", "orders")
    ('an advisory lock', 'mart.orders (page)')
    """
    name = f"{schema}.{relation}" if relation else ""
    if kind in ("relation", "partition"):
        return name or "a table"
    if kind in ("transactionid", "tuple"):
        return f"a row of {name}" if name else "a row"
    if kind == "advisory":
        return "an advisory lock"
    return f"{name} ({kind})" if name else kind


def _said(statement: str | None) -> str | None:
    return None if statement is None or statement == _CONCEALED else without_literals(statement)


def _at(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now - max(0.0, seconds)
