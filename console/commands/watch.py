"""`slotkeeper watch JOB`: six live lines below the prompt, which stay in the scrollback when it ends.

Rich draws: it moves the cursor up by the lines that it wrote and puts it back; nothing is parsed as markup. Next door:
`console.views.watch` has the lines, `console.monitor.health` the facts; the full screen is `console.tui.app`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from console.cli import diagnostics, output, select
from console.cli.select import Job, StateDir
from console.monitor.health import facts
from console.monitor.snapshot import Level
from console.views.rows import plain
from console.views.watch import list_lines
from core.clock import SystemClock
from core.domain.job import JobState
from core.domain.job_view import JobView
from core.judgement.facts import Facts
from core.judgement.judge import judge
from core.judgement.limits import LIMITS, Limits
from core.launch.seen import job_seen
from core.launch.view import observe
from core.state.sqlite import Store

app = typer.Typer(help="Follow one job in six lines below the prompt.", add_completion=False)

EVERY = 1.0
_STYLES = {Level.CRITICAL: "red", Level.WARNING: "yellow", Level.UNKNOWN: "magenta", Level.REST: "dim"}


@app.command()
def watch(
    ctx: typer.Context,
    job: Job,
    state_dir: StateDir = None,
) -> None:
    """Follow a job until it ends or Ctrl-C; the job does not notice. 0: left or stopped; 1: it FAILED."""
    loaded, folder = select.state_of(ctx, state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        view = observe(store, job)
        try:
            limits = loaded.alerts.limits if loaded is not None else LIMITS
            view = follow(store, job, select.ascii_only(ctx), lambda one: False, limits)
        except KeyboardInterrupt:
            diagnostics.note(f"left; job {job} goes on as it was")
            return
    if view.state is JobState.FAILED:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def follow(
    store: Store, job: str, ascii_only: bool, leave: Callable[[JobView], bool], limits: Limits = LIMITS
) -> JobView:
    """Draw the job until it has no process, or `leave` says so; the last look at it."""
    lines = _Lines(store, job, ascii_only, limits)
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

    def __init__(self, store: Store, job: str, ascii_only: bool, limits: Limits) -> None:
        self._store = store
        self._job = job
        self._ascii = ascii_only
        self._limits = limits
        self._clock = SystemClock()

    def of(self, view: JobView) -> list[tuple[Level, str]]:
        """What is known now."""
        now = self._clock.utc()
        seen = job_seen(self._store, view, {}, None, None, (), now, self._limits)
        found = facts(view, judge(Facts(now, (seen,), limits=self._limits)), now)
        return list_lines(found, self._store.events(self._job, 1), now)

    def drawn(self, view: JobView, width: int) -> Group:
        """The lines, none wider than the terminal: one that wraps could not be drawn over."""
        return Group(*(self._text(level, words, width - 1) for level, words in self.of(view)))

    def _text(self, level: Level, words: str, width: int) -> Text:
        shown = plain(words, self._ascii)
        if cell_len(shown) > width:
            shown = set_cell_size(shown, width - 2) + ".."
        return Text(shown, style=_STYLES.get(level, ""), no_wrap=True)
