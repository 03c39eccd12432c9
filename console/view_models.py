"""Pure functions from what is known to rows of text cells with severities: what every screen shows, and in which order.

Every text that came from elsewhere passes `safe()` here. Unknown is `?`, never 0; ages and durations carry units.
Next door: `console.picture` is what is known, `console.slot_models` does the same for slots, `console.screens` draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from console.picture import JobFacts, Level, Local
from console.rows import FAULTS, NARROW, UNKNOWN, WIDE, Column, Row, age, clock, count, rank, seconds, yes
from core.domain.audit import AuditLine, Phase
from core.domain.job import JobState
from core.domain.report import LaneReport
from core.domain.text import safe

JOB_COLUMNS = (
    Column("mark", "", 1),
    Column("job", "JOB", 16),
    Column("state", "STATE", 11),
    Column("behind", "BEHIND", 6, right=True),
    Column("worst", "WORST DN", 9, least=NARROW),
    Column("events", "EVENTS", 7, right=True, least=WIDE),
    Column("lanes", "LANES", 5, right=True, least=WIDE),
    Column("report", "SEEN", 5, right=True),
    Column("wrong", "WHAT IS WRONG", 0),
)
PROCESS_COLUMNS = (
    Column("mark", "", 1),
    Column("job", "JOB", 0),
    Column("state", "STATE", 11),
    Column("wish", "WISH", 5),
    Column("alive", "ALIVE", 5),
    Column("lanes", "LANES", 5, right=True, least=NARROW),
    Column("behind", "BEHIND", 6, right=True),
    Column("events", "EVENTS", 7, right=True, least=NARROW),
    Column("up", "UP", 6, right=True),
    Column("report", "SEEN", 5, right=True),
    Column("trouble", "TROUBLE", 16, least=WIDE),
)
LANE_COLUMNS = (
    Column("mark", "", 1),
    Column("dn", "DN", 9),
    Column("state", "STATE", 11, least=NARROW),
    Column("doing", "DOING", 11),
    Column("position", "POSITION", 13, right=True),
    Column("latest", "LATEST", 10, right=True, least=WIDE),
    Column("behind", "BEHIND", 6, right=True),
    Column("durable", "DURABLE", 10, right=True, least=WIDE),
    Column("commit", "COMMIT", 6, right=True),
    Column("trouble", "TROUBLE", 0, least=NARROW),
)
AUDIT_COLUMNS = (
    Column("mark", "", 1),
    Column("at", "AT (UTC)", 14),
    Column("who", "WHO", 8),
    Column("action", "ACTION", 12),
    Column("what", "WHAT", 0),
    Column("said", "SAID", 18, least=NARROW),
)


# -- rows ------------------------------------------------------------------------------------------------------------


def job_rows(jobs: Iterable[JobFacts], now: datetime) -> list[Row]:
    """The jobs, the worst first, then the furthest behind."""
    found = sorted(jobs, key=lambda one: (rank(one.level), -(one.behind or 0), one.name))
    return [Row(one.name, one.level, _job_cells(one, now)) for one in found]


def lane_rows(job: JobFacts) -> list[Row]:
    """The DNs of a job, those in trouble first, then the furthest behind."""
    lanes = job.report.lanes if job.report else ()
    keyed = [(rank(_lane_level(one)), -(lane_behind(one) or 0), one.shard, one) for one in lanes]
    return [Row(lane.shard, _lane_level(lane), _lane_cells(lane)) for *_, lane in sorted(keyed, key=lambda k: k[:3])]


def audit_rows(lines: Sequence[AuditLine]) -> list[Row]:
    """The audit, the newest first as it is read."""
    found = []
    for line in lines:
        failed = line.phase is Phase.OUTCOME and line.outcome.startswith("failed")
        said = f"because: {line.reason}" if line.phase is Phase.INTENT else line.outcome
        cells = {
            "at": clock(line.at),
            "who": safe(line.actor.os_user, 40),
            "action": safe(line.action, 40),
            "what": safe(line.what, 120),
            "said": safe(said, 200),
        }
        level = Level.WARNING if failed else Level.FINE
        found.append(Row(f"{line.action_id}/{line.phase.value}", level, {"mark": level.value, **cells}))
    return found


def _job_cells(job: JobFacts, now: datetime) -> dict[str, str]:
    report = job.report if job.current else None
    return {
        "mark": job.level.value,
        "job": safe(job.name, 80),
        "state": job.state.value if job.state else "-",
        "wish": safe(job.wish or "-", 10),
        "alive": "-" if job.state is None else yes(job.alive),
        "behind": count(job.behind) if job.state else "-",
        "worst": worst_dn(job),
        "events": count(report.changes if report else None) if job.state else "-",
        "lanes": (count(len(report.lanes)) if report and report.lanes else UNKNOWN) if job.state else "-",
        "report": age(job.reported_at, now) if job.state else "-",
        "up": age(job.started_at, now) if job.alive else "-",
        "trouble": safe(job.trouble, 40),
        "wrong": safe(job.wrong, 200) if job.level in FAULTS else _calm(job),
    }


def _calm(job: JobFacts) -> str:
    return "" if job.level is Level.FINE else safe(job.wrong, 200)


def worst_dn(job: JobFacts) -> str:
    """The DN of a job that is in trouble or furthest behind; `?` where one cannot be told."""
    if job.state is None or not job.report or not job.report.lanes:
        return "-" if job.state is None else UNKNOWN
    return safe(lane_rows(job)[0].key, 40)


def lane_behind(lane: LaneReport) -> int | None:
    """How many sync points a DN is behind its latest; None where one of the two is unknown."""
    if lane.latest is None or not lane.position:
        return None
    first = lane.position.partition("/")[0]
    return max(0, lane.latest - int(first)) if first.isdigit() else None


def _lane_level(lane: LaneReport) -> Level:
    if lane.error:
        return Level.CRITICAL
    if lane.retry:
        return Level.WARNING
    return Level.UNKNOWN if lane_behind(lane) is None else Level.FINE


def _lane_cells(lane: LaneReport) -> dict[str, str]:
    return {
        "mark": _lane_level(lane).value,
        "dn": safe(lane.shard, 40),
        "state": safe(lane.state, 20),
        "doing": safe(lane.activity, 20),
        "position": safe(lane.position or UNKNOWN, 30),
        "latest": UNKNOWN if lane.latest is None else str(lane.latest),
        "behind": count(lane_behind(lane)),
        "durable": UNKNOWN if lane.registered_durable is None else str(lane.registered_durable),
        "commit": seconds(lane.last_commit_age),
        "trouble": safe(lane.error or lane.retry, 200),
    }


# -- sentences -------------------------------------------------------------------------------------------------------


def what_is_wrong(job: JobFacts) -> str:
    """One sentence on what is the matter with a job."""
    if job.level in FAULTS:
        return safe(job.wrong or "it is in trouble and does not say why", 400)
    if job.state is JobState.RUNNING:
        return "nothing; it follows its source"
    return "nothing" + (f": {safe(job.wrong, 400)}" if job.wrong else "")


def what_is_safe(job: JobFacts) -> str:
    """One sentence on what is safe to do about it."""
    if job.safe:
        return safe(job.safe, 400)
    name = safe(job.name, 80)
    if job.state is None or job.state in (JobState.STOPPED, JobState.FAILED):
        return f"`slotkeeper jobs start {name}` goes on where the sink's progress rows stand"
    if job.level in FAULTS:
        return f"wait, or look: `slotkeeper jobs show {name}`; nothing is skipped"
    return "leave it alone"


def summary(local: Local, now: datetime) -> list[tuple[Level, str]]:
    """The lines above the jobs of the overview: how many stand how, and whether the target is to be trusted now."""
    jobs = local.jobs
    if not jobs:
        return [(Level.UNKNOWN, "no job is known here; `slotkeeper demo` tries everything without a warehouse")]
    states: dict[str, int] = {}
    for job in jobs:
        word = job.state.value if job.state else "never started"
        states[word] = states.get(word, 0) + 1
    words = ", ".join(f"{number} {word}" for word, number in sorted(states.items()))
    worst = min((job.level for job in jobs), key=rank)
    bad = [sum(job.level is level for job in jobs) for level in FAULTS]
    faults = "  ".join(f"{level.value} {number}" for level, number in zip(FAULTS, bad, strict=True) if number)
    first = (worst if worst in FAULTS else Level.FINE, f"{faults or 'no faults'}   jobs {len(jobs)}: {words}")
    return [first, _trust(jobs)]


def _trust(jobs: Sequence[JobFacts]) -> tuple[Level, str]:
    doubted = [job for job in jobs if not (job.state is JobState.RUNNING and job.level is Level.FINE)]
    if not doubted:
        return Level.FINE, "targets: all follow; the last verify is not recorded here yet"
    names = ", ".join(safe(job.name, 30) for job in doubted[:2]) + (
        f" and {len(doubted) - 2} more" if doubted[2:] else ""
    )
    return Level.WARNING, f"targets: do not call equal now: {names}"


def event_lines(local: Local, most: int) -> list[str]:
    """What happened last, the newest first."""
    return [
        f"{one.at:%H:%M:%S}  {safe(one.job, 24):<16}  {safe(one.event, 20)}"
        + (f": {safe(one.text, 120)}" if one.text else "")
        for one in local.events[:most]
    ]


def audit_lines(line: AuditLine) -> list[str]:
    """One audit line in full."""
    said = [
        f"who     {safe(line.actor.text, 120)}",
        f"what    {safe(line.what, 200)}",
        f"reason  {safe(line.reason or '-', 200)}",
        f"outcome {safe(line.outcome or '-', 200)}   plan {safe(line.plan or '-', 40)}   id {safe(line.action_id, 40)}",
    ]
    return said + [f"  {safe(dn, 40)}  {safe(text, 120)}" for dn, text in sorted(line.result.items())]
