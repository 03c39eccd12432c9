"""The verdict on all jobs in one line, and the figures below it, which users read first. Pure.

The verdict is the worst current fault, never a past one. Unknown values are shown as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local, TableSeen
from slotkeeper.console.views import slot_history
from slotkeeper.console.views.lanes import speed, worst_lane
from slotkeeper.console.views.overview import trust
from slotkeeper.console.views.rows import FAULTS, Verdict, bars, both_ends, clause, fit, plain, rank, short, width_of
from slotkeeper.console.views.signs import NONE, Parts, lag_role, sign, signed, since, span, unrecorded
from slotkeeper.console.views.slots import all_slots, keeps_nothing, no_position, remaining, slot_level
from slotkeeper.core.domain.elapsed import elapsed, is_older
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.domain.fault import Fault

_HOUR, _MINUTE = 3_600.0, 60.0
MOST_VERDICT = 116
"""The maximum width of a verdict in cells: a longer line is hard to read, and the panel has the rest of the text."""
_DOES = {JobState.RUNNING: "streaming", JobState.SNAPSHOT: "copying"}
FIGURES = 120
"""The terminal width from which source, sink and this host also have figures, and figures name their object."""
FEW = 5
"""The number of figures on a narrow terminal. If there are more, the last one, for this host, combines three values."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its label; `role` is the color role of the value, and `more` follows it without a role."""

    label: str
    value: str
    more: str = ""
    role: str = "strong"


def verdict(local: Local, now: datetime, place: int = 0, apart: str = " \u00b7 ", room: int = MOST_VERDICT) -> Verdict:
    """Return the fault at index `place`, worst first, in `room` cells, with the number of faults if there are several.

    >>> verdict(Local(datetime(2026, 1, 1)), datetime(2026, 1, 1)).words
    'No jobs found: `slotkeeper init` starts one, `slotkeeper demo` runs a trial'
    """
    if not local.jobs and not local.faults:
        return Verdict(Level.UNKNOWN, "No jobs found: `slotkeeper init` starts one, `slotkeeper demo` runs a trial")
    if not local.faults:
        worst = min((job.judged for job in local.jobs), key=rank)
        words = f"No problems{apart}{states(local.jobs)}{apart}{trust(local.jobs, now)[1]}"
        return Verdict(worst if worst in FAULTS else Level.FINE, words)
    from slotkeeper.console.monitor.health import LEVELS  # not needed for the first frame

    one = local.faults[place % len(local.faults)]
    number = f"{place % len(local.faults) + 1} of {len(local.faults)}{apart}" if local.faults[1:] else ""
    whose = f"{both_ends(safe(one.job), 30)}: " if one.job and one.name != f"job {one.job}" else ""
    words, rest = divided(f"{number}{whose}{safe(one.name, 60)}: ", one, now, room, apart)
    return Verdict(LEVELS[one.severity], words, one.job, one, rest)


def divided(head: str, fault: Fault, now: datetime, room: int, apart: str) -> tuple[str, str]:
    """Return `head` and the beginning of the fault's cause in `room` cells, and the rest of the cause.

    The line ends with the fault's duration and its effect, each if there is room for it. A cause is divided between
    two clauses, so that no word is cut; if not even the first clause fits, the rest is the whole cause.
    """
    from slotkeeper.core.domain.fault import FEW, in_brief  # not needed for the first frame

    cause, left = safe(fault.cause, 400), room - width_of(head)
    lasts = None if fault.since is None else elapsed(fault.since, now)
    first, *others = cause.split(", ")
    if width_of(first) > left:
        colon = cause.rfind(": ", 0, max(0, left))
        if colon < left // 2 or width_of(cause[:colon]) > left:
            return head + (clause(cause, left) or short(cause, max(2, left))), cause
        first, others = cause[:colon], [cause[colon + 2 :]]
    tail = ""
    for end in ("" if lasts is None else in_brief(lasts), fault.effect if len(fault.effect) <= FEW else ""):
        tail += f"{apart}{safe(end, FEW)}" * (bool(end) and width_of(f"{head}{first}{tail}{apart}{end}") <= room)
    while others and width_of(f"{head}{first}, {others[0]}{tail}") <= room:
        first = f"{first}, {others.pop(0)}"
    goes_on = " .." if others and width_of(f"{head}{first} ..{tail}") <= room else ""
    return head + first + goes_on + tail, ", ".join(others)


def states(jobs: Sequence[JobFacts]) -> str:
    """Return the number of jobs in each state, active ones first.

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
    local: Local, tables: Sequence[TableSeen], now: datetime, width: int, open_errors: int, ascii_only: bool = False
) -> list[Figure]:
    """Return the figures from left to right, as many as a terminal of that width shows.

    `open_errors`: the number of open errors that the tab of the Errors screen shows.
    """
    jobs, wide = local.jobs, width >= FIGURES
    streaming = sum(job.state is JobState.RUNNING and not job.last_known for job in jobs)
    lagging = max((job for job in jobs if _is_live(job)), key=lambda job: job.lag_seconds or -1.0, default=None)
    lag = lagging.lag_seconds if lagging is not None else None
    where = "" if lagging is None or lag is None else safe(worst_lane(lagging) or "", 20)
    name = both_ends(safe(lagging.name), 16) if wide and lagging is not None and lag is not None else ""
    rates = [job.rate for job in jobs if job.rate is not None and _is_live(job)]
    rate = speed(sum(rates)) if rates else sign(NONE, ascii_only)
    late = [one for one in local.errors if (past := elapsed(one.last_at, now)) is not None and past <= _HOUR]
    newest = max((one.last_at for one in late), default=None)
    found = [
        Figure("STREAMING", str(streaming), f"of {len(jobs)} jobs", "ok-word" if streaming else "strong"),
        Figure(
            "WORST LAG",
            span(lag, ascii_only),
            ", ".join(filter(None, (where, name))),
            f"{role}-word" if (role := lag_role(lag)) else "strong",
        ),
        Figure("ROWS/S", rate, _together(jobs, ascii_only)),
        expiry(tables, now, local, wide, ascii_only),
        Figure(
            "ERRORS",
            f"{open_errors} open",
            (f"{len(late)} in 1 h, last {since(newest, now)}" if wide else f"{len(late)}/h") if late else "",
            "warn-word" if open_errors else "strong",
        ),
    ]
    if wide:
        found += [_source(local, tables, ascii_only), _sink(local, ascii_only), _host(local, ascii_only)]
    return found


def _is_live(job: JobFacts) -> bool:
    return job.state is not None and job.state.has_process and job.current and not job.last_known


def _together(jobs: Iterable[JobFacts], ascii_only: bool) -> str:
    """Return the sum of all jobs' rates over ten minutes as a sparkline; "" if nothing is recorded."""
    sparks = [job.spark for job in jobs if any(one is not None for one in job.spark)]
    if not sparks:
        return ""
    columns = [[one[place] for one in sparks if place < len(one)] for place in range(max(map(len, sparks)))]
    known = [[one for one in column if one is not None] for column in columns]
    return unrecorded(bars([sum(one) if one else None for one in known], ascii_only), ascii_only)


def expiry(tables: Iterable[TableSeen], now: datetime, local: Local, wide: bool, ascii_only: bool) -> Figure:
    """Return the next slot expiry as last observed; if slots are lost, their number instead."""
    slots, jobs = all_slots(tables), slot_history.jobs_of(local)
    lost = [one for one in slots if slot_history.is_lost(one.seen.table, one.slot, jobs)]
    label = "NEXT EXPIRY"
    if lost:
        return Figure(label, f"{len(lost)} LOST", both_ends(safe(lost[0].slot.name), 16) if wide else "", "crit-word")
    keyed = [
        (left, one.key, one)
        for one in slots
        if not no_position(one, jobs) and (left := remaining(one.retained.left, one.seen.at, now)) is not None
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


def _source(local: Local, tables: Sequence[TableSeen], ascii_only: bool) -> Figure:
    """Return the last queried source, or a failing source, with its response time."""
    fails = next((one for one in tables if one.fault), None)
    asked = max((one for one in tables if one.at is not None), key=lambda one: str(one.at), default=None)
    one = fails or asked
    label = f"SOURCE {safe(one.source, 12)}" if one is not None else "SOURCE"
    if fails is not None or _is_at_fault(local, "source", "dn"):
        return Figure(label, "fails", "", "crit-word")
    if asked is None:
        return Figure(label, sign(NONE, ascii_only), "not queried yet", "dim")
    return Figure(label, "up", "" if asked.took is None else f"{max(1, round(asked.took * 1000))} ms", "ok-word")


def _sink(local: Local, ascii_only: bool) -> Figure:
    """Return whether sinks accept changes, and the time since the last commit."""
    if _is_at_fault(local, "sink", "lock"):
        return Figure("SINK", "fails", "", "crit-word")
    lanes = [lane for job in local.jobs if _is_live(job) and job.report is not None for lane in job.report.lanes]
    ages = [lane.last_commit_age for lane in lanes if lane.last_commit_age is not None]
    if not ages:
        return Figure("SINK", sign(NONE, ascii_only), "no commit yet", "dim")
    return Figure("SINK", "up", f"{span(min(ages))} ago", "ok-word")


def _is_at_fault(local: Local, *parties: str) -> bool:
    return any(one.party.value in parties and one.severity.value == "critical" for one in local.faults)


def _host(local: Local, ascii_only: bool) -> Figure:
    """Return load per CPU, available memory, and the CPU use of drivers, as last measured by supervisors."""
    hosts = [job.host for job in local.jobs if job.alive and job.host is not None]
    newest = max(hosts, key=lambda one: one.at, default=None)
    if newest is None or newest.load is None or not newest.cpus:
        return Figure("THIS HOST", sign(NONE, ascii_only), "not measured", "dim")
    load = newest.load / newest.cpus
    drivers = [one.short.driver_cpu for one in hosts if one.short is not None and one.short.driver_cpu is not None]
    said = ["/core"]
    said += [f"{newest.available / 2**30:.0f}G free"] if newest.available is not None else []
    said += [f"driver {sum(drivers):.0%}".replace("%", " %")] if drivers else []
    return Figure("THIS HOST", f"{load:.1f}", ", ".join(said), "warn-word" if load > 1.5 else "strong")


def figure_lines(found: Sequence[Figure], width: int, ascii_only: bool = False) -> tuple[Parts, Parts]:
    """Return the labels and, below them, the values, in equal widths; the last of many figures is twice as wide.

    Text after a value that does not fit is dropped part by part from its end.

    >>> figure_lines([Figure("JOBS", "2", "of 4, more")], 12)
    ([(' JOBS       ', 'dim')], [(' 2 ', 'strong'), ('of 4     ', '')])
    """
    last = 1 + (len(found) > FEW)
    cells = width // max(1, len(found) - 1 + last)
    labels, values = "", Parts()
    for place, one in enumerate(found, 1):
        here = cells if place < len(found) else cells * last
        labels += fit(f" {one.label}", here, ascii_only=ascii_only)
        value = signed(one.value, one.role, ascii_only)
        room, more = here - 2 - len(value), plain(one.more, ascii_only)
        while more and fit(more, room - 1).rstrip() != more:
            more = more.rpartition(", ")[0]
        values += [(f" {value} ", one.role), (fit(more, room), "")]
    return [(labels, "dim")], values
