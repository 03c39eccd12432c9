"""The verdict on everything in one line, and the figures below it: what a person reads first. Pure.

The verdict is the worst fault that is present, never a past one. What is unknown is said as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local, TableSeen
from slotkeeper.console.views import slot_history
from slotkeeper.console.views.lanes import speed, worst_lane
from slotkeeper.console.views.overview import trust
from slotkeeper.console.views.rows import FAULTS, bars, both_ends, rank
from slotkeeper.console.views.signs import NONE, lag_role, sign, since, span, unrecorded
from slotkeeper.console.views.slots import all_slots, keeps_nothing, remaining, slot_level
from slotkeeper.core.domain.elapsed import elapsed, is_older
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe

_HOUR, _MINUTE = 3_600.0, 60.0
_DOES = {JobState.RUNNING: "streaming", JobState.SNAPSHOT: "copying"}
FIGURES = 120
"""From so many columns on source, sink and this host have figures too, and a figure says whose it is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The line; `job` is whose fault it is, "" where it is no job's, or where nothing is wrong."""

    level: Level
    words: str
    job: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its label; `role` is the value's, `more` stands plain behind it."""

    label: str
    value: str
    more: str = ""
    role: str = "strong"


def verdict(local: Local, now: datetime, place: int = 0, apart: str = " \u00b7 ") -> Verdict:
    """The fault at that place, the worst first; how many there are, where there are several.

    >>> verdict(Local(datetime(2026, 1, 1)), datetime(2026, 1, 1)).words
    'No job is known here. `slotkeeper demo` tries everything without a warehouse.'
    """
    if not local.jobs and not local.faults:
        return Verdict(Level.UNKNOWN, "No job is known here. `slotkeeper demo` tries everything without a warehouse.")
    if not local.faults:
        worst = min((job.judged for job in local.jobs), key=rank)
        words = f"No problems{apart}{states(local.jobs)}{apart}{trust(local.jobs, now)[1]}"
        return Verdict(worst if worst in FAULTS else Level.FINE, words)
    from slotkeeper.console.monitor.health import LEVELS  # the first frame is seen without it

    one = local.faults[place % len(local.faults)]
    number = f"{place % len(local.faults) + 1} of {len(local.faults)}{apart}" if local.faults[1:] else ""
    whose = f"{both_ends(safe(one.job), 30)}: " if one.job and one.name != f"job {one.job}" else ""
    return Verdict(LEVELS[one.severity], f"{number}{whose}{safe(one.said(now), 300)}", one.job)


def states(jobs: Sequence[JobFacts]) -> str:
    """How many jobs are in each state, those that move first.

    >>> some = [JobFacts(name, Level.FINE, state) for name, state in (("a", JobState.RUNNING), ("b", None))]
    >>> states(some)
    '1 job streaming, 1 never started'
    """
    found: dict[str, int] = {}
    for job in sorted(jobs, key=lambda job: list(_DOES).index(job.state) if job.state in _DOES else len(_DOES)):
        word = "never started" if job.state is None else _DOES.get(job.state, job.state_text.lower())
        word = job.state_text.lower() if job.last_known else word
        found[word] = found.get(word, 0) + 1
    away = sum(job.elsewhere for job in jobs)
    said = [f"{number} {word}" for word, number in found.items()]
    said[:1] = [one.replace(" ", " job " if one.startswith("1 ") else " jobs ", 1) for one in said[:1]]
    return ", ".join(said) + (f"; {away} started elsewhere" if away else "")


def figures(
    local: Local, tables: Sequence[TableSeen], now: datetime, width: int, ascii_only: bool = False
) -> list[Figure]:
    """The figures from left to right, as many as a terminal of that width shows."""
    jobs, wide = local.jobs, width >= FIGURES
    streaming = sum(job.state is JobState.RUNNING and not job.last_known for job in jobs)
    lagging = max((job for job in jobs if _is_live(job)), key=lambda job: job.lag_seconds or -1.0, default=None)
    lag = lagging.lag_seconds if lagging is not None else None
    where = "" if lagging is None or lag is None else safe(worst_lane(lagging) or "", 20)
    name = f"{both_ends(safe(lagging.name), 16)} " if wide and lagging is not None and lag is not None else ""
    rates = [job.rate for job in jobs if job.rate is not None and _is_live(job)]
    rate = speed(sum(rates)) if rates else sign(NONE, ascii_only)
    late = [one for one in local.errors if (past := elapsed(one.last_at, now)) is not None and past <= _HOUR]
    newest = max((one.last_at for one in late), default=None)
    found = [
        Figure("STREAMING", str(streaming), f"of {len(jobs)} jobs", "ok-word" if streaming else "strong"),
        Figure(
            "WORST LAG",
            span(lag, ascii_only),
            f"{name}{where}",
            f"{role}-word" if (role := lag_role(lag)) else "strong",
        ),
        Figure("ROWS/S", rate, _together(jobs, ascii_only)),
        expiry(tables, now, local, wide, ascii_only),
        Figure(
            "ERRORS 1 H",
            str(len(late)),
            f"last {since(newest, now)}" if late and wide else "",
            "warn-word" if late else "strong",
        ),
    ]
    return [*found, *_places(local, tables, now, ascii_only)] if wide else found


def _is_live(job: JobFacts) -> bool:
    return job.state is not None and job.state.has_process and job.current and not job.last_known


def _together(jobs: Iterable[JobFacts], ascii_only: bool) -> str:
    """What all jobs applied in ten minutes, as a sparkline; "" where nothing is recorded."""
    sparks = [job.spark for job in jobs if any(one is not None for one in job.spark)]
    if not sparks:
        return ""
    columns = [[one[place] for one in sparks if place < len(one)] for place in range(max(map(len, sparks)))]
    known = [[one for one in column if one is not None] for column in columns]
    return unrecorded(bars([sum(one) if one else None for one in known], ascii_only), ascii_only)


def expiry(tables: Iterable[TableSeen], now: datetime, local: Local, wide: bool, ascii_only: bool) -> Figure:
    """What expires next, by slots as they were last seen; how many are lost comes before it."""
    slots, jobs = all_slots(tables), slot_history.jobs_of(local)
    lost = [one for one in slots if slot_history.is_lost(one.seen.table, one.slot, jobs)]
    label = "NEXT EXPIRY"
    if lost:
        return Figure(label, f"{len(lost)} LOST", both_ends(safe(lost[0].slot.name), 16) if wide else "", "crit-word")
    keyed = [
        (left, one.key, one) for one in slots if (left := remaining(one.retained.left, one.seen.at, now)) is not None
    ]
    if not slots:
        return Figure(label, sign(NONE, ascii_only), "not seen yet", "dim")
    if not keyed:
        nothing = all(map(keeps_nothing, slots))
        return Figure(label, "none" if nothing else sign(NONE, ascii_only), "" if nothing else "unknown", "dim")
    left, _, one = min(keyed, key=lambda each: each[:2])
    level = slot_level(one, now)
    role = {Level.CRITICAL: "crit-word", Level.WARNING: "warn-word"}.get(level, "strong")
    old = one.seen.at is None or is_older(one.seen.at, now, _MINUTE)
    more = f"seen {since(one.seen.at, now)}" if old else both_ends(safe(one.slot.name), 16) if wide else ""
    return Figure(label, span(left), more, role)


def _places(local: Local, tables: Sequence[TableSeen], now: datetime, ascii_only: bool) -> list[Figure]:
    """Source, sink and this host, as far as anything is known of them."""
    none = sign(NONE, ascii_only)
    asked = max((one for one in tables if one.at is not None), key=lambda one: str(one.at), default=None)
    fails = next((one for one in tables if one.fault), None)
    source = Figure("SOURCE", none, "not asked yet", "dim")
    if fails is not None:
        source = Figure(f"SOURCE {safe(fails.source, 12)}", "fails", f"seen {since(fails.at, now)}", "crit-word")
    elif asked is not None:
        source = Figure(f"SOURCE {safe(asked.source, 12)}", "answers", f"seen {since(asked.at, now)}", "ok-word")
    hosts = [job.host for job in local.jobs if job.alive and job.host is not None]
    host = Figure("THIS HOST", none, "not measured", "dim")
    if hosts and hosts[0].load is not None and hosts[0].cpus:
        load = hosts[0].load / hosts[0].cpus
        host = Figure("THIS HOST", f"{load:.1f}", "load per CPU", "warn-word" if load > 1.5 else "strong")
    ages = [
        lane.last_commit_age
        for job in local.jobs
        if _is_live(job) and job.report is not None
        for lane in job.report.lanes
        if lane.last_commit_age is not None
    ]
    sink = Figure("SINK", span(min(ages)), "since a commit") if ages else Figure("SINK", none, "no commit yet", "dim")
    return [source, sink, host]


def figure_lines(found: Sequence[Figure], width: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The labels and, below them, the values, each figure as wide as the others.

    >>> figure_lines([Figure("JOBS", "2", "of 4")], 12)
    ([(' JOBS       ', 'dim')], [(' 2', 'strong'), (' of 4     ', '')])
    """
    cells = width // max(1, len(found))
    labels, values = "", []
    for one in found:
        labels += f" {one.label:<{cells - 1}}"[:cells].ljust(cells)
        room = max(0, cells - 2 - len(one.value))
        more = f" {one.more}" if one.more and len(one.more) + 1 <= room else ""
        values += [(f" {one.value}", one.role), (f"{more:<{cells - 1 - len(one.value)}}", "")]
    return [(labels, "dim")], values
