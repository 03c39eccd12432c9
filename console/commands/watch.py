"""`slotkeeper watch JOB`: six live lines below the prompt, which stay in the scrollback when it ends.

Rich draws: it moves the cursor up by the lines that it wrote and puts it back; nothing is parsed as markup.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.select import Job, StateDir
from slotkeeper.console.monitor.health import LEVELS, facts, said
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.views.rows import plain, rank
from slotkeeper.console.views.watch import list_lines
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store

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
            view = follow(store, job, select.ascii_only(ctx), lambda one: False, loaded)
        except KeyboardInterrupt:
            diagnostics.note(f"left; job {job} goes on as it was")
            return
    if view.state is JobState.FAILED:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def follow(
    store: Store, job: str, ascii_only: bool, leave: Callable[[JobView], bool], loaded: Loaded | None = None
) -> JobView:
    """Draw the job until it has no process, or `leave` says so; the last look at it."""
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

    def of(self, view: JobView) -> list[tuple[Level, str]]:
        """What is known now: the judgement that `status` and the console show, of this job and of this machine."""
        now = self._clock.utc()
        faults = judge(gather(self._store, self._loaded, now))
        found = facts(view, faults, now)
        ours = [one for one in faults if one.party is Party.MACHINE]
        if ours:
            parts = [said(ours, now), *([found.wrong] if found.faults else [])]
            level = min(LEVELS[ours[0].severity], found.level, key=rank)
            found = replace(found, level=level, wrong="; ".join(parts), safe=found.safe or ours[0].do)
        return list_lines(found, self._store.events(self._job, 1), now)

    def drawn(self, view: JobView, width: int) -> Group:
        """The lines, none wider than the terminal: one that wraps could not be drawn over."""
        return Group(*(self._text(level, words, width - 1) for level, words in self.of(view)))

    def _text(self, level: Level, words: str, width: int) -> Text:
        shown = plain(words, self._ascii)
        if cell_len(shown) > width:
            shown = set_cell_size(shown, width - 2) + ".."
        return Text(shown, style=_STYLES.get(level, ""), no_wrap=True)
