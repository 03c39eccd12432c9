"""`slotkeeper slots preflight`, `create`, `register` and `drop`; the group itself is in `slots`.

The three verbs are dry runs unless executed with consent (one rule: `core.slots.change`).
Next door: `core.services.slot_commands` carries them out between two audit lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Annotated

import typer

from console.cli import context, diagnostics, output, places, select
from core.config.model import Loaded
from core.config.places import owners
from core.domain.text import typed
from core.launch.control import START_LOCK
from core.launch.view import observe
from core.services import slot_commands
from core.slots.change import UNKNOWN_ROWS, ChangePlan, Consent, Done, Owner, SlotVerb, per_shard
from core.slots.create import CREATE
from core.slots.drop import DROP
from core.slots.full_sync import REGISTER
from core.slots.status.preflight import Action, MayBegin, Preflight, Rate, rate_between
from core.state.sqlite import Store

RATE_SECONDS = 3.0
"""How long a job's next report is waited for, to tell its rate; it reports every second or so."""
LOCK_SECONDS = 5.0
_UNDO = {
    "create": "`slotkeeper slots drop`, which loses what it holds by then",
    "register": "none: what is skipped is not read again; a new snapshot brings the rows",
    "drop": "none: what it held is lost to it; a new snapshot brings the rows",
    "abandon": "a registration before its TTL ends keeps it",
}
"""The way back from each verb, in words."""

Table = Annotated[str, typer.Argument(metavar="TABLE", help="schema.table")]
Slot = Annotated[str, typer.Argument(metavar="SLOT", help="the slot's name")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
Source = Annotated[str, typer.Option("--source", metavar="NAME", help="the table's source, where several have it")]
Execute = Annotated[bool, typer.Option("--execute", help="do it; without this only the plan is shown")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for the audit")]
Confirm = Annotated[str, typer.Option("--confirm", metavar="SLOT", help="the slot's name, typed again")]
ConfirmTable = Annotated[
    str,
    typer.Option(
        "--confirm-table",
        metavar="TABLE",
        help="the table's name, typed again: for a slot of no configured job, and where the source is PROD",
    ),
]
Rows = Annotated[
    str,
    typer.Option("--rows", metavar="N", help="the number of unread rows that are lost; 'unknown' if it cannot be told"),
]
For = Annotated[
    list[Action] | None, typer.Option("--for", help="judge the exit code by this action only; may be repeated")
]


def add_to(app: typer.Typer) -> None:
    """Put the commands of this module into the group."""
    app.command("preflight")(preflight)
    app.command("create")(create)
    app.command("register")(register)
    app.command("drop")(drop)


def preflight(ctx: typer.Context, table: Table, source: Source = "", wanted: For = None, as_json: Json = False) -> None:
    """May I VACUUM FULL, scale out or alter the table now? 0: yes; 3: something holds it back; 5: unreachable."""
    loaded = context.of(ctx).load()
    found = slot_commands.preflight(loaded, *places.place(loaded, source, table), lambda jobs: _rates(loaded, jobs))
    actions = wanted or list(Action)
    if as_json:
        answers = {each.action.value: {"answer": each.answer, "reason": each.reason} for each in found.verdicts}
        output.as_json(
            {
                "source": found.source,
                "table": found.table,
                "clear": all(found.answer(each) is MayBegin.YES for each in actions),
                "verdicts": answers,
                "consumed": found.consumed,
                "consumed_by_dn": found.by_shard,
                "holders": found.holders,
                "unread": found.unread,
                "drain_seconds": found.drain_seconds,
                "drain": found.drain,
                "notes": found.notes,
            }
        )
    else:
        _print(found, select.ascii_only(ctx))
    if any(found.answer(each) is not MayBegin.YES for each in actions):
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))


def create(
    ctx: typer.Context,
    table: Table,
    slot: Slot,
    source: Source = "",
    execute: Execute = False,
    reason: Reason = "",
    confirm: Confirm = "",
    confirm_table: ConfirmTable = "",
    as_json: Json = False,
) -> None:
    """Make a slot: recording starts, and changes are kept for it from now on.

    A dry run unless --execute --reason TEXT --confirm SLOT. --confirm-table TABLE as well where no configured job owns
    the slot, or the source's environment is PROD.
    """
    consent = Consent(execute, reason, confirm, confirm_table)
    _run(ctx, CREATE, (table, slot, source), consent, as_json)


def register(
    ctx: typer.Context,
    table: Table,
    slot: Slot,
    source: Source = "",
    execute: Execute = False,
    reason: Reason = "",
    confirm: Confirm = "",
    confirm_table: ConfirmTable = "",
    rows: Rows = "",
    as_json: Json = False,
) -> None:
    """Register a full-sync point: move the slot to now and skip what it has not read.

    A dry run unless --execute --reason TEXT --confirm SLOT, and --rows N where rows are skipped. --confirm-table TABLE
    as well where no configured job owns the slot, or the source's environment is PROD.
    """
    consent = Consent(execute, reason, confirm, confirm_table, rows)
    _run(ctx, REGISTER, (table, slot, source), consent, as_json)


def drop(
    ctx: typer.Context,
    table: Table,
    slot: Slot,
    source: Source = "",
    execute: Execute = False,
    reason: Reason = "",
    confirm: Confirm = "",
    confirm_table: ConfirmTable = "",
    rows: Rows = "",
    as_json: Json = False,
) -> None:
    """Drop a slot; where the kernel cannot, say when its TTL clears it.

    A dry run unless --execute --reason TEXT --confirm SLOT, and --rows N where unread rows are lost. --confirm-table
    TABLE as well where no configured job owns the slot, or the source's environment is PROD.
    """
    consent = Consent(execute, reason, confirm, confirm_table, rows)
    _run(ctx, DROP, (table, slot, source), consent, as_json)


def owner_of(loaded: Loaded, store: Store, source: str, table: str, slot: str) -> Owner | None:
    """The configured job of a slot as it can be seen from here; None for an external slot."""
    job = owners(loaded, source, table).get(slot)
    if job is None:
        return None
    if store.job(job) is None:
        return Owner(job)
    view = observe(store, job)
    return Owner(job, view.state, view.lives, view.elsewhere)


def _run(ctx: typer.Context, verb: SlotVerb, asked: tuple[str, str, str], consent: Consent, as_json: bool) -> None:
    loaded = context.of(ctx).load()
    table, slot, source = asked
    place = (*places.place(loaded, source, table), slot)
    ascii_only = select.ascii_only(ctx)

    def show(plan: ChangePlan) -> None:
        if not as_json:
            _show(plan, ascii_only)

    with ExitStack() as stack:
        store = stack.enter_context(Store.open(loaded.state_dir))
        job = owners(loaded, place[0], table).get(slot)
        if job and consent.execute:
            # no start of the job may come between the check and the act
            stack.enter_context(store.folder.locked(job, START_LOCK, LOCK_SECONDS))
        ended = slot_commands.change(loaded, verb, place, owner_of(loaded, store, *place), consent, show)
    if as_json:
        more = {"to_type": to_type(ended.plan), "undo": _UNDO[ended.plan.verb]}
        output.as_json({"executed": ended.done is not None, "plan": ended.plan, "done": ended.done, **more})
    elif ended.done is not None:
        _tell(ended.done, ascii_only)
    else:
        _say_how(ended.plan, ascii_only)
    if ended.done is not None and ended.done.missed:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def to_type(plan: ChangePlan) -> dict[str, str | None]:
    """What has to be typed beside a reason, as `core.slots.change` asks for it; null where it is not asked for."""
    rows = UNKNOWN_ROWS if plan.rows is None else str(plan.rows)
    table = plan.table if plan.highest else None
    return {"confirm": plan.slot, "confirm_table": table, "rows": None if rows == "0" else rows}


def _show(plan: ChangePlan, ascii_only: bool) -> None:
    owner = f"job {plan.owner.job}" if plan.owner else "external (no job of this configuration)"
    places.paragraph("", f"{plan.verb} {plan.what}; {owner}", ascii_only)
    if plan.before.shards:
        output.table(["dn", "now"], per_shard(plan.before).items(), ascii_only)
    for effect in plan.effects:
        places.paragraph("effect", effect, ascii_only)
    for each in plan.sql:
        output.line(f"sql     {each}", ascii_only)


def _say_how(plan: ChangePlan, ascii_only: bool) -> None:
    verb = "drop" if plan.verb == "abandon" else plan.verb
    table = f" --confirm-table {typed(plan.table)}" if plan.highest else ""
    rows = "" if plan.rows == 0 else f" --rows {'unknown' if plan.rows is None else plan.rows}"
    output.line("dry run: nothing was changed; to do it:", ascii_only)
    consent = f"--execute --reason TEXT --confirm {typed(plan.slot)}{table}{rows}"
    output.line(f"  slotkeeper slots {verb} {typed(plan.table, plan.slot)} {consent}", ascii_only)


def _tell(done: Done, ascii_only: bool) -> None:
    if done.result:
        output.table(["dn", "observed"], done.result.items(), ascii_only)
    places.paragraph("", done.outcome, ascii_only)


def _print(found: Preflight, ascii_only: bool) -> None:
    output.line(f"{found.source} {found.table}", ascii_only)
    for each in found.verdicts:
        places.paragraph(f"{each.action.value:<11}  {each.answer.value:<7}", each.reason, ascii_only)
    if found.holders:
        rows = [[h.slot, h.job or "external", h.shard, h.point, h.at, h.rows] for h in found.holders]
        output.table(["slot", "owner", "dn", "point", "at", "unread"], rows, ascii_only)
    places.paragraph("drain", found.drain, ascii_only)
    for text in found.notes:
        places.paragraph("note ", text, ascii_only)


def _rates(loaded: Loaded, jobs: Sequence[str]) -> list[Rate]:
    """How fast living jobs apply, from two of their reports."""
    with Store.open(loaded.state_dir) as store:
        return [rate for job in jobs if (rate := rate_of(store, job)) is not None]


def rate_of(
    store: Store, job: str, seconds: float = RATE_SECONDS, pause: Callable[[float], None] = time.sleep
) -> Rate | None:
    """How fast a job applies, from its newest report and its next; None where it does not live or tells none."""
    if store.job(job) is None:
        return None
    first = observe(store, job)
    if not first.lives or not first.reported or first.report is None or first.reported_at is None:
        return None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = observe(store, job)
        if now.report is not None and now.reported_at is not None and now.reported_at > first.reported_at:
            return rate_between(job, (first.report.changes, first.reported_at), (now.report.changes, now.reported_at))
        pause(0.2)
    return None
