"""`slotkeeper verify`: compare a job's source tables with their targets; where they differ, compare them by key.

The result is recorded in the state store.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.diagnostics import Progress
from slotkeeper.console.cli.select import Job, OneJson, OneTable
from slotkeeper.console.commands import job_verbs
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.row_counts import APART, Verified
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.launch.view import view_of
from slotkeeper.core.services import verify as verify_service
from slotkeeper.core.state.audit import actor
from slotkeeper.core.state.observed import record
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.verify.compare import Comparison, Found

app = typer.Typer(help="Compare source and target of a job.", add_completion=False)

_SHOWN_KEYS = 20
_KINDS = ("missing", "extra", "different", "unsettled", "quarantined")


@app.command()
def verify(ctx: typer.Context, job: Job, table: OneTable = "", as_json: OneJson = False) -> None:
    """Compare sources and targets of a job: exit 0 equal, 4 different (keys named), 1 undecided.

    A table that differs only by quarantined rows is not equal: exit 4, with those keys listed separately. --table
    compares only one table. Because this proves nothing about the other tables, the result is recorded only if the
    table differs.
    """
    loaded, spec = select.job_of(ctx, job)
    if table:
        spec = job_verbs.narrowed(spec, table)
    if not spec.channels:
        raise Refused(f"job {job} has no tables yet: its driver lists them", f"`slotkeeper jobs start {job}`")
    with Store.open(loaded.state_dir) as store:
        row = store.job(job)
        view = view_of(row, store.run(row.run) if row.run else None) if row else None
    runs = view is not None and view.state.has_process and (view.lives or view.elsewhere)
    parts: list[tuple[JobSpec, Comparison]] = []
    for part in spec.narrowed:
        moves, what = runs and not job_verbs.off(view, part.channel.source_table), spec.name
        if spec.several:
            what = f"{spec.name} {part.channel.source_table} ({len(parts) + 1} of {len(spec.channels)})"
        parts.append((part, verify_service.verify(part, moves, Progress(what, "rows compared").at)))
    verdicts = {_verdict(found) for _, found in parts}
    verdict = next(one for one in ("different", "unsettled", APART, "equal") if one in verdicts)
    if not table or verdict == "different":
        _keep(loaded.state_dir, job, [found for _, found in parts], verdict)
    if as_json:
        output.as_json(_as_values(job, parts, verdict, runs))
    else:
        for part, found in parts:
            _print(ctx, part, found)
            _tell_limits(part, found, view, runs)
        if len(parts) > 1:
            every = [found for _, found in parts]
            apart = sum(_differences(one) > 0 for one in every)
            rows = (
                f"{sum(one.rows_source for one in every)} rows in the source,"
                f" {sum(one.rows_sink for one in every)} in the sink"
            )
            output.line(f"{job}: {verdict}: {apart} of {len(every)} tables differ; {rows}", select.ascii_only(ctx))
    if verdict in ("different", APART):
        raise typer.Exit(int(diagnostics.ExitCode.DIFFERENT))
    if verdict == "unsettled":
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _as_values(job: str, parts: list[tuple[JobSpec, Comparison]], verdict: str, runs: bool) -> dict[str, object]:
    """Return one JSON object: the comparison of the only channel, or the verdict and the comparison of each channel."""
    whole = {"job": job, "verdict": verdict, "equal": verdict == "equal", "job_runs": runs}
    if len(parts) == 1:
        return {**whole, **_figures(parts[0][1])}
    channels = [
        {
            "from": part.channel.source_table,
            "into": part.channel.target,
            "verdict": _verdict(found),
            "equal": _verdict(found) == "equal",
            **_figures(found),
        }
        for part, found in parts
    ]
    return {**whole, "channels": channels}


def _differences(found: Comparison) -> int:
    return found.missing.count + found.extra.count + found.different.count


def _verdict(found: Comparison) -> str:
    if _differences(found):
        return "different"
    if found.unsettled.count:
        return "unsettled"
    return APART if found.quarantined.count else "equal"


def _keep(folder: Path, job: str, found: list[Comparison], verdict: str) -> None:
    """Record the verdict for the overview. An error while recording does not change the verdict."""
    differences = sum(map(_differences, found))
    unsettled, apart = sum(one.unsettled.count for one in found), sum(one.quarantined.count for one in found)
    rows = (sum(one.rows_source for one in found), sum(one.rows_sink for one in found))
    rest = (unsettled, apart, *rows, sum(one.seconds for one in found))
    try:
        with Store.open(folder) as store:
            if not record(store, Verified(job, SystemClock().utc(), verdict, differences, *rest, actor().text)):
                diagnostics.warn(f"not recorded: job {job} was reset while it was compared; verify it again")
    except SlotkeeperError as error:
        diagnostics.warn(f"the result could not be recorded: {error}")


def _figures(found: Comparison) -> dict[str, object]:
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}


def _print(ctx: typer.Context, spec: JobSpec, found: Comparison) -> None:
    ascii_only = select.ascii_only(ctx)
    place = f"{spec.source.name} {spec.channel.source_table} and {spec.sink.name} {spec.channel.target}"
    output.line(f"{spec.name}: {_verdict(found)}: {place}", ascii_only)
    counts = f"{found.rows_source} rows in the source, {found.rows_sink} in the sink{_in_flight(found)}"
    output.line(f"  {counts}, {found.ranges} ranges, {found.seconds:.1f} s", ascii_only)
    for kind in _KINDS:
        rows: Found = getattr(found, kind)
        if rows.count:
            named = ", ".join("(" + ", ".join(key) + ")" for key in rows.keys[:_SHOWN_KEYS])
            more = f" and {rows.count - _SHOWN_KEYS} more" if rows.count > _SHOWN_KEYS else ""
            output.line(f"  {kind}: {rows.count}: {named}{more}", ascii_only)
    for column, count in found.differing_columns:
        output.line(f"  column {column} differs in {many(count, 'row')}", ascii_only)


def _in_flight(found: Comparison) -> str:
    """Explain why equal tables have different row counts: they were read at different times.

    Differing rows were read again.

    >>> from slotkeeper.core.verify.compare import Found
    >>> _in_flight(Comparison(2952, 2950, 1, *[Found()] * 5, (), 0.1))
    ' (2 in flight, compared again)'
    """
    moved = abs(found.rows_source - found.rows_sink - found.quarantined.count) if found.equal else 0
    return f" ({moved} in flight, compared again)" if moved else ""


def _tell_limits(spec: JobSpec, found: Comparison, view: JobStatus | None, runs: bool) -> None:
    alone = job_verbs.off(view, spec.channel.source_table) if runs else ""
    if alone and not found.equal:
        table = spec.channel.source_table
        diagnostics.note(f"table {table} is {alone}: a difference may be a change that it has not applied yet")
    elif not runs and not found.equal:
        state = "was never started here" if view is None else f"is {view.state.value}"
        diagnostics.note(f"job {spec.name} {state}: a difference may be a change that it has not applied yet")
    if spec.on_existing == "merge" and found.extra.count:
        diagnostics.note('on_existing is "merge": extra rows in the target are allowed and stay')
