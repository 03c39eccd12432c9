"""Findings of `doctor` about Hologres: login, version, clock, and the tables that jobs read. Nothing is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from datetime import datetime

from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.sources.hologres import catalog, eligibility
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.pg_base import server_findings

EXTENSION_BEFORE = (2, 0)


NOTHING_KEPT = "the server stores no position; Slotkeeper's progress rows in the sink do"
KEPT = "the server stores a position per slot and shard; it follows Slotkeeper's progress rows, which take precedence"


def findings(
    session: HoloSession, asked: SourceAsked, utc: Callable[[], datetime], by_slot: bool = False
) -> Iterator[Finding]:
    """Yield the findings; findings about the server come first. `by_slot` means that the jobs use slots."""
    place = f"source {asked.name}"
    before = utc().timestamp()
    server = session.rows("server")[0]
    yield from server_findings(place, asked.endpoint, session, server, before, utc().timestamp())
    version = str(server[0])
    yield _version_finding(place, version)
    yield Finding(place, Level.OK, KEPT if by_slot else NOTHING_KEPT)
    for one in asked.tables:
        yield from _table_findings(f"{place} {one.name}", one, session, version, by_slot)


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
