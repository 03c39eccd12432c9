"""The verbs of `slotkeeper jobs` for a job or one table (`--table`): state changes, retry, drain. All are audited.

Unlike slot changes, jobs are started and stopped even if the audit cannot be written, because a full disk must not keep
a job running.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import typer

from slotkeeper.console.cli import diagnostics, output, select
from slotkeeper.console.cli.diagnostics import Progress
from slotkeeper.console.views.rows import age
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.copy_limit import LEAST_BYTES, LEAST_ROWS, CopyLimit, size_of, size_text
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.job import JobState, TableReport, WantedState, amiss, to_do
from slotkeeper.core.domain.pending import since_of
from slotkeeper.core.domain.placement import ORDERS, Order
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe, typed
from slotkeeper.core.domain.traits import copy_again_objection
from slotkeeper.core.domain.tries import TryAnswer, in_words
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.judgement.facts import Limits
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.access import Access
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.launch.tables import Ask, TablePatience, ask, refuse_one_position, refuse_one_table, try_now
from slotkeeper.core.launch.view import Starting, observe
from slotkeeper.core.redaction import masked
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry
from slotkeeper.core.state import files, steering
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.files import StoredConsents
from slotkeeper.core.state.sqlite import Store

ORDER_SECONDS = 30.0
"""The longest wait until the owner's host takes a command over."""
_Seen = TypeVar("_Seen", JobStatus, TableReport, tuple[TryAnswer, ...])


def noted(store: Store, action: str, job: str, reason: str, act: Callable[[], JobStatus]) -> JobStatus:
    """Write the intent to the audit, act, then write the result. An error is also written, and then raised."""
    row = store.job(job)
    line = intent(action, f"job {job}", reason, {"state": row.state.value if row else "never started"})
    return _noted(store, line, act, lambda view: view.state.value)


def noted_table(
    store: Store, action: str, job: str, table: str, reason: str, act: Callable[[], TableReport]
) -> TableReport:
    """Do the same as `noted` for one table of a job."""
    row = store.job(job)
    known = row.report.tables if row and row.report else ()
    state = next((one.state for one in known if one.source_table == table), "unknown")
    line = intent(action, f"job {job} table {table}", reason, {"state": state})
    return _noted(store, line, act, lambda found: found.state)


def noted_try(
    store: Store, job: str, table: str, reason: str, act: Callable[[], tuple[TryAnswer, ...]]
) -> tuple[TryAnswer, ...]:
    """Do the same as `noted` for an immediate retry."""
    row, what = store.job(job), f"job {job} table {table}" if table else f"job {job}"
    line = intent("jobs retry", what, reason, {"state": row.state.value if row else "never started"})
    return _noted(store, line, act, lambda found: in_words(found) if found else "requested")


def _noted(store: Store, line: AuditLine, act: Callable[[], _Seen], state_of: Callable[[_Seen], str]) -> _Seen:
    audit = Audit(store.folder)
    _write(audit, line)
    try:
        seen = act()
    except Starting as error:
        state = error.view.state.value
        _write(audit, outcome(line, f"{state}: the start continues", {"state": state}))
        raise
    except BaseException as error:
        _write(audit, outcome(line, f"failed: {safe(error, 300) or type(error).__name__}", {}))
        raise
    _write(audit, outcome(line, state_of(seen), {"state": state_of(seen)}))
    return seen


def consent(
    store: Store, access: Access, job: str, table: str, name: str, reason: str, rows: int | None = None
) -> None:
    """Store the consent to the copies that a job or table awaits, or to a change that affects `rows`, and audit it.

    Raises Refused for a wrong name or number, or if the rules require an approval and it is missing.
    """
    if name != job:
        raise Refused(f"`{safe(name, 80)}` is not `{job}`", f"--confirm {typed(job)}")
    if not reason.strip():
        raise Refused(f"the consent for job {job} needs a reason", "--reason TEXT")
    known = StoredConsents(store.folder, job)
    found = [one for one in known.known() if table in ("", one.table)]
    asked = [one for one in found if one.rows == rows]
    if not asked and (other := [one for one in found if one.rows is not None]):
        raise Refused(f"{other[0].table}: {other[0].replaces}", f"--confirm-rows {other[0].rows}")
    if not asked and rows is not None:
        raise Refused(f"{job}: no change of columns awaits a confirmation", "`jobs show` reports why a table stopped")
    tables = sorted({one.table for one in asked})
    if rows is not None and len(tables) > 1:
        what = f"{job}: {len(tables)} tables await the confirmation of {rows} rows: {', '.join(tables[:5])}"
        raise Refused(what, f"confirm each alone: --table {typed(tables[0])}")
    if not asked:
        diagnostics.note(f"{job}: no copy on this host awaits consent; the driver asks if it needs consent")
    for one in asked:
        lossy = one.rows is not None
        what = f"{one.table}: {one.replaces}:" if lossy else f"the copy of {one.table}, which replaces {one.replaces},"
        # a change keeps its plan while the number of rows that it affects changes
        access.approved(f"{one.plan}-{one.rows}" if lossy else one.plan, job, what)
        action = "change consent" if lossy else "copy consent"
        line = intent(action, f"job {job} table {one.table}", reason, {"replaces": one.replaces})
        audit = Audit(store.folder)
        audit.append(line)
        now = SystemClock().utc().timestamp()
        known.keep(replace(one, name=name, who=line.actor.text, reason=masked(reason), at=now))
        audit.append(outcome(line, f"given: valid for 24 hours, for one {'change' if lossy else 'copy'}", {}))


def _write(audit: Audit, line: AuditLine) -> None:
    try:
        audit.append(line)
    except StateError as error:
        diagnostics.warn(f"not in the audit: {error.message}")


_GOALS = {Ask.PAUSE: JobState.PAUSED, Ask.STOP: JobState.STOPPED}
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
    """Change the desired state of one table of a running job, wait for the effect, and print it in one line."""
    if loaded is not None and job in loaded.jobs:
        refuse_whole(loaded.jobs[job])
    with Store.open(folder) as store:
        select.refuse_refused(loaded, store, job)
        patience = TablePatience(wait, lambda seen: diagnostics.note(f"{job} {seen.source_table}: {seen.state}"))
        act = partial(ask, store, job, table, what, patience)
        found = noted_table(store, f"jobs {what.value}", job, table, reason, act)
    if as_json:
        more = {name: getattr(found, name) for name in ("target", "reason", "trouble", "safe")}
        output.as_json({"job": job, "table": table, "state": found.state, **more})
    else:
        output.line(
            f"{job} {table}: {found.state}{f' ({found.reason})' if found.reason else ''}", select.ascii_only(ctx)
        )
    goal = _GOALS.get(what)
    reached = found.state != JobState.FAILED.value if goal is None else found.state == goal.value
    if not (wait == 0 or reached):
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def refuse_whole(spec: JobSpec) -> None:
    """Raise Refused if no table of the job can run without the others."""
    if not spec.several:
        refuse_one_table(spec.name)
    if registry.open(spec.source_kind).traits.shares_position:
        refuse_one_position(spec.name)


def refuse_take_over(take_over: bool) -> None:
    """Raise Refused, because a single table is started by the job's running driver, which takes over no session."""
    if take_over:
        raise Refused("--take-over applies only to a whole job", "omit --table or --take-over")


def narrowed(spec: JobSpec, table: str) -> JobSpec:
    """Return the job with this table only. Raises Refused, naming the tables, if it is unknown or the only table."""
    if not spec.several:
        refuse_one_table(spec.name)
    known = [channel.source_table for channel in spec.channels]
    if table not in known:
        raise Refused(f"job {spec.name} has no table {table!r}", f"known tables: {', '.join(sorted(known))}")
    return spec.of(table)


def off(view: JobStatus | None, table: str) -> str:
    """Return the state of a table that has stopped while its job runs, so its lanes never catch up; otherwise ""."""
    found = amiss(view.report.tables) if view is not None and view.reported and view.report else []
    return next((one.state for one in found if one.source_table == table), "")


def tell_apart(store: Store, spec: JobSpec) -> None:
    """Report the tables that stay stopped or paused when the whole job starts, because of their own desired state."""
    asked = steering.wanted(store, spec.name)
    known = [channel.source_table for channel in spec.channels]
    for wanted, word, verb in _STAYS:
        found = [table for table in known if table in asked and asked[table].wanted is wanted]
        if found and len(known) > 1:
            number = f"{len(found)} table{' stays' if len(found) == 1 else 's stay'} {word}"
            does = f"`slotkeeper jobs {verb} {typed(spec.name)} --table TABLE` {verb}s one of them"
            diagnostics.note(f"{spec.name}: {number}: {', '.join(found)}; {does}")


def tell_taken_out(store: Store, spec: JobSpec) -> None:
    """Report the tables removed from the job since its last run, because a user must decide about their slots.

    Such a slot is no longer registered by any job, and the source retains the table's changes until the slot's TTL
    ends.
    """
    row = store.job(spec.name)
    report = row.report if row is not None else None
    lanes, single = (report.lanes, report.tables) if report is not None else ((), ())
    had = {lane.source_table for lane in lanes} | {table.source_table for table in single}
    if spec.patterns:
        had -= {*files.known_tables(store.folder.path, spec.name).gone}  # the source has no changes of such a table
    for table in sorted(had - {"", *(channel.source_table for channel in spec.channels)}):
        place = typed(table, spec.slot)
        what = f"{table} is no longer a table of this job; slot {spec.slot} retains its changes until its TTL ends"
        drop = f"`slotkeeper slots drop {place} --source {typed(spec.source.name)}`"
        cure = f"if added again, it resumes at its position; {drop} discards the changes; `slots list` shows the slot"
        diagnostics.note(f"{spec.name}: {what}; {cure}")


def to_do_first(view: JobStatus) -> str:
    """Return the next safe action on the table in the worst state; "" if all tables are running."""
    return next((to_do(view.name, table) for table in amiss(view.living_tables)), "")


def reported(view: JobStatus, limits: Limits) -> str | None:
    """Return when the job's driver last reported and, if a running driver is overdue, how long ago that was."""
    at = output.second(view.reported_at)
    if view.reported_at is None or not view.driver_alive or not view.reported:
        return at
    silent = (SystemClock().utc() - view.reported_at).total_seconds()
    return (
        f"{at}: its driver is running but has not reported for {silent:.0f} s" if silent > limits.silent_warning else at
    )


def show(view: JobStatus, ascii_only: bool) -> None:
    """Print the table states of a running job, with the next action for each stopped table."""
    found = view.living_tables
    if not found:
        return
    now = SystemClock().utc()
    rows: list[list[object]] = [
        [one.source_table, one.target, one.state, age(since_of(one), now), one.trouble or None] for one in found
    ]
    output.table(["table", "target", "state", "for", "trouble"], rows, ascii_only)
    stuck = amiss(found)
    for one in [*stuck, *(one for one in found if one.reason and one not in stuck)]:
        if one.reason:
            output.paragraph(one.source_table, f"{one.state}: {one.reason}", ascii_only)
        if one in stuck:
            output.line(f"  action  {to_do(view.name, one)}", ascii_only)  # on one line, so that it can be pasted


def retried(ctx: typer.Context, store: Store, job: str, table: str, wait: float, reason: str, as_json: bool) -> None:
    """Request a retry, wait for the answer and print it; audited. Raises the errors of `launch.tables.try_now`."""
    found = noted_try(store, job, table, reason, partial(try_now, store, job, table, wait))
    if as_json:
        lanes = {name: [lane for one in found for lane in getattr(one, name)] for name in ("tried", "polled", "busy")}
        refused = {lane: why for one in found for lane, why in one.refused.items()}
        said = in_words(found) if found else ""
        whole = {"job": job, "table": table or None, "answered": bool(found)}
        output.as_json({**whole, **lanes, "refused": refused, "said": said})
    else:
        said = in_words(found) if found else "requested; not waiting for the result"
        output.line(f"{' '.join(filter(None, (job, table)))}: {said}", select.ascii_only(ctx))


def other_owner(loaded: Loaded, store: Store, job: str) -> str:
    """Return the host that owns a job, as the store shows it; "" if it is this host, or if no host shares the job.

    Raises the store's error, unless a process of the job runs here.
    """
    if loaded.hosts is None or job not in loaded.jobs or (store.job(job) is not None and observe(store, job).lives):
        return ""
    from slotkeeper.core.launch.hosts import shared  # only a shared job loads what its store needs

    with closing(shared(loaded, store)) as found:
        row = found.row(job)
    return row.host if row is not None and row.owner not in ("", found.owner) else ""


def by_owner(
    ctx: typer.Context,
    loaded: Loaded,
    job: str,
    verb: str,
    options: Mapping[str, str],
    host: str,
    reason: str,
    as_json: bool,
    plan: str = "",
) -> None:
    """Let the host that owns a job carry a command out, and print its output; exits with its exit code."""
    # `jobs list` must not load what a command to another host needs
    from slotkeeper.core.launch.orders import CHILD, ordered

    if os.environ.get(CHILD):
        raise Refused(f"job {job} has moved to host {host} meanwhile", "repeat the command")
    given = {**options, "json": "yes" if as_json else ""}
    action = " ".join(ORDERS[verb][0])
    with Store.open(loaded.state_dir) as store:
        order = Order(secrets.token_hex(8), job, verb, given, plan, asked_why=reason)
        diagnostics.note(f"job {job} runs on host {host}, which carries the command out")
        found = ordered(loaded, store, action, order, host, ORDER_SECONDS)
    shown, _, notes = found.said.partition("\f")
    for line in notes.splitlines():
        diagnostics.note(f"host {host}: {line.strip().removeprefix('slotkeeper: ')}")
    for line in shown.splitlines():
        if as_json:
            output.stored(line.encode())
        else:
            output.line(line, select.ascii_only(ctx))
    if found.code:
        raise typer.Exit(found.code)


def limit_of(rows: int, size: str) -> CopyLimit:
    """Return the limit of the two options; raises BadParameter, as for a key of the configuration."""
    found = CopyLimit(rows or None, None)
    if rows and rows < LEAST_ROWS:
        raise typer.BadParameter(f"must be at least {LEAST_ROWS}", param_hint="--rows")
    try:
        found = replace(found, bytes=size_of(size) if size else None)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--bytes") from None
    if found.bytes is not None and found.bytes < LEAST_BYTES:
        raise typer.BadParameter(f"must be at least {size_text(LEAST_BYTES)}", param_hint="--bytes")
    return found


def limited(
    ctx: typer.Context,
    store: Store,
    spec: JobSpec | None,
    job: str,
    given: CopyLimit | None,
    reason: str,
    as_json: bool,
) -> None:
    """Set the limit of the job's copies (None: the configured limit), and print the limit that now applies; audited."""
    try:
        before = steering.copy_limit(store, job)
        was = {"limit": "as configured" if before is None else before.text or "none"}
    except StateError as error:
        was = {"limit": f"unknown: {error.message}"}
    audit, line = Audit(store.folder), intent("jobs limit", f"job {job}", reason, was)
    _write(audit, line)
    steering.set_copy_limit(store, job, given)
    now = given if given is not None else spec.copy_limit if spec is not None else CopyLimit()
    said = now.text or "not limited"
    _write(audit, outcome(line, said, {"limit": said}))
    store.record_event(job, "copy limit asked", said)
    if as_json:
        output.as_json(
            {"job": job, "rows_per_second": now.rows, "bytes_per_second": now.bytes, "set": given is not None}
        )
    else:
        ends = "" if given is not None else " (as configured)"
        output.line(f"{job}: copies are {said}{ends}", select.ascii_only(ctx))


def copied_again(
    ctx: typer.Context,
    store: Store,
    loaded: Loaded | None,
    job: str,
    table: str,
    cancel: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Request that a table is copied again while it streams, or withdraw the request; audited. Raises Refused."""
    if loaded is None or job not in loaded.jobs:
        raise Refused(f"job {job} is not in the configuration", "--config FILE names the file that configures it")
    spec = loaded.jobs[job]
    if table not in (known := [channel.source_table for channel in spec.channels]):
        raise Refused(f"job {spec.name} has no table {safe(table, 80)}", f"known tables: {', '.join(sorted(known))}")
    why = copy_again_objection(spec, registry.open(spec.source_kind).traits, sinks.traits(spec.sink_kind))
    if why and not cancel:
        raise Refused(f"{table}: {why}", f"`slotkeeper slots reset {typed(table, spec.slot)} --to snapshot`")
    requests = steering.StoredAgain(store, spec.name)
    was = "requested" if table in requests.tables() else "none"
    audit = Audit(store.folder)
    line = intent("jobs recopy", f"job {spec.name} table {table}", reason, {"request": was})
    _write(audit, line)
    if cancel:
        requests.end(table)
    else:
        requests.ask(table)
    said = "withdrawn" if cancel else "requested"
    _write(audit, outcome(line, said, {"request": said}))
    store.record_event(spec.name, "copy again", f"{table}: {said}")
    if as_json:
        output.as_json({"job": spec.name, "table": table, "requested": not cancel})
    else:
        does = "copied chunks are retained" if cancel else f"`slotkeeper jobs show {typed(spec.name)}` shows progress"
        output.line(f"{spec.name} {table}: new copy {said}; {does}", select.ascii_only(ctx))


POLL_SECONDS = 0.5
_PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP, JobState.PENDING)
"""The states in which waiting for a drain is possible. A job that was just resumed is PENDING and streams soon."""
NOT_KNOWN = "?"


@dataclass(frozen=True, slots=True)
class _Left:
    """The unread changes as text, by DN or by table and DN. `rows` is their sum, None if they cannot be counted."""

    by_lane: Mapping[str, str]
    rows: int | None = None

    @property
    def text(self) -> str:
        return "; ".join(text if lane == NOT_KNOWN else f"{lane}: {text}" for lane, text in self.by_lane.items())


def drain(ctx: typer.Context, loaded: Loaded, spec: JobSpec, wait: float, as_json: bool) -> None:
    """Wait at most `wait` seconds; report unread changes and blockers. Raises Refused if the job does not stream."""
    end, shown, known, most = time.monotonic() + wait, "", "", 0
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
            else:  # no progress since the last check
                now = SystemClock().utc()
                fault = next((one for one in judge(gather(store, loaded, now)) if one.job == spec.name), None)
                if known != (known := fault.key if fault else ""):
                    diagnostics.note(fault.said(now) if fault else f"{spec.name}: no problems left")
            time.sleep(POLL_SECONDS)
            view = _streaming(store, spec.name, exit_code=True)
    _tell(ctx, spec, left, view, as_json)


def _left(loaded: Loaded, spec: JobSpec) -> _Left:
    # `jobs list` must not load a database driver
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


def _tell(ctx: typer.Context, spec: JobSpec, left: _Left, view: JobStatus, as_json: bool) -> None:
    at, table = SystemClock().utc(), ", ".join(channel.source_table for channel in spec.channels)
    until = f"until the next commit on {table}; the job reads and confirms that commit automatically"
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
        output.line(f"{table} is drained at {at:%Y-%m-%dT%H:%M:%SZ}", select.ascii_only(ctx))
        output.line(f"valid {until}", select.ascii_only(ctx))
    if left.by_lane:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _quiet_seconds(view: JobStatus, now: datetime) -> float | None:
    """Return the seconds since the job last applied a change in this run; None if unknown."""
    if view.report is None or view.reported_at is None:
        return None
    ages = [lane.last_commit_age for lane in view.report.lanes if lane.last_commit_age is not None]
    past = elapsed(view.reported_at, now)
    return round(min(ages) + past, 1) if ages and past is not None else None


def _streaming(store: Store, job: str, exit_code: bool = False) -> JobStatus:
    """Return the status of a streaming job. If it does not stream, raises Refused, or exits with 1 during the wait."""
    view = observe(store, job)
    if view.state in _STREAMING and view.lives:
        return view
    why = f": {view.reason}" if view.reason else ""
    text = f"job {job} is {view.state.value}{why}; only a RUNNING or CATCHING UP job can be drained"
    if exit_code:
        diagnostics.warn(text)
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))
    raise Refused(text, f"`slotkeeper jobs start {job}`")
