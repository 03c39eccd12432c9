"""`slotkeeper slots reset`, `slots undo` and `slots history`. The command group is defined in `slots`.

A reset is a dry run that prints a plan. `--execute --plan ID` executes exactly that plan, or reports what has
changed.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated, Any

import typer

from slotkeeper.console.actions import preview
from slotkeeper.console.cli import completion, context, diagnostics, output, rights, select
from slotkeeper.console.cli.select import ConfirmSlot, Json, Slot, Table
from slotkeeper.console.commands import job_verbs
from slotkeeper.console.views.how_far import HowFar
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.job import AS_THE_JOB, RESETTABLE, JobEvent, JobState, TableReport, WantedState, transition
from slotkeeper.core.domain.remedy import for_job, start
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.reset import (
    DONE,
    EVERY,
    Check,
    Goal,
    ResetEntry,
    ResetPlan,
    ResetStep,
    TargetKind,
    backup_of,
    plan_values,
)
from slotkeeper.core.domain.reset_files import BACKUPS, MARKS, PLANS
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import ConfigError, ErrorKind, Refused, SlotkeeperError, classed
from slotkeeper.core.launch.access import Access
from slotkeeper.core.launch.launch import START_LOCK
from slotkeeper.core.launch.view import observe, settled
from slotkeeper.core.services import reset as reset_service
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.slots import reset_plan as plan
from slotkeeper.core.slots.reset_apply import LeftOpen, ResetOrder, Result
from slotkeeper.core.slots.reset_plan import ResetContext
from slotkeeper.core.sources import registry
from slotkeeper.core.state import placement, steering
from slotkeeper.core.state.files import ResetFiles, marks
from slotkeeper.core.state.observed import record
from slotkeeper.core.state.sqlite import Store


class Existing(Enum):
    """How a copy treats existing rows in the target."""

    REPLACE = "replace"
    MERGE = "merge"


LOCK_SECONDS = 5.0
EVENTS = 200
"""The number of events to search for the last copy."""
BY_RESET = (
    "starts the copy within 24 h; after that, consent with `slotkeeper jobs start JOB --confirm JOB --reason TEXT`"
)
_UNDO = "restores positions, not rows; possible"
UNDO = f"{_UNDO} while the source retains them and can move positions back"
UNDO_BACK = f"{_UNDO} until the replay starts"
UNDO_COPY = f"{_UNDO} until the copy starts"

To = Annotated[TargetKind | None, typer.Option("--to", help="destination of the reset")]
Points = Annotated[
    list[str] | None,
    typer.Option("--point", metavar="DN=PLACE", help="with --to point: position of a DN, or of all DNs"),
]
Time = Annotated[str, typer.Option("--time", metavar="TIME", help="with --to time: RFC 3339 with UTC offset")]
Backup = Annotated[
    str, typer.Option("--backup", metavar="ID", help="with --to backup", autocompletion=completion.backups)
]
Dns = Annotated[
    list[str] | None,
    typer.Option("--dn", metavar="NAME", help="only this DN; can be repeated", autocompletion=completion.dns),
]
Execute = Annotated[bool, typer.Option("--execute", help="execute --plan; without it, only a plan is made")]
PlanId = Annotated[str, typer.Option("--plan", metavar="ID", help="the plan's id", autocompletion=completion.plans)]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="reason, stored with the backup and in the audit")
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", metavar="N", help="number of skipped changes, or of rows that the target loses"),
]
OnExisting = Annotated[
    Existing | None,
    typer.Option("--on-existing", help="with --to snapshot: how the next copy treats rows in the target"),
]
Steal = Annotated[str, typer.Option("--steal", metavar="LEASE", help="end the session of the run that holds the lease")]
RESUME_WITHIN, RESUME_EVERY = 60.0, 2.0
"""Seconds in which a command resumes its own reset after the first failure, and the pause before each attempt."""
_INTERRUPTS = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
Resume = Annotated[bool, typer.Option("--resume", help="finish or roll back an unfinished reset")]


def access_to(loaded: Loaded) -> Access:
    """Return the access rules for a configuration."""
    return Access(loaded.access, loaded.state_dir, os.environ, str(loaded.path.absolute()))


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module to the group."""
    app.command("approve")(approve)
    app.command("reset")(reset)
    app.command("undo")(undo)
    app.command("history")(history)


def reset(
    ctx: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="[TABLE]", help="schema.table", autocompletion=completion.tables_read)
    ] = "",
    slot: Annotated[
        str, typer.Argument(metavar="[SLOT]", help="the slot's name", autocompletion=completion.slots)
    ] = "",
    to: To = None,
    points: Points = None,
    time: Time = "",
    backup: Backup = "",
    dns: Dns = None,
    on_existing: OnExisting = None,
    execute: Execute = False,
    plan_id: PlanId = "",
    reason: Reason = "",
    confirm: ConfirmSlot = "",
    rows: Rows = None,
    steal: Steal = "",
    go_on: Resume = False,
    as_json: Json = False,
) -> None:
    """Move a slot to another position: show a plan, execute one (--execute), or end an unfinished one (--resume)."""
    loaded = context.of(ctx).load()
    if on_existing and (execute or go_on):
        raise ConfigError("--on-existing is part of the plan", "make a new plan with it, without --execute or --resume")
    if go_on:
        _resume(ctx, loaded, table, slot, steal, as_json)
        return
    if not table or not slot:
        raise ConfigError("a reset needs TABLE and SLOT", "`slotkeeper slots reset TABLE SLOT --to ...`")
    job = reset_service.job_of(loaded, table, slot)
    order = ResetOrder(plan_id, reason, confirm, rows)
    goal = None if execute else _goal(job, to, points or [], time, backup, tuple(dns or ()), on_existing)
    _plan_or_execute(ctx, loaded, job, goal, order, steal, as_json)


def undo(
    ctx: typer.Context,
    backup: Annotated[str, typer.Argument(metavar="BACKUP", help="the backup's id", autocompletion=completion.backups)],
    execute: Execute = False,
    plan_id: PlanId = "",
    reason: Reason = "",
    confirm: ConfirmSlot = "",
    rows: Rows = None,
    steal: Steal = "",
    as_json: Json = False,
) -> None:
    """Restore the positions of a backup: a reset to the backup, with the same plan and the same checks."""
    loaded = context.of(ctx).load()
    job = _job_of_backup(loaded, backup)
    goal = None if execute else Goal(TargetKind.BACKUP, backup=backup)
    _plan_or_execute(ctx, loaded, job, goal, ResetOrder(plan_id, reason, confirm, rows), steal, as_json, backup)


def approve(
    ctx: typer.Context,
    plan_id: Annotated[str, typer.Argument(metavar="PLAN", help="the plan's id, from the rejected command")],
    reason: select.Reason = "",
    state_dir: select.StateDir = None,
) -> None:
    """Approve another account's plan that skips or replaces rows, or loses a slot's unread rows; valid for 24 hours.

    Needed if `second_account` is set in [access]. The rejected command requests the approval, and prints the plan's id.
    """
    found = rights.access_of(context.of(ctx), state_dir).approve(plan_id, reason, diagnostics.warn)
    output.line(f"plan {found.id} of job {found.job} is approved for 24 h: {found.what}", select.ascii_only(ctx))


def history(ctx: typer.Context, table: Table, slot: Slot, as_json: Json = False) -> None:
    """List the resets of a slot, newest first: who, when, to which target, with which result, and the backup's id."""
    loaded = context.of(ctx).load()
    job = reset_service.job_of(loaded, table, slot)
    found: list[ResetEntry] = _on(loaded, job, lambda reset_context: reset_context.resets.history(), lock=False)
    if as_json:
        output.as_json({"table": table, "slot": slot, "resets": list(map(entry_as_json, found))})
        return
    print_history(found, select.ascii_only(ctx))


def _plan_or_execute(
    ctx: typer.Context,
    loaded: Loaded,
    job: JobSpec,
    goal: Goal | None,
    order: ResetOrder,
    steal: str,
    as_json: bool,
    undoing: str = "",
) -> None:
    ascii_only = select.ascii_only(ctx)
    if goal is None:
        if not order.plan:
            raise Refused("--execute needs --plan", "make a plan first: the same command without --execute")
        verb = {"backup": undoing} if undoing else {"table": job.channel.source_table, "slot": job.slot}
        rows = "" if order.rows is None else str(order.rows)
        given = {**verb, "plan": order.plan, "confirm": order.confirm, "rows": rows, "steal": steal}
        if _by_owner(ctx, loaded, job, "undo" if undoing else "reset", given, order.reason, as_json):
            return
        _tell(_executed(loaded, job, order, steal), start_alone(loaded, job), as_json, ascii_only)
        return

    def make(reset_context: ResetContext) -> Any:
        made = plan.make(reset_context, goal)
        plan.keep(reset_context, made)
        return made

    made = _on(loaded, job, make, lock=False)
    if as_json:
        output.as_json(plan_as_json(made))
    else:
        print_plan(made, undoing, ascii_only)
    if made.failed:
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))


def _executed(loaded: Loaded, job: JobSpec, order: ResetOrder, steal: str) -> Result:
    """Execute a plan; if a server or a connection fails in between, finish the reset as --resume does, for a while."""
    clock, place = SystemClock(), (job.channel.source_table, job.slot)
    earlier: list[str] | None = None  # the resets that other commands left, which this one must not resume
    ends = math.inf

    def execute(reset_context: ResetContext) -> Result:
        nonlocal earlier
        earlier = reset_context.files.names(MARKS)
        return reset_apply.execute(reset_context, order)

    act: Callable[[ResetContext], Result] = execute
    while True:
        try:
            done: Result = _on(loaded, job, act, steal, resuming=act is reset_apply.resume)
            return done
        except SlotkeeperError as error:
            left = [one for one in marks(loaded.state_dir) if (one.table, one.slot) == place]
            own = next((one for one in left if earlier is not None and one.id not in earlier), None)
            if own is None:
                raise
            cause = (isinstance(error, LeftOpen) and error.__cause__) or error
            # the server can hold the lease of an interrupted session for a while
            waits = act is reset_apply.resume and isinstance(cause, Refused)
            ends = min(ends, clock.monotonic() + RESUME_WITHIN)
            named = error if isinstance(error, LeftOpen) else reset_apply.still_open(own, error)
            if not (waits or classed(cause).kind in _INTERRUPTS) or clock.monotonic() >= ends:
                raise named from cause
            diagnostics.note(f"{named}; resuming automatically")
        time.sleep(RESUME_EVERY)
        act = reset_apply.resume


def _resume(ctx: typer.Context, loaded: Loaded, table: str, slot: str, steal: str, as_json: bool) -> None:
    left = marks(loaded.state_dir)
    found = [(table, slot)] if table and slot else [(mark.table, mark.slot) for mark in left]
    if not found:
        raise Refused("no reset is unfinished here", "for a reset started on another host: --resume TABLE SLOT")
    for its_table, its_slot in found:
        job = reset_service.job_of(loaded, its_table, its_slot)
        if _by_owner(ctx, loaded, job, "resume", {"table": its_table, "slot": its_slot, "steal": steal}, "", as_json):
            continue
        done = _on(loaded, job, reset_apply.resume, steal, resuming=True)
        _tell(done, start_alone(loaded, job), as_json, select.ascii_only(ctx))


def _by_owner(
    ctx: typer.Context,
    loaded: Loaded,
    job: JobSpec,
    verb: str,
    options: dict[str, str],
    reason: str,
    as_json: bool,
) -> bool:
    """Let the host that owns the job execute a plan of this host; False if this host does it."""
    if loaded.hosts is None:
        return False
    with Store.open(loaded.state_dir) as store:
        host = job_verbs.other_owner(loaded, store, job.name)
        plan = ResetFiles(store.folder).load(PLANS, options["plan"]) if host and "plan" in options else ""
    if not host:
        return False
    if access_to(loaded).needs_approval(job.name):
        raise Refused(f"second_account is set in [access]: job {job.name} is reset on its owner's host {host}")
    if plan is None:
        raise Refused(f"unknown plan {options['plan']!r}", "make a plan: run the same command without --execute")
    job_verbs.by_owner(ctx, loaded, job.name, verb, options, host, reason, as_json, plan)
    return True


def _goal(
    job: JobSpec,
    to: TargetKind | None,
    points: list[str],
    time: str,
    backup: str,
    dns: tuple[str, ...],
    on_existing: Existing | None,
) -> Goal:
    """Return the goal that the options specify. Raises ConfigError if the options conflict."""
    if to is None:
        raise ConfigError("--to is missing", f"one of {', '.join(kind.value for kind in TargetKind)}")
    for kind, given, name in (
        (TargetKind.POINT, points, "--point"),
        (TargetKind.TIME, time, "--time"),
        (TargetKind.BACKUP, backup, "--backup"),
    ):
        if bool(given) != (to is kind):
            raise ConfigError(f"{name} requires --to {kind.value}, and vice versa", "see --help")
    if on_existing and to is not TargetKind.SNAPSHOT:
        raise ConfigError("--on-existing requires --to snapshot", "see --help")
    if time:
        select.moment(time)
    how = on_existing.value if on_existing else ""
    return Goal(to, tuple(_point(job, text) for text in points), time, backup, dns, how)


def _point(job: JobSpec, text: str) -> tuple[str, str]:
    name, _, place = text.rpartition("=")
    reset_service.refuse_place(job, place)
    return name or EVERY, place


def _job_of_backup(loaded: Loaded, backup: str) -> JobSpec:
    """Return the job of a backup, from the local file or, if there is none, by querying the sinks."""
    with Store.open(loaded.state_dir) as store:
        text = ResetFiles(store.folder).load(BACKUPS, backup)
    if text is not None:
        saved = backup_of(text, registry.positions)
        return reset_service.job_of(loaded, saved.table, saved.slot)
    tables = [job.of(channel.source_table) for job in loaded.jobs.values() for channel in job.channels]
    for table in tables:
        entry: ResetEntry | None = _on(loaded, table, lambda ctx: ctx.resets.reset(backup), lock=False)
        if entry is not None:
            return reset_service.job_of(loaded, entry.table, entry.slot)
    raise Refused(f"unknown backup {backup!r}", "`slotkeeper slots history TABLE SLOT` lists them")


def _on(
    loaded: Loaded,
    job: JobSpec,
    act: Callable[[ResetContext], Any],
    steal: str = "",
    lock: bool = True,
    resuming: bool = False,
) -> Any:
    """Run `act` in the context of a reset. `lock` prevents a start of the job on this host in the meantime."""
    with Store.open(loaded.state_dir) as store:
        locked = store.folder.locked(job.name, START_LOCK, LOCK_SECONDS) if lock else nullcontext()
        with (
            locked,
            reset_service.reset_context(
                job,
                store.folder,
                lambda: at_rest(store, job.name, job.channel.source_table, resuming),
                lambda text, awaits: _record(store, job.name, text, awaits),
                steal,
                diagnostics.warn,
                lambda reset: record(store, Verified.void(job.name, SystemClock().utc(), reset)),
                not loaded.jobs[job.name].several,
                lambda present: _rate_of_last_copy(store, job.name, present),
                _progress(job.slot),
                lambda id, what: access_to(loaded).approved(id, job.name, what),
            ) as reset_context,
        ):
            return act(reset_context)


def _progress(slot: str) -> Callable[[ResetStep, int, int], None]:
    """Report each step of a reset when it starts, and the lanes as they are moved."""
    shown: dict[ResetStep, diagnostics.Progress] = {}

    def at(step: ResetStep, done: int, total: int) -> None:
        what = f"{slot}, {step.value}"
        if step in shown:
            shown[step].at(done, total)
        else:
            shown[step] = diagnostics.Progress(what, "lanes moved")
            diagnostics.note(HowFar(what, done, total, "lanes moved").line)

    return at


def at_rest(store: Store, job: str, table: str, resuming: bool = False) -> Check:
    """Check that the job's state allows a reset and no process runs, or that its driver reports this table as stopped.

    A job that never ran counts as not running. A job that has ended is checked after its processes have exited. A table
    for which a pause was requested does not count as stopped, because it stops only briefly. `resuming`: a DEAD job
    fits, because `jobs ensure` starts it only after the unfinished reset has ended.
    """
    name = "job not running"
    if store.job(job) is None:
        return Check(name, True, "the job was never started here")
    view = settled(store, job)
    if view.state is JobState.ELSEWHERE:  # its owner executes the plan, and checks its processes then
        known = placement.known(store.folder)
        states = {row.job: row.state for row in known.rows} if known is not None else {}
        there = f"{states[job]} on host {view.runs_on}" if job in states else view.state.value
        fits = states.get(job) in {one.value for one in RESETTABLE}
        return Check(
            name, fits, there if fits else f"job {job} is {there}; a reset requires STOPPED, FAILED or AWAITS COPY"
        )
    alone = None if view.elsewhere else of_living(view, table)
    if alone is not None:
        rests = alone.rests and steering.wanted(store, job).get(table, AS_THE_JOB).wanted is not WantedState.PAUSE
        if rests:
            return Check(name, True, f"table {table} of job {job} is {alone.state}; its other tables continue")
        return Check(
            name,
            False,
            f"table {table} of job {job} is {alone.state}; `slotkeeper jobs stop {typed(job)} --table {typed(table)}`"
            " stops only this table",
        )
    if view.lives or view.elsewhere:
        where = "on another host, as far as is known" if view.elsewhere else "here"
        return Check(name, False, f"job {job} is {view.state.value} and its process is running {where}; stop it first")
    try:
        if not (resuming and view.state is JobState.DEAD):
            transition(view.state, JobEvent.RESET)
    except Refused:
        cure = f"; first run `slotkeeper jobs stop {typed(job)}`" if view.state is JobState.DEAD else ""
        why = f"job {job} is {view.state.value}; a reset requires STOPPED, FAILED or AWAITS COPY"
        return Check(name, False, f"{why}{cure}")
    return Check(name, True, f"{view.state.value}, no running process")


def _rate_of_last_copy(store: Store, job: str, present: int | None) -> float | None:
    """Return the rows per second of the job's last completed copy; None if unknown.

    The row count is the one that its driver reported or, if a later run reported no copy, the number of rows now in the
    target.
    """
    row = store.job(job)
    ends: dict[str, float] = {}
    for one in store.events(job, EVENTS):  # newest first
        if one.event == JobEvent.COPY_DONE.value:
            ends.setdefault("done", one.at.timestamp())
        elif one.event == JobEvent.COPY_BEGAN.value and "done" in ends:
            took = ends["done"] - one.at.timestamp()
            rows = (row.report.snapshot_rows if row is not None and row.report is not None else 0) or present or 0
            return rows / took if rows and took > 0 else None
    return None


def of_living(view: JobStatus, table: str) -> TableReport | None:
    """Return the report of one table of a running job with several tables; None if there is none."""
    return next((one for one in view.living_tables if one.source_table == table), None)


def _record(store: Store, job: str, text: str, awaits: bool) -> None:
    """Record the reset, and that a copy is required. A job that continues with its other tables stays in its state."""
    row = store.job(job)
    if row is None:
        return
    if row.state in RESETTABLE:
        event, do = (JobEvent.AWAITS_COPY, f"{start(job)} {BY_RESET}") if awaits else (JobEvent.RESET, "")
        store.apply(job, event, text, "", for_job(do, job))
    store.record_event(job, JobEvent.RESET.value, text)


def start_alone(loaded: Loaded, job: JobSpec) -> str:
    """Return the command that starts a table after its reset while its job runs; "" if the job does not run."""
    with Store.open(loaded.state_dir) as store:
        known = store.job(job.name) is not None
        beside = known and of_living(observe(store, job.name), job.channel.source_table) is not None
    return f"slotkeeper jobs start {typed(job.name)} --table {typed(job.channel.source_table)}" if beside else ""


def _tell(result: Result, start: str, as_json: bool, ascii_only: bool) -> None:
    """Print the result. `start` is the command that starts the table while its job runs."""
    if as_json:
        output.as_json({**dataclasses.asdict(result), "start": start or None})
    else:
        print_result(result, ascii_only)
        if start:
            output.line(f"the table is still stopped; to start it: {start}", ascii_only)
    if result.outcome != DONE:
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))


# -- plans, results and history, as text of 80 columns and as JSON
# ---------------------------------------------------


def plan_as_json(plan: ResetPlan) -> dict[str, Any]:
    """Return a plan as JSON values, including its sentences."""
    found = plan_values(plan)
    for values, move in zip(found["moves"], plan.moves, strict=True):
        values["effect"] = move.effect
        for name, count in (("read_again", move.read_again), ("skipped", move.skipped)):
            values[name]["oldest_at"] = _time(count.oldest_us / 1_000_000) if count.oldest_us else None
    found["goal"]["text"] = plan.goal.text
    found |= {"skipped": plan.skipped, "at_stake": plan.at_stake, "possible": not plan.failed}
    if plan.rows:
        found["rows"] |= {"fate": plan.rows.fate.value, "truncated": plan.rows.truncated, "text": plan.rows.sentence}
    found |= {"to_type": to_type(plan), "undo": undo_of(plan)}
    found |= {"made": _time(plan.made), "expires": _time(plan.expires)}
    return found


def to_type(plan: ResetPlan) -> dict[str, str | None]:
    """Return the confirmations that `slotkeeper.core.slots.reset_apply` requires besides a reason; null: none."""
    return {"confirm": plan.slot, "confirm_table": None, "rows": str(plan.at_stake) if plan.at_stake else None}


def undo_of(plan: ResetPlan) -> str:
    """Describe what an undo restores, and how long it is possible."""
    if why := reset_apply.no_undo(plan):
        return f"not possible: {why}"
    return UNDO_COPY if plan.rows else UNDO_BACK if any(move.back for move in plan.moves) else UNDO


def entry_as_json(entry: ResetEntry) -> dict[str, Any]:
    """Return a reset of the history as JSON values."""
    return {
        "backup": entry.id,
        "job": entry.job,
        "target": entry.target,
        "plan": entry.plan_id,
        "step": entry.step,
        "who": entry.who,
        "reason": entry.reason,
        "outcome": entry.outcome,
        "begun_at": entry.begun_at,
        "ended_at": entry.ended_at or None,
    }


def print_plan(plan: ResetPlan, undoing: str, ascii_only: bool) -> None:
    """Print a plan: lanes, effects, checks, statements, and the command that executes it."""
    shown = preview.of_reset(plan, to_type(plan), undo_of(plan))
    made = f"made {_time(plan.made)}, expires {_time(plan.expires)}; nothing has been changed yet"
    output.paragraph("plan", f"{plan.id}: {shown.title} ({shown.what}, {shown.owner})", ascii_only)
    output.paragraph("", made, ascii_only)
    output.line("")
    output.table(preview.HEADS, [one.cells for one in shown.lanes], ascii_only)
    for section in shown.sections(full=True):
        output.line("")
        output.line(f"{section.name}   {section.hint}".rstrip(), ascii_only)
        for _, label, text in section.lines:
            output.paragraph(f"{label:<7}", text, ascii_only)
    output.line("")
    if plan.at_stake:
        likely = "; TRUNCATE at the source is likely" if plan.rows and plan.rows.truncated else ""
        output.paragraph("LOSES", f"{plan.stake}{likely}", ascii_only)
    for each in _how(plan, undoing):
        output.line(each, ascii_only)


def print_result(result: Result, ascii_only: bool) -> None:
    """Print the result of a reset."""
    output.paragraph("", f"reset {result.reset} {result.outcome}: {result.sentence}", ascii_only)
    for shard, seen in sorted(result.lanes.items()):
        output.paragraph(shard, seen, ascii_only)
    if result.outcome == DONE:
        undo = f"restores positions, not rows: `slotkeeper slots undo {result.reset}`"
        output.paragraph("Undo", f"not possible: {result.no_undo}" if result.no_undo else undo, ascii_only)


def print_history(found: list[ResetEntry], ascii_only: bool) -> None:
    """Print the resets of a slot."""
    rows: list[list[object]] = [[one.id, one.target, one.step, one.who, one.reason] for one in found]
    output.table(["backup", "target", "outcome", "who", "why"], rows, ascii_only)


def _how(plan: ResetPlan, undoing: str) -> list[str]:
    if plan.failed:
        return [f"not possible now: {len(plan.failed)} precondition(s) fail"]
    what = f"undo {typed(undoing)}" if undoing else f"reset {typed(plan.table, plan.slot)}"
    rows = f" --rows {plan.at_stake}" if plan.at_stake else ""
    consent = f"  --execute --plan {plan.id} --confirm {typed(plan.slot)}{rows} --reason '...'"
    return [f"slotkeeper slots {what} \\", consent]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
