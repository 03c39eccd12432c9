"""Findings of `doctor` about DWS: login, version, clock, functions, settings, visible sessions, and the jobs' tables.

The checks create no slot, table or row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from slotkeeper.core.domain.finding import Finding, Level, Objection
from slotkeeper.core.domain.ttl import ttl_of
from slotkeeper.core.drivers.session import path_findings
from slotkeeper.core.errors import ErrorKind, SlotkeeperError
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.sources.dws import eligibility, sight
from slotkeeper.core.sources.dws.eligibility import ServerFacts, column_objections
from slotkeeper.core.sources.dws.inspector import read_nothing
from slotkeeper.core.sources.dws.source import Selection
from slotkeeper.core.sources.dws.viewer import USEFUL, DwsViewer, TableSeen
from slotkeeper.core.sources.pg_base import server_findings
from slotkeeper.core.sqltext import quoted


def findings(viewer: DwsViewer, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """Yield the findings; findings about the server come first."""
    place, proven = f"source {asked.name}", asked.points_proven
    before = utc().timestamp()
    server = viewer.server()
    after = utc().timestamp()
    answer = server.version, server.user, server.clock, server.superuser
    yield from server_findings(place, asked.endpoint, viewer.session, answer, before, after)
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


def _partition_findings(asked: SourceAsked, viewer: DwsViewer) -> Iterator[Finding]:
    answers = [asked.recorded(f"partition_{verb}") for verb in ("truncate", "drop")]
    for one in asked.tables:
        facts = viewer.table_facts(one.name)
        if facts and facts.partitioned and one.followers:
            warned = eligibility.partition_warning(one.name, asked.name, answers)
            if warned:
                yield Finding(f"source {asked.name} {one.name}", Level.WARN, warned.text)


def _column_findings(place: str, table: FollowedTable, seen: TableSeen | None) -> Iterator[Finding]:
    """Yield these jobs' objections to the table's columns, without repetitions."""
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
        name = read_nothing(viewer.session, table.name, table.followers[0].binlog.new_system_value)
    except SlotkeeperError as error:
        text = f"cannot read an empty range of the binlog: {error}" + (f" ({error.hint})" if error.hint else "")
        fails = error.kind in (ErrorKind.ACCESS, ErrorKind.LOGIN, ErrorKind.OPERATOR)
        return Finding(place, Level.FAIL if fails else Level.WARN, text)
    return Finding(place, Level.OK, f"can read an empty range of the binlog on {name}")
