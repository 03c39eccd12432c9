"""`slotkeeper watch JOB`: show six live lines below the prompt, which stay in the scrollback at the end.

They show the state, the problem, the action, the lag, the copy, and the last event. Rich moves the cursor up to redraw
the lines; no text is parsed as markup.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.select import Job, StateDir
from slotkeeper.console.monitor.health import LEVELS, facts, said
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.jobs import part_in, what_is_safe, what_is_wrong, worst_dn
from slotkeeper.console.views.lanes import worst_lane
from slotkeeper.console.views.rows import age, count, plain, rank
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import JobState, event_text
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.text import safe
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.rows import EventRow
from slotkeeper.core.state.sqlite import Store

app = typer.Typer(help="Follow one job in six lines below the prompt.", add_completion=False)

EVERY = 1.0
_STYLES = {Level.CRITICAL: "red", Level.WARNING: "yellow", Level.UNKNOWN: "magenta", Level.REST: "dim"}


@app.command()
def watch(ctx: typer.Context, job: Job, state_dir: StateDir = None) -> None:
    """Follow a job until it ends or Ctrl-C, without affecting it. 0: left or stopped; 1: it FAILED."""
    loaded, folder = select.state_of(ctx, state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        view = observe(store, job)
        try:
            view = follow(store, job, select.ascii_only(ctx), lambda one: False, loaded)
        except KeyboardInterrupt:
            diagnostics.note(f"watch ended; job {job} continues")
            return
    if view.state is JobState.FAILED:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def follow(
    store: Store, job: str, ascii_only: bool, leave: Callable[[JobStatus], bool], loaded: Loaded | None = None
) -> JobStatus:
    """Draw the job until it has no process or `leave` returns true. Return its last status."""
    lines = _Lines(store, job, ascii_only, loaded)
    drawn = sys.stdout.isatty()
    console = Console(markup=False, highlight=False, emoji=False)
    live = Live(console=console, auto_refresh=False, transient=False) if drawn else None
    manager: AbstractContextManager[object] = live or nullcontext()
    with manager:
        while True:
            view = observe(store, job)
            if live is not None:
                live.update(lines.drawn(view, console.width), refresh=True)
            else:
                output.line("  ".join(text for _, text in lines.of(view)[:2]), ascii_only)
                sys.stdout.flush()
            if leave(view) or not (view.state.has_process and (view.lives or view.elsewhere)):
                return view
            time.sleep(EVERY)


class _Lines:
    """The lines of one job."""

    def __init__(self, store: Store, job: str, ascii_only: bool, loaded: Loaded | None) -> None:
        self._store = store
        self._job = job
        self._ascii = ascii_only
        self._loaded = loaded
        self._clock = SystemClock()

    def of(self, view: JobStatus) -> list[tuple[Level, str]]:
        """Return the current lines, with the same faults of the job and this host as `status` and the console show."""
        now = self._clock.utc()
        faults = judge(gather(self._store, self._loaded, now))
        found = facts(view, faults, now)
        ours = [one for one in faults if one.party is Party.MACHINE]
        if ours:
            parts = [said(ours, now), *([found.wrong] if found.faults else [])]
            level = min(LEVELS[ours[0].severity], found.level, key=rank)
            found = replace(found, level=level, wrong="; ".join(parts), safe=found.safe or ours[0].do)
        return list_lines(found, self._store.events(self._job, 1), now)

    def drawn(self, view: JobStatus, width: int) -> Group:
        """Return the lines, truncated to the terminal's width, because a wrapped line could not be redrawn."""
        lines = []
        for level, words in self.of(view):
            shown = plain(words, self._ascii)
            if cell_len(shown) > width - 1:
                shown = set_cell_size(shown, width - 3) + ".."
            lines.append(Text(shown, style=_STYLES.get(level, ""), no_wrap=True))
        return Group(*lines)


LINES = 6


def list_lines(job: JobFacts, events: Sequence[EventRow], now: datetime) -> list[tuple[Level, str]]:
    """Return the six lines of a job, even if little is known about it."""
    state = job.state.value if job.state else "never started"
    seen = "nothing reported yet" if job.reported_at is None else f"report {age(job.reported_at, now)} old"
    glyph = "" if job.level is Level.FINE else f"{job.level.value} "
    report, copied, last = job.report, "copy    none in this run", "last    no event yet"
    lanes = "?" if report is None or not report.lanes else str(len(report.lanes))
    applied = count(report.changes) if report else "?"
    unit = f" {report.unit}" if report and report.unit else ""
    part, worst = part_in(job), worst_dn(job, worst_lane(job))
    behind = f"behind  {count(job.behind)}{unit}, worst {part} {worst} of {lanes}; events applied {applied}"
    if report is not None and report.chunks_total:
        rows = count(report.snapshot_rows)
        limit = CopyLimit(report.copy_rows_limit, report.copy_bytes_limit).text
        copied = f"copy    chunks {count(report.chunks_done)} of {count(report.chunks_total)}, rows {rows}"
        copied += f", {limit}" if limit else ""
    if events:
        one = events[0]
        last = f"last    {one.at:%H:%M:%S} {safe(event_text(one.event, one.text), 240)}"
    return [
        (job.level, f"{glyph}{safe(job.name, 60)}  {state}   {now:%H:%M:%S} UTC   {seen}"),
        (job.level, f"problem {what_is_wrong(job)}"),
        (Level.FINE, f"action  {what_is_safe(job)}"),
        (Level.FINE, behind),
        (Level.FINE, copied),
        (Level.REST, last),
    ]
