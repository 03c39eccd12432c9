"""`slotkeeper run`: one job in the foreground, for systemd and containers.

This process is the job's supervisor. It starts the driver, restarts it after a crash, turns SIGTERM and SIGINT into a
graceful stop, and copies the driver's log to stderr. Other shells control the job like any other job.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from slotkeeper.console.cli import diagnostics, select
from slotkeeper.console.cli.select import Job, Reason
from slotkeeper.console.commands import job_verbs
from slotkeeper.console.commands.job_verbs import noted
from slotkeeper.core.bounded import size_of
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus, why_of
from slotkeeper.core.launch import control, verdict
from slotkeeper.core.launch.launch import FOREGROUND, Launch
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import opened_alone
from slotkeeper.core.state.sqlite import Store

app = typer.Typer(help="Run one job in the foreground.", add_completion=False)

LAUNCH = Launch()
"""The launch of the driver; tests replace it with a driver without Spark."""

_FOLLOW_SECONDS = 0.25
_MOST_BYTES = 1024 * 1024
"""The maximum number of log bytes read at a time."""


@app.command()
def run(
    ctx: typer.Context,
    job: Job,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="end after all changes in the source are applied")
    ] = False,
    wait: Annotated[
        int | None,
        typer.Option(
            "--wait", parser=select.milliseconds, metavar="TIME", help="longest wait for open transactions (10m)"
        ),
    ] = None,
    take_over: Annotated[bool, typer.Option("--take-over", help="end sessions of an earlier start")] = False,
    reason: Reason = "",
) -> None:
    """Run one job in the foreground; exit 0 ended normally, 1 failed, 2 configuration, 3 refused or superseded."""
    loaded, spec = select.job_of(ctx, job)
    extra = [*LAUNCH.extra, FOREGROUND]
    extra += ["--until-caught-up"] if until_caught_up else []
    extra += ["--wait-ms", str(wait)] if wait is not None else []
    launch = replace(LAUNCH, extra=tuple(extra))
    with Store.open(loaded.state_dir, migrates=True) as store:
        job_verbs.tell_apart(store, spec)
        with _signals_kept(), _followed(store.folder.log(job)):
            act = partial(control.run_here, store, job, str(loaded.path.absolute()), launch, take_over)
            view = noted(store, "run", job, reason, act)
        ended = store.run(view.run)
    code = exit_code(ended.exit_code if ended else None, view)
    if code is not diagnostics.ExitCode.FINE:
        why = why_of(view)
        diagnostics.note(f"{job}: {view.state.value}" + (f" ({why})" if why else ""))
        if view.safe:
            diagnostics.note(view.safe)
        raise typer.Exit(int(code))


def exit_code(driver: int | None, view: JobStatus) -> diagnostics.ExitCode:
    """Return the exit code of a foreground run, based on the driver's last exit code and the job's final state."""
    if driver == verdict.CONFIGURATION:
        return diagnostics.ExitCode.USAGE
    if driver == verdict.SUPERSEDED or view.trouble or view.state is JobState.AWAITS_COPY:
        return diagnostics.ExitCode.REFUSED
    if driver in (verdict.ENDED, verdict.TERMINATED) or view.state in (JobState.STOPPED, JobState.FINISHED):
        return diagnostics.ExitCode.FINE
    return diagnostics.ExitCode.FAILED


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the signal handlers that the supervisor replaced."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


@contextmanager
def _followed(log: Path) -> Iterator[None]:
    """Copy new lines of the job's log to stderr, because a container has no other log."""
    done = threading.Event()
    follower = threading.Thread(target=_follow, args=(log, size_of(log), done), name="follow", daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join(5.0)


def _follow(log: Path, offset: int, done: threading.Event) -> None:
    last = False
    while not last:
        last = done.wait(_FOLLOW_SECONDS)
        offset = _shown(log, offset, last)


def _shown(log: Path, offset: int, last: bool) -> int:
    """Show complete lines from `offset` on; if `last`, also a partial one. Return the new offset. Reads in pieces."""
    size = size_of(log)
    if size < offset:  # the log was truncated because it was too long
        offset = 0
    while offset < size:
        try:
            with os.fdopen(opened_alone(log), "rb") as reading:
                reading.seek(offset)
                added = reading.read(min(size - offset, _MOST_BYTES))
        except (OSError, StateError):  # the log was moved or another user owns it; the job continues
            break
        ends = last and offset + len(added) >= size
        whole = len(added) if ends else added.rfind(b"\n") + 1
        if not whole and len(added) == _MOST_BYTES:
            whole = _MOST_BYTES  # a line longer than one read continues in the next read
        if not whole:
            break
        offset += whole
        for line in added[:whole].splitlines():
            diagnostics.note(line.decode("utf-8", "backslashreplace"))
    return offset
