"""`slotkeeper status`: one line per job from the state store alone, for people in a hurry and for monitoring.

No server is asked. With --exit-code the plugin convention holds: 0 ok, 1 warning, 2 critical, 3 unknown.
Next door: `core.launch.view` looks at store and processes; `jobs show` says more about one job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from console import chosen, diagnostics, output
from core.clock import SystemClock
from core.domain.job import JobState
from core.domain.report import JobReport, LaneReport
from core.errors import SlotkeeperError
from core.launch.view import JobView, observe_all
from core.state.sqlite import Store

app = typer.Typer(help="One answer for monitoring.")

STALE_SECONDS = 30.0
"""A driver reports every second or so; one that lives and is silent for this long hangs or is starved."""

SILENT_SECONDS = 300.0


class Severity(Enum):
    """How a job stands, in the words of monitoring plugins."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


EXIT_CODES = {Severity.OK: 0, Severity.WARNING: 1, Severity.CRITICAL: 2, Severity.UNKNOWN: 3}
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.OK)


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job in one line; `behind` is the number of sync points of its furthest lane, None where unknown."""

    job: str
    severity: Severity
    state: JobState | None
    alive: bool
    text: str
    behind: int | None = None
    reported_at: datetime | None = None


@app.command()
def status(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object")] = False,
    by_code: Annotated[
        bool, typer.Option("--exit-code", help="end with 0 ok, 1 warning, 2 critical, 3 unknown")
    ] = False,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="state folder; no configuration is read then")
    ] = None,
) -> None:
    """One line per job, from the state store only; no server is asked."""
    try:
        loaded, folder = chosen.state_of(ctx, state_dir)
        with Store.open(folder) as store:
            views = observe_all(store)
    except SlotkeeperError as error:
        if not by_code:
            raise
        diagnostics.warn(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        raise typer.Exit(EXIT_CODES[Severity.UNKNOWN]) from None
    now = SystemClock().utc()
    known = {view.name for view in views}
    idle = [name for name in (loaded.jobs if loaded else ()) if name not in known]
    found = [judge(view, now) for view in views]
    found += [JobStatus(name, Severity.OK, None, False, "never started") for name in idle]
    found.sort(key=lambda one: one.job)
    overall = worst(one.severity for one in found)
    if as_json:
        output.as_json({"severity": overall, "jobs": found})
    else:
        for one in found:
            output.line(_line(one), chosen.ascii_only(ctx))
        if not found:
            output.line("no job is known here")
    if by_code:
        raise typer.Exit(EXIT_CODES[overall])


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
    return JobStatus(view.name, severity, view.state, view.lives, text, behind, view.reported_at)


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
    lanes = (f"{lane.shard}: {lane.retry}" for lane in report.lanes if lane.retry)
    return next(lanes, report.reason if report.reason.startswith("retrying") else "")


def _progress(report: JobReport | None) -> str:
    if report is None:
        return "its driver has not reported yet"
    if report.chunks_total and not report.lanes:
        return f"{report.chunks_done} of {report.chunks_total} chunks copied"
    return f"{len(report.lanes)} lanes, {report.changes} changes"


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


def _line(one: JobStatus) -> str:
    state = one.state.value if one.state else "-"
    alive = "" if one.alive or one.state is None or not one.state.has_process else " (no process here)"
    behind = f"; {one.behind} sync points behind" if one.behind else ""
    text = f": {one.text}" if one.text else ""
    return f"{one.severity.value.upper():<8}  {one.job}  {state}{alive}{text}{behind}"
