"""What a login sees of DWS outside of a job: findings, hidden rows, and statements that wait for slots or for jobs.

The findings are about login, version, clock, functions, settings, visible sessions, and the jobs' tables. The checks
create no slot, table or row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import Finding, Level, Objection
from slotkeeper.core.domain.inventory import TableListed
from slotkeeper.core.domain.locks import HIDDEN, Blocker, Sight
from slotkeeper.core.domain.source_waits import SCALE_OUT, VACUUM_FULL, SlotBehind, SourceWait, about, kind_of
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.ttl import ttl_of
from slotkeeper.core.drivers.session import Book, Rows, path_findings
from slotkeeper.core.errors import ErrorKind, SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.ports.source import SlotsOfTables, SourceWaits
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.dws import eligibility, sight
from slotkeeper.core.sources.dws.eligibility import ServerFacts, column_objections
from slotkeeper.core.sources.dws.inspector import DwsInspector
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import Selection
from slotkeeper.core.sources.dws.viewer import USEFUL, DwsViewer, TableSeen, points_of, unread_of
from slotkeeper.core.sources.dws.words import TIMEOUT
from slotkeeper.core.sources.waits import EVERY, LIMIT_MS, Limit, Pair, behind, by_locks, session
from slotkeeper.core.sqltext import quoted

_SQL: Book = ("slotkeeper.core.sources.dws", "waits.sql")
_VIEWER: Book = ("slotkeeper.core.sources.dws", "viewer.sql")
COUNTED_EVERY = 5.0
"""Seconds between two counts of unread records, which read the binlog."""
READ_SECONDS = 2.0
"""Time limit in seconds for the queries of one reading, which starts with the least recently queried table: a scale-out
can wait for each of a thousand tables."""
_SCALES = {TIMEOUT: 1.0, "ddl_lock_timeout": 1e-3, "lockwait_timeout": 1e-3}
"""The unit of each timeout setting, in seconds."""


@dataclass(frozen=True, slots=True)
class DwsDoctor:
    """Implements `slotkeeper.core.ports.kinds.Doctor`."""

    session: DwsSession
    login: Login

    def hidden(self, table: str) -> Sequence[Objection]:
        facts = DwsViewer(self.session).table_facts(table)
        return list(eligibility.hidden_objections(table, facts)) if facts else []

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        viewer, place, proven = DwsViewer(self.session), f"source {asked.name}", asked.points_proven
        before = utc().timestamp()
        server = viewer.server()
        after = utc().timestamp()
        answer = server.version, server.user, server.clock, server.superuser
        yield from pg_base.server_findings(place, asked.endpoint, viewer.session, answer, before, after)
        yield from path_findings(place, server.user, viewer.open_schemas(server.user))
        facts = viewer.server_facts()
        yield from _function_findings(place, facts, list(eligibility.server_objections(facts, asked.name, proven)))
        yield from _setting_findings(place, facts.settings, proven)
        yield _sight_finding(place, viewer, server.user)
        for one in asked.tables:
            seen = viewer.table(one.name)
            yield from _column_findings(f"{place} {one.name}", one, seen)
            yield from _table_findings(f"{place} {one.name}", one.name, seen, bool(one.followers), facts.settings)
            if one.followers and seen is not None and seen.facts.readable and not seen.complaint:
                yield _range_finding(f"{place} {one.name}", one, viewer)
        yield from _partition_findings(asked, viewer)

    def list_tables(self, schemas: Collection[str], binlog: bool) -> Sequence[TableListed]:
        found = []
        for schema, name, facts in DwsViewer(self.session).listed(schemas):
            objections = eligibility.table_objections(f"{schema}.{name}", facts, binlog)
            found.append(TableListed(schema, name, next((one.what for one in objections), "")))
        return found

    def waits(self, tables: SlotsOfTables) -> SourceWaits:
        return SourceWaits(DwsWaits(self.session, self.login.endpoint.user, tables).ask)


def _partition_findings(asked: SourceAsked, viewer: DwsViewer) -> Iterator[Finding]:
    answers = [asked.recorded(f"partition_{verb}") for verb in ("truncate", "drop")]
    for one in asked.tables:
        facts = viewer.table_facts(one.name)
        if facts and facts.partitioned and one.followers:
            warned = eligibility.partition_warning(one.name, asked.name, answers)
            if warned:
                yield Finding(f"source {asked.name} {one.name}", Level.WARN, warned.text)


def _column_findings(place: str, table: FollowedTable, seen: TableSeen | None) -> Iterator[Finding]:
    found = {
        one.text: Finding(place, Level.FAIL, one.text)
        for job in table.followers
        for one in column_objections(
            table.name, seen.facts if seen else None, job.binlog.new_system_value, Selection.of(job.channel).names
        )
    }
    yield from found.values()


def _function_findings(place: str, facts: ServerFacts, objections: list[Objection]) -> Iterator[Finding]:
    there = facts.functions
    found = [Finding(place, Level.FAIL, one.text) for one in objections]
    yield from found
    refused = [name for name in USEFUL if there.get(name) is False]
    less = [name for name in USEFUL if name not in there]
    if refused:
        yield Finding(place, Level.FAIL, f"cannot execute {', '.join(refused)}")
    if less:
        text = f"missing {', '.join(less)} (kernel 9.1.0.223 or newer): cannot list, measure or drop slots"
        yield Finding(place, Level.WARN, text)
    if not (found or refused or less):
        yield Finding(place, Level.OK, "this login can call all binlog functions")


def _setting_findings(place: str, settings: Mapping[str, str], proven: bool) -> Iterator[Finding]:
    mode, free = settings.get("gtm_option"), settings.get("enable_gtm_free", "off")
    if mode is None and free != "on":
        yield Finding(place, Level.UNKNOWN, "cannot read gtm_option: the job assumes one sync point per transaction")
    elif mode and mode.lower() in eligibility.LITE and proven:
        text = f"gtm_option is {mode}, and a probe has recorded one sync point per transaction, in order"
        yield Finding(place, Level.OK, text)
    elif mode and mode.lower() not in (*eligibility.FREE, *eligibility.LITE) and free != "on":
        yield Finding(place, Level.OK, f"gtm_option is {mode}")
    for one in eligibility.creation_objections(settings):
        yield Finding(place, Level.WARN, one.text)
    if settings.get("enable_generate_binlog") == "off":
        text = "enable_generate_binlog is off for this user; fix: ALTER ROLE ... SET enable_generate_binlog TO on"
        yield Finding(place, Level.FAIL, text)
    empties = eligibility.empties(settings)
    if empties:
        yield Finding(place, Level.OK, empties)


def _sight_finding(place: str, viewer: DwsViewer, user: str) -> Finding:
    seen = sight.read(viewer.session)
    if seen.whole:
        return Finding(place, Level.OK, "this login sees every session of every coordinator")
    waits = "a start also waits for the xmin of every DN"
    if not seen.all_coordinators:
        waits += ", and 15 s for sessions of an earlier run"
    return Finding(place, Level.WARN, f"{seen.lacks}: {waits}; fix: {sight.CURE.format(user=quoted(user))}")


def _table_findings(
    place: str, table: str, seen: TableSeen | None, binlog: bool, settings: Mapping[str, str]
) -> Iterator[Finding]:
    found = list(eligibility.table_objections(table, seen.facts if seen else None, binlog, settings))
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if seen is None:
        return
    if seen.complaint and binlog:
        yield Finding(place, Level.FAIL, f"the binlog functions reject the table: {seen.complaint}")
    if binlog and ttl_of(seen.facts.options).by_record:
        text = "DWS deletes records older than binlog_ttl, read or not: a job further behind loses changes"
        yield Finding(place, Level.WARN, text)
    if not (found or (seen.complaint and binlog)):
        facts = seen.facts
        spread = "distribution unknown" if facts.distribution is None else "distributed by hash"
        options = f", options {facts.options}" if facts.options else ""
        answers = "binlog readable" if binlog else "the job needs no binlog"
        yield Finding(place, Level.OK, f"readable, primary key, {answers}; {spread}{options}")


def _range_finding(place: str, table: FollowedTable, viewer: DwsViewer) -> Finding:
    """Return whether this login can read an empty range of a table's binlog as a job would; the read names no slot."""
    try:
        name = DwsInspector(viewer.session, table.name, "", table.followers[0].binlog).read_nothing()
    except SlotkeeperError as error:
        text = f"cannot read an empty range of the binlog: {error}" + (f" ({error.hint})" if error.hint else "")
        fails = error.kind in (ErrorKind.ACCESS, ErrorKind.LOGIN, ErrorKind.OPERATOR)
        return Finding(place, Level.FAIL if fails else Level.WARN, text)
    return Finding(place, Level.OK, f"can read an empty range of the binlog on {name}")


class DwsWaits:
    """Statements that wait for slots or for jobs' sessions, as far as the login can see them.

    DWS, "Precautions for Binlog Tables": VACUUM FULL and scaling wait until all records of a table are consumed. The
    server reports whether all are consumed (`pgxc_consumed_binlog_records`); unread records of slots are counted at
    most every few seconds, and only during a wait. One quiet session sends short statements, each with a timeout.
    """

    def __init__(self, session: DwsSession, user: str, tables: SlotsOfTables) -> None:
        self._session, self._user, self._tables = session, user, tables
        self._sight, self._known_at = Sight(None, False, False), 0.0
        self._limits: dict[str, Limit] = {}
        self._counted: dict[str, tuple[float, tuple[SlotBehind, ...]]] = {}
        self._consumed_at: dict[str, float] = {}

    def ask(self, now: float, before: Sequence[SourceWait]) -> tuple[list[SourceWait], str]:
        if not 0.0 <= now - self._known_at < EVERY:
            self._sight, self._limits, self._known_at = sight.read(self._session), self._limits_of(), now
        rows = self._rows("across" if self._sight.across else "here")
        pairs, untold = self._pairs(now)
        lacks = "; ".join(filter(None, (self._sight.lacks, untold)))
        grant = sight.CURE.format(user=quoted(self._user))
        found = [*self._consumers(rows, None if untold else pairs, now, before), *by_locks(pairs, now, self._limit)]
        return found, f"{HIDDEN}: {lacks}; `{grant}` makes them visible" if lacks else ""

    def _rows(self, name: str) -> Rows:
        return self._session.rows(name, {"tables": list(self._tables)}, LIMIT_MS, _SQL)

    def _pairs(self, now: float) -> tuple[list[Pair], str]:
        """Return the pairs of waiting and blocking sessions, and the reason if they are unknown."""
        try:
            rows = self._rows("pairs")
        except Unreachable:
            raise
        except SlotkeeperError:
            return [], "cannot read pgxc_lock_conflicts"
        found = []
        for table, node, wanted, granted, lasts, *sessions in rows:
            waiter, holder = session(now, sessions[:7], node), session(now, sessions[7:], node)
            found.append(Pair(str(table), waiter, str(wanted), float(lasts), holder, str(granted)))
        return found, ""

    def _consumers(
        self, rows: Rows, pairs: Sequence[Pair] | None, now: float, before: Sequence[SourceWait]
    ) -> Iterator[SourceWait]:
        """Return the statements that wait until a table's records are read, if the table has unread records."""
        seen = [(session(now, row[:7], row[8]), float(row[7] or 0.0), str(row[5] or "")) for row in rows]
        limit, end = self._limits.get(TIMEOUT), self._session.seconds() + READ_SECONDS
        for table, slots in sorted(self._tables.items(), key=lambda one: self._consumed_at.get(one[0], 0.0)):
            waiting = [(one, lasts) for one, lasts, whole in seen if _may_wait(one, whole, table)]
            if waiting and self._session.seconds() >= end:  # a later reading queries the remaining tables
                yield from (one for one in before if one.table == table and not one.sessions)
                continue
            if not waiting or self._consumed(table) is not False:
                self._counted.pop(table, None)
                continue
            left = self._left(table, slots, now)
            for one, lasts in waiting:
                after = None
                if pairs is not None:
                    after = behind([pair for pair in pairs if pair.holder.is_session_of(one)])
                since = now - lasts
                yield SourceWait(
                    one, kind_of(one.statement, one.application), table, since, left, behind=after,
                    limit=limit.said if limit else "", fails_at=since + limit.seconds if limit else None,
                )  # fmt: skip

    def _consumed(self, table: str) -> bool | None:
        self._consumed_at[table] = self._session.seconds()
        try:
            rows = self._session.rows("consumed", {"table": table}, LIMIT_MS, _VIEWER)
        except Unreachable:
            raise
        except SlotkeeperError:
            return None
        return bool(rows[0][0])

    def _left(self, table: str, jobs: Mapping[str, str], now: float) -> tuple[SlotBehind, ...]:
        """Return the slots with unread records or, without counts, the slots with the lowest point on a DN."""
        at, known = self._counted.get(table, (0.0, ()))
        if 0.0 <= now - at < COUNTED_EVERY:
            return known
        shards: dict[str, set[str]] = {}
        try:
            for row in unread_of(self._session.rows("consume_progress", {"table": table}, LIMIT_MS)):
                if row.rows is None or row.rows > 0:
                    shards.setdefault(row.slot, set()).add(row.shard)
        except SlotkeeperError:
            shards = self._lowest(table)
        found = tuple(SlotBehind(slot, jobs.get(slot, ""), tuple(sorted(of))) for slot, of in sorted(shards.items()))
        self._counted[table] = (now, found)
        return found

    def _lowest(self, table: str) -> dict[str, set[str]]:
        shards: dict[str, set[str]] = {}
        try:
            points = [one for one in points_of(self._session.rows("slots", {"table": table}, LIMIT_MS)) if one.point]
        except SlotkeeperError:
            return {}
        for shard in {one.shard for one in points}:
            here = [(one.point, one.slot) for one in points if one.shard == shard and one.point is not None]
            lowest = min(point for point, _ in here)
            for point, slot in here:
                if point == lowest:
                    shards.setdefault(slot, set()).add(shard)
        return shards

    def _limits_of(self) -> dict[str, Limit]:
        found = {}
        for name, setting in self._rows("limits"):
            number = whole(setting)
            if number:
                seconds = number * _SCALES[str(name)]
                found[str(name)] = Limit(f"{name} {seconds:g} s", seconds)
        return found

    def _limit(self, mode: str) -> Limit | None:
        ddl = self._limits.get("ddl_lock_timeout") if mode == "AccessExclusiveLock" else None
        return ddl or self._limits.get("lockwait_timeout")


def _may_wait(one: Blocker, statement: str, table: str) -> bool:
    """Return whether a session runs a statement that waits for readers of this table.

    Scaling waits for every table with a binlog. `statement` is the complete statement, because the text shown for a
    session can be truncated within a long name.
    """
    kind = kind_of(statement, one.application)
    return kind == SCALE_OUT or (kind == VACUUM_FULL and about(statement, table))
