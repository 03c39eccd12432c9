"""Overview, Jobs, and one job DN by DN.

Next door: `console.view_models` has rows and sentences; `console.screens.table` draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from console.picture import JobFacts, Level
from console.rows import Row, age, clock, count
from console.screens.frame import Lines
from console.screens.table import TableScreen
from console.slot_models import soonest
from console.view_models import (
    JOB_COLUMNS,
    LANE_COLUMNS,
    PROCESS_COLUMNS,
    event_lines,
    job_rows,
    lane_rows,
    summary,
    what_is_safe,
    what_is_wrong,
)
from core.domain.text import safe


class _OfJobs(TableScreen):
    """A table of jobs; Enter opens one."""

    def rows(self) -> list[Row]:
        """The jobs, the worst first."""
        local = self.console.shown.local
        return job_rows(local.jobs, self.console.now) if local else []

    def opened(self, key: str) -> None:
        """One job DN by DN."""
        self.app.push_screen(JobScreen(key, self.number))

    def fault(self) -> Lines:
        """Where the state store cannot be read."""
        local = self.console.shown.local
        return (
            [(Level.CRITICAL, f"the state store cannot be read: {safe(local.fault, 300)}")]
            if local and local.fault
            else []
        )

    def told(self, key: str | None) -> list[tuple[Level, str]]:
        """What is wrong with a job and what is safe to do."""
        job = self.console.shown.job(key) if key else None
        if job is None:
            return [(Level.REST, "no row is chosen")]
        return [(job.level, f"wrong  {what_is_wrong(job)}"), (Level.FINE, f"safe   {what_is_safe(job)}")]


class OverviewScreen(_OfJobs):
    """What is wrong and what is safe, worst first."""

    number = "1"
    columns = JOB_COLUMNS
    has_strip = True
    panel_height = 7

    def heading(self) -> str:
        """The table's name."""
        return "Jobs"

    def strip(self) -> Lines:
        """Jobs by state, whether targets are to be trusted, which slot is cleared first."""
        local = self.console.shown.local
        if local is None:
            return [(Level.UNKNOWN, "reading the state store ...")]
        slots = soonest(self.console.shown.tables.values(), self.console.now)
        return [*self.fault(), *(summary(local, self.console.now) if not local.fault else ()), slots]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The job under the cursor, then what happened last anywhere."""
        local = self.console.shown.local
        events: Iterator[str] = iter(event_lines(local, 4) if local else ())
        lines = [*self.told(key), (Level.REST, "last events (UTC)"), *((Level.FINE, one) for one in events)]
        return (safe(key, 60) if key else "Job"), lines

    def crumb(self) -> str:
        """Where one is."""
        return "Overview"


class JobsScreen(_OfJobs):
    """Jobs with their processes."""

    number = "2"
    columns = PROCESS_COLUMNS

    def heading(self) -> str:
        """The table's name."""
        return "Jobs"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The job under the cursor."""
        job = self.console.shown.job(key) if key else None
        lines = [*self.fault(), *self.told(key)]
        if job is not None and job.state is not None:
            lines.append((Level.FINE, _run(job)))
        return (safe(key, 60) if key else "Job"), lines

    def crumb(self) -> str:
        """Where one is."""
        return "Jobs"


class JobScreen(TableScreen):
    """One job: its DNs, what is wrong, what is safe, errors and the end of its log."""

    columns = LANE_COLUMNS
    has_strip = True
    panel_height = 8
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "faults", "pause", "refresh", "quit")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number

    def rows(self) -> list[Row]:
        """The DNs of the last report."""
        job = self.console.shown.job(self.job)
        return lane_rows(job) if job else []

    def heading(self) -> str:
        """The table's name."""
        return "DN"

    def about(self) -> str:
        """Whose report it is, and how old."""
        job = self.console.shown.job(self.job)
        if job is None or job.report is None:
            return "nothing reported yet"
        run = "" if job.current else " of an earlier run"
        return f"report{run} {age(job.reported_at, self.console.now)} old"

    def strip(self) -> Lines:
        """State, what is wrong, what is safe, the run."""
        job = self.console.shown.job(self.job)
        if job is None:
            return [(Level.UNKNOWN, f"{safe(self.job, 60)} is not known here any more")]
        state = job.state.value if job.state else "never started"
        return [
            (job.level, f"{job.level.value} {safe(job.name, 60)}  {state}   {_run(job)}"),
            (job.level, f"wrong  {what_is_wrong(job)}"),
            (Level.FINE, f"safe   {what_is_safe(job)}"),
            (Level.FINE, _figures(job)),
        ]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The DN's trouble, errors, the log's end."""
        local, job = self.console.shown.local, self.console.shown.job(self.job)
        lanes = {one.shard: one for one in job.report.lanes} if job and job.report else {}
        lines: list[tuple[Level, str]] = []
        lane = lanes.get(key or "")
        if lane is not None and (lane.error or lane.retry):
            lines.append((Level.WARNING, safe(f"{lane.shard}: {lane.error or lane.retry}", 300)))
        detail = local.detail if local else None
        if detail is None or detail.job != self.job:
            return "Errors and log", [*lines, (Level.UNKNOWN, "not read yet")]
        for number, at, words in detail.errors[:2]:
            lines.append((Level.WARNING, f"{clock(at)}  {number}x  {safe(words, 300)}"))
        room = self.panel_height - len(lines)
        lines += [(Level.REST, safe(one, 300)) for one in detail.log[-room:]] or [(Level.REST, "the log is empty")]
        return f"Errors {len(detail.errors)} and the end of the log", lines

    def crumb(self) -> str:
        """Where one is."""
        return f"{'Overview' if self.number == '1' else 'Jobs'} > {safe(self.job, 60)}"

    def leave(self) -> None:
        """Back to the jobs."""
        self.app.pop_screen()


def _run(job: JobFacts) -> str:
    where = "no process" if job.alive is False else "elsewhere" if job.alive is None else safe(job.holder, 30)
    return f"wish {safe(job.wish, 10)}, {where}, started {clock(job.started_at)}"


def _figures(job: JobFacts) -> str:
    report = job.report
    if report is None:
        return "nothing was reported yet"
    copied = f"chunks {count(report.chunks_done)}/{count(report.chunks_total)}  " if report.chunks_total else ""
    epoch = "?" if report.epoch is None else str(report.epoch)
    return (
        f"{copied}events {count(report.changes)}  tasks {count(report.tasks_started)}"
        f"  registrations {count(report.registrations)}  epoch {epoch}"
    )
