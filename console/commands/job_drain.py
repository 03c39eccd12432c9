"""What `slotkeeper jobs drain` does: waits until nothing of a job's tables is unread, and says how far that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.progress import Progress
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store

POLL_SECONDS = 0.5
_PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP, JobState.PENDING)
"""States in which draining may be waited for: one that was resumed a moment ago is PENDING, and streams soon."""
NOT_KNOWN = "?"


@dataclass(frozen=True, slots=True)
class _Left:
    """What is unread in words, by DN or by table and DN; `rows` in all, None where they cannot be counted."""

    by_lane: Mapping[str, str]
    rows: int | None = None

    @property
    def text(self) -> str:
        return "; ".join(text if lane == NOT_KNOWN else f"{lane}: {text}" for lane, text in self.by_lane.items())


def drain(ctx: typer.Context, loaded: Loaded, spec: JobSpec, wait: float, as_json: bool) -> None:
    """Wait for at most so many seconds, telling what is left; Refused where the job does not stream."""
    end, shown, most = time.monotonic() + wait, "", 0
    progress = Progress(spec.name, "rows drained")
    with Store.open(loaded.state_dir) as store:
        view = _streaming(store, spec.name)
        while True:
            left = _left(loaded, spec)
            if not left.by_lane or time.monotonic() >= end:
                break
            if left.rows is not None:
                most = max(most, left.rows)
                progress.at(most - left.rows, most)
            if shown != (shown := left.text if left.rows is None else ", ".join(left.by_lane)):
                diagnostics.note(f"{spec.name}: {left.text}")
            time.sleep(POLL_SECONDS)
            view = _streaming(store, spec.name, exit_code=True)
    _tell(ctx, spec, left, view, as_json)


def _left(loaded: Loaded, spec: JobSpec) -> _Left:
    # `jobs list` must load no database driver
    from slotkeeper.core.services import slot_commands
    from slotkeeper.core.slots.preflight import left_by_shard

    by_lane: dict[str, str] = {}
    unread: list[int | None] = []
    try:
        for channel in spec.channels:
            found = slot_commands.preflight(loaded, spec.source.name, channel.source_table, lambda jobs: ())
            by_lane |= {spec.lane_name(channel.source_table, dn): said for dn, said in left_by_shard(found).items()}
            unread.append(found.unread)
    except SlotkeeperError as error:
        if error.kind not in _PASSING:
            raise
        return _Left({NOT_KNOWN: error.message})
    known = [rows for rows in unread if rows is not None]
    return _Left(by_lane, sum(known) if len(known) == len(unread) else None)


def _tell(ctx: typer.Context, spec: JobSpec, left: _Left, view: JobView, as_json: bool) -> None:
    at, table = SystemClock().utc(), ", ".join(channel.source_table for channel in spec.channels)
    until = f"until the next commit on {table}; the job reads and registers that again by itself"
    if as_json:
        output.as_json(
            {
                "job": spec.name,
                "table": table,
                "drained": not left.by_lane,
                "at": at,
                "holds": until,
                "quiet_seconds": _quiet_seconds(view, at),
                "left": left.by_lane,
            }
        )
    elif left.by_lane:
        output.line(f"{spec.name}: not drained: {left.text}", select.ascii_only(ctx))
    else:
        output.line(f"now: {table} is drained at {at:%Y-%m-%dT%H:%M:%SZ}", select.ascii_only(ctx))
        output.line(f"it holds {until}", select.ascii_only(ctx))
    if left.by_lane:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _quiet_seconds(view: JobView, now: datetime) -> float | None:
    """How long ago the job last applied a change, as far as this run of it knows."""
    if view.report is None or view.reported_at is None:
        return None
    ages = [lane.last_commit_age for lane in view.report.lanes if lane.last_commit_age is not None]
    past = elapsed(view.reported_at, now)
    return round(min(ages) + past, 1) if ages and past is not None else None


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
