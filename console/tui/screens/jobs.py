"""Overview, Jobs, and one job DN by DN.

Next door: `console.views.jobs`, `console.views.overview` and `console.views.lanes` have rows and sentences;
`console.tui.screens.table` draws, `console.tui.screens.log` shows a log in full.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from console.monitor.snapshot import JobDetail, JobFacts, Level
from console.tui.screens.base import Lines
from console.tui.screens.table import TableScreen
from console.views.jobs import JOB_COLUMNS, PROCESS_COLUMNS, job_rows, units, what_is_safe, what_is_wrong
from console.views.lanes import (
    LANE_COLUMNS,
    counters,
    figures,
    lane_columns,
    lane_rows,
    lane_trouble,
    log_lines,
    next_risk,
    process,
    proof,
    since,
    work,
)
from console.views.overview import at_work, event_lines, summary
from console.views.rows import FAULTS, Column, Row, age, clock, columns_for, named_by, rank
from console.views.slots import all_slots, keeps_nothing, slot_risk, soonest
from core.domain.text import safe

LOCKS = Binding("L", "locks", "locks", id="locks", tooltip="who waits, and for whom")


class _OfJobs(TableScreen):
    """A table of jobs; Enter opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [LOCKS]
    has_actions = True

    def action_locks(self) -> None:
        """Who waits for a lock, and who is in front."""
        self.console.open_locks()

    def rows(self) -> list[Row]:
        """The jobs, the worst first."""
        return job_rows(self.console.shown.local.jobs, self.console.now, self.console.ascii_only)

    def columns_now(self) -> tuple[Column, ...]:
        """The columns that are shown at this width."""
        named = named_by(self.columns, units(self.console.shown.local.jobs))
        return columns_for(named, self.app.size.width, self.wide)

    def opened(self, key: str) -> None:
        """One job DN by DN."""
        self.app.push_screen(JobScreen(key, self.number))

    def act(self, keys: list[str]) -> None:
        """What can be done to these jobs."""
        self.console.open_job_menu(keys)

    def fault(self) -> Lines:
        """Where the state store cannot be read."""
        fault = self.console.shown.local.fault
        return [(Level.CRITICAL, f"the state store cannot be read: {safe(fault, 300)}")] if fault else []

    def detail_of(self, key: str | None) -> list[tuple[Level, str]]:
        """What is wrong with a job and what is safe to do."""
        job = self.console.shown.job(key) if key else None
        if job is None:
            return [(Level.REST, "no row is chosen")]
        different = job.verified is not None and job.verified.verdict == "different"
        return [
            (job.level, f"wrong  {what_is_wrong(job)}"),
            (Level.FINE, f"do     {what_is_safe(job)}"),
            (
                Level.CRITICAL if different else Level.FINE,
                f"target {safe(job.tables[1] or '?', 60)}{_more(job)}  {proof(job, self.console.now)}",
            ),
        ]


class OverviewScreen(_OfJobs):
    """What is wrong and what is safe, worst first."""

    its_place = "Overview"
    its_name = "Jobs"
    number = "1"
    columns = JOB_COLUMNS
    has_strip = True
    panel_height = 7

    def strip(self) -> Lines:
        """Jobs by state, whether targets are to be trusted, which slot is cleared first, who is on it."""
        local = self.console.shown.local
        if local.at is None:
            return [(Level.UNKNOWN, "reading the state store ...")]
        slots = soonest(self.console.shown.tables.values(), self.console.now)
        if self.console.in_history:
            slots = Level.REST, "slots: not recorded; R leaves history"
        if local.fault:
            return [*self.fault(), slots]
        return [*summary(local, self.console.now), slots, *at_work(local, self.console.now)]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The job under the cursor, then what happened last anywhere."""
        events = event_lines(self.console.shown.local, 8)
        lines = [*self.detail_of(key), (Level.REST, "last events (UTC)"), *((Level.FINE, one) for one in events)]
        return (safe(key, 60) if key else "Job"), lines


class JobsScreen(_OfJobs):
    """Jobs with their processes."""

    its_place = "Jobs"
    its_name = "Jobs"
    number = "2"
    columns = PROCESS_COLUMNS

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """The job under the cursor."""
        job = self.console.shown.job(key) if key else None
        lines = [*self.fault(), *self.detail_of(key)]
        if job is not None and job.state is not None:
            lines.append((Level.FINE, _run(job)))
        return (safe(key, 60) if key else "Job"), lines


class JobScreen(TableScreen):
    """One job: its DNs, what is wrong, what is safe, errors and the end of its log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="log", tooltip="over the whole screen"),
        Binding("E", "errors_of", "its errors", id="errors-of", tooltip="the errors of this job only"),
        Binding("d", "describe", "describe", id="describe", tooltip="its configuration, and where it comes from"),
        LOCKS,
    ]
    its_name = "DN"
    columns = LANE_COLUMNS
    has_strip = True
    has_actions = True
    panel_height = 7
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "act", "log", "errors-of", "describe", "faults", "pane")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number

    def columns_now(self) -> tuple[Column, ...]:
        """The columns that are shown at this width."""
        job = self.console.shown.job(self.job)
        return columns_for(lane_columns(job), self.app.size.width, self.wide)

    def rows(self) -> list[Row]:
        """The DNs of the last report."""
        job = self.console.shown.job(self.job)
        return lane_rows(job, self.console.ascii_only) if job else []

    def about(self) -> str:
        """Whose report it is, and how old."""
        job = self.console.shown.job(self.job)
        if job is None or job.report is None:
            return "nothing reported yet"
        run = "" if job.current else " of an earlier run"
        return f"report{run} {age(job.reported_at, self.console.now)} old"

    def strip(self) -> Lines:
        """State, how far and how fast, what is wrong or what the time goes into, the process."""
        job, now = self.console.shown.job(self.job), self.console.now
        if job is None:
            return [(Level.UNKNOWN, f"{safe(self.job, 60)} is not known here any more")]
        routes = " -> ".join(safe(one, 40) for one in job.tables if one) + _more(job)
        middle = (job.level, f"wrong  {what_is_wrong(job)}") if job.level in FAULTS else (Level.FINE, work(job))
        return [
            (job.level, f"{job.level.value} {safe(job.name, 60)}  {since(job, now)}   {routes}".rstrip()),
            (Level.FINE, figures(job, self.console.ascii_only)),
            middle,
            (Level.FINE, process(job, self._detail(), now)),
        ]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """What is safe, what runs out, the DN's trouble, errors, the log's end."""
        job, detail = self.console.shown.job(self.job), self._detail()
        lines: list[tuple[Level, str]] = []
        if job is not None:
            lines += [(Level.FINE, f"do     {what_is_safe(job)}"), self._risk(job)]
            lines += [(Level.FINE, work(job))] if job.level in FAULTS and job.busy else []
            trouble = lane_trouble(job, key)
            lines += [(Level.WARNING, trouble)] if trouble else []
            lines.append((Level.FINE, counters(job)))
        if detail is None:
            return "Errors and log", [*lines, (Level.UNKNOWN, "not read yet")]
        for one in detail.errors[:2]:
            words = safe(f"{one.side} {one.code} {one.message}", 300)
            lines.append((Level.WARNING, f"{clock(one.last_at)}  {one.count}x  {words}"))
        room = max(2, self.panel_rows - len(lines))
        lines += log_lines(detail.log[-room:]) or [(Level.REST, "the log is empty")]
        return f"Errors {len(detail.errors)} and the end of the log", lines

    def _risk(self, job: JobFacts) -> tuple[Level, str]:
        """Its slot's deadline where a look has seen it and it can expire, else what the state store tells."""
        slots = all_slots(self.console.shown.tables.values())
        mine = [one for one in slots if one.slot.job == job.name and not keeps_nothing(one)]
        if mine:
            risks = [slot_risk(one, self.console.now) for one in mine]
            return min(risks, key=lambda risk: rank(risk[0]))
        return Level.FINE, next_risk(job, self.console.now)

    def _detail(self) -> JobDetail | None:
        detail = self.console.shown.local.detail
        return detail if detail is not None and detail.job == self.job else None

    def act(self, keys: list[str]) -> None:
        """What can be done to this job, whatever DN the cursor is on."""
        self.console.open_job_menu([self.job])

    def action_log(self) -> None:
        """The log over the whole screen."""
        from console.tui.screens.log import LogScreen

        self.app.push_screen(LogScreen(self.job, self.number))

    def action_describe(self) -> None:
        """What the configuration says of it, and where that comes from."""
        from console.tui.screens.job_config import DescribeScreen

        self.app.push_screen(DescribeScreen(self.job, self.number))

    def action_locks(self) -> None:
        """Who waits for a lock, and who is in front."""
        self.console.open_locks()

    def action_errors_of(self) -> None:
        """The errors of this job only."""
        self.console.open_errors(self.job)

    def crumb(self) -> str:
        """Where one is."""
        return f"{self.console.SCREEN_KEYS[self.number][1]} > {safe(self.job, 60)}"


def _more(job: JobFacts) -> str:
    return f" and {len(job.others)} more" if job.others else ""


def _run(job: JobFacts) -> str:
    where = "no process" if job.alive is False else "elsewhere" if job.alive is None else safe(job.holder, 30)
    return f"wanted: {safe(job.wanted, 10)}, {where}, started {clock(job.started_at)}"
