"""Convert jobs and audit lines to rows of text cells with severities, in the order used on every screen. Pure.

All external text is passed through `safe()` here. Unknown values are shown as `?`, never as 0. Ages and durations carry
units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.lanes import is_stopped, lane_level, speed, worst_lane
from slotkeeper.console.views.queries import cells as query_cells
from slotkeeper.console.views.rows import (
    FAULTS,
    NARROW,
    TYPED,
    UNKNOWN,
    WIDE,
    WIDEST,
    Column,
    Row,
    age,
    bar,
    bars,
    clock,
    count,
    rank,
    seconds,
    yes,
)
from slotkeeper.console.views.signs import (
    COPIES,
    FAILED,
    MANY,
    MOVES,
    NONE,
    SIGNS,
    dn_sign,
    heat,
    lag_role,
    sign,
    signed,
    since,
    span,
    state_role,
    unrecorded,
)
from slotkeeper.core.domain.job import RESETTABLE, JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.judgement.facts import BEHIND_SECONDS

if TYPE_CHECKING:
    from slotkeeper.core.domain.audit import AuditLine

JOB_COLUMNS = (
    Column("mark", "", 1),
    Column("job", "JOB", 0, name=True),
    Column("table", "SOURCE TABLE", 14, least=140, name=True),
    Column("dot", "", 1),
    Column("state", "STATE", 11),
    Column("lag", "LAG", 10, right=True),
    Column("behind", "BEHIND", 7, right=True, least=WIDEST),
    Column("rate", "ROWS/S", 6, right=True),
    Column("spark", "10 MIN", 8),
    Column("dns", "DNS", 9),
    Column("worst", "WORST DN", 12, least=WIDE, name=True),
    Column("verified", "VERIFIED", 8, right=True),
    Column("pid", "PID", 7, right=True, least=160),
    Column("wrong", "PROBLEM", 20, least=130, grows=True),
)
PROCESS_COLUMNS = (
    Column("mark", "", 1),
    Column("job", "JOB", 0, name=True),
    Column("dot", "", 1),
    Column("state", "STATE", 11),
    Column("wanted", "WANTED", 6),
    Column("alive", "ALIVE", 5),
    Column("lanes", "LANES", 5, right=True, least=NARROW),
    Column("behind", "BEHIND", 7, right=True),
    Column("events", "EVENTS", 7, right=True, least=NARROW),
    Column("up", "UP", 6, right=True),
    Column("report", "SEEN", 5, right=True),
    Column("trouble", "TROUBLE", 16, least=WIDE, grows=True),
)
AUDIT_COLUMNS = (
    Column("mark", "", 1),
    Column("at", "AT (UTC)", 14),
    Column("who", "WHO", 15),
    Column("action", "ACTION", 12),
    Column("what", "WHAT", 0, name=True),
    Column("said", "SAID", 18, least=NARROW),
)

HEAT_CELLS = 8
"""The number of cells of a heat strip in a list."""


def parts(jobs: Iterable[JobFacts]) -> set[str]:
    """Return the sources' terms for the part that a lane reads, such as DN, as far as reported."""
    return {one.report.part for one in jobs if one.report is not None}


def part_in(job: JobFacts) -> str:
    """Return the source's term for the part that a lane of the job reads."""
    return job.report.part if job.report is not None else "lane"


def units(jobs: Iterable[JobFacts]) -> set[str]:
    """Return the units in which the jobs' sources count changes, as far as reported."""
    return {one.report.unit for one in jobs if one.report is not None and one.report.unit}


# -- rows ------------------------------------------------------------------------------------------------------------


def job_rows(jobs: Iterable[JobFacts], now: datetime, ascii_only: bool = False) -> list[Row]:
    """Return the jobs as rows, worst first; within a level, failed or dead jobs first, then those with the most lag."""

    def badness(job: JobFacts) -> tuple[int, bool, float, int, str]:
        lives = job.state not in (JobState.FAILED, JobState.DEAD)
        return rank(job.level), lives, -(job.lag_seconds or 0.0), -(job.behind or 0), job.name

    found = sorted(jobs, key=badness)
    return [
        Row(one.name, one.level, _job_cells(one, now, ascii_only), _job_order(one, now), _tints(one)) for one in found
    ]


def audit_rows(lines: Sequence[AuditLine]) -> list[Row]:
    """Return the audit lines as rows, in the order in which they were read: newest first."""
    found = []
    for line in lines:
        cells = {
            "at": clock(line.at),
            "who": safe(line.actor.who, 60),
            "action": safe(line.action, 40),
            "what": safe(line.what, 120),
            "said": safe(line.said, 200),
        }
        level = Level.WARNING if line.failed else Level.FINE
        found.append(Row(f"{line.action_id}/{line.phase.value}", level, {"mark": level.value, **cells}))
    return found


def _job_order(job: JobFacts, now: datetime) -> dict[str, float | None]:
    known = [each for each in job.spark if each is not None]
    report = job.report if job.current else None
    return {
        "lag": job.lag_seconds,
        "its": job.lag_seconds,
        "behind": job.behind,
        "rate": job.rate,
        "spark": sum(known) if known else None,
        "dns": in_sync(job),
        "sync": in_sync(job),
        "verified": None if (at := _verified_at(job)) is None else (now - at).total_seconds(),
        "events": report.changes if report else None,
        "lanes": len(report.lanes) if report else None,
        "report": None if job.reported_at is None else (now - job.reported_at).total_seconds(),
        "up": (now - job.started_at).total_seconds() if job.alive and job.started_at else None,
    }


def _tints(job: JobFacts) -> dict[str, str]:
    """Return the colors of a job's cells; all are dim if none of its processes is known to be running."""
    role, here = state_role(job), job.state is not None and job.state.has_process and not job.last_known
    known = {"dot": role, "state": f"{role}-word", "job": "strong", "verified": "dim", "dns": SIGNS}
    if not here:
        past = ("job", "wanted", "alive", "lanes", "events", "report", "behind", "rate", "spark", "dns", "worst", "lag")
        return known | dict.fromkeys(past, "dim")
    lag = "busy-word" if copied(job) is not None else lag_role(job.lag_seconds)
    return known | {"lag": lag, "spark": lag if lag in ("warn", "crit") else "busy"}


def copied(job: JobFacts) -> float | None:
    """Return the completed share of a copy; None if there is no copy."""
    report = job.report if job.current and not job.last_known else None
    return in_sync(job) if report is not None and not report.lanes and report.chunks_total else None


def dn_signs(job: JobFacts, ascii_only: bool) -> str:
    """Return a symbol per DN, or a heat strip if there are many, and the number of DNs in sync."""
    report = job.report if job.current and not job.last_known else None
    if job.state is None or not job.state.has_process or report is None or not report.lanes:
        return sign(COPIES, ascii_only) if copied(job) is not None else sign(NONE, ascii_only)
    lanes = sorted(report.lanes, key=lambda lane: lane.name)
    locked = report.locked_lanes
    levels = [
        Level.WARNING if level is not Level.CRITICAL and (lane.name in locked or lag_role(lag)) else level
        for lane, level, lag in zip(lanes, map(lane_level, lanes), lags_of(job), strict=True)
    ]
    shown = "".join(dn_sign(level, ascii_only)[0] for level in levels)
    if job.state is JobState.PAUSED:
        shown = sign(NONE, ascii_only) * len(lanes[:MANY])
    elif len(lanes) >= MANY:
        shown = heat(lags_of(job), HEAT_CELLS, ascii_only)
    synced = in_sync(job)
    number = sign(NONE, ascii_only) if synced is None else str(round(synced * len(lanes)))
    return f"{shown} {number}/{len(lanes)}"


def lags_of(job: JobFacts) -> list[float | None]:
    """Return the lags of a job's DNs, ordered by DN name; None for a DN that is stopped, retrying or failed."""
    lanes = sorted(job.report.lanes if job.report else (), key=lambda lane: lane.name)
    fine = (Level.FINE, Level.UNKNOWN)
    moving = [job.throughput.get(lane.name) if lane_level(lane) in fine else None for lane in lanes]
    return [None if pace is None else pace.lag for pace in moving]


def _job_cells(job: JobFacts, now: datetime, ascii_only: bool) -> dict[str, str]:
    report = job.report if job.current else None
    own = query_cells(job) if job.queries else {}
    return {
        **_throughput(job, ascii_only),
        "table": safe(job.tables[0] or UNKNOWN, 60) + (f" +{len(job.others)}" if job.others else ""),
        "pid": safe(job.holder.removeprefix("pid "), 10) if job.alive else "-",
        "mark": job.level.value,
        "job": safe(job.name, 80),
        "dot": _dot(job, ascii_only),
        "state": job.state_text,
        "dns": dn_signs(job, ascii_only),
        "verified": since(_verified_at(job), now, ascii_only),
        "wanted": safe(job.wanted or "-", 10),
        "alive": "-" if job.state is None else yes(job.alive),
        "behind": count(None if job.last_known else job.behind) if job.state else "-",
        "events": count(report.changes if report else None) if job.state else "-",
        "lanes": (count(len(report.lanes)) if report and report.lanes else UNKNOWN) if job.state else "-",
        "report": age(job.reported_at, now) if job.state else "-",
        "up": age(job.started_at, now) if job.alive else "-",
        "trouble": safe(job.trouble, 40),
        "wrong": "" if job.level is Level.FINE else safe(job.wrong, 200),
        **own,
    }


def _verified_at(job: JobFacts) -> datetime | None:
    """Return when the job's last valid comparison ended; None if a later reset or copy made it invalid."""
    return job.verified.at if job.verified and not job.verified.is_void else None


def _dot(job: JobFacts, ascii_only: bool) -> str:
    if job.state in (JobState.FAILED, JobState.DEAD):
        return sign(FAILED, ascii_only)
    if job.state in (None, JobState.PAUSED) or not job.state.has_process or job.last_known:
        return sign(NONE, ascii_only)
    return sign(COPIES if copied(job) is not None else MOVES, ascii_only)


def _throughput(job: JobFacts, ascii_only: bool) -> dict[str, str]:
    """Return the cells for lag, rate and sync; `-` if they do not apply to the job."""
    here = job.state is not None and job.state.has_process and not job.last_known
    lags = job.state is not JobState.FINISHED and job.report is not None and bool(job.report.lanes)
    worst = worst_lane(job)
    its = job.throughput[worst].lag if worst is not None and worst in job.throughput else None
    recorded, share = bars(job.spark, ascii_only), copied(job)
    spark = unrecorded(recorded, ascii_only) if recorded.strip("?") else ""
    if share is not None:
        spark = bar(share, 8, ascii_only, up=False)
    synced, none = in_sync(job), sign(NONE, ascii_only)
    return {
        "lag": f"{share:.0%}".replace("%", " %")
        if share is not None
        else signed(span(job.lag_seconds, ascii_only), lag_role(job.lag_seconds) if here else "", ascii_only)
        if lags
        else none,
        "worst": worst_dn(job, worst),
        "its": seconds(its) if lags else "-",
        "rate": speed(job.rate) if here and job.rate is not None else none,
        "spark": spark or none,
        "sync": "-" if not here else UNKNOWN if synced is None else _in_sync(job, synced),
    }


def _in_sync(job: JobFacts, share: float) -> str:
    """Return the number of DNs in sync and the total; during a copy, the completed share of the copy."""
    dns = len(job.report.lanes) if job.report else 0
    return f"{round(share * dns)}/{dns}" if dns else f"{int(share * 100)}%"


def sync_line(job: JobFacts, ascii_only: bool = False) -> str:
    """Return the DNs in sync, or the completed share of the copy, as a bar and in figures; "" if neither applies."""
    if job.state is None or not job.state.has_process or not job.current or job.last_known:
        return ""
    synced = in_sync(job)
    if synced is None:
        return f"sync   {part_in(job)}s in sync: unknown"
    shown = f"{bar(synced, 16, ascii_only, up=False)} {_in_sync(job, synced)}"
    copying = job.report is not None and not job.report.lanes
    return (
        f"sync   {shown} of the copy is done"
        if copying
        else f"sync   {shown} {part_in(job)}s lag by at most {BEHIND_SECONDS:g} s"
    )


def in_sync(job: JobFacts) -> float | None:
    """Return the share of DNs that lag by at most ten seconds; during a copy, the completed share of its chunks.

    None if unknown, for example before a new driver has started, because the previous driver's report is outdated.
    """
    report = job.report if job.current else None
    if report is None or job.state is JobState.PENDING:
        return None
    if not report.lanes:
        return (report.chunks_done or 0) / report.chunks_total if report.chunks_total else None
    living = [lane.name for lane in report.lanes if not is_stopped(lane)]
    lags = [job.throughput[name].lag if name in job.throughput else None for name in living]
    known = [lag for lag in lags if lag is not None]
    return sum(lag <= BEHIND_SECONDS for lag in known) / len(report.lanes) if len(known) == len(lags) else None


def worst_dn(job: JobFacts, worst: str | None) -> str:
    """Return a job's `worst_lane` as displayed; `?` if unknown, `-` if there is none yet."""
    if job.state is None or (job.report and not job.report.lanes and job.report.chunks_total):
        return "-"
    return UNKNOWN if worst is None else safe(worst, 40)


# -- sentences -------------------------------------------------------------------------------------------------------


def what_is_wrong(job: JobFacts) -> str:
    """Return a job's problem as one sentence."""
    if job.level in FAULTS:
        return safe(job.wrong or "a problem without a recorded reason", 400)
    if job.state is JobState.RUNNING:
        return "No problem: the job follows its source"
    return "nothing" + (f": {safe(job.wrong, 400)}" if job.wrong else "")


def what_is_safe(job: JobFacts) -> str:
    """Return the next action that loses nothing, as one sentence."""
    if job.safe:
        return safe(f"{job.safe} ({job.faults[0].code})" if job.faults else job.safe, TYPED)
    name = safe(job.name, 80)
    if job.refused:
        return "`slotkeeper config check` lists the errors; correct them, then start the job"
    if job.only_quarantined:
        return f"`slotkeeper errors list {name}` (key E) shows the rows; correct the target, then replay them"
    if job.state is None or job.state in RESETTABLE:
        return f"`slotkeeper jobs start {name}` resumes from the sink's progress rows"
    if job.state is JobState.PAUSED and job.alive:
        return f"`slotkeeper jobs resume {name}` continues from its position"
    if job.level in FAULTS:
        return f"wait, or run `slotkeeper jobs show {name}`; nothing is skipped"
    return "nothing"


def acts(job: JobFacts) -> list[str]:
    """Return the safe action, then the action for each further fault, in the order of the faults.

    Each action resolves only its own fault.
    """
    others = dict.fromkeys(safe(f"{one.do} ({one.code})", TYPED) for one in job.faults[1:] if one.do)
    first = what_is_safe(job)
    return [first, *(one for one in others if one != first)]


def audit_lines(line: AuditLine) -> list[str]:
    """Return an audit line with all its details."""
    said = [
        f"who     {safe(line.actor.text, 200)}",
        f"what    {safe(line.what, 200)}",
        f"reason  {safe(line.reason or '-', 200)}",
        f"outcome {safe(line.outcome or '-', 200)}   plan {safe(line.plan or '-', 40)}   id {safe(line.action_id, 40)}",
    ]
    return said + [f"  {safe(dn, 40)}  {safe(text, 120)}" for dn, text in sorted(line.result.items())]
