"""`slotkeeper jobs`: list and control jobs from any shell of their owner."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotkeeper.console.actions.verbs import JobVerb
from slotkeeper.console.cli import context, diagnostics, output, rights, select
from slotkeeper.console.cli.select import ConfirmJob, Job, Json, OneTable, Reason, StateDir
from slotkeeper.console.commands import configured
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain import elapsed
from slotkeeper.core.domain.job import JobEvent, JobState, WantedState, event_text, transition
from slotkeeper.core.domain.last_known import past, state_text
from slotkeeper.core.domain.remedy import first_act, for_job, until_started
from slotkeeper.core.domain.remedy import start as start_of
from slotkeeper.core.domain.report import Identity, JobStatus, why_of
from slotkeeper.core.domain.row_counts import in_a_phrase
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.errors import Busy, ConfigError, Refused
from slotkeeper.core.judgement.facts import LIMITS, Limits
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.launch.view import Starting, observe, observe_all
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.observed import last
from slotkeeper.core.state.sqlite import Store

if TYPE_CHECKING:
    from slotkeeper.console.commands import job_queries, job_verbs
    from slotkeeper.core.launch import control, hosts, tables
else:  # scripts run `jobs list` every few seconds
    job_queries = context.load_when_used("slotkeeper.console.commands.job_queries")
    job_verbs = context.load_when_used("slotkeeper.console.commands.job_verbs")
    control = context.load_when_used("slotkeeper.core.launch.control")
    hosts = context.load_when_used("slotkeeper.core.launch.hosts")
    tables = context.load_when_used("slotkeeper.core.launch.tables")

app = typer.Typer(help="List, start, pause, stop, drain and cancel jobs.")

_SHOWN_EVENTS = 10
_REFUSED = "rejected by the configuration"
LOCK_SECONDS = 5.0
_GOALS = {JobVerb.STOP: WantedState.STOP, JobVerb.PAUSE: WantedState.PAUSE}
_WANTED = {WantedState.RUN: "running", WantedState.PAUSE: "paused", WantedState.STOP: "stopped"}

Wait = Annotated[
    float,
    typer.Option(
        "--wait", parser=select.seconds, metavar="TIME", help="how long to wait for the effect; 0: do not wait"
    ),
]
StartWait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        parser=select.seconds,
        metavar="TIME",
        help="longest wait (default: while the start makes progress); 0: do not wait",
    ),
]
TakeOver = Annotated[bool, typer.Option("--take-over", help="end sessions of an earlier start, even on another host")]
DrainWait = Annotated[float, typer.Option("--wait", parser=select.seconds, metavar="TIME", help="longest wait")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="for scripts: the same as --wait 0")]
_WAIT = "30s"
START_SECONDS = 30.0
"""The time in seconds to wait for a start if the job copies or its driver reports why it waits."""
_DRAIN_WAIT = "10m"


@app.command("list")
def list_jobs(ctx: typer.Context, as_json: Json = False, state_dir: StateDir = None) -> None:
    """List all jobs: those of the configuration and those started on this host."""
    loaded, folder = _place(ctx, state_dir)
    with Store.looked_at(folder) as store:
        views, verified = observe_all(store), last(store)
    known = {view.name for view in views}
    idle = [name for name in (loaded.jobs if loaded else ()) if name not in known]
    refused = configured.tell_refused(loaded)
    silent: set[str] = set()
    read = job_queries.of(loaded, idle, silent) if loaded and idle else {}
    never = [*idle, *(name for name in refused if name not in known)]
    if as_json:
        found = [*map(_brief, views), *(_never_started(name, read.get(name, {}), silent) for name in never)]
        by_job = ((one, str(one["job"])) for one in found)
        output.as_json([{**one, "verified": verified.get(job), "refused": refused.get(job)} for one, job in by_job])
        return
    rows: list[list[object]] = [
        [
            view.name,
            state_text(view.state, view.last_known),
            _alive(view),
            verified[view.name].verdict if view.name in verified else None,
            _REFUSED if view.name in refused else why_of(view),
        ]
        for view in views
    ]
    for name in never:
        why = _REFUSED if name in refused else _why_never(name, silent)
        rows.append(job_queries.row(name, read[name]) if name in read else [name, None, "no", None, why])
    head = ["job", "state", "alive", "compared", "reason"]
    places = {view.name: view.runs_on for view in views}
    if any(places.values()):
        head.insert(2, "host")
        for row in rows:
            row.insert(2, places.get(str(row[0])))
    output.table(head, sorted(rows, key=lambda row: str(row[0])), select.ascii_only(ctx))


@app.command()
def show(ctx: typer.Context, job: Job, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show one job: its state, processes, lanes, errors and latest events."""
    loaded, folder = _place(ctx, state_dir)
    with Store.looked_at(folder) as store:
        select.refuse_refused(loaded, store, job)
        read = job_queries.shown(loaded, store, job)
        if read:
            job_queries.show(ctx, job, read, _never_started(job, read), as_json)
            return
        view = observe(store, job)
        errors, events = store.errors(job), store.events(job, _SHOWN_EVENTS)
        verified = last(store)
    if as_json:
        proof = {"verified": verified.get(job)}
        output.as_json({**_brief(view), **proof, "report": view.report, "errors": errors, "events": events})
        return
    _show_head(ctx, view, loaded.alerts.limits if loaded is not None else LIMITS)
    output.line(f"{'compared':<10}  {in_a_phrase(verified.get(job), SystemClock().utc())}", select.ascii_only(ctx))
    report = view.report
    if report is not None and report.lanes:
        if view.last_known:
            report = past(report, 0.0)
            old = None if view.reported_at is None else elapsed.elapsed(view.reported_at, SystemClock().utc())
            known = "last known" if old is None else f"last known {in_words(old)} ago"
            output.line(f"{'lanes':<10}  {known}", select.ascii_only(ctx))
        table = any(lane.label for lane in report.lanes)
        of_lane = ["state", "activity", "position", "latest", "delay", "retry"]
        heads = [*(["table"] if table else []), report.part.lower(), *of_lane]
        lanes = [
            [*([lane.source_table] if table else []), lane.shard, lane.state, lane.activity, lane.position, lane.latest,
             "" if lane.delay is None else f"{lane.delay:.0f} s", lane.retry]
            for lane in report.lanes
        ]  # fmt: skip
        output.table(heads, lanes, select.ascii_only(ctx))
    job_verbs.show(view, select.ascii_only(ctx))
    if errors:
        rows = [[error.count, error.side, error.code, error.message] for error in errors]
        output.table(["count", "side", "code", "error"], rows, select.ascii_only(ctx))
    output.table(
        ["at", "event"],
        [[output.second(e.at), event_text(e.event, e.text)] for e in reversed(events)],
        select.ascii_only(ctx),
    )


@app.command()
def start(
    ctx: typer.Context,
    job: Job,
    wait: StartWait = None,
    no_wait: NoWait = False,
    take_over: TakeOver = False,
    table: OneTable = "",
    confirm: ConfirmJob = "",
    confirm_rows: Annotated[
        int | None, typer.Option("--confirm-rows", metavar="N", help="rows that the change of columns affects")
    ] = None,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Start a job in the background, and wait until it runs or fails; it survives a lost connection.

    A job in AWAITS COPY replaces the target's rows only with consent: either the consent given at the reset, which is
    valid for 24 hours, or --confirm JOB with --reason TEXT. A change of columns that removes values of the target is
    applied only with --confirm-rows as well: N is the number that the stopped table reports.

    The wait ends after ten minutes without progress, or after 30 s if the job copies or reports what it waits for. The
    copy then continues, and `jobs show` shows its progress. Tables that were stopped or paused separately stay so;
    --table starts one of them while the others run.
    """
    loaded, spec = select.starting(ctx, job)
    wait = 0.0 if no_wait else wait
    if confirm_rows is not None and not confirm:
        raise typer.BadParameter("needs --confirm JOB and --reason TEXT", param_hint="--confirm-rows")
    if confirm:
        with Store.open(loaded.state_dir, migrates=True) as store:
            access = rights.access_of(context.of(ctx))
            job_verbs.consent(store, access, job, table, confirm, reason, confirm_rows)
    if table:
        job_verbs.refuse_take_over(take_over)
        job_verbs.steer(ctx, loaded.state_dir, loaded, job, table, tables.Ask.START, _of_table(wait), reason, as_json)
        return
    config, patience = str(loaded.path.absolute()), _start_patience(job, wait)
    with Store.open(loaded.state_dir, migrates=True) as store:
        job_queries.refuse(loaded, store, job)
        job_verbs.tell_taken_out(store, spec)
        _warn_of_its_end(store, job)
        begin = partial(control.start, store, job, config, take_over=take_over, patience=patience)
        act = partial(hosts.begun, loaded, store, job, reason, patience.seconds, begin)
        view = _begun(store, "jobs start", job, reason, act, as_json)
        job_verbs.tell_apart(store, spec)
    _tell(ctx, view, as_json, fine=view.state.has_process or view.state is JobState.FINISHED)


def _begun(store: Store, what: str, job: str, reason: str, act: Callable[[], JobStatus], as_json: bool) -> JobStatus:
    """Start a job, audited; a job that is still starting is printed, and Starting is raised."""
    try:
        return job_verbs.noted(store, what, job, reason, act)
    except Starting as error:
        if as_json:
            output.as_json(_brief(error.view))
        raise


def _warn_of_its_end(store: Store, job: str) -> None:
    """Warn about the action that a FAILED job requires, because without it the job starts but soon fails again."""
    row = store.job(job)
    act = first_act(until_started(row.safe, job)) if row is not None and row.state is JobState.FAILED else ""
    if row is not None and act:
        ended = f" ({row.trouble})" if row.trouble else ""
        diagnostics.warn(f"job {job} has FAILED{ended}, and will fail again unless you do this: {act}")


@app.command()
def restart(
    ctx: typer.Context,
    job: Job,
    wait: StartWait = None,
    table: OneTable = "",
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Stop a job if it runs, and start it with the current configuration; --table: one table, as configured."""
    loaded, spec = select.starting(ctx, job)
    if table:
        job_verbs.steer(ctx, loaded.state_dir, loaded, job, table, tables.Ask.RESTART, _of_table(wait), reason, as_json)
        return
    config, patience = str(loaded.path.absolute()), _start_patience(job, wait)
    with Store.open(loaded.state_dir, migrates=True) as store:
        job_queries.refuse(loaded, store, job)
        store.register_job(job, config)
        job_verbs.tell_taken_out(store, spec)
        _warn_of_its_end(store, job)
        begin = partial(control.restart, store, job, config, patience=patience)
        act = partial(hosts.begun, loaded, store, job, reason, patience.seconds, begin, again=True)
        view = _begun(store, "jobs restart", job, reason, act, as_json)
        job_verbs.tell_apart(store, spec)
    _tell(ctx, view, as_json, fine=view.state.has_process or view.state is JobState.FINISHED)


def _steering(verb: JobVerb) -> None:
    """Add a verb that needs no configuration: it records the desired state and waits for the effect."""

    @app.command(verb.value, help=verb.does.help)
    def steer(
        ctx: typer.Context,
        job: Job,
        wait: Wait = _WAIT,  # type: ignore[assignment]
        table: OneTable = "",
        reason: Reason = "",
        as_json: Json = False,
        state_dir: StateDir = None,
    ) -> None:
        loaded, folder = _place(ctx, state_dir)
        if table:
            job_verbs.steer(ctx, folder, loaded, job, table, tables.Ask(verb.value), wait, reason, as_json)
            return
        with Store.open(folder) as store:
            select.refuse_refused(loaded, store, job)
            job_queries.refuse(loaded, store, job)
            observe(store, job)
            steered = partial(getattr(control, verb.value), store, job, control.Patience(wait, _note))
            act = partial(hosts.steered, loaded, store, job, _GOALS.get(verb, WantedState.RUN), reason, wait, steered)
            view = job_verbs.noted(store, f"jobs {verb.value}", job, reason, act)
        _tell(ctx, view, as_json, fine=verb.does.reached(view) or wait == 0)


for _verb in JobVerb:
    if _verb.does.help:
        _steering(_verb)


@app.command()
def retry(
    ctx: typer.Context,
    job: Job,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    table: OneTable = "",
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Immediately retry every step that waits for a retry, and poll every lane that waits for its next poll.

    The retry counts like any other. A rejected login still waits for its scheduled retry, because only one is left.
    """
    loaded, folder = _place(ctx, state_dir)
    if table and loaded is not None and job in loaded.jobs:
        job_verbs.refuse_whole(loaded.jobs[job])
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        job_queries.refuse(loaded, store, job)
        if loaded is not None and (host := job_verbs.other_owner(loaded, store, job)):
            options = {"job": job, "table": table, "wait": f"{wait:g}s"}
            job_verbs.by_owner(ctx, loaded, job, "retry", options, host, reason, as_json)
            return
        observe(store, job)
        job_verbs.retried(ctx, store, job, table, wait, reason, as_json)


@app.command("limit")
def limit_copies(
    ctx: typer.Context,
    job: Job,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="rows per second, all tasks together")] = 0,
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="bytes per second, such as 10MiB")] = "",
    none: Annotated[bool, typer.Option("--none", help="no limit, whatever the configuration says")] = False,
    as_configured: Annotated[bool, typer.Option("--configured", help="the limit of the configuration again")] = False,
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Limit how fast a job's copies read the source; a running copy follows within seconds.

    The limit also applies to later copies of the job on this host, until you set another one.
    """
    limit = job_verbs.limit_of(rows, size)
    if sum((limit.limits, none, as_configured)) != 1:
        raise typer.BadParameter("give --rows, --bytes or both, or --none, or --configured")
    loaded, folder = _place(ctx, state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        job_queries.refuse(loaded, store, job)
        observe(store, job)
        spec = loaded.jobs.get(job) if loaded is not None else None
        job_verbs.limited(ctx, store, spec, job, None if as_configured else limit, reason, as_json)


@app.command("recopy")
def copy_again(
    ctx: typer.Context,
    job: Job,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="the source table")],
    cancel: Annotated[bool, typer.Option("--cancel", help="withdraw the request")] = False,
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Copy a table of a running job again while its changes continue, so that the target equals the source.

    Use it if rows of the target differ from the source, for example because another user changed them. The job copies
    the table in chunks; after a restart, it continues the copy. Possible from MySQL and MariaDB into PostgreSQL.
    """
    loaded, folder = _place(ctx, state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        job_queries.refuse(loaded, store, job)
        observe(store, job)
        job_verbs.copied_again(ctx, store, loaded, job, table, cancel, reason, as_json)


@app.command("ensure")
def ensure_all(ctx: typer.Context, reason: Reason = "", as_json: Json = False, state_dir: StateDir = None) -> None:
    """Start every job that has no process and should be running; safe to repeat, for a service after a reboot.

    Then the command of [alerts] reports the faults of every job, as running supervisors do.

    Paused, stopped, failed and cancelled jobs stay as they are. Jobs in AWAITS COPY also stay as they are, with a
    warning, because a service cannot consent to a copy that replaces rows. Exit code 1: a job could not be started.
    """
    from slotkeeper.core.launch.alerting import Alerting
    from slotkeeper.core.launch.control import Ensured, ensure, restarted

    loaded, folder = _place(ctx, state_dir)
    refused = loaded.refused if loaded else {}
    with Store.open(folder, migrates=True) as store:

        def start_again(view: JobStatus) -> JobStatus:
            if view.name in refused:
                raise refused[view.name]
            return job_verbs.noted(store, "jobs ensure", view.name, reason, partial(restarted, store, view))

        found = ensure(store, start_again)
        if loaded is not None:
            silent: set[str] = set()
            unseen = [name for name in loaded.jobs if store.job(name) is None]
            read = job_queries.of(loaded, unseen, silent) if unseen else {}
            dead = {name: job_queries.reason(its) for name, its in read.items() if job_queries.any_dead(its)}
            note = lambda event, text: diagnostics.note(text)  # noqa: E731
            Alerting(store, note, loaded=loaded, dead_queries=dead, silent=silent).tick(0.0)
    for one in found:
        if one.state is JobState.AWAITS_COPY:
            diagnostics.warn(f"job {one.job} is in state AWAITS COPY: {start_of(one.job)}, which may need consent")
    if as_json:
        output.as_json([{"job": one.job, "outcome": one.what, "state": one.state, "why": one.why} for one in found])
    else:
        rows: list[list[object]] = [[one.job, one.what, one.state, one.why] for one in found]
        output.table(["job", "outcome", "state", "why"], rows, select.ascii_only(ctx))
    if any(one.what is Ensured.REFUSED for one in found):
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


@app.command()
def logs(
    ctx: typer.Context,
    job: Job,
    lines: Annotated[int, typer.Option("--lines", min=1, max=10_000, help="number of lines, from the end")] = 100,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show the last log lines of a job's driver and supervisor."""
    loaded, folder = _place(ctx, state_dir)
    file = StateFolder.looked_at(folder).log(job)
    try:
        with Store.looked_at(folder) as store:
            job_queries.refuse(loaded, store, job)
            observe(store, job)
    except Busy as error:  # the log can still be read
        diagnostics.warn(f"cannot determine whether job {job} is running: {error}")
    found = last_lines(file, lines)
    if as_json:
        output.as_json({"job": job, "file": file, "lines": found})
        return
    for each in found:
        output.line(each, select.ascii_only(ctx))


@app.command()
def cancel(
    ctx: typer.Context,
    job: Job,
    confirm: ConfirmJob = "",
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """End a job permanently: it can never be started again under this name. Its slot and its rows stay as they are."""
    # `jobs list` must not load a database driver
    from slotkeeper.core.launch.launch import START_LOCK
    from slotkeeper.core.services.audit import audited
    from slotkeeper.core.slots.change import Done
    from slotkeeper.core.state.audit import Audit, intent

    if confirm != job:
        raise Refused(f"the typed name is not {job!r}; nothing was cancelled", f"--confirm {job}")
    if not reason.strip():
        raise Refused(f"cancelling job {job} needs a reason", "--reason TEXT")
    loaded, folder = select.state_of(ctx, state_dir)
    with Store.open(folder) as store:
        job_queries.refuse(loaded, store, job)
        observe(store, job)
        with store.folder.locked(job, START_LOCK, LOCK_SECONDS):
            view = observe(store, job)
            transition(view.state, JobEvent.CANCELLED)
            if view.elsewhere:
                raise Refused(f"job {job} was started elsewhere and may be running there", "stop it there first")
            if view.lives:
                raise Refused(f"a process of job {job} is still running", f"`slotkeeper jobs stop {job}` first")
            control.refuse_open_reset(store, job)

            def act() -> Done:
                store.apply(job, JobEvent.CANCELLED, reason)
                store.record_event(job, JobEvent.CANCELLED.value, reason)
                return Done(observe(store, job).state.value, {})

            line = intent("jobs cancel", f"job {job}", reason, {"state": view.state.value})
            done = audited(Audit(store.folder), line, act)
    if as_json:
        output.as_json({"job": job, "state": done.outcome})
    else:
        slotless = view.report is not None and not view.report.keeps_positions
        stays = (
            "its progress rows stay; its source retains nothing for it"
            if slotless
            else "its slot stays until its TTL ends or `slots drop` removes it"
        )
        output.line(f"{job}: {done.outcome}; {stays}", select.ascii_only(ctx))


@app.command()
def drain(
    ctx: typer.Context,
    job: Job,
    wait: DrainWait = _DRAIN_WAIT,  # type: ignore[assignment]
    as_json: Json = False,
) -> None:
    """Wait until all changes of the job's tables are read, then report that VACUUM FULL or scaling out can start.

    The job continues to run and to register. Exit code 0: drained; 1: not drained in time, with the unread rows per DN.
    """
    loaded, spec = select.job_of(ctx, job)
    job_verbs.drain(ctx, loaded, spec, wait, as_json)


def _place(ctx: typer.Context, state_dir: Path | None) -> tuple[Loaded | None, Path]:
    """Return the configuration, if one is read, and the state folder. A broken file must not prevent a stop."""
    try:
        return select.state_of(ctx, state_dir)
    except ConfigError as error:
        hint = f"{error.hint}; " if error.hint else ""
        raise ConfigError(error.message, f"{hint}until then, control running jobs with --state-dir DIR") from error


def _start_patience(job: str, wait: float | None) -> control.Patience:
    """Return how long to wait: for the typed time, or as long as the start makes progress."""
    stalled = elapsed.STALLED_SECONDS if wait is None else 0.0
    seconds = START_SECONDS if wait is None else wait
    return control.Patience(seconds, _note, stalled, lambda text: diagnostics.note(f"{job}: {text}"))


def _of_table(wait: float | None) -> float:
    return START_SECONDS if wait is None else wait


def _note(view: JobStatus) -> None:
    diagnostics.note(f"{view.name}: {view.state.value}{_bracketed(view.reason)}")


def _tell(ctx: typer.Context, view: JobStatus, as_json: bool, fine: bool) -> None:
    if as_json:
        output.as_json(_brief(view))
    else:
        output.line(f"{view.name}: {view.state.value}{_bracketed(why_of(view))}", select.ascii_only(ctx))
    if not fine and view.state is JobState.AWAITS_COPY:
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))
    if not fine:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _show_head(ctx: typer.Context, view: JobStatus, limits: Limits) -> None:
    rows: list[tuple[str, object]] = [
        ("job", view.name),
        ("state", state_text(view.state, view.last_known)),
        ("host", view.runs_on),
        ("desired", _WANTED.get(view.wanted) if view.wanted else None),
        ("reason", why_of(view)),
        ("action", for_job(view.safe, view.name) or job_verbs.to_do_first(view)),
        ("started", output.second(view.started_at)),
        ("ended", output.second(view.ended_at)),
        ("driver", _who(view.driver, view.driver_alive)),
        ("supervisor", _who(view.supervisor, view.supervisor_alive)),
        ("reported", job_verbs.reported(view, limits)),
        ("config", view.config),
    ]
    for label, value in rows:
        if value not in (None, ""):
            output.line(f"{label:<10}  {value.value if isinstance(value, Enum) else value}", select.ascii_only(ctx))


def _brief(view: JobStatus) -> dict[str, object]:
    """Return a job's status as JSON values, without its report."""
    found = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    del found["report"], found["reported"]
    return {
        "job": found.pop("name"),
        **found,
        "last_known": view.last_known,
        "tables": view.living_tables,
        "queries": (),
    }


def _why_never(name: str, silent: Container[str]) -> str:
    return job_queries.SILENT if name in silent else "never started"


def _never_started(name: str, read: job_queries.OfJob, silent: Container[str] = ()) -> dict[str, object]:
    """Return a job that was never started on this host as JSON values, with the queries that read its slots."""
    names = [field.name for field in dataclasses.fields(JobStatus) if field.name not in ("name", "report", "reported")]
    found = {"job": name, **dict.fromkeys(names), "reason": _why_never(name, silent), "tables": (), "queries": ()}
    found["last_known"] = False
    return found | job_queries.as_values(read) if read else found


def _who(identity: Identity | None, alive: bool) -> str | None:
    return (
        None if identity is None else f"pid {identity.pid} on {identity.host}, {'running' if alive else 'has exited'}"
    )


def _alive(view: JobStatus) -> str:
    if view.elsewhere:
        return "unknown"
    starting = view.supervisor_alive or view.starting
    return "yes" if view.driver_alive else "starting" if starting else "no"


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""
