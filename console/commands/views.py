"""`slotkeeper views`: the SQL views of jobs, read and changed directly in their sinks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.console.cli.select import Job, OneJob, OneJson, Reason
from slotkeeper.console.commands import configured
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.ending import moment
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import few, safe
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.domain.views import ViewRow, ViewState
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.services import views as service
from slotkeeper.core.services.views import Seen

app = typer.Typer(help="SQL views: list, show, verify, explain, rebuild, drop.", no_args_is_help=True)
View = Annotated[str, typer.Argument(metavar="VIEW", help="the view's table, as schema.table")]
Confirm = Annotated[str, typer.Option("--confirm", metavar="VIEW", help="the view's table, typed again")]


@app.command("list")
def list_views(ctx: typer.Context, job: OneJob = "", as_json: OneJson = False) -> None:
    """List the views of all jobs, or of one job. 0: every sink answered; 5: a sink did not answer."""
    loaded = select.job_of(ctx, job)[0] if job else context.of(ctx).load()
    if not job:
        configured.tell_refused(loaded)
    found = service.seen(loaded, job)
    now = SystemClock().utc().timestamp()
    if as_json:
        output.as_json({"views": [_values(one, row, now) for one in found for row in one.rows]})
    else:
        heads = ["view", "job", "state", "method", "waiting", "fresh", "round ms", "verified", "cause"]
        rows = [_cells(one, row, now) for one in found for row in one.rows]
        output.table(heads, rows, select.ascii_only(ctx))
    for one in found:
        if one.error is not None:
            diagnostics.warn(f"{one.job}: {diagnostics.with_hint(one.error)}")
    for one in found:
        if one.error is not None:
            raise typer.Exit(int(diagnostics.EXIT_CODES[one.error.kind]))


@app.command()
def show(ctx: typer.Context, job: Job, view: View, as_json: OneJson = False) -> None:
    """Show one view with its SELECT."""
    loaded, spec = select.job_of(ctx, job)
    target = _configured(spec, view)
    (found,) = service.seen(loaded, job)
    if found.error is not None:
        raise found.error
    row = next((row for row in found.rows if row.target == target), None)
    if row is None:
        raise Refused(f"view {target} does not exist yet in the sink", f"`slotkeeper jobs start {job}` creates it")
    now = SystemClock().utc().timestamp()
    values = _values(found, row, now)
    if as_json:
        output.as_json(values)
        return
    for name, value in values.items():
        if name != "sql":
            output.line(f"{name + ':':14}{'-' if value is None else value}", select.ascii_only(ctx))
    output.line(str(values["sql"]), select.ascii_only(ctx))


@app.command()
def verify(ctx: typer.Context, job: Job, view: View, as_json: OneJson = False) -> None:
    """Compare a view with its SELECT in one snapshot. 0: equal; 4: different, with the first keys.

    Floating-point sums are equal up to a relative difference of 1e-9.
    """
    _, spec = select.job_of(ctx, job)
    target = _configured(spec, view)
    found = service.verify(spec, target)
    lookup = next(one.lookup for one in spec.views if one.target == target)
    if as_json:
        differences = [{"key": one.key, "what": one.what} for one in found]
        output.as_json({"job": job, "view": target, "equal": not found, "differences": differences})
    else:
        said = f"{len(found)} differences or more" if found else "equal"
        output.line(f"{target}: {said}", select.ascii_only(ctx))
        for one in found:
            output.line(f"  {one.what}: key {safe(one.key, 100)}", select.ascii_only(ctx))
        if found and lookup:
            text = f"changes of {few(lookup)} are not followed: rebuild the view to include them"
            output.line(f"  {text}", select.ascii_only(ctx))
    if found:
        raise typer.Exit(int(diagnostics.ExitCode.DIFFERENT))


@app.command()
def explain(ctx: typer.Context, job: Job, view: View, as_json: OneJson = False) -> None:
    """Show how a view is maintained: its method, its captures, the SQL of its keys, and missing indexes."""
    _, spec = select.job_of(ctx, job)
    target = _configured(spec, view)
    found = service.explain(spec, target)
    captures = [{"table": table, "captured": what} for table, what in found.captures]
    if as_json:
        values = {"view": target, "method": found.method, "captures": captures, "keys": found.keys}
        output.as_json({**values, "missing_indexes": list(found.missing)})
        return
    ascii_only = select.ascii_only(ctx)
    output.line(f"{target}: {found.method}", ascii_only)
    for table, what in found.captures:
        output.line(f"captured of {table}: {what}", ascii_only)
    output.line(f"affected keys: {found.keys}", ascii_only)
    for statement in found.missing:
        output.line(f"missing index: {statement};", ascii_only)
    if not found.missing:
        output.line("no index is missing", ascii_only)


@app.command()
def rebuild(ctx: typer.Context, job: Job, view: View, reason: Reason = "", as_json: OneJson = False) -> None:
    """Build a view again, without blocking its readers; while the job runs, its driver builds it."""
    loaded, spec = select.job_of(ctx, job)
    target = _configured(spec, view)
    said = service.rebuild(loaded, spec, target, reason, diagnostics.warn)
    _tell(ctx, target, said, as_json)


@app.command()
def drop(
    ctx: typer.Context, job: Job, view: View, confirm: Confirm = "", reason: Reason = "", as_json: OneJson = False
) -> None:
    """Drop a view with its triggers and its table. 3: the name was not confirmed."""
    loaded, spec = select.job_of(ctx, job)
    if confirm != view:
        raise Refused(f"dropping {safe(view, 80)} removes its table; nothing was done", f"--confirm {safe(view, 80)}")
    said = service.drop(loaded, spec, view, reason, diagnostics.warn)
    _tell(ctx, view, said, as_json)


def _tell(ctx: typer.Context, target: str, said: str, as_json: bool) -> None:
    if as_json:
        output.as_json({"view": target, "outcome": said})
    else:
        output.line(f"{target}: {said}", select.ascii_only(ctx))


def _configured(spec: JobSpec, view: str) -> str:
    known = [one.target for one in spec.views]
    if view not in known:
        raise ConfigError(
            f"job {spec.name} has no view {safe(view, 80)!r}", f"known: {few(known) if known else 'none'}"
        )
    return view


def _values(seen: Seen, row: ViewRow, now: float) -> dict[str, object]:
    waiting = seen.waiting.get(row.target)
    return {
        "view": row.target,
        "job": row.job,
        "state": row.state.value,
        "cause": row.cause or None,
        "since": moment(row.since),
        "method": row.method if row.built else None,
        "waiting": waiting,
        "fresh": _fresh(row, waiting, now),
        "rounds": row.rounds,
        "applied": row.applied,
        "round_ms": row.round_ms,
        "built_at": moment(row.built_at) if row.built_at else None,
        "verified_at": moment(row.verified_at) if row.verified_at else None,
        "verified": row.verified or None,
        "sql": json.loads(row.spec)["sql"],
    }


def _fresh(row: ViewRow, waiting: int | None, now: float) -> float | None:
    """Return the seconds since the view was last known to equal its SELECT; 0 if no change waits."""
    if row.state is not ViewState.RUNNING or row.fresh_at is None:
        return None
    return 0.0 if waiting == 0 else max(0.0, now - row.fresh_at)


def _cells(seen: Seen, row: ViewRow, now: float) -> list[object]:
    values = _values(seen, row, now)
    fresh, verified = values["fresh"], row.verified
    if verified and row.verified_at:
        verified = f"{verified}, {in_words(max(0.0, now - row.verified_at))} ago"
    shown = None if not isinstance(fresh, float) else "now" if fresh == 0 else f"{in_words(fresh)} ago"
    head: list[object] = [row.target, row.job, row.state.value, values["method"], values["waiting"]]
    return [*head, shown, row.round_ms, verified or None, row.cause or None]
