"""`slotkeeper slots list` and `slots show`: which slots keep a table's binlog, how far, whose, and for how long yet.

Looking never makes a slot: only calls that read are sent. Next door: `core.slots.status.inspect` and
`core.slots.status.retained` put the answers together; `slot_verbs` has preflight and the commands that change a slot.
"""

from __future__ import annotations

from typing import Annotated

import typer

from console.cli import context, diagnostics, output, places, refusals, select
from console.commands import peek, reset, slot_verbs
from core.domain.ttl import TimeLeft, Ttl, in_words
from core.errors import SlotkeeperError
from core.services import slot_commands
from core.services.slot_commands import Polled
from core.slots.status.inspect import SlotOnShard, SlotView
from core.slots.status.retained import Holding, KnownBy, SlotHold, TableHold

app = typer.Typer(help="Look at the slots of source tables, and change them.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
Source = Annotated[str, typer.Option("--source", metavar="NAME", help="only this source of the configuration")]


@app.command("list")
def list_slots(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(metavar="[TABLE]", help="schema.table; default: every configured one")] = "",
    source: Source = "",
    as_json: Json = False,
) -> None:
    """The slots of one source table, or of every table that a job reads; none is created by looking."""
    loaded = context.of(ctx).load()
    refusals.say(loaded)
    found: list[Polled] = []
    failed: list[tuple[str, SlotkeeperError]] = []
    for its_source, its_table in places.places(loaded, source, table):
        try:
            found.append(slot_commands.poll(loaded, its_source, its_table))
        except SlotkeeperError as error:
            failed.append((f"{its_source} {its_table}", error))
    if as_json:
        errors = [{"place": place, "error": str(reason)} for place, reason in failed]
        output.as_json({"tables": list(map(_as_json, found)), "errors": errors})
    else:
        for each in found:
            _print(ctx, each)
    for place, reason in failed:
        diagnostics.warn(f"{place}: {reason}" + (f" ({reason.hint})" if reason.hint else ""))
    if failed:
        raise typer.Exit(int(diagnostics.EXIT_CODES[failed[0][1].kind]))


@app.command()
def show(
    ctx: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="schema.table")],
    slot: Annotated[str, typer.Argument(metavar="SLOT", help="the slot's name")],
    source: Source = "",
    as_json: Json = False,
) -> None:
    """One slot DN by DN: both points, unread rows, time left of its TTL, what it holds back."""
    loaded = context.of(ctx).load()
    refusals.say(loaded)
    found = slot_commands.poll(loaded, *places.place(loaded, source, table))
    one = found.slots.slot(slot)
    if as_json:
        place = {"source": found.slots.source, "table": found.slots.table}
        output.as_json({**place, **_slot(one, found.hold), "hold": _table(found.hold), "untold": found.slots.untold})
        return
    ascii_only, held = select.ascii_only(ctx), found.hold.slot(slot)
    owner = f"of job {one.job}" if one.job else "external (no job of this configuration)"
    output.line(f"{found.slots.source} {found.slots.table} slot {one.name}: {owner}{_presence(one)}", ascii_only)
    output.line(_ttl(found.hold), ascii_only)
    rows = [[s.shard, s.live, s.durable, s.xmin, s.unread] for s in one.shards or _own_shards(held)]
    output.table(["dn", "live", "durable", "xmin", "unread"], rows, ascii_only)
    times = [
        [h.shard, _second(h.registered_at), h.known_by, _second(h.left.cleared_at) if h.left else None, *_left(h.left)]
        for h in held.shards
    ]
    output.table(["dn", "registered", "by", "cleared at", "left", "ttl"], times, ascii_only)
    for text in _told(one.name, held, found.hold):
        places.paragraph("", text, ascii_only)
    _tell_untold(found)


def _print(ctx: typer.Context, each: Polled) -> None:
    ascii_only = select.ascii_only(ctx)
    output.line(f"{each.slots.source} {each.slots.table}: {_ttl(each.hold)}", ascii_only)
    rows: list[list[object]] = []
    for slot in each.slots.slots:
        held = each.hold.slot(slot.name)
        dns = len(slot.shards) if slot.exists else 0 if slot.exists is False else None
        cleared = f"{held.left.cleared_at:%m-%d %H:%M:%SZ}" if held.left else None
        point = slot.oldest_point
        rows.append([slot.name, slot.job or "external", dns, point, slot.unread, cleared, *_left(held.left)])
    output.table(["slot", "owner", "dns", "oldest", "unread", "cleared at", "left", "ttl"], rows, ascii_only)
    _tell_untold(each)


def _told(name: str, held: SlotHold, table: TableHold) -> list[str]:
    """Which point holds the binlog, where, and on which DNs another slot lies further back."""
    said = []
    back = held.furthest_back
    if back is not None and back.behind is not None:
        which = "both points" if back.behind.value == "both" else f"its {back.behind.value} point"
        unread = "" if back.unread is None else f", {back.unread} rows unread there"
        said.append(f"furthest back: {which}, at {back.point} on {back.shard}{unread}")
    mine = [one.shard for one in held.shards if one.oldest]
    if mine:
        said.append(f"{name} is the oldest reader of {', '.join(mine)}")
    others = {table.oldest_reader(one.shard) for one in held.shards if one.oldest is False}
    said += [f"slot {other} holds back more than this one" for other in sorted(filter(None, others))]
    return said


def _ttl(hold: TableHold) -> str:
    limit = "unknown" if hold.consume_timeout is None else in_words(hold.consume_timeout)
    return f"binlog_ttl {_ttl_words(hold.ttl)}, binlog_consume_timeout {limit}"


def _ttl_words(ttl: Ttl) -> str:
    if ttl.seconds is None:
        return "unknown"
    return in_words(ttl.seconds) + (" (default)" if ttl.default else "")


def _left(left: TimeLeft | None) -> list[object]:
    return [None, None] if left is None else [in_words(left.seconds), left.severity]


def _own_shards(held: SlotHold) -> list[SlotOnShard]:
    """What we registered, where the server lists nothing."""
    return [SlotOnShard(one.shard, one.live, one.durable) for one in held.shards]


def _tell_untold(found: Polled) -> None:
    for sentence in (*found.slots.untold, *found.hold.untold):
        diagnostics.note(f"{found.slots.source} {found.slots.table}: {sentence}")


def _presence(slot: SlotView) -> str:
    if slot.exists is None:
        return "; whether it exists cannot be told here"
    return "" if slot.exists else "; it does not exist (and was not created by looking)"


def _as_json(each: Polled) -> dict[str, object]:
    slots = [_slot(one, each.hold) for one in each.slots.slots]
    place = {"source": each.slots.source, "table": each.slots.table}
    return {**place, "slots": slots, "hold": _table(each.hold), "untold": each.slots.untold}


def _table(hold: TableHold) -> dict[str, object]:
    shards = sorted({one.shard for slot in hold.slots for one in slot.shards})
    return {
        "ttl_seconds": hold.ttl.seconds,
        "ttl_is_default": hold.ttl.default,
        "ttl_by_record": hold.ttl.by_record,
        "consume_timeout_seconds": hold.consume_timeout,
        "now": hold.now,
        "oldest_readers": {shard: hold.oldest_reader(shard) for shard in shards},
        "untold": hold.untold,
    }


def _slot(slot: SlotView, hold: TableHold) -> dict[str, object]:
    held = hold.slot(slot.name)
    by_shard = {one.shard: one for one in held.shards}
    shards = {one.shard: one for one in slot.shards}
    dns = [_dn(shards.get(name, SlotOnShard(name)), by_shard.get(name)) for name in sorted({*shards, *by_shard})]
    back = held.furthest_back
    return {
        "slot": slot.name,
        "job": slot.job,
        "external": slot.job is None,
        "exists": slot.exists,
        "oldest_point": slot.oldest_point,
        "registered_at": slot.registered_at,
        "unread": slot.unread,
        "cleared_at": held.left.cleared_at if held.left else None,
        "seconds_left": held.left.seconds if held.left else None,
        "severity": held.left.severity if held.left else None,
        "furthest_back": None if back is None else {"dn": back.shard, "behind": back.behind, "point": back.point},
        "dns": dns,
    }


def _dn(one: SlotOnShard, held: Holding | None) -> dict[str, object]:
    left = held.left if held else None
    return {
        "shard": one.shard,
        "live": one.live,
        "durable": one.durable,
        "xmin": one.xmin,
        "unread": one.unread,
        "registered_at": held.registered_at if held else one.registered_at,
        "registered_by": held.known_by if held else None,
        "our_live": held.live if held and held.known_by is KnownBy.OURS else None,
        "our_durable": held.durable if held and held.known_by is KnownBy.OURS else None,
        "behind": held.behind if held else None,
        "oldest_reader": held.oldest if held else None,
        "cleared_at": left.cleared_at if left else None,
        "seconds_left": left.seconds if left else None,
        "severity": left.severity if left else None,
    }


def _second(moment: object) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


peek.add_to(app)
slot_verbs.add_to(app)
reset.add_to(app)
