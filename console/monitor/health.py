"""How a job stands, judged from one look at it: for `slotkeeper status`, and for every row of the console. Pure.

Next door: `core.launch.view` looks, `console.commands.status` prints, `console.monitor.store_reader` hands it to the
screens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

from core.domain.job import JobState
from core.domain.progress import LaneState
from core.domain.report import JobReport, LaneReport
from core.domain.verified import rows_held

if TYPE_CHECKING:
    from core.domain.verified import Verified
    from core.launch.view import JobView

STALE_SECONDS = 30.0
"""A driver reports every second or so; one that lives and is silent for this long hangs or is starved."""

SILENT_SECONDS = 300.0


class Severity(Enum):
    """How a job stands, in the words of monitoring plugins."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.OK)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job in one line; `behind` is the number of sync points of its furthest lane, None where unknown.

    `verified` is what the last `slotkeeper verify` found, None where there was none. `quarantined` rows are held by the
    job's last report, None where it does not say; `only_held` where nothing else is the matter.
    """

    job: str
    severity: Severity
    state: JobState | None
    alive: bool
    text: str
    behind: int | None = None
    reported_at: datetime | None = None
    verified: Verified | None = None
    quarantined: int | None = None
    only_held: bool = False


def worst(severities: Iterable[Severity]) -> Severity:
    """The one that matters most; no job at all is fine.

    >>> worst([Severity.OK, Severity.UNKNOWN, Severity.WARNING])
    <Severity.WARNING: 'warning'>
    """
    found = set(severities)
    return next((severity for severity in _WORST_FIRST if severity in found), Severity.OK)


def judge(view: JobView, now: datetime) -> JobStatus:
    """How a job stands, from one look at it; pure."""
    severity, text = _told(view, now)
    behind = _behind(view.report) if view.reported and view.state.has_process else None
    held = view.report.quarantined if view.report else None
    only = bool(held) and severity is Severity.OK
    if held:
        said = rows_held(held) + ("" if view.state.has_process else " when it ended")
        text = f"{said}, which the target lacks" if only else f"{text}; {said}"
        severity = Severity.WARNING if only else severity
    return JobStatus(view.name, severity, view.state, view.lives, text, behind, view.reported_at, None, held, only)


def _told(view: JobView, now: datetime) -> tuple[Severity, str]:
    why = ": ".join(part for part in (view.trouble, view.reason) if part)
    if view.state is JobState.FAILED:
        return Severity.CRITICAL, why
    if not view.state.has_process:
        return _at_rest(view, why)
    if view.elsewhere and not view.lives:
        return Severity.UNKNOWN, why
    if not view.lives:
        return Severity.CRITICAL, why
    if view.state is JobState.PAUSED:
        return Severity.WARNING, why or "applies nothing; the TTL of its slot may run on"
    return _living(view, why, now)


def _at_rest(view: JobView, why: str) -> tuple[Severity, str]:
    if view.trouble or (view.state is JobState.STOPPED and view.run):
        return Severity.WARNING, f"{why}; the TTL of its slot runs on" if not view.trouble else why
    return Severity.OK, why


def _living(view: JobView, why: str, now: datetime) -> tuple[Severity, str]:
    if view.reported_at is not None and view.reported:
        silent = (now - view.reported_at).total_seconds()
        if silent > SILENT_SECONDS:
            return Severity.CRITICAL, f"its driver lives and has not reported for {silent:.0f} s"
        if silent > STALE_SECONDS:
            return Severity.WARNING, f"its driver lives and has not reported for {silent:.0f} s"
    report = view.report if view.reported else None
    retry = _retrying(report)
    if retry or view.trouble or why:
        return Severity.WARNING, retry or why
    return Severity.OK, _progress(report)


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
    return f"{len(report.lanes)} lanes, {report.changes} changes{waited_for}"


def _behind(report: JobReport | None) -> int | None:
    if report is None or not report.lanes:
        return None
    found = [_lane_behind(lane) for lane in report.lanes]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def _lane_behind(lane: LaneReport) -> int | None:
    if lane.latest is None or not lane.position:
        return None
    return max(0, lane.latest - int(lane.position.partition("/")[0]))
