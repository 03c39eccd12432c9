"""`--table` of `jobs` and `verify`: one table of a job by itself, and how the tables of a job are told."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.job_audit import noted_table
from slotkeeper.console.monitor.why import living_tables
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.job import JobState, TableReport, WantedState, amiss, to_do
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch.tables import Ask, TablePatience, ask, refuse_one_position, refuse_one_table
from slotkeeper.core.sources import registry
from slotkeeper.core.state import tables
from slotkeeper.core.state.rows import moment
from slotkeeper.core.state.sqlite import Store

_GOES_ON = {Ask.PAUSE: (JobState.PAUSED,), Ask.STOP: (JobState.STOPPED,)}
_STAYS = ((WantedState.STOP, "stopped", "start"), (WantedState.PAUSE, "paused", "resume"))


def steer(
    ctx: typer.Context,
    folder: Path,
    loaded: Loaded | None,
    job: str,
    table: str,
    what: Ask,
    wait: float,
    reason: str,
    as_json: bool,
) -> None:
    """Ask something of one table of a running job, wait for the effect, tell it in one line."""
    if loaded is not None and job in loaded.jobs:
        refuse_whole(loaded.jobs[job])
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        patience = TablePatience(wait, partial(_progress, job))
        act = partial(ask, store, job, table, what, patience)
        found = noted_table(store, f"jobs {what.value}", job, table, reason, act)
    if as_json:
        output.as_json({"job": job, "table": table, "state": found.state, **_values(found)})
    else:
        output.line(f"{job} {table}: {found.state}{f' ({found.reason})' if found.reason else ''}", _ascii(ctx))
    if not (wait == 0 or _reached(what, found)):
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _values(table: TableReport) -> dict[str, object]:
    return {name: getattr(table, name) for name in ("target", "reason", "trouble", "safe")}


class Since(Protocol):
    """What a driver tells with the time from which on it holds, in seconds since 1970."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def since(self) -> float | None: ...


def as_values(one: Since) -> dict[str, object]:
    """Such a thing as JSON values: its time is one, and so are those of who is in front where it is a wait."""
    found = {**dataclasses.asdict(one), "since": moment(one.since)}
    return found | ({"blockers": list(map(as_values, one.blockers))} if isinstance(one, LockWait) else {})


def _ascii(ctx: typer.Context) -> bool:
    return select.ascii_only(ctx)


def _reached(what: Ask, found: TableReport) -> bool:
    goals = _GOES_ON.get(what)
    return found.state != JobState.FAILED.value if goals is None else found.state in [one.value for one in goals]


def _progress(job: str, table: TableReport) -> None:
    diagnostics.note(f"{job} {table.source_table}: {table.state}")


def refuse_whole(spec: JobSpec) -> None:
    """Raise Refused where no table of the job can go on without the others."""
    if len(spec.channels) == 1:
        refuse_one_table(spec.name)
    if registry.open(spec.source_kind).traits.shares_position:
        refuse_one_position(spec.name)


def refuse_take_over(take_over: bool) -> None:
    """Raise Refused: one table is started by the job's own living driver, which takes over nothing."""
    if take_over:
        raise Refused("--take-over is of a whole job", "without --table, or without --take-over")


def narrowed(spec: JobSpec, table: str) -> JobSpec:
    """The job with this one table; Refused with the known ones where it has none such, or no other."""
    if len(spec.channels) == 1:
        refuse_one_table(spec.name)
    known = [channel.source_table for channel in spec.channels]
    if table not in known:
        raise Refused(f"job {spec.name} has no table {table!r}", f"it has: {', '.join(sorted(known))}")
    return spec.of(table)


def off(view: JobView | None, table: str) -> str:
    """The state of a table that does not go on while its job does, whose lanes are waited for in vain; "" of others."""
    found = amiss(view.report.tables) if view is not None and view.reported and view.report else []
    return next((one.state for one in found if one.source_table == table), "")


def tell_apart(store: Store, spec: JobSpec) -> None:
    """Say which tables a start of the whole job leaves as they are, because that is wanted of them alone."""
    asked = tables.wanted(store, spec.name)
    known = [channel.source_table for channel in spec.channels]
    for wanted, word, verb in _STAYS:
        found = [table for table in known if table in asked and asked[table].wanted is wanted]
        if found and len(known) > 1:
            number = f"{len(found)} table{' stays' if len(found) == 1 else 's stay'} {word}"
            does = f"`slotkeeper jobs {verb} {typed(spec.name)} --table TABLE` {verb}s one"
            diagnostics.note(f"{spec.name}: {number}: {', '.join(found)}; {does}")


def tell_taken_out(store: Store, spec: JobSpec) -> None:
    """Say which tables the job had when it last ran and has no more: their slots are for a person to decide about.

    Nobody registers such a slot any more, and until its TTL ends it holds its table's changes back.
    """
    row = store.job(spec.name)
    report = row.report if row is not None else None
    lanes, single = (report.lanes, report.tables) if report is not None else ((), ())
    had = {lane.source_table for lane in lanes} | {table.source_table for table in single}
    for table in sorted(had - {"", *(channel.source_table for channel in spec.channels)}):
        place = typed(table, spec.slot)
        what = f"{table} is a table of this job no more, and its slot {spec.slot} keeps its changes until its TTL ends"
        drop = f"`slotkeeper slots drop {place} --source {typed(spec.source.name)}`"
        cure = f"put back it goes on where it stood; {drop} lets the changes go, `slots list` names it until then"
        diagnostics.note(f"{spec.name}: {what}; {cure}")


def to_do_first(view: JobView) -> str:
    """What is safe to do about the table that is off worst, "" where all go on."""
    return next((to_do(view.name, table) for table in amiss(living_tables(view))), "")


def show(view: JobView, ascii_only: bool) -> None:
    """How the tables of a living job stand, with what to do about each that does not go on."""
    found = living_tables(view)
    if not found:
        return
    rows: list[list[object]] = [[one.source_table, one.target, one.state, one.trouble or None] for one in found]
    output.table(["table", "target", "state", "trouble"], rows, ascii_only)
    stuck = amiss(found)
    for one in [*stuck, *(one for one in found if one.reason and one not in stuck)]:
        if one.reason:
            output.paragraph(one.source_table, f"{one.state}: {one.reason}", ascii_only)
        if one in stuck:
            output.line(f"  do  {to_do(view.name, one)}", ascii_only)  # on one line: a command is pasted
