"""The Overview and Jobs screens, the screen of one job and its DNs, and the screen of a job's configuration."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from slotkeeper.console.monitor.snapshot import JobDetail, JobFacts, Level
from slotkeeper.console.tui.boxes import Box, padded, rows_of_boxes
from slotkeeper.console.tui.screens.base import Lines, is_small
from slotkeeper.console.tui.screens.below import GraphBelow, parts_of
from slotkeeper.console.tui.screens.table import BESIDE, DOT, THREE, TableScreen
from slotkeeper.console.views.detail import (
    action_lines,
    apart_lines,
    command_in,
    command_of,
    dn_bars,
    labelled,
    lines_of,
    long_work,
    problem_lines,
)
from slotkeeper.console.views.jobs import (
    JOB_COLUMNS,
    PROCESS_COLUMNS,
    job_rows,
    parts,
    sync_line,
    units,
    what_is_wrong,
)
from slotkeeper.console.views.lanes import (
    LANE_COLUMNS,
    counters,
    host_line,
    lane_columns,
    lane_gtids,
    lane_rows,
    lane_trouble,
    log_lines,
    next_risk,
    process,
    since,
    work,
)
from slotkeeper.console.views.lanes import figures as figures_of
from slotkeeper.console.views.overview import at_work, trust, without_jobs
from slotkeeper.console.views.queries import dn_rows
from slotkeeper.console.views.queries import lines as query_lines
from slotkeeper.console.views.queries import strip as query_strip
from slotkeeper.console.views.rows import (
    FAULTS,
    NARROW,
    TYPED,
    Column,
    Row,
    Verdict,
    age,
    both_ends,
    clock,
    named_by,
    rank,
)
from slotkeeper.console.views.signs import MANY, ROLES
from slotkeeper.console.views.slots import all_slots, keeps_nothing, slot_risk
from slotkeeper.console.views.verdict import divided, figure_lines, figures, verdict
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.domain.fault import Fault

COPIES_COMMAND = "y command"
LEAST_LINES = 8
ROOMY = 8
"""The number of panel lines in which a problem and its action fit without scrolling."""
LANES_BESIDE = 12
_OF_FAULTS = ("wrong", "trouble")
"""The columns with a job's problem, shown only if several jobs have one."""
_ASIDE = ("dn", "dot", "doing", "bar", "lag", "rate", "spark", "behind", "eta")
_LOG_LINES = 12
"""The maximum number of log lines; the rest of a tall terminal is used for graphs, and `l` shows the whole log."""
LOCKS = Binding("L", "locks", "locks", id="locks", tooltip="waiting sessions and their blockers")
VIEWS = Binding("V", "views", "SQL views", id="views", tooltip="freshness and state of each, and what to do")
ERRORS = Binding("E", "errors_of", "job errors", id="errors-of", tooltip="only the errors of this job")
GRAPHS = Binding("h", "graphs", "graphs", id="graphs", tooltip="lag, rate and events over time")


class _LeadsToLocks(GraphBelow):
    """A job screen that shows the key for locks while there is a lock fault."""

    BINDINGS: ClassVar[list[BindingType]] = [LOCKS, VIEWS, GRAPHS, ERRORS]

    def action_graphs(self) -> None:
        job, lane = self.graphed(self.table.cursor_key)
        if job:
            self.console.open("graphs", job, self.number, lane)
        else:
            self.console.say("no job is selected", Level.WARNING)

    def action_errors_of(self) -> None:
        job, _ = self.graphed(self.table.cursor_key)
        if job:
            self.console.open("errors", job)
        else:
            self.console.say("no job is selected", Level.WARNING)

    def action_locks(self) -> None:
        self.console.open("locks")

    def action_views(self) -> None:
        self.console.open("views")

    def keys_now(self) -> Mapping[str, str]:
        first, *others = self.keys_shown
        return dict.fromkeys((first, "locks", *others), "") if self.locked() else super().keys_now()

    def role_of(self, job: JobFacts | None) -> str:
        """Return the color of a job's frame."""
        return ROLES[job.level] if job is not None and job.level in FAULTS else "frame"

    def locked(self) -> bool:
        """Return whether there is a lock fault."""
        return bool(self.lock_faults())

    def lock_faults(self) -> list[Fault]:
        """Return the lock faults."""
        faults = self.console.shown.local.faults
        if not faults:
            return []
        from slotkeeper.core.domain.fault import Party  # not needed for the first frame

        return [one for one in faults if one.party is Party.LOCK]


class _OfJobs(_LeadsToLocks):
    """A table of jobs; Enter opens one."""

    has_actions = True
    tells_events = True
    shown_verdict: Verdict | None = None
    """The verdict above the table."""

    def verdict_on(self, place: int = 0) -> Verdict:
        """Return the verdict on all jobs, as long as there is room for it."""
        local, now = self.console.shown.local, self.console.now
        self.shown_verdict = verdict(local, now, place, self.apart, self.verdict_room)
        return self.shown_verdict

    def jobs_meant(self) -> list[str]:
        key = self.table.cursor_key
        return self.marked or ([key] if key is not None else [])

    def graphed(self, key: str | None) -> tuple[str, str]:
        return key or "", ""

    def rows(self) -> list[Row]:
        return job_rows(self.console.shown.local.jobs, self.console.now, self.console.ascii_only)

    def every_column(self) -> Sequence[Column]:
        jobs = self.console.shown.local.jobs
        alone = sum(job.level in FAULTS for job in jobs) < 2  # the verdict and the panel have its problem
        shown = (one for one in self.columns if not (alone and one.key in _OF_FAULTS))
        return named_by(shown, units(jobs), (), parts(jobs) or ("lane",))

    def opened(self, key: str) -> None:
        self.app.push_screen(JobScreen(key, self.number))

    def act(self, keys: list[str]) -> None:
        self.console.open_job_menu(keys)

    def subject_of(self, key: str | None) -> str:
        """Return the job's safe action. If it changes, the panel scrolls back to its beginning."""
        job = self.console.shown.job(key) if key else None
        return job.safe if job is not None else ""

    def fault(self) -> Lines:
        """Return the error if the state store cannot be read."""
        fault = self.console.shown.local.fault
        return [(Level.CRITICAL, f"the state store cannot be read: {safe(fault, 300)}")] if fault else []

    def detail_of(self, key: str | None) -> list[tuple[Level, str]]:
        """Return a job's problem and its safe action."""
        job = self.console.shown.job(key) if key else None
        if job is None and not self.console.shown.local.jobs:
            return without_jobs(self.console.shown.local)
        if job is None:
            return [(Level.REST, "no row is selected")]
        if job.queries:
            return query_lines(job, self.console.now)
        return lines_of(job, self.console.now, not self.framed, self.console.ascii_only, self.shown_verdict)

    def edge(self, key: str | None) -> tuple[str, str]:
        job = self.console.shown.job(key) if key else None
        arrow = " -> " if self.console.ascii_only else " \u2192 "
        route = arrow.join(safe(one, 40) for one in job.tables if one) if job is not None else ""
        copies = COPIES_COMMAND if self.command(key) else ""
        return DOT[self.console.ascii_only].join(filter(None, (copies, route))), self.role_of(job)

    def command(self, key: str | None) -> str:
        """Return the command of the actions in the panel; "" if they contain none."""
        return command_of(self.console.shown.job(key) if key else None)

    def copied(self, row: Row) -> str:
        """Return the command of the panel's action, or the text of the row if no command resolves its problem."""
        return self.command(row.key) or super().copied(row)

    def drawn(self, key: str | None, width: int, rows: int) -> list[Text]:
        """Return a bar for each DN, unless the DNs are shown in a separate column."""
        job = self.console.shown.job(key) if key else None
        if job is None or job.queries or self._has_lanes(job):
            return []
        bars = parts_of(self, dn_bars(job, width, rows, self.console.ascii_only))
        return [self.text(""), *bars] if bars and len(bars) < rows else bars

    def aside(self, key: str | None, width: int) -> Box | None:
        """Return the DNs of a job as a table for a column of their own."""
        job = self.console.shown.job(key) if key else None
        if job is None or not self._has_lanes(job):
            return None
        columns = (one for one in lane_columns(job) if one.key in _ASIDE)
        return Box("DNs", self.inset(columns, lane_rows(job, self.console.ascii_only)[:LANES_BESIDE], width))

    def _has_lanes(self, job: JobFacts) -> bool:
        return self.app.size.width >= THREE and self.framed and job.report is not None and bool(job.report.lanes)


class OverviewScreen(_OfJobs):
    """Problems and safe actions, worst first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "W", "welcome", "welcome", id="welcome", tooltip="show the welcome screen, if there is no configuration"
        )
    ]
    its_place = "Overview"
    its_name = "Jobs"
    number = "1"
    columns = JOB_COLUMNS
    panel_height = 6
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "welcome", "open", "fault", "act", "pause", "freeze", "palette", "filter", "sort",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._place = 0
        """The index of the fault that the verdict shows."""
        self._asked_at: str | None = None
        """The row of the cursor when that fault was requested."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        allowed = super().check_action(action, parameters)
        return allowed and self.console.services.loaded is None if action == "welcome" else allowed

    def action_welcome(self) -> None:
        self.console.open("welcome")

    def action_fault(self) -> None:
        """Show the next fault in the verdict, and move the cursor to its job."""
        faults = self.console.shown.local.faults
        if not faults:
            self.console.say("no problems")
            return
        self._place = (self._place + 1) % len(faults)
        self.table.move_to(faults[self._place].job)
        self._asked_at = self.table.cursor_key
        self.redraw()

    def apart_fault(self, key: str | None) -> Fault | None:
        """Return the verdict's fault if no listed job has it: at the first job unless that has a problem itself.

        If the fault was requested by its key, it is returned until the cursor moves.
        """
        local = self.console.shown.local
        one = local.faults[self._place] if self._place < len(local.faults) else None
        if one is None or any(each.name == one.job for each in local.jobs):
            return None
        job = self.console.shown.job(key) if key else None
        first = self.table.cursor_row == 0 and (job is None or job.level not in FAULTS)
        return one if first or key == self._asked_at else None

    def head(self) -> list[Text]:
        local, now, ascii_only = self.console.shown.local, self.console.now, self.console.ascii_only
        if local.at is None:
            return [self.text(" reading the state store ...", Level.UNKNOWN)]
        if local.fault:
            return []
        self._place = self._place if self._place < len(local.faults) else 0
        rows = [self.verdict_line(self.verdict_on(self._place))]
        size = self.app.size
        if is_small(size.width, size.height):
            return rows
        found = figures(
            local,
            list(self.console.shown.tables.values()),
            now,
            size.width,
            self.console.counts.get("4", 0),
            ascii_only,
        )
        return [*rows, *parts_of(self, [*figure_lines(found, size.width, ascii_only)])]

    def strip(self) -> Lines:
        local, now = self.console.shown.local, self.console.now
        if local.fault:
            return self.fault()
        if local.at is None or not local.jobs:
            return []
        level, words = trust(local.jobs, now)
        lacks = level is Level.CRITICAL or any(job.quarantined for job in local.jobs)
        trusted = [(level if level is Level.CRITICAL else Level.REST, words)] if lacks else []
        return [*trusted, *at_work(local, now)]

    def crumb(self) -> str:
        note = self.console.services.note[:1]
        return "   ".join([self.its_place, *(safe(one, 200) for one in note)])

    def panel(self, key: str | None) -> tuple[str, Lines]:
        steps = [safe(one, TYPED) for one in self.console.services.note[1:]]
        said = [(Level.REST, labelled("" if place else "Demo", one)) for place, one in enumerate(steps)]
        return (safe(key, 60) if key else "Job"), [*self._apart_lines(key), *self.detail_of(key), *said]

    def _apart_lines(self, key: str | None) -> Lines:
        one = self.apart_fault(key)
        if one is None:
            return []
        from slotkeeper.console.monitor.health import LEVELS  # not needed for the first frame

        return apart_lines(one, LEVELS[one.severity], not self.framed)

    def command(self, key: str | None) -> str:
        one = self.apart_fault(key)
        return (command_in([one.do]) if one is not None else "") or super().command(key)

    def more(self, key: str | None, room: int) -> list[Text]:
        graphs = super().more(key, room)
        return [*graphs, *self.last_events(room - len(graphs))]


class JobsScreen(_OfJobs):
    """Jobs with their processes."""

    its_place = "Jobs"
    its_name = "Jobs"
    number = "2"
    columns = PROCESS_COLUMNS

    def verdict(self) -> Verdict | None:
        local = self.console.shown.local
        return None if local.at is None or local.fault else self.verdict_on()

    def panel(self, key: str | None) -> tuple[str, Lines]:
        job = self.console.shown.job(key) if key else None
        lines = [*self.fault(), *self.detail_of(key)]
        if job is not None and job.state is not None and not job.queries:
            where = "no process" if job.alive is False else "elsewhere" if job.alive is None else safe(job.holder, 30)
            lines.append((Level.FINE, f"desired: {safe(job.wanted, 10)}, {where}, started {clock(job.started_at)}"))
        return (safe(key, 60) if key else "Job"), lines

    def more(self, key: str | None, room: int) -> list[Text]:
        graphs = super().more(key, room)
        return [*graphs, *self.last_events(room - len(graphs))]


class JobScreen(_LeadsToLocks):
    """One job: its DNs, its problem, the safe action, its errors and the end of its log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "log", id="log", tooltip="show the log on the full screen"),
        Binding("d", "describe", "describe", id="describe", tooltip="the job's configuration and its origin"),
    ]
    its_name = "Lanes"
    columns = LANE_COLUMNS
    has_actions = True
    panel_height = 7
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "act", "graphs", "log", "errors-of", "describe", "pane")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number

    def every_column(self) -> Sequence[Column]:
        return lane_columns(self.console.shown.job(self.job))

    def rows(self) -> list[Row]:
        job = self.console.shown.job(self.job)
        if job is not None and job.queries:
            return dn_rows(job)
        return lane_rows(job, self.console.ascii_only) if job else []

    def graphed(self, key: str | None) -> tuple[str, str]:
        return self.job, key or ""

    def row_meant(self) -> dict[str, str]:
        return {**super().row_meant(), "DN": self.table.cursor_key or ""}

    def copied(self, row: Row) -> str:
        """Return the command of the job's action, or the text of the row if no command resolves its problem."""
        return command_of(self.console.shown.job(self.job)) or super().copied(row)

    def about(self) -> str:
        job = self.console.shown.job(self.job)
        if job is not None and job.queries:
            return f"its store was queried {age(job.queries_at, self.console.now)} ago"
        if job is None or job.report is None:
            return "no report yet"
        run = "" if job.current else " of an earlier run"
        report = f"{'last report' if job.last_known else 'report'}{run} {age(job.reported_at, self.console.now)} old"
        return report + (f"   {since(job, self.console.now)}" if job.level in FAULTS and self.framed else "")

    def strip(self) -> Lines:
        job, now = self.console.shown.job(self.job), self.console.now
        if job is None:
            return [(Level.UNKNOWN, f"{safe(self.job, 60)} is no longer known on this host")]
        if job.queries:
            return query_strip(job, now)
        middle = [] if job.level in FAULTS and not self.framed else [(Level.FINE, work(job))]
        shown = [(Level.FINE, figures_of(job, now, self.console.ascii_only)), *middle]
        return [*shown, (Level.REST, process(job, self._detail(), now))]

    def verdict(self) -> Verdict | None:
        job, now = self.console.shown.job(self.job), self.console.now
        if job is None or job.queries:
            return None
        if job.level not in FAULTS:
            return Verdict(Level.FINE, f"{safe(job.name, 60)} {since(job, now)}")
        head = f"{both_ends(safe(job.name), self.verdict_room // 4)} {job.state_text}{self.apart}"
        if not job.faults:
            return Verdict(job.level, head + what_is_wrong(job))
        one = job.faults[0]
        name = "" if one.name == f"job {job.name}" else f"{safe(one.name, 60)}: "
        words, rest = divided(head + name, one, now, self.verdict_room, self.apart)
        return Verdict(job.level, words, job.name, one, rest)

    def head(self) -> list[Text]:
        """Return the verdict; with many DNs, also a cell per DN, colored by its lag, because the DN table scrolls."""
        job = self.console.shown.job(self.job)
        many = job is not None and job.report is not None and len(job.report.lanes) >= MANY
        strip = dn_bars(job, self.app.size.width - 1, 1, self.console.ascii_only) if job is not None and many else []
        return [*super().head(), *parts_of(self, [[(" ", ""), *line] for line in strip])]

    def panel(self, key: str | None) -> tuple[str, Lines]:
        job, detail = self.console.shown.job(self.job), self._detail()
        if job is not None and job.queries:
            return "A job that runs elsewhere", query_lines(job, self.console.now)
        lines: list[tuple[Level, str]] = []
        if job is not None:
            level, risk = self._risk(job)
            above = self.verdict()
            wrong = problem_lines(job, above, self.console.now) if job.level in FAULTS else []
            acts = [*action_lines(job), (level, labelled("Impact", risk))]
            begun = above is not None and above.fault is not None and above.rest != safe(above.fault.cause, 400)
            # in a small panel, actions come first if the verdict above already shows how the problem begins
            lines += [*acts, *wrong] if begun and self.panel_rows < ROOMY else [*wrong, *acts]
            trouble = lane_trouble(job, key)
            lines += [(Level.WARNING, trouble)] if trouble else []
            lines += long_work(job, self.console.ascii_only)
            more = f" and {len(job.others)} more" if job.others else ""
            routes = " -> ".join(safe(one, 40) for one in job.tables if one) + more
            lines += [(Level.FINE, labelled("Target", routes))] if routes else []
            sync = sync_line(job, self.console.ascii_only)
            lines += [(Level.FINE, one) for one in (lane_gtids(job, key), sync, counters(job), host_line(job)) if one]
        if detail is None:
            return "Errors and log", [*lines, (Level.UNKNOWN, "not read yet")]
        causes = [one.cause for one in job.faults] if job is not None else []
        for one in [one for one in detail.errors if not any(cause in one.message for cause in causes)][:2]:
            words = safe(f"{one.side} {one.code} {one.message}", 300)
            lines.append((Level.WARNING, f"{clock(one.last_at)}  {one.count}x  {words}"))
        room = max(2, min(_LOG_LINES, self.panel_rows - len(lines)))
        lines += log_lines(detail.log[-room:]) or [(Level.REST, "the log is empty")]
        return f"Errors {len(detail.errors)} and latest log lines", lines

    def boxes(self, key: str | None, room: int) -> list[list[Box]]:
        """Return the boxes for the problem and the log; on a wide terminal, also graphs below them, side by side."""
        job = self.console.shown.job(self.job)
        (row,) = super().boxes(key, room)
        row = [replace(row[0], role=self.role_of(job))]
        if self.app.size.width < BESIDE or not self.framed:
            return [row]
        title, lines = self.panel(key)
        found = self.wrapped(lines, boxed=True)
        below = self.lower(key, room - max(LEAST_LINES, len(found)))
        if not below:
            return [row]
        return [[replace(row[0], title=title, lines=padded(found, room - rows_of_boxes(below)))], *below]

    def _risk(self, job: JobFacts) -> tuple[Level, str]:
        """Return the slot's deadline if the slot was polled and can expire, otherwise the risk from the state store."""
        slots = all_slots(self.console.shown.tables.values())
        mine = [one for one in slots if one.slot.job == job.name and not keeps_nothing(one)]
        if mine:
            risks = [slot_risk(one, self.console.now, self.console.shown.local) for one in mine]
            return min(risks, key=lambda risk: rank(risk[0]))
        return Level.FINE, next_risk(job, self.console.now)

    def _detail(self) -> JobDetail | None:
        detail = self.console.shown.local.detail
        return detail if detail is not None and detail.job == self.job else None

    def act(self, keys: list[str]) -> None:
        self.console.open_job_menu([self.job])

    def action_log(self) -> None:
        self.console.open("log", self.job, self.number)

    def action_describe(self) -> None:

        self.app.push_screen(DescribeScreen(self.job, self.number))

    def locked(self) -> bool:
        return any(one.job == self.job for one in self.lock_faults())

    def crumb(self) -> str:
        return f"{self.console.SCREEN_KEYS[self.number][1]} > {safe(self.job, 60)}"


class DescribeScreen(TableScreen):
    """The settings of a job, its source and its sink, with the origin of each value.

    A configuration contains only references to passwords, so no password is shown.
    """

    columns = (
        Column("mark", "", 1),
        Column("key", "KEY", 38, name=True),
        Column("value", "VALUE", 0),
        Column("origin", "FROM", 16, least=NARROW),
    )
    panel_height = 3
    usual_order = "file order"
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "back", "filter", "copy", "export")

    def __init__(self, job: str, number: str) -> None:
        super().__init__()
        self.job = job
        self.number = number

    def rows(self) -> list[Row]:
        loaded = self.console.services.loaded
        return describe_rows(loaded, self.job) if loaded else []

    def heading(self) -> str:
        return f"Settings of {safe(self.job, 60)}"

    def panel(self, key: str | None) -> tuple[str, Lines]:
        row = next((row for row in self.rows() if row.key == key), None)
        if row is None:
            return "Setting", [(Level.UNKNOWN, "no loaded configuration contains this job")]
        return safe(row.key, 70), [(Level.FINE, row.cells["value"]), (Level.REST, f"from {row.cells['origin']}")]

    def crumb(self) -> str:
        return f"{'Overview' if self.number == '1' else 'Jobs'} > {safe(self.job, 60)} > settings"


def describe_rows(loaded: Loaded, job: str) -> list[Row]:
    """Return the job's delivery guarantee, its settings, and those of its source and sink, including unset ones."""
    spec = loaded.jobs.get(job)
    if spec is None:
        return []
    places: Iterable[str] = (f"jobs.{job}.", f"sources.{spec.source.name}.", f"sinks.{spec.sink.name}.")
    found = [one for place in places for one in loaded.settings() if one.key.startswith(place)]
    from slotkeeper.core.services.doctor import promise_of  # the first frame must not load a sink's driver

    said = {"mark": "", "key": "promise", "value": promise_of(spec), "origin": "derived"}
    return [Row("promise", Level.FINE, said)] + [
        Row(
            one.key,
            Level.FINE,
            {
                "mark": "",
                "key": safe(one.key.removeprefix(f"jobs.{job}."), 120),
                "value": "(not set)"
                if one.value is None
                else safe(json.dumps(one.value, default=str, ensure_ascii=False), 400),
                "origin": safe(f"{one.origin.layer.value} {Path(one.origin.place).name}".rstrip(), 120),
            },
        )
        for one in found
    ]
