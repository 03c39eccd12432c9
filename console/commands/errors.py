"""`slotkeeper errors list|show|replay|discard`: rows that a target rejected and that are stored in quarantine.

Rows are untrusted and can be confidential: only `show` prints values, and no log contains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.console.cli.output import SHORT, both
from slotkeeper.console.cli.select import ConfirmJob, Job, Json, OneJob
from slotkeeper.core.domain.quarantine import EntryState, QuarantineEntry, Replayed, Wanted
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import many, typed
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError
from slotkeeper.core.services import looking, quarantine
from slotkeeper.core.state.folder import StateFolder

app = typer.Typer(help="Rows that a target rejected: list, replay, discard.")

_ALL = "all"
_QUARANTINED = EntryState.QUARANTINED.value
_SPARE = ("kind", "position", "where", "lane")
"""Columns that the list omits on a narrow terminal; `errors show` prints them."""
_STATES = [*(state.value for state in EntryState), _ALL]

Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="IDs of entries")]
All = Annotated[bool, typer.Option("--all", help="all quarantined rows of the job")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="reason, stored with the entries and in the audit log")
]


@app.callback()
def errors() -> None:
    """Rows that a target rejected: list, replay, discard."""


@app.command("list")
def list_entries(
    ctx: typer.Context,
    job: OneJob = "",
    state: Annotated[
        str, typer.Option("--state", metavar="|".join(_STATES), help="only entries in this state")
    ] = _QUARANTINED,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="maximum number of entries, newest first")
    ] = 100,
    before: Annotated[
        int | None, typer.Option("--before", metavar="ID", help="only entries older than this ID")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the entries, newest first, without their values."""
    if state not in _STATES:
        raise ConfigError(f"unknown state {state!r}", f"one of {', '.join(_STATES)}")
    jobs = [select.job_of(ctx, job)[1]] if job else list(context.of(ctx).load().jobs.values())
    states = () if state == _ALL else (EntryState(state),)
    found, failed = _everywhere(jobs, states, before, limit)
    found = sorted(found, key=lambda entry: (entry.quarantined_at, entry.id), reverse=True)[:limit]
    if as_json:
        output.as_json({"entries": [_values(entry) for entry in found]})
    elif found:
        columns = ["id", "quarantined", "job", "lane", "position", "kind", "key", "state", "code", "where", "message"]
        known = [name for name, one in (("job", bool(job)), ("state", state != _ALL)) if one]
        rows = [
            [e.id, both(e.quarantined_at, SHORT), e.job, e.shard, e.position, e.kind, ", ".join(e.key), e.state.value,
             e.sqlstate, e.where, e.message]
            for e in found
        ]  # fmt: skip
        output.table(columns, rows, select.ascii_only(ctx), spare=[*known, *_SPARE])
    elif not failed:
        output.line("no matching rows" if state != _QUARANTINED else "no rows are in quarantine")
    for error in dict.fromkeys(map(diagnostics.with_hint, failed)):
        diagnostics.warn(f"{error}; its rows are unknown")
    if failed:
        raise typer.Exit(int(diagnostics.EXIT_CODES[failed[0].kind]))


def _everywhere(
    jobs: Sequence[JobSpec], states: tuple[EntryState, ...], before: int | None, limit: int
) -> tuple[list[QuarantineEntry], list[SlotkeeperError]]:
    """Return the entries of all stores, queried concurrently, and the errors of failed stores."""
    looking.passwords(one.store_at[0] for one in jobs)
    lanes: dict[str, list[tuple[str, Callable[[], list[QuarantineEntry]]]]] = {}
    for one in jobs:
        place = f"sink {one.store_at[0].name} ({one.store_at[0].place})"
        lanes.setdefault(place, []).append((one.name, partial(_of, one, states, before, limit)))
    answers = looking.asked(lanes).values()
    failed = [one for one in answers if isinstance(one, SlotkeeperError)]
    return [entry for one in answers if not isinstance(one, SlotkeeperError) for entry in one], failed


@app.command()
def show(
    ctx: typer.Context,
    job: Job,
    id: Annotated[int, typer.Argument(metavar="ID", help="the entry's ID")],
    as_json: Json = False,
) -> None:
    """Show one entry with all its details, and the row as the source sent it."""
    _, spec = select.job_of(ctx, job)
    looking.passwords([spec.store_at[0]])

    def read() -> QuarantineEntry | None:
        with quarantine.polling(spec) as rows:
            return rows.entry(id)

    entry = looking.answer(f"sink {spec.store_at[0].name}", read)
    if entry is None or not quarantine.is_of(entry, spec):
        raise Refused(f"unknown entry {id} of job {job}", f"`slotkeeper errors list {typed(job)}` lists them")
    if as_json:
        output.as_json({**_values(entry), "values": dict(entry.values)})
        return
    ascii_only = select.ascii_only(ctx)
    said = {name: value for name, value in _values(entry).items() if value not in ("", None, [])}
    output.table(["", f"entry {id}"], [[name, _shown(value)] for name, value in said.items()], ascii_only)
    output.line("the row as the source sent it:", ascii_only)
    for name, text in entry.values:
        output.line(f"  {name}: {'NULL' if text is None else text}", ascii_only)


@app.command()
def replay(
    ctx: typer.Context, job: Job, ids: Ids = None, every: All = False, reason: Reason = "", as_json: Json = False
) -> None:
    """Apply quarantined rows to the target once it can hold them: exit 0 all are resolved, 1 some are still rejected.

    The job can keep running. If a row's key has changed since, the row is not written, because its entry is already
    resolved.
    """
    loaded, spec = select.job_of(ctx, job)
    wanted = _chosen(spec, ids or [], every)
    progress, done = diagnostics.Progress(spec.name, "entries replayed"), set[int]()

    def on_each(one: Replayed) -> None:
        done.update((one.id, *one.ids))
        progress.at(min(len(done), len(wanted)), len(wanted))

    folder = StateFolder.open(loaded.state_dir)
    found = quarantine.replay(spec, folder, wanted, reason, on_each, tell=diagnostics.warn)
    _tell(ctx, found, as_json)
    if any(one.state is EntryState.QUARANTINED for one in found):
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


@app.command()
def discard(
    ctx: typer.Context,
    job: Job,
    ids: Ids = None,
    every: All = False,
    execute: Annotated[bool, typer.Option("--execute", help="discard the rows; without it, a dry run")] = False,
    reason: Reason = "",
    confirm: ConfirmJob = "",
    rows: Annotated[int | None, typer.Option("--rows", metavar="N", help="number of rows to discard")] = None,
    as_json: Json = False,
) -> None:
    """Discard quarantined rows: the target stays as it is until their keys change again.

    A dry run unless --execute --reason TEXT --confirm JOB --rows N.
    """
    loaded, spec = select.job_of(ctx, job)
    wanted = _chosen(spec, ids or [], every)
    if not execute:
        quarantine.check(spec, wanted)
        _say_how(ctx, spec, wanted, every, as_json)
        return
    if confirm != job:
        raise Refused(f"the name typed is not {job!r}", f"--confirm {job}")
    if rows != len(wanted):
        said = "nothing" if rows is None else str(rows)
        some = many(len(wanted), "entry", "entries")
        raise Refused(f"{some} would be discarded, but {said} was typed", f"--rows {len(wanted)}")
    _tell(
        ctx,
        quarantine.discard(spec, StateFolder.open(loaded.state_dir), wanted, reason, tell=diagnostics.warn),
        as_json,
    )


def _of(job: JobSpec, states: tuple[EntryState, ...], before: int | None, limit: int) -> list[QuarantineEntry]:
    with quarantine.polling(job) as rows:
        found: list[QuarantineEntry] = []
        for channel in job.channels:
            place = {"source": job.source.name, "source_table": channel.source_table, "slot": job.slot}
            found += rows.page(Wanted(states, **place, before=before, limit=limit))
        return found


def _chosen(job: JobSpec, ids: Sequence[int], every: bool) -> list[int]:
    if bool(ids) == every:
        raise ConfigError("specify either IDs or --all", "--all selects all quarantined rows of the job")
    return [entry.id for entry in quarantine.quarantine_of(job)] if every else list(dict.fromkeys(ids))


def _tell(ctx: typer.Context, found: Sequence[Replayed], as_json: bool) -> None:
    if as_json:
        output.as_json({"entries": [{**_outcome(one), "sqlstate": one.sqlstate} for one in found]})
        return
    if not found:
        output.line("no rows are in quarantine: nothing was done")
        return
    rows = [[one.id, one.state.value, said] for one in found for said in [_outcome(one)["outcome"]]]
    output.table(["id", "state", "outcome"], rows, select.ascii_only(ctx))


def _outcome(one: Replayed) -> dict[str, Any]:
    if one.nothing_done:
        said = f"nothing was done: it was already {one.state.value}"
    elif one.state is EntryState.QUARANTINED:
        said = f"rejected again: {one.sqlstate} {one.message}" + (f" ({one.where})" if one.where else "")
    else:
        halves = " together with the other half of its key change" if len(one.ids) > 1 else ""
        said = f"{one.state.value}{halves}"
    return {"id": one.id, "state": one.state.value, "outcome": said}


def _say_how(ctx: typer.Context, job: JobSpec, wanted: Sequence[int], every: bool, as_json: bool) -> None:
    named = "--all" if every else " ".join(map(str, wanted))
    consent = f"--execute --reason TEXT --confirm {typed(job.name)} --rows {len(wanted)}"
    how = context.pasteable(f"slotkeeper errors discard {typed(job.name)} {named} {consent}")
    if as_json:
        output.as_json({"executed": False, "ids": list(wanted), "how": how})
        return
    ascii_only = select.ascii_only(ctx)
    some = many(len(wanted), "entry", "entries")
    output.line(f"{some} would be discarded: the target will not receive these rows", ascii_only)
    output.line("dry run: nothing was changed; to execute:", ascii_only)
    output.line(f"  {how}", ascii_only)


def _values(entry: QuarantineEntry) -> dict[str, object]:
    found = {name: getattr(entry, name) for name in QuarantineEntry.__dataclass_fields__ if name != "values"}
    return {**found, "state": entry.state.value, "position": entry.position}


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return both(value) if isinstance(value, datetime) else str(value)
