"""`slotkeeper jobs`: see and steer jobs from any shell of the user whose jobs they are.

Next door: `core.launch.control` does it and waits for the effect; `core.launch.view` is what is shown;
`job_verbs` has cancel and drain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from console.cli import context, diagnostics, output, refusals, select
from console.commands import job_verbs
from console.commands.job_audit import noted
from core.clock import SystemClock
from core.config.load import default_state_dir
from core.config.model import Loaded, NoConfig
from core.domain.identity import Identity
from core.domain.job import JobState
from core.domain.verified import in_a_phrase
from core.errors import ConfigError
from core.launch import control
from core.launch.control import Patience
from core.launch.log import last_lines
from core.launch.view import JobView, observe, observe_all
from core.state.sqlite import Store
from core.state.verified import last

app = typer.Typer(help="List, start, pause, stop, drain and cancel jobs.", no_args_is_help=True)

_SHOWN_EVENTS = 10
_REFUSED = "refused by the configuration"


Name = Annotated[str, typer.Argument(metavar="JOB", help="the job's name")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", metavar="DIR", help="state folder; no configuration is read then")
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait", parser=select.seconds, metavar="TIME", help="how long to wait for the effect (30s); 0: do not wait"
    ),
]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="end sessions of an earlier start, also of one on another machine")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for the audit")]
_WAIT = "30s"


@app.command("list")
def list_jobs(ctx: typer.Context, as_json: Json = False, state_dir: StateDir = None) -> None:
    """All jobs: those of the configuration and those that were started here."""
    loaded, folder = _place(ctx, state_dir)
    with Store.open(folder) as store:
        views = observe_all(store)
    known = {view.name for view in views}
    idle = [name for name in (loaded.jobs if loaded else ()) if name not in known]
    refused = refusals.say(loaded)
    if as_json:
        found = [*map(_brief, views), *map(_never_started, [*idle, *(name for name in refused if name not in known)])]
        output.as_json([{**one, "refused": refused.get(str(one["job"]))} for one in found])
        return
    rows: list[list[object]] = [
        [view.name, view.state, _alive(view), _REFUSED if view.name in refused else _why(view)] for view in views
    ]
    rows += [[name, None, "no", "never started"] for name in idle]
    rows += [[name, None, "no", _REFUSED] for name in refused if name not in known]
    output.table(["job", "state", "alive", "reason"], sorted(rows, key=lambda row: str(row[0])), _ascii(ctx))


@app.command()
def show(ctx: typer.Context, job: Name, as_json: Json = False, state_dir: StateDir = None) -> None:
    """One job: its state, its processes, its lanes, its errors and what happened last."""
    loaded, folder = _place(ctx, state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        view = observe(store, job)
        errors, events = store.errors(job), store.events(job, _SHOWN_EVENTS)
        verified = last(store)
    if as_json:
        proof = {"verified": verified.get(job)}
        output.as_json({**_brief(view), **proof, "report": view.report, "errors": errors, "events": events})
        return
    _show_head(ctx, view)
    output.line(f"{'compared':<10}  {in_a_phrase(verified.get(job), SystemClock().utc())}", _ascii(ctx))
    if view.report is not None and view.report.lanes:
        table = any(lane.label for lane in view.report.lanes)
        lanes = [
            [*([lane.source_table] if table else []), lane.shard, lane.state, lane.activity, lane.position, lane.retry]
            for lane in view.report.lanes
        ]
        heads = ["dn", "state", "activity", "position", "retry"]
        output.table(["table", *heads] if table else heads, lanes, _ascii(ctx))
    if errors:
        rows = [[error.count, error.side, error.code, error.message] for error in errors]
        output.table(["count", "side", "code", "error"], rows, _ascii(ctx))
    output.table(["at", "event", "text"], [[_second(e.at), e.event, e.text] for e in reversed(events)], _ascii(ctx))


@app.command()
def start(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    take_over: TakeOver = False,
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Start a job as a detached process; a dropped line changes nothing."""
    loaded, _ = select.job_of(ctx, job)
    with Store.open(loaded.state_dir) as store, noted(store, "start", job, reason) as seen:
        config = str(loaded.path.resolve())
        seen.view = view = control.start(store, job, config, take_over=take_over, patience=_patience(wait))
    _tell(ctx, view, as_json, fine=view.state.has_process or view.state is JobState.FINISHED)


@app.command()
def restart(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Stop a job where it runs, and start it with the configuration as it is now."""
    loaded, _ = select.job_of(ctx, job)
    with Store.open(loaded.state_dir) as store:
        store.register_job(job, str(loaded.path.resolve()))
        with noted(store, "restart", job, reason) as seen:
            seen.view = view = control.restart(store, job, str(loaded.path.resolve()), patience=_patience(wait))
    _tell(ctx, view, as_json, fine=view.state.has_process or view.state is JobState.FINISHED)


@app.command()
def stop(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Stop a job and its processes; started again it goes on where it was, as long as the slot's TTL lasts."""
    _steer(ctx, job, control.stop, Asked(wait, reason, as_json, state_dir), lambda view: view.state is JobState.STOPPED)


@app.command()
def pause(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Let a job's process live but apply nothing."""
    _steer(ctx, job, control.pause, Asked(wait, reason, as_json, state_dir), lambda view: view.state is JobState.PAUSED)


@app.command()
def resume(
    ctx: typer.Context,
    job: Name,
    wait: Wait = _WAIT,  # type: ignore[assignment]
    reason: Reason = "",
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Let a paused job go on."""
    _steer(ctx, job, control.resume, Asked(wait, reason, as_json, state_dir), lambda view: view.state.has_process)


@app.command()
def logs(
    ctx: typer.Context,
    job: Name,
    lines: Annotated[int, typer.Option("--lines", min=1, max=10_000, help="how many of the last lines")] = 100,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """The last lines of a job's driver and supervisor."""
    with Store.open(_place(ctx, state_dir)[1]) as store:
        observe(store, job)
        file = store.folder.log(job)
    found = last_lines(file, lines)
    if as_json:
        output.as_json({"job": job, "file": file, "lines": found})
        return
    for each in found:
        output.line(each, _ascii(ctx))


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a verb that needs no configuration."""

    wait: float
    reason: str
    as_json: bool
    state_dir: Path | None


def _steer(
    ctx: typer.Context,
    job: str,
    verb: Callable[[Store, str, Patience | None], JobView],
    asked: Asked,
    reached: Callable[[JobView], bool],
) -> None:
    loaded, folder = _place(ctx, asked.state_dir)
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        observe(store, job)
        with noted(store, verb.__name__, job, asked.reason) as seen:
            seen.view = view = verb(store, job, _patience(asked.wait))
    _tell(ctx, view, asked.as_json, fine=reached(view) or asked.wait == 0)


def _place(ctx: typer.Context, state_dir: Path | None) -> tuple[Loaded | None, Path]:
    """The configuration, where one is read, and the state folder: a broken file must not keep anybody from a stop."""
    if state_dir is not None:
        return None, state_dir
    shared = context.of(ctx)
    try:
        loaded = shared.load()
    except NoConfig:
        return None, default_state_dir(shared.env)
    except ConfigError as error:
        hint = f"{error.hint}; " if error.hint else ""
        raise ConfigError(error.message, f"{hint}running jobs can be steered with --state-dir DIR meanwhile") from error
    return loaded, loaded.state_dir


def _patience(wait: float) -> Patience:
    def progress(view: JobView) -> None:
        diagnostics.note(f"{view.name}: {view.state.value}{_bracketed(view.reason)}")

    return Patience(wait, progress)


def _tell(ctx: typer.Context, view: JobView, as_json: bool, fine: bool) -> None:
    if as_json:
        output.as_json(_brief(view))
    else:
        output.line(f"{view.name}: {view.state.value}{_bracketed(_why(view))}", _ascii(ctx))
    if not fine:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _show_head(ctx: typer.Context, view: JobView) -> None:
    rows: list[tuple[str, object]] = [
        ("job", view.name),
        ("state", view.state),
        ("wanted", view.wanted),
        ("reason", _why(view)),
        ("safe to do", view.safe),
        ("started", _second(view.started_at)),
        ("ended", _second(view.ended_at)),
        ("driver", _who(view.driver, view.driver_alive)),
        ("supervisor", _who(view.supervisor, view.supervisor_alive)),
        ("reported", _second(view.reported_at)),
        ("config", view.config),
    ]
    for label, value in rows:
        if value not in (None, ""):
            output.line(f"{label:<10}  {value.value if isinstance(value, Enum) else value}", _ascii(ctx))


def _brief(view: JobView) -> dict[str, object]:
    """A look as JSON, without its report."""
    found = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    del found["report"], found["reported"]
    return {"job": found.pop("name"), **found}


def _never_started(name: str) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(JobView) if field.name not in ("name", "report", "reported")]
    return {"job": name, **dict.fromkeys(names), "reason": "never started"}


def _who(identity: Identity | None, alive: bool) -> str | None:
    return None if identity is None else f"pid {identity.pid} on {identity.host}, {'lives' if alive else 'gone'}"


def _alive(view: JobView) -> str:
    return (
        "unknown" if view.elsewhere else "yes" if view.driver_alive else "starting" if view.supervisor_alive else "no"
    )


def _why(view: JobView) -> str:
    return ": ".join(part for part in (view.trouble, view.reason) if part)


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


def _second(moment: object) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _ascii(ctx: typer.Context) -> bool:
    return context.of(ctx).ascii_only


job_verbs.add_to(app)
