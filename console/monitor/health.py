"""A job's facts for the console: its observed status, its report, and the faults found by `slotkeeper.core.judgement`.

Also converts the slots that this console observed into facts for `slotkeeper.core.judgement`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import REFUSED, UNSEEN, JobFacts, Level
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Severity, worst
from slotkeeper.core.domain.job import JobState, amiss
from slotkeeper.core.domain.last_known import past
from slotkeeper.core.domain.pending import said_pending
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.report import JobReport, why_whole
from slotkeeper.core.domain.text import many

if TYPE_CHECKING:
    from slotkeeper.console.monitor.snapshot import TableSeen
    from slotkeeper.core.config.model import Loaded
    from slotkeeper.core.domain.report import JobStatus
    from slotkeeper.core.domain.row_counts import Verified
    from slotkeeper.core.domain.spec import JobSpec
    from slotkeeper.core.judgement.facts import SlotSeen

LEVELS = {Severity.CRITICAL: Level.CRITICAL, Severity.WARNING: Level.WARNING, Severity.UNKNOWN: Level.UNKNOWN}

_AS_SEEN = (
    "name", "state", "last_known", "reported_at", "started_at", "ended_at", "changed_at", "exit_code", "elsewhere",
)  # fmt: skip
"""Fields with the same name and meaning in `JobFacts` and `JobStatus`."""
_BESIDE = ("rows_quarantined", "crash_loop", "clocks_differ", "not_verified", "slot_ttl", "source_blocked")
"""Rules for faults that do not stop a running driver from applying changes, so that the target can be trusted."""
_MOVING = (JobState.PENDING, JobState.SNAPSHOT, JobState.CATCHING_UP)


def facts(view: JobStatus, faults: Iterable[Fault], now: datetime) -> JobFacts:
    """Return the job as displayed on screens, with those of `faults` that belong to it."""
    mine = tuple(one for one in faults if one.job == view.name)
    severity = worst(mine)
    calm = Level.BUSY if view.state in _MOVING else Level.FINE if view.state.has_process else Level.REST
    only_tables = bool(mine) and all(one.rule.startswith("table_") for one in mine)
    holder = view.driver or view.supervisor
    troubled = amiss(view.living_tables)
    return JobFacts(
        **{name: getattr(view, name) for name in _AS_SEEN},
        report=_report(view, now),
        faults=mine,
        safe=mine[0].do if mine else "",
        trouble=view.trouble or (troubled[0].trouble if only_tables and troubled else ""),
        level=calm if severity is None else LEVELS[severity],
        wrong=said(mine, now)
        if mine
        else why_whole(view)
        if view.starting or not view.state.has_process
        else said_pending(view, now)
        if view.state is JobState.PENDING
        else "; ".join(filter(None, (_progress(view.report if view.reported else None), said_pending(view, now)))),
        wanted=view.wanted.value,
        alive=None if view.elsewhere and not view.lives else view.lives or view.starting,
        holder=f"pid {holder.pid}" if holder else "",
        behind=_behind(view.report) if view.reported and view.state.has_process else None,
        current=view.reported,
        follows_on=view.driver_alive
        and all(
            fault.rule in _BESIDE or (fault.rule == "process_stopped" and fault.thing == "supervisor") for fault in mine
        ),
        only_quarantined=bool(mine) and all(one.rule == "rows_quarantined" for one in mine),
        only_tables=only_tables,
    )


def _report(view: JobStatus, now: datetime) -> JobReport | None:
    """Return the job's last report, marked as past if none of its processes is running."""
    if view.report is None or not view.last_known:
        return view.report
    return past(view.report, (elapsed(view.reported_at, now) if view.reported_at else None) or 0.0)


def said(faults: Sequence[Fault], now: datetime) -> str:
    """Return all faults as one text, worst first."""
    return "; ".join(one.said(now).removeprefix(f"job {one.job}: ") for one in faults)


def _progress(report: JobReport | None) -> str:
    if report is None:
        return "its driver has not reported yet"
    if report.chunks_total and not report.lanes:
        return f"{report.chunks_done} of {report.chunks_total} chunks copied"
    if not report.lanes:
        return "its lanes are not known yet"
    behind = [lane for lane in report.lanes if lane.state == LaneState.CATCHING_UP.value]
    waited_for = f"; catching up: {len(behind)} of them (first: {behind[0].name})" if behind else ""
    return f"{many(len(report.lanes), 'lane')}, {many(report.changes, 'change')}{waited_for}"


def _behind(report: JobReport | None) -> int | None:
    if report is None or not report.lanes:
        return None
    found = [lane.known_behind for lane in report.lanes]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def complete(
    jobs: list[JobFacts], loaded: Loaded | None, verified: Mapping[str, Verified], faults: Iterable[Fault] = ()
) -> list[JobFacts]:
    """Return the jobs with their configuration and last comparison, and the configured jobs that were never started."""
    every = list(faults)
    configured = loaded.jobs if loaded else {}
    known = {job.name for job in jobs}
    refused = loaded.refused if loaded else {}
    never = [
        _never(name, tuple(one for one in every if one.job == name))
        for name in (*configured, *refused)
        if name not in known
    ]
    never = [replace(job, wrong=f"{REFUSED}{refused[job.name]}") if job.name in refused else job for job in never]
    return [_configured(job, configured.get(job.name), verified.get(job.name)) for job in (*jobs, *never)]


def _configured(job: JobFacts, spec: JobSpec | None, verified: Verified | None) -> JobFacts:
    if spec is None:
        return replace(job, verified=verified)
    first, *others = [(channel.source_table, channel.target) for channel in spec.channels] or [("", "")]
    limit = spec.sink_options.quarantine_limit if spec.sink_options.quarantines else None
    return replace(job, tables=first, others=tuple(others), slot=spec.slot, verified=verified, quarantine_limit=limit)


def _never(name: str, faults: tuple[Fault, ...]) -> JobFacts:
    """Return a configured job that was never started on this host; a fault that prevents its start is its problem."""
    if not faults:
        return JobFacts(name, Level.REST, None, UNSEEN)
    level, why = LEVELS[faults[0].severity], f"{REFUSED}{faults[0].cause}"
    return JobFacts(name, level, None, why, faults[0].do, faults=faults)


def sights(tables: Iterable[TableSeen]) -> list[SlotSeen]:
    """Return the slots of these tables in the form that drivers record, except tables whose source did not answer."""
    from slotkeeper.core.slots.status import sights as of_table  # not needed by `jobs list`

    return [
        sight
        for one in tables
        if one.slots is not None and one.retained is not None and one.at is not None and not one.fault
        for sight in of_table(one.source, one.table, one.at, one.slots, one.retained)
    ]
