"""What a login sees of Hologres outside of a job: findings and waits. Nothing is created.

The findings are about login, version, clock, and the tables that jobs read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime

from slotkeeper.core.domain.finding import Finding, Level, Objection
from slotkeeper.core.domain.inventory import TableListed
from slotkeeper.core.domain.locks import HIDDEN
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.ports.source import SlotsOfTables, SourceWaits
from slotkeeper.core.sources import pg_base
from slotkeeper.core.sources.hologres import catalog, eligibility
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.waits import EVERY, LIMIT_MS, Pair, by_locks, session

EXTENSION_BEFORE = (2, 0)
LACKS = f"{HIDDEN}: this login cannot see other users' queries; a Superuser of the instance can"
NOTHING_KEPT = "the server stores no position; Slotkeeper's progress rows in the sink do"
KEPT = "the server stores a position per slot and shard; it follows Slotkeeper's progress rows, which take precedence"


class HoloDoctor:
    """Implements `slotkeeper.core.ports.kinds.Doctor`."""

    def __init__(self, session: HoloSession, by_slot: bool = False) -> None:
        """Check the server; `by_slot`: the jobs use slots."""
        self._session, self._by_slot = session, by_slot

    def hidden(self, table: str) -> Sequence[Objection]:
        """Return nothing: no documented catalog shows data masking, so it cannot be detected."""
        return ()

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        place = f"source {asked.name}"
        before = utc().timestamp()
        server = self._session.rows("server")[0]
        yield from pg_base.server_findings(place, asked.endpoint, self._session, server, before, utc().timestamp())
        version = str(server[0])
        yield _version_finding(place, version)
        yield Finding(place, Level.OK, KEPT if self._by_slot else NOTHING_KEPT)
        for one in asked.tables:
            yield from _table_findings(f"{place} {one.name}", one, self._session, version, self._by_slot)

    def list_tables(self, schemas: Collection[str], binlog: bool) -> Sequence[TableListed]:
        found = []
        for row in self._session.rows("listed", {"every": not schemas, "schemas": list(schemas)}):
            schema, name, kind, readable, usable, keyed, level = row
            table = f"{schema}.{name}"
            unfit = [one.what for one in eligibility.kind_objections(table, kind, readable, usable)]
            if not keyed:
                unfit.append(f"{table} has no primary key")
            if binlog and str(level or "").lower() != "replica":
                unfit.append(f"{table} records no binlog: its binlog.level is {level or 'not set'}")
            found.append(TableListed(str(schema), str(name), next(iter(unfit), "")))
        return found

    def waits(self, tables: SlotsOfTables) -> SourceWaits:
        return SourceWaits(HoloWaits(self._session, tables).ask)


def _version_finding(place: str, text: str) -> Finding:
    found = eligibility.version_of(text)
    if found is None:
        return Finding(place, Level.UNKNOWN, "hg_version() returned no Hologres version")
    spelled = ".".join(map(str, found))
    if found < EXTENSION_BEFORE:
        what = f"Hologres {spelled} needs CREATE EXTENSION hg_binlog once in each database (built in from 2.0 on)"
        return Finding(place, Level.WARN, what)
    return Finding(place, Level.OK, f"Hologres {spelled}: the binlog is built in")


def _table_findings(
    place: str, table: FollowedTable, session: HoloSession, version: str, by_slot: bool
) -> Iterator[Finding]:
    try:
        gone = list(eligibility.absent(session, table.name))
        state = None if gone else catalog.read_table(session, table.name)
    except Refused as error:
        yield Finding(place, Level.FAIL, f"{error.message}; fix: {error.hint}")
        return
    if state is None:
        yield from (Finding(place, Level.FAIL, one.text) for one in gone)
        return
    if not table.followers:
        yield Finding(place, Level.OK, "readable, primary key; the job needs no binlog")
        return
    found = list(eligibility.table_objections(table.name, state))
    streaming = [job for job in table.followers if job.binlog.by_stream]
    for job in streaming[:1]:
        found += eligibility.stream_objections(table.name, state, version, job.binlog, by_slot)
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    yield from (Finding(place, Level.WARN, one.text) for one in eligibility.warnings(table.name, state))
    if not found:
        yield _answers(place, table.name, session, state)
        text = "read by SQL"
        if streaming:
            how = "by its slot" if by_slot else "without a slot"
            text = f"read by stream, {how}: uses at least one walsender of the server per shard"
            others = len(table.followers) - len(streaming)
            text = f"{text}; by SQL for {others} of {len(table.followers)} jobs" if others else text
        yield Finding(place, Level.OK, text)
        yield from _slots(place, table.name, session, {job.slot for job in table.followers} if by_slot else set())


def _slots(place: str, table: str, session: HoloSession, ours: Set[str]) -> Iterator[Finding]:
    """Yield findings on the table's slots, both of these jobs and of other owners; no slot retains records."""
    try:
        rows = session.rows("slots", catalog.parts(table))
    except SlotkeeperError as error:
        if not catalog.gone(error):
            yield Finding(place, Level.UNKNOWN, f"cannot list the slots of other owners on the table: {error.message}")
        return
    names = {str(slot) for slot, _ in rows}
    for slot in sorted(ours):
        how = (
            "exists" if slot in names else "does not exist yet: the job's start or `slotkeeper slots create` creates it"
        )
        yield Finding(place, Level.OK, f"slot {safe(slot, 63)} {how}")
    rows = [row for row in rows if str(row[0]) not in ours]
    if rows:
        named = ", ".join(
            f"{safe(str(slot), 63)} (publication {safe(str(publication), 63)})" for slot, publication in rows
        )
        yield Finding(place, Level.OK, f"other owners have slots on the table: {named}; no job here uses or moves them")


def _answers(place: str, table: str, session: HoloSession, state: catalog.TableState) -> Finding:
    try:
        record = catalog.newest(session, table, state.shards[0])
    except SlotkeeperError as error:
        return Finding(place, Level.FAIL, f"cannot read the binlog: {error}")
    newest = f"LSN {record.lsn}" if record else "none"
    text = f"readable, primary key, {len(state.shards)} shards, newest record of {state.shards[0].name}: {newest}"
    return Finding(place, Level.OK, text)


class HoloWaits:
    """Sessions that wait for a table lock held by a job's session, if this login can see them.

    Hologres, "Locks: types, behavior, and troubleshooting": its front end has PostgreSQL's table locks (pg_locks). From
    version 2.0 on, a statement that conflicts with a DDL statement fails at once unless
    hg_experimental_disable_pg_locks is off, so few sessions wait. Hologres, "Manage queries": a Superuser sees the
    queries of all users, any other user only its own.
    """

    def __init__(self, session: HoloSession, tables: SlotsOfTables) -> None:
        self._session, self._tables = session, tables
        self._known_at, self._lacks = 0.0, LACKS

    def ask(self, now: float, before: Sequence[SourceWait]) -> tuple[list[SourceWait], str]:
        if not 0.0 <= now - self._known_at < EVERY:
            self._lacks, self._known_at = "" if self._sees_all() else LACKS, now
        pairs = []
        for table, wanted, granted, lasts, *sessions in self._rows("lock_pairs"):
            waiter, holder = (
                replace(session(now, [*its[:-1], None]), began=its[-1]) for its in (sessions[:7], sessions[7:])
            )
            pairs.append(Pair(str(table), waiter, str(wanted), float(lasts), holder, str(granted)))
        return list(by_locks(pairs, now, lambda mode: None)), self._lacks

    def _sees_all(self) -> bool:
        try:
            rows = self._rows("superuser")
        except Unreachable:
            raise
        except SlotkeeperError:
            return False
        return bool(rows and rows[0][0])

    def _rows(self, name: str) -> Rows:
        return self._session.rows(name, {"tables": list(self._tables)}, LIMIT_MS)
