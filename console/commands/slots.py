"""`slotkeeper slots list` and `slots show`: which slots keep a table's binlog, how far each is, whose it is.

Looking never makes a slot: only calls that read are sent. Next door: `core.slots.inspect` puts the answers together.
"""

from __future__ import annotations

from typing import Annotated

import typer

from console import chosen, diagnostics, invocation, output
from core import wiring_slots
from core.config.model import Loaded
from core.errors import ConfigError, SlotkeeperError
from core.slots.inspect import SlotView, TableSlots

app = typer.Typer(help="Look at the slots of source tables.", no_args_is_help=True)

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
    loaded = invocation.of(ctx).load()
    found: list[TableSlots] = []
    failed: list[tuple[str, SlotkeeperError]] = []
    for its_source, its_table in _places(loaded, source, table):
        try:
            found.append(wiring_slots.slots_of(loaded, its_source, its_table))
        except SlotkeeperError as error:
            failed.append((f"{its_source} {its_table}", error))
    if as_json:
        errors = [{"place": place, "error": str(reason)} for place, reason in failed]
        output.as_json({"tables": list(map(_as_json, found)), "errors": errors})
    else:
        _print(ctx, found)
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
    """One slot DN by DN: both points, last registration, xmin, unread rows; never created by looking."""
    loaded = invocation.of(ctx).load()
    places = _places(loaded, source, table)
    if len(places) > 1:
        names = ", ".join(name for name, _ in places)
        raise ConfigError(f"{table} is read from several sources: {names}", "name one with --source")
    found = wiring_slots.slots_of(loaded, *places[0])
    one = found.slot(slot)
    if as_json:
        output.as_json({"source": found.source, "table": found.table, **_slot(one), "untold": found.untold})
        return
    ascii_only = chosen.ascii_only(ctx)
    owner = f"of job {one.job}" if one.job else "external (no job of this configuration)"
    output.line(f"{found.source} {found.table} slot {one.name}: {owner}{_presence(one)}", ascii_only)
    rows = [[s.shard, s.live, s.durable, _second(s.registered_at), s.xmin, s.unread] for s in one.shards]
    output.table(["dn", "live", "durable", "registered", "xmin", "unread"], rows, ascii_only)
    _tell_untold([found])


def _places(loaded: Loaded, source: str, table: str) -> list[tuple[str, str]]:
    """(source, table) of what was asked for; a table that no job reads needs one source to ask."""
    if source and source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    found = wiring_slots.tables(loaded, source, table)
    if found or not table:
        return found
    names = [source] if source else sorted(loaded.sources)
    if len(names) != 1:
        raise ConfigError(f"no job reads {table}, so its source is not known", "name it with --source")
    return [(names[0], table)]


def _print(ctx: typer.Context, found: list[TableSlots]) -> None:
    rows: list[list[object]] = [
        [
            f"{each.source} {each.table}",
            slot.name,
            slot.job or "external",
            len(slot.shards) if slot.exists else 0 if slot.exists is False else None,
            slot.oldest_point,
            _second(slot.registered_at),
            slot.unread,
        ]
        for each in found
        for slot in each.slots
    ]
    headers = ["table", "slot", "owner", "dns", "oldest point", "registered", "unread"]
    output.table(headers, rows, chosen.ascii_only(ctx))
    _tell_untold(found)


def _tell_untold(found: list[TableSlots]) -> None:
    for each in found:
        for sentence in each.untold:
            diagnostics.note(f"{each.source} {each.table}: {sentence}")


def _presence(slot: SlotView) -> str:
    if slot.exists is None:
        return "; whether it exists cannot be told here"
    return "" if slot.exists else "; it does not exist (and was not created by looking)"


def _as_json(each: TableSlots) -> dict[str, object]:
    slots = list(map(_slot, each.slots))
    return {"source": each.source, "table": each.table, "slots": slots, "untold": each.untold}


def _slot(slot: SlotView) -> dict[str, object]:
    return {
        "slot": slot.name,
        "job": slot.job,
        "external": slot.job is None,
        "exists": slot.exists,
        "oldest_point": slot.oldest_point,
        "registered_at": slot.registered_at,
        "unread": slot.unread,
        "dns": slot.shards,
    }


def _second(moment: object) -> str | None:
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"
