"""`slotkeeper slots`: the slots of a table, their positions, owners and remaining TTL; preflight, create and drop.

Listing slots creates no slot, because it uses only read calls. The verbs are dry runs unless executed with consent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Annotated

import typer

from slotkeeper.console.cli import completion, context, diagnostics, output, select
from slotkeeper.console.cli.output import SHORT, both
from slotkeeper.console.cli.select import ConfirmSlot, Json, Reason, Slot, Source, Table
from slotkeeper.console.commands import configured, peek, reset
from slotkeeper.core.config.model import Loaded, owners
from slotkeeper.core.domain.access import EVERY_JOB, plan_id
from slotkeeper.core.domain.query_report import QuerySeen
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.ttl import TimeLeft, in_words
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch.launch import START_LOCK
from slotkeeper.core.launch.view import observe, settled
from slotkeeper.core.services import looking, slot_commands
from slotkeeper.core.services.slot_commands import Polled
from slotkeeper.core.slots import change
from slotkeeper.core.slots.change import ChangePlan, Consent, Owner, SlotVerb, per_shard
from slotkeeper.core.slots.preflight import Action, MayBegin, Preflight, Rate, rate_between
from slotkeeper.core.slots.status import KnownBy, ShardRetained, SlotOnShard, SlotRetained, SlotView, TableRetained
from slotkeeper.core.state.sqlite import Store

app = typer.Typer(help="Show the slots of source tables, and change them.")

RATE_SECONDS = 3.0
"""How long to wait for a job's next report to calculate its rate. A job reports about once per second."""
LOCK_SECONDS = 5.0
_UNDO = {
    "create": "`slotkeeper slots drop`, which loses the changes retained until then",
    "register": "none: skipped changes are not read again; a new snapshot restores the rows",
    "drop": "none: the changes it retained are lost; a new snapshot restores the rows",
    "abandon": "confirm the slot before its TTL ends",
}
"""A description of how to undo each verb."""

OnlySource = Annotated[
    str, typer.Option("--source", metavar="NAME", help="only this source", autocompletion=completion.sources)
]
Execute = Annotated[bool, typer.Option("--execute", help="execute the plan; without it, only show it")]
ConfirmTable = Annotated[
    str,
    typer.Option(
        "--confirm-table",
        metavar="TABLE",
        help="the table's name, typed again: for an external slot, or if the source is PROD",
    ),
]
Rows = Annotated[
    str,
    typer.Option("--rows", metavar="N", help="maximum number of unread rows to lose, or 'unknown'"),
]
For = Annotated[
    list[Action] | None, typer.Option("--for", help="base the exit code on this action only; can be repeated")
]


@app.command("list")
def list_slots(
    ctx: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            metavar="[TABLE]",
            help="schema.table; default: all configured tables",
            autocompletion=completion.tables_read,
        ),
    ] = "",
    source: OnlySource = "",
    as_json: Json = False,
) -> None:
    """List the slots of one source table, or of every table that a job reads; creates no slot."""
    loaded = context.of(ctx).load()
    configured.tell_refused(loaded)
    found, failed, left, read = _everywhere(loaded, source, table)
    if as_json:
        errors = [{"place": place, "error": str(reason)} for place, reason in failed]
        listed = [
            {
                "source": each.slots.source,
                "table": each.slots.table,
                "slots": [_slot(one, each.retained, _its(one, each, read)) for one in each.slots.slots],
                "retained": _table(each.retained),
                "untold": each.slots.untold,
            }
            for each in found
        ]
        output.as_json({"tables": listed, "taken_out": [dict(one) for one in left], "errors": errors})
    else:
        for each in found:
            _print(ctx, each, read)
        for one in left:
            place = typed(one["table"], one["slot"])
            what = f"slot {one['slot']} of {one['source']} {one['table']} retains its changes until its TTL ends"
            cure = f"job {one['job']} no longer has that table; if added again, it resumes at its position"
            drop = f"`slotkeeper slots drop {place} --source {typed(one['source'])}` discards the changes"
            output.paragraph("taken out", f"{what}; {cure}; {drop}", select.ascii_only(ctx))
    for place, reason in failed:
        diagnostics.warn(f"{place}: {diagnostics.with_hint(reason)}")
    if failed:
        raise typer.Exit(int(diagnostics.EXIT_CODES[failed[0][1].kind]))


def _everywhere(
    loaded: Loaded, source: str, table: str
) -> tuple[list[Polled], list[tuple[str, SlotkeeperError]], list[dict[str, str]], slot_commands.Queries]:
    """Return table statuses, errors, slots of removed tables, and queries; all sources are queried concurrently."""
    silent: set[str] = set()
    places = select.places(loaded, source, table)
    looking.passwords(loaded.sources[name].endpoint for name, _ in places)
    lanes: dict[str, list[tuple[object, Callable[[], object]]]] = {}
    for name, its_table in places:
        ask = partial(slot_commands.poll, loaded, name, its_table, silent)
        lanes.setdefault(f"source {name} ({loaded.sources[name].endpoint.place})", []).append(((name, its_table), ask))
    lanes["left"] = [("left", partial(_left_behind, loaded, source, table))]
    lanes["queries"] = [("queries", partial(_queries, loaded, places))]
    answers = looking.asked(lanes)
    found = [one for place in places if isinstance(one := answers[place], Polled)]
    failed = [(" ".join(place), one) for place in places if isinstance(one := answers[place], SlotkeeperError)]
    left, read = answers["left"], answers["queries"]
    return found, failed, left if isinstance(left, list) else [], read if isinstance(read, dict) else {}


@app.command()
def show(ctx: typer.Context, table: Table, slot: Slot, source: OnlySource = "", as_json: Json = False) -> None:
    """Show one slot DN by DN: both points, unread rows, remaining TTL, and the binlog it retains."""
    loaded = context.of(ctx).load()
    configured.tell_refused(loaded)
    polled, failed, _, read = _everywhere(loaded, *select.place(loaded, source, table))
    if failed:
        raise failed[0][1]
    found = polled[0]
    one = found.slots.slot(slot)
    query = _its(one, found, read)
    if as_json:
        place = {"source": found.slots.source, "table": found.slots.table}
        more = {"retained": _table(found.retained), "untold": found.slots.untold}
        output.as_json({**place, **_slot(one, found.retained, query), **more})
        return
    ascii_only, retained = select.ascii_only(ctx), found.retained.slot(slot)
    owner = f"of job {one.job}" if one.job else "external (no configured job)"
    output.line(
        f"{found.slots.source} {found.slots.table} slot {one.name}: {owner}{_presence(one, found.retained)}", ascii_only
    )
    if query is not None:
        output.paragraph("query", query.text, ascii_only)
    output.line(_ttl(found.retained), ascii_only)
    output.table(*_places(one, retained, found.retained), ascii_only)
    if found.retained.words.marks and found.retained.words.retains:
        output.table(*_times(retained, found.retained.words.part.lower()), ascii_only)
    purge = found.retained.purges.get(one.name)
    for text in (*_notes(one.name, retained, found.retained), *(purge.lines() if purge else ())):
        output.paragraph("", text, ascii_only)
    _tell_untold(found)


def _queries(loaded: Loaded, places: Sequence[tuple[str, str]]) -> slot_commands.Queries:
    """Return the DataFrame queries that read a slot of these tables, by job and table."""
    jobs = {(job, table) for source, table in places for job in owners(loaded, source, table).values()}
    return slot_commands.queries_of(loaded.jobs[job].of(table) for job, table in sorted(jobs))


def _left_behind(loaded: Loaded, source: str, table: str) -> list[dict[str, str]]:
    """Return the slots of tables that were removed from their jobs, as long as the source retains them."""
    kept = []
    for place, jobs in slot_commands.taken_out(loaded, source, table).items():
        with suppress(SlotkeeperError):
            slots = {one.name: one for one in slot_commands.poll(loaded, *place).slots.slots}
            for slot, job in jobs.items():
                if slot in slots and slots[slot].exists is not False:
                    kept.append({"source": place[0], "table": place[1], "slot": slot, "job": job})
    return kept


def _times(retained: SlotRetained, part: str) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows with the times of the slot's registration and expiry, by DN."""
    rows: list[list[object]] = [
        [
            h.shard,
            output.second(h.registered_at),
            h.known_by,
            output.second(h.left.expires_at) if h.left else None,
            *_left(h.left),
        ]
        for h in retained.shards
    ]
    return [part, "registered", "by", "expires at", "left", "ttl"], rows


def _places(one: SlotView, retained: SlotRetained, table: TableRetained) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows by DN, with the position recorded by the source or, if none, the job's own."""
    registered = [SlotOnShard(seen.shard, seen.live, seen.durable) for seen in retained.shards]
    shards, marks, part = one.shards or registered, table.words.marks, table.words.part.lower()
    place = marks[0] if marks else "position"
    if len(marks) < 2 and table.ttl.by_record:
        heads = [part, place, "unread", "records expire", "left", "ttl"]
        return heads, [[h.shard, h.live, h.unread, *_goes(h.left)] for h in retained.shards]
    if len(marks) < 2:
        return [part, place, "unread"], [[each.shard, each.live, each.unread] for each in shards]
    rows: list[list[object]] = [[each.shard, each.live, each.durable, each.xmin, each.unread] for each in shards]
    return [part, *marks, "xmin", "unread"], rows


def _print(ctx: typer.Context, each: Polled, read: slot_commands.Queries) -> None:
    ascii_only = select.ascii_only(ctx)
    output.line(f"{each.slots.source} {each.slots.table}: {_ttl(each.retained)}", ascii_only)
    if not each.retained.words.marks:
        output.table(*_own_slots(each), ascii_only)
        _tell_queries(each, read, ascii_only)
        _tell_untold(each)
        return
    rows: list[list[object]] = []
    for slot in each.slots.slots:
        retained = each.retained.slot(slot.name)
        dns = len(slot.shards) if slot.exists else 0 if slot.exists is False else None
        cleared = both(retained.left.expires_at, SHORT) if retained.left else None
        point = slot.oldest_point
        rows.append([slot.name, slot.job or "external", dns, point, slot.unread, cleared, *_left(retained.left)])
    heads = ["slot", "owner", f"{each.retained.words.part.lower()}s", "oldest", "unread", "expires at", "left", "ttl"]
    output.table(heads, rows, ascii_only)
    _tell_queries(each, read, ascii_only)
    _tell_untold(each)


def _tell_queries(each: Polled, read: slot_commands.Queries, ascii_only: bool) -> None:
    for slot in each.slots.slots:
        query = _its(slot, each, read)
        if query is not None:
            checkpoint = f"checkpoint {query.checkpoint or '?'}"
            output.paragraph("query", f"{slot.name}: {query.brief}; {checkpoint}", ascii_only)


def _its(slot: SlotView, each: Polled, read: slot_commands.Queries) -> QuerySeen | None:
    return read.get((slot.job, each.slots.table)) if slot.job else None


def _goes(left: TimeLeft | None) -> list[object]:
    """Return the time from which unread records expire by age, and the time remaining."""
    return [both(left.expires_at, SHORT) if left else None, *_left(left)]


def _own_slots(each: Polled) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows for slots of a source that retains nothing for them, with each job's oldest position."""
    rows: list[list[object]] = []
    for slot in each.slots.slots:
        retained = each.retained.slot(slot.name)
        back = retained.furthest_back
        place = back.point.shown if back and back.point else None
        row: list[object] = [slot.name, slot.job or "external", len(retained.shards) or None, place, slot.unread]
        if each.retained.ttl.by_record:
            row += _goes(retained.left)
        rows.append(row)
    heads = ["slot", "owner", f"{each.retained.words.part.lower()}s", "position", "unread"]
    return [*heads, *(["records expire", "left", "ttl"] if each.retained.ttl.by_record else ())], rows


def _notes(name: str, retained: SlotRetained, table: TableRetained) -> list[str]:
    """Describe which point retains the binlog, on which DN, and the slots that are further behind on other DNs."""
    said = []
    back = retained.furthest_back
    if back is not None and back.behind is not None:
        unread = "" if back.unread is None else f", {back.unread} rows unread there"
        which = f": {back.behind.words}," if len(table.words.marks) > 1 else ""
        said.append(f"furthest back{which} at {back.point.shown if back.point else '-'} on {back.shard}{unread}")
    if not table.words.retains:
        return said
    mine = [one.shard for one in retained.shards if one.oldest]
    if mine:
        said.append(f"{name} is the oldest reader of {', '.join(mine)}")
    others = {table.oldest_reader(one.shard) for one in retained.shards if one.oldest is False}
    said += [f"slot {other} retains more than this slot" for other in sorted(filter(None, others))]
    return said


def _ttl(retained: TableRetained) -> str:
    ttl, unknown = retained.ttl, "unknown"
    limit = unknown if retained.consume_timeout is None else in_words(retained.consume_timeout)
    lasts = unknown if ttl.seconds is None else in_words(ttl.seconds) + (" (default)" if ttl.default else "")
    return retained.words.head.format(ttl=lasts, timeout=limit)


def _left(left: TimeLeft | None) -> list[object]:
    return [None, None] if left is None else [in_words(left.seconds), left.severity]


def _tell_untold(found: Polled) -> None:
    for sentence in (*found.slots.untold, *found.retained.untold):
        diagnostics.note(f"{found.slots.source} {found.slots.table}: {sentence}")


def _presence(slot: SlotView, table: TableRetained) -> str:
    if slot.exists is None and not table.words.marks:
        return "; the server retains nothing for it: its position is in the progress rows"
    if slot.exists is None:
        return "; cannot determine whether it exists"
    return "" if slot.exists else "; it does not exist (this check did not create it)"


def _table(retained: TableRetained) -> dict[str, object]:
    shards = sorted({one.shard for slot in retained.slots for one in slot.shards})
    return {
        "ttl_seconds": retained.ttl.seconds,
        "ttl_is_default": retained.ttl.default,
        "ttl_by_record": retained.ttl.by_record,
        "consume_timeout_seconds": retained.consume_timeout,
        "now": retained.now,
        "oldest_readers": {shard: retained.oldest_reader(shard) for shard in shards},
        "untold": retained.untold,
    }


def _slot(slot: SlotView, table: TableRetained, query: QuerySeen | None) -> dict[str, object]:
    retained = table.slot(slot.name)
    by_shard = {one.shard: one for one in retained.shards}
    shards = {one.shard: one for one in slot.shards}
    keeps = bool(table.words.marks)
    seen = [(shards.get(name, SlotOnShard(name)), by_shard.get(name)) for name in sorted({*shards, *by_shard})]
    dns: list[dict[str, object]] = [  # if a source retains nothing, the position is in the job's progress row
        _dn(one, kept) if keeps else {"shard": one.shard, "position": kept.live if kept else None, "unread": one.unread}
        for one, kept in seen
    ]
    back = retained.furthest_back
    return {
        "slot": slot.name,
        "job": slot.job,
        "external": slot.job is None,
        "exists": slot.exists,
        "oldest_point": slot.oldest_point,
        "registered_at": slot.registered_at,
        "unread": slot.unread,
        "expires_at": retained.left.expires_at if retained.left else None,
        "seconds_left": retained.left.seconds if retained.left else None,
        "severity": retained.left.severity if retained.left else None,
        "furthest_back": None
        if back is None
        else {"dn": back.shard, **({"behind": back.behind} if keeps else {}), "point": back.point},
        "dns": dns,
        "purge": purge_values(slot.name, table),
        "query": query,
    }


def purge_values(slot: str, table: TableRetained) -> dict[str, object] | None:
    """Return when the server purges binlog that the slot still needs; None if the source does not purge by age."""
    one = table.purges.get(slot)
    if one is None:
        return None
    return {
        "after_seconds": one.seconds,
        "setting": one.setting,
        "oldest_file": one.oldest,
        "needed_file": one.needed or None,
        "needed_is_there": one.there if one.needed else None,
        "purged_from": one.from_at,
        "seconds_left": one.left,
        "gtids": one.gtids or None,
    }


def _dn(one: SlotOnShard, retained: ShardRetained | None) -> dict[str, object]:
    left = retained.left if retained else None
    return {
        "shard": one.shard,
        "live": one.live,
        "durable": one.durable,
        "xmin": one.xmin,
        "unread": one.unread,
        "registered_at": retained.registered_at if retained else one.registered_at,
        "registered_by": retained.known_by if retained else None,
        "our_live": retained.live if retained and retained.known_by is KnownBy.OURS else None,
        "our_durable": retained.durable if retained and retained.known_by is KnownBy.OURS else None,
        "behind": retained.behind if retained else None,
        "oldest_reader": retained.oldest if retained else None,
        "expires_at": left.expires_at if left else None,
        "seconds_left": left.seconds if left else None,
        "severity": left.severity if left else None,
    }


peek.add_to(app)  # here, because the help lists commands in this order


# -- preflight, and the verbs that change a slot ----------------------------------------------------------------------


@app.command()
def preflight(ctx: typer.Context, table: Table, source: Source = "", wanted: For = None, as_json: Json = False) -> None:
    """Check whether VACUUM FULL, scaling out or ALTER can start now. 0: yes; 3: blocked; 5: a server is unreachable."""
    loaded = context.of(ctx).load()
    place = select.place(loaded, source, table)
    looking.passwords([loaded.sources[place[0]].endpoint])
    rates = partial(_rates, loaded)
    found = looking.answer(f"source {place[0]}", lambda: slot_commands.preflight(loaded, *place, rates))
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
        _print_preflight(found, select.ascii_only(ctx))
    if any(found.answer(each) is not MayBegin.YES for each in actions):
        raise typer.Exit(int(diagnostics.ExitCode.REFUSED))


@app.command()
def create(
    ctx: typer.Context,
    table: Table,
    slot: Slot,
    source: Source = "",
    execute: Execute = False,
    reason: Reason = "",
    confirm: ConfirmSlot = "",
    confirm_table: ConfirmTable = "",
    as_json: Json = False,
) -> None:
    """Create a slot: recording starts, and the source retains changes for it from now on.

    A dry run unless --execute --reason TEXT --confirm SLOT. --confirm-table TABLE as well if no configured job owns
    the slot, or if the source's environment is PROD.
    """
    _run(ctx, change.CREATE, (table, slot, source), Consent(execute, reason, confirm, confirm_table), as_json)


def _losing(name: str, verb: SlotVerb, help: str) -> None:
    """Add a verb that can lose rows."""

    @app.command(name, help=help)
    def lose(
        ctx: typer.Context,
        table: Table,
        slot: Slot,
        source: Source = "",
        execute: Execute = False,
        reason: Reason = "",
        confirm: ConfirmSlot = "",
        confirm_table: ConfirmTable = "",
        rows: Rows = "",
        as_json: Json = False,
    ) -> None:
        _run(ctx, verb, (table, slot, source), Consent(execute, reason, confirm, confirm_table, rows), as_json)


_losing(
    "register",
    change.REGISTER,
    """Register a full-sync point: move the slot to now and skip its unread changes.

    A dry run unless --execute --reason TEXT --confirm SLOT, and --rows N if rows are skipped. --confirm-table TABLE
    as well if no configured job owns the slot, or if the source's environment is PROD.
    """,
)
_losing(
    "drop",
    change.DROP,
    """Drop a slot; if the kernel cannot, report when its TTL clears it.

    A dry run unless --execute --reason TEXT --confirm SLOT, and --rows N if unread rows are lost. --confirm-table
    TABLE as well if no configured job owns the slot, or if the source's environment is PROD.
    """,
)


def owner_of(loaded: Loaded, store: Store, source: str, table: str, slot: str) -> Owner | None:
    """Return the configured job of a slot, with its state as known on this host; None for an external slot."""
    job = owners(loaded, source, table).get(slot)
    if job is None:
        return None
    if store.job(job) is None:
        read = slot_commands.query_of(loaded.jobs[job].of(table))
        return Owner(job, lives=read.lives, query=read.refusal, query_to_do=read.to_do) if read else Owner(job)
    view = settled(store, job)
    return Owner(job, view.state, view.lives, view.elsewhere)


def _run(ctx: typer.Context, verb: SlotVerb, asked: tuple[str, str, str], consent: Consent, as_json: bool) -> None:
    loaded = context.of(ctx).load()
    table, slot, source = asked
    place = (*select.place(loaded, source, table), slot)
    ascii_only = select.ascii_only(ctx)

    def show(plan: ChangePlan) -> None:
        if not as_json:
            _show(plan, ascii_only)
        if consent.execute and plan.rows_to_type:
            points = [(one.shard, one.live, one.durable) for one in plan.before.shards]
            what = f"{plan.verb} of {plan.what}, which loses {change.unread_rows(plan.rows)},"
            job = plan.owner.job if plan.owner else EVERY_JOB
            reset.access_to(loaded).approved(plan_id(plan.verb, place, points), job, what)

    with ExitStack() as stack:
        store = stack.enter_context(Store.open(loaded.state_dir))
        job = owners(loaded, place[0], table).get(slot)
        if job and consent.execute:
            # the job must not start between the check and the change
            stack.enter_context(store.folder.locked(job, START_LOCK, LOCK_SECONDS))
        heard = slot_commands.Heard(show, diagnostics.warn)
        ended = slot_commands.change(loaded, verb, place, owner_of(loaded, store, *place), consent, heard)
    if as_json:
        more = {"to_type": to_type(ended.plan), "undo": _UNDO[ended.plan.verb]}
        output.as_json({"executed": ended.done is not None, "plan": ended.plan, "done": ended.done, **more})
    elif ended.done is not None:
        if ended.done.result:
            output.table(["dn", "observed"], ended.done.result.items(), ascii_only)
        output.paragraph("", ended.done.outcome, ascii_only)
    else:
        _say_how(ended.plan, ascii_only)
    if ended.done is not None and ended.done.missed:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def to_type(plan: ChangePlan) -> dict[str, str | None]:
    """Return the confirmations that `slots.change` requires in addition to a reason; null if not required."""
    table = plan.table if plan.highest else None
    return {"confirm": plan.slot, "confirm_table": table, "rows": plan.rows_to_type or None}


def _show(plan: ChangePlan, ascii_only: bool) -> None:
    owner = f"job {plan.owner.job}" if plan.owner else "external (no configured job)"
    output.paragraph("", f"{plan.verb} {plan.what}; {owner}", ascii_only)
    if plan.before.shards:
        output.table(["dn", "now"], per_shard(plan.before).items(), ascii_only)
    for effect in plan.effects:
        output.paragraph("effect", effect, ascii_only)
    for each in plan.sql:
        output.line(f"sql     {each}", ascii_only)


def _say_how(plan: ChangePlan, ascii_only: bool) -> None:
    verb = "drop" if plan.verb == "abandon" else plan.verb
    table = f" --confirm-table {typed(plan.table)}" if plan.highest else ""
    rows = f" --rows {plan.rows_to_type}" if plan.rows_to_type else ""
    output.line("dry run: nothing was changed; to execute:", ascii_only)
    source = "" if plan.owner else f" --source {typed(plan.source)}"  # no job identifies the source
    consent = f"--execute --reason TEXT --confirm {typed(plan.slot)}{table}{rows}"
    output.line(f"  slotkeeper slots {verb} {typed(plan.table, plan.slot)}{source} {consent}", ascii_only)


def _print_preflight(found: Preflight, ascii_only: bool) -> None:
    output.line(f"{found.source} {found.table}", ascii_only)
    for each in found.verdicts:
        output.paragraph(f"{each.action.value:<11}  {each.answer.value:<7}", each.reason, ascii_only)
    if found.holders:
        rows = [[h.slot, h.job or "external", h.shard, h.point, h.at, h.rows] for h in found.holders]
        output.table(["slot", "owner", "dn", "point", "at", "unread"], rows, ascii_only)
    output.paragraph("drain", found.drain, ascii_only)
    for text in found.notes:
        output.paragraph("note ", text, ascii_only)


def _rates(loaded: Loaded, jobs: Sequence[str]) -> list[Rate]:
    """Return the apply rates of running jobs, each from two of its reports."""
    with Store.open(loaded.state_dir) as store:
        return [rate for job in jobs if (rate := rate_of(store, job)) is not None]


def rate_of(
    store: Store, job: str, seconds: float = RATE_SECONDS, pause: Callable[[float], None] = time.sleep
) -> Rate | None:
    """Return the apply rate of a job, from its newest and its next report; None if it does not run or report."""
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


reset.add_to(app)
