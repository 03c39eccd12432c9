"""How a job stands, judged from one look at it: for `slotkeeper status`, and for every row of the console. Pure.

Next door: `core.launch.view` looks, `console.commands.status` prints, `console.monitor.store_reader` hands it to the
screens.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from console.monitor.snapshot import JobFacts, Level, unread_meanwhile
from core.domain.elapsed import elapsed
from core.domain.job import JobState
from core.domain.progress import LaneState
from core.domain.report import JobReport
from core.domain.table import TableReport, amiss, said_of, to_do
from core.domain.text import many, safe
from core.domain.verified import rows_quarantined

if TYPE_CHECKING:
    from core.domain.job_view import JobView

STALE_SECONDS = 30.0
"""A driver reports every second or so; one that lives and is silent for this long hangs or is starved."""

SILENT_SECONDS = 300.0


_AS_SEEN = (
    "name", "state", "report", "reported_at", "started_at", "ended_at", "changed_at", "exit_code", "elsewhere",
)  # fmt: skip
"""What facts and views call alike and mean alike."""
_MOVING = (JobState.PENDING, JobState.SNAPSHOT, JobState.CATCHING_UP)


def facts(view: JobView, now: datetime) -> JobFacts:
    """A look at a job, judged."""
    level, text = _level_of(view, now)
    level, text, only_tables = _with_tables(view, level, text)
    troubled = amiss(living_tables(view))
    quarantined = view.report.quarantined if view.report else None
    only = bool(quarantined) and level is Level.FINE
    if quarantined:
        said = rows_quarantined(quarantined) + ("" if view.state.has_process else " when it ended")
        text = f"{said}, which the target lacks" if only else f"{text}; {said}"
        level = Level.WARNING if only else level
    calm = Level.BUSY if view.state in _MOVING else Level.FINE if view.state.has_process else Level.REST
    holder = view.driver or view.supervisor
    return JobFacts(
        **{name: getattr(view, name) for name in _AS_SEEN},
        safe=view.safe or next((to_do(view.name, one) for one in troubled), ""),
        trouble=view.trouble or (troubled[0].trouble if only_tables else ""),
        level=calm if level is Level.FINE else level,
        wrong=text,
        wanted=view.wanted.value,
        alive=None if view.elsewhere and not view.lives else view.lives or view.starting,
        holder=f"pid {holder.pid}" if holder else "",
        behind=_behind(view.report) if view.reported and view.state.has_process else None,
        current=view.reported,
        only_quarantined=only,
        only_tables=only_tables,
    )


def living_tables(view: JobView) -> tuple[TableReport, ...]:
    """How the tables of a job of several stand; none of one that does not live, whose own state says it all."""
    known = view.report if view.reported and view.lives and view.state.has_process else None
    return known.tables if known else ()


def why_of(view: JobView) -> str:
    """What is the matter with a job, as the store and its processes say; the name of its trouble once."""
    tables = said_of(living_tables(view))
    whole = _why_whole(view)
    return "; ".join(part for part in (tables, whole) if part)


def _why_whole(view: JobView) -> str:
    """The same of the job as a whole: without what is told of single tables anyway."""
    if view.reason and safe(said_of(living_tables(view))) == view.reason:
        return ""
    named = view.trouble if not view.reason.startswith(view.trouble) else ""
    return ": ".join(part for part in (named, view.reason) if part)


def _with_tables(view: JobView, level: Level, text: str) -> tuple[Level, str, bool]:
    """What a job's tables that do not go on make of it, and whether they are all that is wrong."""
    found = amiss(living_tables(view))
    if not found:
        return level, text, False
    failed = any(one.state == JobState.FAILED.value for one in found)
    said = said_of(living_tables(view))
    if level in (Level.FINE, Level.BUSY):
        return (Level.CRITICAL if failed else Level.WARNING), said, True
    return (Level.CRITICAL if failed else level), f"{said}; {text}" if text else said, False


def _level_of(view: JobView, now: datetime) -> tuple[Level, str]:
    why = _why_whole(view)
    if view.state in (JobState.FAILED, JobState.DEAD):
        return Level.CRITICAL, why
    if not view.state.has_process:
        return _at_rest(view, why)
    if view.elsewhere and not view.lives:
        return Level.UNKNOWN, why
    if view.starting:
        return Level.FINE, why
    if not view.lives:
        return Level.CRITICAL, why
    if view.state is JobState.PAUSED:
        return Level.WARNING, why or f"applies nothing; {unread_meanwhile(view.report)}"
    return _living(view, why, now)


def _at_rest(view: JobView, why: str) -> tuple[Level, str]:
    if view.trouble or (view.state is JobState.STOPPED and view.run):
        return Level.WARNING, f"{why}; {unread_meanwhile(view.report)}" if not view.trouble else why
    return Level.FINE, why


def _living(view: JobView, why: str, now: datetime) -> tuple[Level, str]:
    if view.reported_at is not None and view.reported:
        silent = elapsed(view.reported_at, now)
        if silent is None:
            return Level.WARNING, "its driver lives and has not reported since this host's clock was set back"
        if silent > SILENT_SECONDS:
            return Level.CRITICAL, f"its driver lives and has not reported for {silent:.0f} s"
        if silent > STALE_SECONDS:
            return Level.WARNING, f"its driver lives and has not reported for {silent:.0f} s"
    report = view.report if view.reported else None
    retry = _retrying(report)
    if retry or view.trouble or why:
        return Level.WARNING, why or retry  # of servers that do not answer and lanes that wait for them, the first
    return Level.FINE, _progress(report)


def _retrying(report: JobReport | None) -> str:
    if report is None:
        return ""
    lanes = (f"{lane.name}: {lane.retry}" for lane in report.lanes if lane.retry)
    return next(lanes, report.reason if report.reason.startswith("retrying") else "")


def _progress(report: JobReport | None) -> str:
    if report is None:
        return "its driver has not reported yet"
    if report.chunks_total and not report.lanes:
        return f"{report.chunks_done} of {report.chunks_total} chunks copied"
    behind = [lane for lane in report.lanes if lane.state == LaneState.CATCHING_UP.value]
    waited_for = f"; catching up: {len(behind)} of them, the first is {behind[0].name}" if behind else ""
    return f"{many(len(report.lanes), 'lane')}, {many(report.changes, 'change')}{waited_for}"


def _behind(report: JobReport | None) -> int | None:
    if report is None or not report.lanes:
        return None
    found = [lane.known_behind for lane in report.lanes]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None
