"""DataFrame queries on the job screens. Queries run elsewhere and cannot be controlled from here. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobFacts, Level, aged
from slotkeeper.console.views.rows import UNKNOWN, Row, count
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.query_report import WHERE_TO_START
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.domain.query_report import QuerySeen

Lines = list[tuple[Level, str]]


def refusal(job: JobFacts) -> str:
    """Return the reason why no action is possible on a job whose slot a query reads; "" if no query reads it."""
    return f"a DataFrame query: {to_do(job)}" if job.queries else ""


def to_do(job: JobFacts) -> str:
    """Return where to control the job's queries, as reported by the first running query, or where to start one."""
    return next((one.to_do for one in job.queries.values() if one.lives), WHERE_TO_START)


def now_of(job: JobFacts, now: datetime) -> dict[str, QuerySeen]:
    """Return the job's queries, with the ages of their reports updated to now."""
    return aged(job.queries, (elapsed(job.queries_at, now) if job.queries_at else None) or 0.0)


def lines(job: JobFacts, now: datetime) -> Lines:
    """Return the lines of a job's queries, including where to control them."""
    silent = safe(job.wrong.partition("; ")[0], 300)
    found: Lines = [(job.level, silent)] if job.level is Level.UNKNOWN else []
    for table, one in now_of(job, now).items():
        lives = "runs elsewhere" if one.lives else "is not running"
        found += [
            (
                Level.FINE if one.lives else Level.REST,
                safe(f"{one.called} {lives}; view only from here", 300),
            ),
            (Level.FINE, f"reads  {safe(table, 60)}   {safe(one.progress, 60)}   {safe(one.lag, 60)}"),
            *([(Level.REST, f"?      {one.unsaid}")] if one.unsaid else []),
            (Level.FINE, f"action {one.to_do}"),  # placed first, because the external text below can be long
            (Level.FINE, f"who    {safe(one.who, 300)}"),
            (Level.FINE, f"checkpoint {safe(one.checkpoint or UNKNOWN, 300)}"),
        ]
    return found


def strip(job: JobFacts, now: datetime) -> Lines:
    """Return a short form of `lines`, for the rows above the DNs."""
    state = job.state.value if job.state else UNKNOWN
    found: Lines = [
        (
            job.level,
            f"{job.level.value} {safe(job.name, 60)}  {state}, a DataFrame query; view only from here",
        )
    ]
    for table, one in now_of(job, now).items():
        found.append((Level.FINE, f"{safe(table, 60)}   {safe(one.progress, 60)}   {safe(one.lag, 60)}"))
    return found[:4]


def cells(job: JobFacts) -> dict[str, str]:
    """Return a query's cells in a table of jobs. Counts and times are `-`, because this host does not measure them."""
    dns = [(behind, dn) for one in job.queries.values() for dn, behind in one.behind.items() if behind is not None]
    lives = any(one.lives for one in job.queries.values())
    worst = min((-behind, dn) for behind, dn in dns)[1] if dns and lives else UNKNOWN
    none = dict.fromkeys(("lag", "its", "rate", "sync", "events", "report", "up"), "-")
    none |= {"spark": "a query", "wanted": "query"}  # mark the job as a query, even on a small screen
    places = sum(len(one.positions) for one in job.queries.values())
    there = {"worst": safe(worst, 40), "lanes": count(places), "alive": "yes" if lives else "no"}
    return {**none, **there, "wrong": safe(job.wrong, 200)}


def dn_rows(job: JobFacts) -> list[Row]:
    """Return a row for each DN that a query reads, in the format of a job's lane rows."""
    found = []
    for table, one in job.queries.items():
        for dn, place in sorted(one.positions.items()):
            name = f"{table} {dn}" if len(job.queries) > 1 else dn
            behind = one.behind.get(dn) if one.lives else None  # after a query has ended, its last value is outdated
            level = Level.UNKNOWN if behind is None else Level.FINE
            unknown = dict.fromkeys(("lag", "rate", "spark", "registered", "eta", "commit"), "-")
            cells = {
                "mark": level.value,
                "table": safe(table, 60),
                "dn": safe(name, 40),
                "doing": "elsewhere" if one.lives else "-",
                "position": safe(place, 20),
                "latest": safe(one.newest.get(dn, UNKNOWN), 20),
                "behind": count(behind),
                "state": "-",
            }
            found.append(Row(name, level, {**unknown, **cells}, {"behind": behind}))
    return found
