"""`slotkeeper sync show [JOB]`: jobs in the columns of SHOW SYNC JOB, for users of Binlog Load.

Reads the state store and the configuration, and queries no server.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.select import Json, OneJob, StateDir
from slotkeeper.console.commands import configured
from slotkeeper.console.views.sync_jobs import SyncJob, SyncStatus, sync_job
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.codec import shown
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.last_known import state_text
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.text import many, typed
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch.view import observe, observe_all
from slotkeeper.core.sources import registry
from slotkeeper.core.state.sqlite import KEPT_EVENTS, Store

app = typer.Typer(help="Jobs in the columns of SHOW SYNC JOB, for users of Binlog Load.")
OLD_TYPE = "CANAL"


@app.command()
def show(ctx: typer.Context, job: OneJob = "", as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show jobs in the columns of SHOW SYNC JOB, one field per line.

    No server is queried: values come from the jobs' last reports. Where a state has another name in Binlog Load, that
    name follows in parentheses. Jobs with another kind of source are left out; `jobs list` lists all jobs.
    """
    loaded, folder = select.state_of(ctx, state_dir)
    with Store.looked_at(folder) as store:
        if job:
            select.refuse_refused(loaded, store, job)
            configured_only = loaded is not None and job in loaded.jobs and store.job(job) is None
            views = [] if configured_only else [observe(store, job)]
            names = [job]
        else:
            views = observe_all(store)
            names = sorted({*(view.name for view in views), *(loaded.jobs if loaded else ())})
            configured.tell_refused(loaded)
        by_name = {view.name: view for view in views}
        kinds = {name: _speaks(by_name.get(name), loaded, name) for name in names}
        now = SystemClock().utc()
        found = [_row(store, name, kinds[name], by_name.get(name), loaded, now) for name in names if kinds[name]]
    others = [name for name in names if not kinds[name]]
    if job and others:
        what = f"job {job} does not read a binlog in the way Binlog Load did, or its kind of source is unknown"
        raise Refused(what, f"`slotkeeper jobs show {typed(job)}`")
    if others:
        diagnostics.note(f"left out {many(len(others), 'job')} with another or an unknown source: {', '.join(others)}")
    if as_json:
        output.as_json(found)
        return
    for number, one in enumerate(found):
        if number:
            output.line()
        for label, text in _lines(one):
            output.paragraph(f"{label:<13}", text, select.ascii_only(ctx))


def _speaks(view: JobStatus | None, loaded: Loaded | None, name: str) -> str:
    """Return the protocol of a job's source, if steps of such a source have the limits of Binlog Load; "" if not.

    The kind of a job that is not configured is known from the term for a position in its last report.
    """
    if loaded is not None and name in loaded.jobs:
        kinds = [loaded.jobs[name].source_kind]
    else:
        place = view.report.place if view is not None and view.report is not None else ""
        kinds = [one for one in registry.KINDS if place and registry.positions(one).name == place]
    return next((registry.traits(one).speaks for one in kinds if registry.traits(one).paced), "")


def _row(store: Store, name: str, speaks: str, view: JobStatus | None, loaded: Loaded | None, now: datetime) -> SyncJob:
    runs = store.runs(name)
    events = store.events(name, KEPT_EVENTS)
    starts = [run.started_at for run in runs]
    starts += [one.at for one in events if runs and one.event == JobEvent.RESUMED.value]
    stops = [run.ended_at for run in runs if run.ended_at is not None]
    stops += [one.at for one in events if one.event == JobEvent.PAUSED.value]
    spec = loaded.jobs.get(name) if loaded is not None else None
    return sync_job(name, speaks, view, spec, starts, stops, now)


def _lines(job: SyncJob) -> Iterator[tuple[str, str]]:
    """Yield a row's columns as (label, text), in the order of SHOW SYNC JOB."""
    state = state_text(job.state, job.last_known) if job.state is not None else "-"
    old = job.binlog_load_state
    yield "JobId", job.job_id or "-"
    yield "JobName", job.job_name
    yield "Type", f"{job.type} (Binlog Load: {OLD_TYPE})"
    yield "State", f"{state} (Binlog Load: {old})" if job.state and old not in (None, job.state.value) else state
    yield "Channel", ", ".join(f"{one.source_table}->{one.target}" for one in job.channel) or "-"
    yield "Status", "; ".join(_status(job.status)) if job.status is not None else "no position yet"
    config = [f"{name}: {value}" for name, value in shown(job.job_config).items()] if job.job_config else ["not read"]
    yield "JobConfig", ", ".join(config)
    for label, at in (
        ("CreateTime", job.create_time),
        ("LastStartTime", job.last_start_time),
        ("LastStopTime", job.last_stop_time),
        ("FinishTime", job.finish_time),
    ):
        yield label, output.second(at) or "-"
    yield "Msg", job.msg or "-"


def _status(found: SyncStatus) -> Iterator[str]:
    least = "" if found.current else "at least "
    delay, behind = found.delay_seconds, found.behind_bytes
    yield f"position {found.shown}"
    yield f"latest {found.latest or 'unknown'}"
    if behind is None:
        apart = found.latest is not None and found.latest.partition(":")[0] != found.shown.partition(":")[0]
        yield "behind: not in bytes, because latest is in another file" if apart else "behind: unknown"
    else:
        yield f"behind {least}{behind:,} bytes"
    if found.execute_time is not None:
        yield f"executeTime {output.second(found.execute_time)}"
    yield "delay: unknown" if delay is None else f"delay {least}{in_words(delay)}"
    if found.gtid:
        yield f"GTIDs {found.gtid.replace(',', ', ')}"
    if found.lanes > 1:
        yield f"of {found.source_table}, the last of {found.lanes} lanes"
    if not found.current and found.reported_at is not None:
        yield f"reported at {output.second(found.reported_at)}"
