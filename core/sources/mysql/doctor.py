"""What a login sees of MySQL or MariaDB outside of a job: findings, and sessions that wait for jobs' sessions.

No call moves or creates anything; only `MysqlWaits.in_front` can end a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from slotkeeper.core.domain.ending import InFront
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Finding, Level, Objection, clock_finding
from slotkeeper.core.domain.inventory import TableListed
from slotkeeper.core.domain.locks import HIDDEN, Blocker
from slotkeeper.core.domain.source_waits import SourceWait, bare, is_ours, kind_of, names
from slotkeeper.core.domain.spec import ALLOW, BinlogOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import hours
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.ports.source import SlotsOfTables, SourceWaits
from slotkeeper.core.sources.mysql import kernel, retention, side_effects
from slotkeeper.core.sources.mysql.retention import MysqlTable
from slotkeeper.core.sources.mysql.session import MysqlSession, newest, objections
from slotkeeper.core.sources.mysql.tables import IndexPart, key_objections, key_of
from slotkeeper.core.sources.waits import EVERY, said

_DAY = 86_400
SECONDS = 2.0
"""Time limit in seconds of each statement."""
_WAITING = (  # a statement can have a size of megabytes; the table's name comes first
    "SELECT id, user, db, state, time, LEFT(info, 4096) FROM information_schema.processlist"
    " WHERE state LIKE 'Waiting for table%%' AND id <> CONNECTION_ID() ORDER BY time DESC, id"
)
_PROCESS = "SELECT COUNT(*) FROM information_schema.innodb_cmp"
"""Query that needs the PROCESS privilege (MySQL and MariaDB, "INNODB_CMP")."""
_LIMIT = "SELECT @@GLOBAL.lock_wait_timeout"
_BY_SCHEMA = (
    "SELECT DISTINCT CONCAT(g.object_schema, '.', g.object_name), h.processlist_id, h.processlist_user, a.attr_value,"
    " h.processlist_command, h.processlist_time, LEFT(h.processlist_info, 4096)"
    " FROM performance_schema.metadata_locks g"
    " JOIN performance_schema.threads h ON h.thread_id = g.owner_thread_id"
    " LEFT JOIN performance_schema.session_account_connect_attrs a"
    " ON a.processlist_id = h.processlist_id AND a.attr_name = 'program_name'"
    " WHERE g.object_type = 'TABLE' AND g.lock_status = 'GRANTED' AND h.processlist_id <> CONNECTION_ID()"
)
_BY_PLUGIN = (
    "SELECT DISTINCT CONCAT(g.table_schema, '.', g.table_name), p.id, p.user, NULL, p.command, p.time,"
    " LEFT(p.info, 4096) FROM information_schema.metadata_lock_info g"
    " JOIN information_schema.processlist p ON p.id = g.thread_id"
    " WHERE g.lock_type = 'Table metadata lock' AND p.id <> CONNECTION_ID()"
)
_BY_TRANSACTION = (
    "SELECT '', p.id, p.user, NULL, p.command, TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), LEFT(p.info, 4096)"
    " FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
    " WHERE p.id <> CONNECTION_ID()"
)
_THERE = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s"
_OURS = (
    "SELECT id, user, db, LEFT(info, 4096), {time} FROM information_schema.processlist"
    " WHERE state LIKE 'Waiting for table%%' AND id <> CONNECTION_ID() ORDER BY id"
)
_MILLISECONDS, _SECONDS = "time_ms", "time * 1000"
"""Expressions for the waiting time in milliseconds; MySQL reports only whole seconds."""
_STARTED = "SELECT UNIX_TIMESTAMP() - variable_value FROM {schema}.global_status WHERE variable_name = 'Uptime'"
_SCHEMAS = ("performance_schema", "information_schema")
"""Schemas that contain the status variables: of MySQL, and of MariaDB."""
_MAY_KILL = (
    "SELECT COUNT(*) FROM information_schema.user_privileges WHERE grantee = %s"
    " AND privilege_type IN ('CONNECTION_ADMIN', 'CONNECTION ADMIN', 'SUPER')"
)
_NOT_OURS = ("1095", "1227")
"""Errors that deny a KILL: another session may have the privilege, or the thread belongs to a SYSTEM_USER."""
SAME_START = 2.0
"""Maximum difference in seconds between two readings of a server's start time, which it reports in whole seconds."""
_SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
"""The schemas of the server itself (MySQL, "The mysql System Schema", "MySQL sys Schema")."""
_LISTED = "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables WHERE {}"
_INDEXES = (
    "SELECT table_schema, table_name, index_name, column_name, sub_part, nullable, index_type"
    " FROM information_schema.statistics WHERE non_unique = 0 AND {} ORDER BY 1, 2, 3, seq_in_index"
)
_ROWS_ONLY = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CALL|SET|LOAD)\b", re.IGNORECASE)
_ENDS = "KILL {}"
_TELLS = "`INSTALL SONAME 'metadata_lock_info'` on MariaDB, or performance_schema on MySQL, shows the holder"


class MysqlDoctor:
    """Implements `slotkeeper.core.ports.kinds.Doctor`."""

    def __init__(self, session: MysqlSession, login: Login) -> None:
        self._session, self._user = session, login.endpoint.user

    def hidden(self, table: str) -> Sequence[Objection]:
        """Return nothing, because MySQL does not hide rows of a readable table."""
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        session, place = self._session, f"source {asked.name}"
        before = utc().timestamp()
        clock = float(session.rows("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0])
        after = utc().timestamp()
        facts = session.facts
        yield Finding(
            place, Level.OK, f"connected to {asked.endpoint.place}: {facts.variables.get('version', 'unknown')}"
        )
        yield clock_finding(place, clock, before, after)
        found = [Finding(place, Level.FAIL, f"{what}; fix: {cure}") for what, cure in objections(facts)]
        yield from found
        if not found:
            yield Finding(place, Level.OK, "the binlog is on, with full, uncompressed rows")
        yield Finding(place, Level.OK, kernel.state())
        if not facts.names_columns:
            text = (
                "binlog_row_metadata is not FULL: column names and signedness come from information_schema"
                " if it matches"
            )
            yield Finding(place, Level.WARN, f"{text}; fix: SET GLOBAL binlog_row_metadata = 'FULL'")
        yield _expiry(place, *retention.age_of(retention.variables_of(session)))
        try:
            session.asking(newest)
        except SlotkeeperError as error:
            yield Finding(place, Level.FAIL, f"{error.message}" + (f"; fix: {error.hint}" if error.hint else ""))
        else:
            yield Finding(place, Level.OK, "this login can read the end position of the binlog")
        for one in asked.tables:
            yield from _table(f"{place} {one.name}", session, one)

    def list_tables(self, schemas: Collection[str], binlog: bool) -> Sequence[TableListed]:
        """Return the tables and views that this login can see, by two statements.

        MySQL, "The INFORMATION_SCHEMA TABLES Table": a login sees the tables on which it has a privilege.
        """
        given = tuple(schemas) or _SYSTEM
        where = f"table_schema {'' if schemas else 'NOT '}IN ({', '.join(['%s'] * len(given))})"
        found = self._session.rows(_LISTED.format(where), given)
        parts: dict[tuple[str, str], list[IndexPart]] = {}
        for schema, name, index, column, prefix, nullable, kind in self._session.rows(_INDEXES.format(where), given):
            texts = str(index), True, None if column is None else str(column)
            part = IndexPart(*texts, None if prefix is None else int(prefix), nullable == "YES", str(kind).upper())
            parts.setdefault((str(schema), str(name)), []).append(part)
        listed = []
        for schema, name, kind, engine in ((str(row[0]), str(row[1]), str(row[2]), str(row[3] or "")) for row in found):
            unfit = _unfit(f"{schema}.{name}", kind, engine, parts.get((schema, name), []), binlog)
            listed += [TableListed(schema, name, unfit)] if schema.lower() not in _SYSTEM else []
        return listed

    def waits(self, tables: SlotsOfTables) -> SourceWaits:
        made = MysqlWaits(self._session, self._user, tables)
        return SourceWaits(made.ask, ender=made)


def _unfit(table: str, kind: str, engine: str, parts: Sequence[IndexPart], binlog: bool) -> str:
    if "TABLE" not in kind.upper() and "VERSIONED" not in kind.upper():
        return f"{table} is a {kind.lower()}"
    objections = [*(side_effects.kind_objections(table, kind, engine) if binlog else ())]
    objections += key_objections(table, key_of(parts)[1])
    return objections[0].what if objections else ""


def _expiry(place: str, seconds: int | None, setting: str) -> Finding:
    """Return the finding on how long a stopped job can still be resumed."""
    if seconds is None:
        return Finding(place, Level.UNKNOWN, "cannot determine after how many hours the server purges binlogs")
    if not seconds:
        return Finding(place, Level.OK, f"only PURGE BINARY LOGS purges binlogs ({setting})")
    level = Level.WARN if seconds < _DAY else Level.OK
    return Finding(place, level, f"the server purges binlogs after {hours(seconds)}, read or not ({setting})")


def _table(place: str, session: MysqlSession, table: FollowedTable) -> Iterator[Finding]:
    source = MysqlTable(session, table.name, "doctor", BinlogOptions(binlog=bool(table.followers)))
    known = all(job.channel.cascades == ALLOW for job in table.followers)
    try:
        source.identify()
        found = list(side_effects.objections(session, source.seen, known)) if table.followers else []
    except SlotkeeperError as error:
        yield Finding(place, Level.FAIL, f"{error.message}" + (f"; fix: {error.hint}" if error.hint else ""))
        return
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if table.followers and not side_effects.is_transactional(source.seen.engine):
        text = f"engine {source.seen.engine} is not transactional: after a server crash, take a new snapshot"
        yield Finding(place, Level.WARN, text)
    if not found:
        yield Finding(place, Level.OK, "readable, with a key; all tables share one binlog")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A session that waits for a table; `statement` is its statement without comments, "" if hidden."""

    session: Blocker
    schema: str
    statement: str
    seconds: float
    folded: str
    """The case-folded statement, for a cheap check that rules out most tables."""

    def waits_at(self, table: str) -> bool:
        """Whether the statement names this table; a name without a schema belongs to the session's schema."""
        schema, _, name = table.rpartition(".")
        if name.casefold() not in self.folded:
            return False
        here = self.schema.casefold() == schema.casefold()
        return names(self.statement, table) or (here and names(self.statement, name))


class MysqlWaits:
    """Sessions that wait for a metadata lock of a job's session, if the login can see them; ends the one in front.

    MySQL, "Metadata Locking": a transaction holds the metadata locks of the tables that it has used until it ends. A
    DDL statement waits for these locks, for at most lock_wait_timeout, and every later statement on the table waits for
    the DDL statement. MySQL, "The INFORMATION_SCHEMA PROCESSLIST Table": without PROCESS, a login sees only its own
    sessions. The holder of a lock is read from performance_schema.metadata_locks, or from MariaDB's plugin
    METADATA_LOCK_INFO. If neither is available, the holder is assumed to be a transaction of the job's login that is
    older than the wait, unless another login has a transaction that is as old. While no session waits, the reader
    queries only the list of sessions.
    """

    def __init__(self, session: MysqlSession, user: str, tables: SlotsOfTables) -> None:
        self._session, self._user, self._tables = session, user, tables
        self._known_at = 0.0
        self._limit: float | None = None
        self._lacks = ""

    def ask(self, now: float, before: Sequence[SourceWait]) -> tuple[list[SourceWait], str]:
        if not 0.0 <= now - self._known_at < EVERY:
            grant = f"`GRANT PROCESS ON *.* TO {self._session.user}`"
            lacks = f"{HIDDEN}: this login cannot see other logins' sessions; {grant} makes them visible"
            self._lacks = "" if self._answer(_PROCESS) else lacks
            rows = self._answer(_LIMIT)
            self._limit, self._known_at = float(rows[0][0]) if rows else None, now
        waiting = []
        for pid, user, schema, state, seconds, info in self._session.rows(_WAITING, (), SECONDS):
            session, statement = _session(now, pid, user, None, state, None, info), bare(info)
            waiting.append(_Waiting(session, str(schema or ""), statement, float(seconds), statement.casefold()))
        return self._found(waiting, now) if waiting else ([], self._lacks)

    def in_front(self, pid: int, now: float, end: float | None = None) -> InFront | None:
        """Return session `pid` if it waits with a DDL statement and a session of the job's login waits after it.

        MySQL and MariaDB, "KILL": with CONNECTION_ADMIN (MariaDB: CONNECTION ADMIN), or SUPER, a login can end any
        session, otherwise only its own. KILL has no condition, so the session is checked right before. A server reuses
        the number of a session only after a restart, so the server's start time is compared instead of the session's
        start time.
        """
        unit = _MILLISECONDS if self._session.facts.is_mariadb else _SECONDS
        rows = self._session.rows(_OURS.format(time=unit), (), SECONDS)
        front = next((row for row in rows if int(row[0]) == pid), None)
        if front is None or _ROWS_ONLY.match(bare(front[3])):
            return None
        first = self._waiting_at(front, now)
        after = [self._waiting_at(row, now) for row in rows if row[1] == self._user and float(row[4]) < float(front[4])]
        if not any(first.waits_at(table) and one.waits_at(table) for table in self._tables for one in after):
            return None
        started, own = self._started(), front[1] == self._user
        grantee = "'{}'@'{}'".format(*self._session.account)
        may = not own and bool(int(self._session.rows(_MAY_KILL, (grantee,), SECONDS)[0][0]))
        right = "the same login" if own else "CONNECTION ADMIN" if may else ""
        one = replace(first.session, began=started)
        found = InFront(one, self._session.user, True, right, False, False, _ENDS.format(pid), SAME_START)
        if end is None or not right or started is None or abs(started - end) > SAME_START:
            return found
        try:
            self._session.rows(_ENDS.format(int(pid)), (), SECONDS)
        except SlotkeeperError as error:
            if error.code in _NOT_OURS:
                return replace(found, right="")
            raise
        return replace(found, sent=True)

    def is_there(self, pid: int, began: float) -> bool:
        return bool(int(self._session.rows(_THERE, (pid,), SECONDS)[0][0]))

    def _waiting_at(self, row: Sequence[Any], now: float) -> _Waiting:
        pid, user, schema, info, milliseconds = row
        seconds, statement = float(milliseconds) / 1000, bare(info)
        session = _session(now, pid, user, None, None, seconds, info)
        return _Waiting(session, str(schema or ""), statement, seconds, statement.casefold())

    def _started(self) -> float | None:
        found = (self._answer(_STARTED.format(schema=schema)) for schema in _SCHEMAS)
        return next((float(rows[0][0]) for rows in found if rows), None)

    def _answer(self, statement: str) -> list[Any] | None:
        """Return the rows; None if the queried table does not exist, or this login cannot read it."""
        try:
            return self._session.rows(statement, (), SECONDS)
        except Unreachable:
            raise
        except SlotkeeperError:
            return None

    def _found(self, waiting: Sequence[_Waiting], now: float) -> tuple[list[SourceWait], str]:
        found, hidden, owners = list[SourceWait](), self._lacks, self._owners(now)
        own = [(at, one) for at, one in owners if is_ours(one.application) or self._is_own(one)]
        theirs = [one for at, one in owners if not at and not self._is_own(one)]
        blocked = {one.session.pid for one in waiting}
        for table, slots in self._tables.items():
            here = [one for one in waiting if one.waits_at(table)]
            first = next((one for one in here if not _ROWS_ONLY.match(one.statement)), None)
            if first is None:
                continue
            job = next(iter(slots.values())) if len(set(slots.values())) == 1 else ""
            since = now - first.seconds
            ours = [
                one for at, one in own if (not at and (one.since or now) <= since) or at.casefold() == table.casefold()
            ]
            others = [one for one in theirs if (one.since or now) <= since and one.pid not in blocked]
            if ours and others:
                hidden = (
                    f"{HIDDEN}: {first.session.name} waits for {safe(table)}, locked by pid {ours[0].pid} of a job or"
                    f" by pid {others[0].pid} of another login; the server does not report which; {_TELLS}"
                )
            elif ours:
                waiter = replace(first.session, began=self._started())
                found.append(SourceWait(
                    waiter, kind_of(first.statement, None), table, since, sessions=tuple(ours),
                    behind=len(here) - 1, limit=f"lock_wait_timeout {self._limit:g} s" if self._limit else "",
                    fails_at=since + self._limit if self._limit else None, ends=_ENDS, job=job,
                ))  # fmt: skip
        return found, hidden

    def _owners(self, now: float) -> list[tuple[str, Blocker]]:
        """Return (table, session) for each holder of a table's metadata lock; the table is "" if unknown."""
        for statement in (_BY_SCHEMA, _BY_PLUGIN, _BY_TRANSACTION):
            rows = self._answer(statement)
            if rows or (rows is not None and statement is not _BY_SCHEMA):  # if empty, the instruments are off
                return [(str(table), _session(now, *columns)) for table, *columns in rows]
        return []

    def _is_own(self, one: Blocker) -> bool:
        """Whether a session belongs to this login and the server does not report its application name (MariaDB)."""
        return one.application is None and one.user == self._user


def _session(
    now: float, pid: object, user: object, application: object, state: object, seconds: object, info: object
) -> Blocker:
    since = None if seconds is None else now - float(str(seconds))
    texts = [None if one is None else str(one) for one in (user, application, state)]
    return Blocker(int(str(pid)), texts[0], texts[1], texts[2], since, said(info, of_mysql=True))
