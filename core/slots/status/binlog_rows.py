"""A bounded peek at the rows of one DN's binlog: names no slot, registers nothing, moves nothing.

A source searches until there are rows enough or time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from slotkeeper.core.domain.inspection import Ask, Filter, Page, Range
from slotkeeper.core.domain.position import Position, further
from slotkeeper.core.domain.slot import Shard, TableIdentity
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.source import BinlogReader

SECONDS = 5.0
"""How long a peek may go on; a statement of it has its own, shorter limit at the server."""


Places = Mapping[str, Position]
"""Where a slot stands, by DN; a DN where that is not known is not in it."""


def peek(
    reader: BinlogReader, source: str, table: str, ask: Ask, now: Callable[[], float], ours: Places | None = None
) -> Page:
    """Look; `now` is a clock in seconds. Raises what the source raises, Refused for names that are not there.

    `ours` is where the slot stands by our own rows, for a source that keeps nothing; of others the server is asked.
    """
    identity = reader.identity(table)
    _refuse_unknown(identity, table, ask.filter)
    nodes = reader.nodes(table)
    stands = _stands(reader, table, ask.slot) if ours is None and ask.slot else ours or {}
    shard = _shard(reader, table, nodes, ask, stands)
    after, notes = _begin(reader, table, shard, ask, stands)
    latest, end = reader.newest(table, shard), now() + SECONDS
    what = Range(after, ask.up_to or latest, ask.most, lambda: now() >= end)
    found = (reader.backward if after is None else reader.forward)(identity, table, shard, what, ask.filter)
    unread = [row for row in found.rows if after is None or row.position > after.place]
    if after is not None and not unread and found.whole and ask.slot and ask.after is None and ask.up_to is None:
        notes.append(f"{ask.slot} has nothing unread on {shard.name}: these are the last rows")
        after, found = None, reader.backward(identity, table, shard, replace(what, after=None), ask.filter)
    if found.stopped:
        notes.append(f"stopped after {SECONDS:.0f} s: {found.stopped}")
    reached = found.reached.from_here if found.reached else None
    on = further(reached, found.rows[-1].position if found.rows else None)
    return Page(
        source, table, shard.name, tuple(sorted(nodes)), identity, found.rows, after, found.reached, latest, on,
        found.whole, notes=tuple(notes),
    )  # fmt: skip


def _stands(reader: BinlogReader, table: str, slot: str) -> Places:
    """By DN the registered place of a slot that lies further back."""
    found: dict[str, Position] = {}
    for one in reader.points(table) or ():
        if one.slot == slot and one.point is not None:
            found[one.shard] = min(found.get(one.shard, one.point), one.point)
    return found


def _refuse_unknown(identity: TableIdentity, table: str, only: Filter) -> None:
    names = [column.name for column in identity.columns]
    for name in only.key:
        if name not in names:
            raise Refused(f"{table} has no column {name!r}", f"its columns: {', '.join(names)}", where="source")


def _shard(reader: BinlogReader, table: str, nodes: Mapping[str, int], ask: Ask, stands: Places) -> Shard:
    """The DN that was named; else the one with the oldest row that the slot has not read, or with any row."""
    if not nodes:
        raise Refused("the source names no DN", "check this login's rights on its catalog of nodes", where="source")
    if ask.dn and ask.dn not in nodes:
        raise Refused(f"there is no DN {ask.dn!r}", f"its DNs: {', '.join(sorted(nodes))}", where="source")
    if ask.dn:
        return Shard(ask.dn, nodes[ask.dn])
    at = {name: stands.get(name) for name in nodes}
    known = [place for place in at.values() if place is not None]
    lowest = min(known) if len(known) == len(at) else None
    try:
        firsts = reader.firsts(table, ask.after or lowest)
    except SlotkeeperError:  # one DN that does not answer must not hide the others
        firsts = {}
    unread: list[tuple[Position | None, str]] = [
        (one.point, name)
        for name, one in sorted(firsts.items())
        if name in at and one.point is not None and ((place := at[name]) is None or one.point >= place)
    ]
    choice: list[tuple[Position | None, str]] = unread or sorted(
        ((place, name) for name, place in at.items()), key=lambda one: one[1]
    )
    name = min(choice, key=_by_place)[1]
    return Shard(name, nodes[name])


def _by_place(found: tuple[Position | None, str]) -> tuple[int, int]:
    """An order over DNs, of which only the first place is looked for: pairs grow along a lane."""
    return found[0].pair if found[0] is not None else (-1, -1)


def _begin(
    reader: BinlogReader, table: str, shard: Shard, ask: Ask, stands: Places
) -> tuple[Position | None, list[str]]:
    if ask.after is not None:
        return ask.after, []
    if ask.time:
        point = reader.at_time(table, shard, ask.time)
        if point is None:
            return None, [f"{shard.name} has no record at or after {ask.time}: these are the last rows"]
        return point.from_here, []
    if ask.slot:
        at = stands.get(shard.name)
        if at is None:
            return None, [f"where {ask.slot} stands on {shard.name} is not known: these are the last rows"]
        return at.from_here, []  # whether the point itself was read is not documented
    return None, []
