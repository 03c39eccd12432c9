"""`slotkeeper jobs cancel` and `jobs drain`; the group itself is in `jobs`.

Next door: `core.domain.job` says when a job may be cancelled, `core.slots.status.preflight` what is not drained.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.cli import diagnostics, output, select
from core.clock import SystemClock
from core.domain.job import JobEvent, JobState, transition
from core.errors import ErrorKind, Refused, SlotkeeperError
from core.launch.control import START_LOCK, refuse_open_reset
from core.launch.view import JobView, observe
from core.state.sqlite import Store

if TYPE_CHECKING:
    from core.config.model import Loaded
    from core.domain.spec import JobSpec

LOCK_SECONDS = 5.0
POLL_SECONDS = 0.5
_PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP)
NOT_KNOWN = "?"

Name = Annotated[str, typer.Argument(metavar="JOB", help="the job's name")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
Wait = Annotated[
    float, typer.Option("--wait", parser=select.seconds, metavar="TIME", help="how long to wait at most (10m)")
]
_WAIT = "10m"


def add_to(app: typer.Typer) -> None:
    """Put the commands of this module into the group."""
    app.command("cancel")(cancel)
    app.command("drain")(drain)


def cancel(
    ctx: typer.Context,
    job: Name,
    confirm: Annotated[str, typer.Option("--confirm", metavar="JOB", help="the job's name, typed again")] = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for the audit")] = "",
    as_json: Json = False,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="state folder; no configuration is read then")
    ] = None,
) -> None:
    """End a job for good: it can never be started again under this name. Its slot and its rows stay as they are."""
    # `jobs list` must load no database driver
    from core.services.audit import audited
    from core.slots.change import Done
    from core.state.audit import Audit, intent

    if confirm != job:
        raise Refused(f"the name typed is not {job!r}: cancelling is final", f"--confirm {job}")
    if not reason.strip():
        raise Refused(f"cancelling job {job} needs a reason", "--reason TEXT")
    with Store.open(select.state_of(ctx, state_dir)[1]) as store:
        observe(store, job)
        with store.folder.locked(job, START_LOCK, LOCK_SECONDS):
            view = observe(store, job)
            _refuse_unless_at_rest(view)
            refuse_open_reset(store, job)

            def act() -> Done:
                store.apply(job, JobEvent.CANCELLED, reason)
                store.record_event(job, JobEvent.CANCELLED.value, reason)
                return Done(observe(store, job).state.value, {})

            line = intent("jobs cancel", f"job {job}", reason, {"state": view.state.value})
            done = audited(Audit(store.folder), line, act)
    if as_json:
        output.as_json({"job": job, "state": done.outcome})
    else:
        output.line(f"{job}: {done.outcome}; its slot stays until its TTL ends or `slots drop`", select.ascii_only(ctx))


def drain(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    as_json: Json = False,
) -> None:
    """Wait until nothing of the job's tables is unread, then say so: the moment for VACUUM FULL or scaling out.

    The job goes on running and registering. 0: now; 1: not within the time, with what is left per DN.
    """
    loaded, spec = select.job_of(ctx, job)
    tables = [channel.source_table for channel in spec.channels]
    end = time.monotonic() + wait
    told: Mapping[str, str] = {}
    with Store.open(loaded.state_dir) as store:
        view = _streaming(store, job)
        while True:
            try:
                left = _left(loaded, spec, tables)
            except SlotkeeperError as error:
                if error.kind not in _PASSING:
                    raise
                left = {NOT_KNOWN: error.message}
            if not left or time.monotonic() >= end:
                break
            if told != left:
                diagnostics.note(f"{job}: {_said(left)}")
                told = left
            time.sleep(POLL_SECONDS)
            view = _streaming(store, job, exit_code=True)
    _tell(ctx, job, tables, left, view, as_json)


def _left(loaded: Loaded, spec: JobSpec, tables: list[str]) -> Mapping[str, str]:
    """What is unread by DN, or by table and DN where the job reads several."""
    from core.services import slot_commands
    from core.slots.status.preflight import left_by_shard

    found: dict[str, str] = {}
    for table in tables:
        left = left_by_shard(slot_commands.preflight(loaded, spec.source.name, table, lambda jobs: ()))
        found |= {spec.lane_name(table, shard): said for shard, said in left.items()}
    return found


def _tell(
    ctx: typer.Context, job: str, tables: list[str], left: Mapping[str, str], view: JobView, as_json: bool
) -> None:
    at, table = SystemClock().utc(), ", ".join(tables)
    holds = f"until the next commit on {table}; the job reads and registers that again by itself"
    if as_json:
        quiet = _quiet_seconds(view, at)
        output.as_json(
            {
                "job": job,
                "table": table,
                "drained": not left,
                "at": at,
                "holds": holds,
                "quiet_seconds": quiet,
                "left": left,
            }
        )
    elif left:
        output.line(f"{job}: not drained: {_said(left)}", select.ascii_only(ctx))
    else:
        output.line(f"now: {table} is drained at {at:%Y-%m-%dT%H:%M:%SZ}", select.ascii_only(ctx))
        output.line(f"it holds {holds}", select.ascii_only(ctx))
    if left:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _quiet_seconds(view: JobView, now: datetime) -> float | None:
    """How long ago the job last applied a change, as far as this run of it knows."""
    if view.report is None or view.reported_at is None:
        return None
    ages = [lane.last_commit_age for lane in view.report.lanes if lane.last_commit_age is not None]
    return round(min(ages) + (now - view.reported_at).total_seconds(), 1) if ages else None


def _streaming(store: Store, job: str, exit_code: bool = False) -> JobView:
    """The job while it streams; Refused (or, later on, exit code 1) where it does not."""
    view = observe(store, job)
    if view.state in _STREAMING and view.lives:
        return view
    why = f": {view.reason}" if view.reason else ""
    text = f"job {job} is {view.state.value}{why}; draining needs a job that is RUNNING or CATCHING UP"
    if exit_code:
        diagnostics.warn(text)
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))
    raise Refused(text, f"`slotkeeper jobs start {job}`")


def _refuse_unless_at_rest(view: JobView) -> None:
    transition(view.state, JobEvent.CANCELLED)
    if view.elsewhere:
        raise Refused(f"job {view.name} was started elsewhere and may live there", "stop it there first")
    if view.lives:
        raise Refused(f"a process of job {view.name} still lives", f"`slotkeeper jobs stop {view.name}` first")


def _said(left: Mapping[str, str]) -> str:
    return "; ".join(text if shard == NOT_KNOWN else f"{shard}: {text}" for shard, text in left.items())
