"""The console's queries of a source: slots while they are shown, and rows of one DN's binlog on demand.

Values of a PROD source, or of a table with computed columns, are masked, except the key. To show them, two audit lines
are written; the request is rejected if they cannot be. A peek is bounded: the source stops searching when it has enough
rows or its time limit has passed. No query here names or creates a slot, registers, or moves a point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime

from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded, owners, tables
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.inspection import Ask, Page, Range
from slotkeeper.core.domain.inventory import matches
from slotkeeper.core.domain.position import Position, further
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError
from slotkeeper.core.ports.source import Inspector, SourceTable
from slotkeeper.core.services.audit import audited
from slotkeeper.core.services.looking import open_source
from slotkeeper.core.services.slot_commands import own_lanes, own_places
from slotkeeper.core.slots.change import PROD, Done
from slotkeeper.core.slots.status import OwnLane, StatusPoller, read_table
from slotkeeper.core.sources import registry
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder

SECONDS = 5.0
"""Seconds that a peek can last; each of its statements has its own, shorter limit on the server."""


Places = Mapping[str, Position]
"""A slot's position by DN; empty if unknown."""


def peek(
    at: SourceTable, source: str, table: str, ask: Ask, now: Callable[[], float], ours: Places | None = None
) -> Page:
    """Read rows; `now` is a clock in seconds. Raises the source's errors, Refused for unknown names.

    `ours`: the slot's position in the progress rows, for a source that stores no positions; other sources are queried.
    """
    inspector = at.inspector
    identity = inspector.describe()
    names = [column.name for column in identity.columns]
    for name in ask.filter.key:
        if name not in names:
            raise Refused(f"{table} has no column {name!r}", f"its columns: {', '.join(names)}", where="source")
    nodes, stands = {shard.name: shard.node_id for shard in at.source.nodes()}, dict(ours or {})
    for one in (read_table(inspector, table).points or ()) if ours is None and ask.slot else ():
        if one.slot == ask.slot and one.point is not None:  # by DN, the older of the slot's points
            stands[one.shard] = min(stands.get(one.shard, one.point), one.point)
    shard = _shard(inspector, nodes, ask, stands)
    after, notes = _begin(inspector, shard, ask, stands)
    latest, end = (inspector.latest(shard) or {}).get(shard.name), now() + SECONDS
    what = Range(after, ask.up_to or latest, ask.most, lambda: now() >= end)
    found = inspector.rows(identity, shard, what, ask.filter)
    unread = [row for row in found.rows if after is None or row.position > after.place]
    if after is not None and not unread and found.whole and ask.slot and ask.after is None and ask.up_to is None:
        notes.append(f"{ask.slot} has no unread rows on {shard.name}: these are the last rows")
        after, found = None, inspector.rows(identity, shard, replace(what, after=None), ask.filter)
    if found.stopped:
        notes.append(f"stopped after {SECONDS:.0f} s: {found.stopped}")
    reached = found.reached.from_here if found.reached else None
    on = further(reached, found.rows[-1].position if found.rows else None)
    return Page(
        source, table, shard.name, tuple(sorted(nodes)), identity, found.rows, after, found.reached, latest, on,
        found.whole, notes=tuple(notes),
    )  # fmt: skip


def _shard(inspector: Inspector, nodes: Mapping[str, int], ask: Ask, stands: Places) -> Shard:
    """Return the named DN; else the DN with the slot's oldest unread row, or with any row."""
    if not nodes:
        raise Refused("the source lists no DN", "check this login's rights on the node catalog", where="source")
    if ask.dn and ask.dn not in nodes:
        raise Refused(f"unknown DN {ask.dn!r}", f"known: {', '.join(sorted(nodes))}", where="source")
    if ask.dn:
        return Shard(ask.dn, nodes[ask.dn])
    at = {name: stands.get(name) for name in nodes}
    known = [place for place in at.values() if place is not None]
    lowest = min(known) if len(known) == len(at) else None
    try:
        firsts = inspector.records(ask.after or lowest)
    except SlotkeeperError:  # a DN that does not answer must not hide the others
        firsts = {}
    unread: list[tuple[Position | None, str]] = [
        (one.point, name)
        for name, one in sorted(firsts.items())
        if name in at and one.point is not None and ((place := at[name]) is None or one.point >= place)
    ]
    choice = unread or [(at[name], name) for name in sorted(at)]
    # within a lane the pairs only increase, so the DNs are compared to find the one with the first pair
    name = min(choice, key=lambda one: one[0].pair if one[0] is not None else (-1, -1))[1]
    return Shard(name, nodes[name])


def _begin(inspector: Inspector, shard: Shard, ask: Ask, stands: Places) -> tuple[Position | None, list[str]]:
    if ask.after is not None:
        return ask.after, []
    if ask.time:
        point = inspector.since(ask.time, shard=shard).get(shard.name)
        if point is None:
            return None, [f"{shard.name} has no record at or after {ask.time}: these are the last rows"]
        return point.from_here, []
    if ask.slot:
        at = stands.get(shard.name)
        if at is None:
            return None, [f"the position of {ask.slot} on {shard.name} is unknown: these are the last rows"]
        return at.from_here, []  # whether the point itself was read is not documented
    return None, []


ACTION = "slots peek --unmask"


def slot_poller(loaded: Loaded, source: str, clock: Clock) -> StatusPoller:
    """Return a poller for the slots of tables that configured jobs read from a source; it does not query yet."""
    entry = loaded.sources[source]
    mine = {table: owners(loaded, source, table) for _, table in tables(loaded, source)}

    def ours(table: str, slot: str, now: datetime) -> Sequence[OwnLane]:
        return own_lanes(loaded.jobs[mine[table][slot]].of(table), now)

    kind = registry.open(entry.dialect)
    session = kind.connect(login(entry.endpoint, f"slotkeeper-console/{source}"), polls=True)
    return StatusPoller(session, kind.words, source, mine, ours, time.monotonic, clock.utc)


def place(loaded: Loaded, source: str, text: str) -> Position:
    """Parse a typed position in a source's format; the row at that position is read as well. Raises ConfigError."""
    positions = registry.open(loaded.sources[source].dialect).positions
    try:
        return positions.place(text).from_here
    except ValueError:
        what = f"{text!r} is not a {positions.name}"
        raise ConfigError(what, "use the format of slots show and slots peek, or latest") from None


def masks(loaded: Loaded, source: str, table: str) -> bool:
    """Return whether a table's values are masked unless requested: those of a PROD source, and those from which a job
    computes a column instead of mirroring them.

    The table counts in every source and without case, because two entries can be one server, and a server can ignore
    case. A rejected job could compute any table's columns.
    """
    if loaded.refused or loaded.sources[source].environment.upper() == PROD:
        return True
    schema, _, name = table.lower().partition(".")
    for job in loaded.jobs.values():
        blocks = [one.channel for one in job.patterns if matches(one.source.lower(), schema, name)]
        blocks += (one for one in job.channels if one.source_table.lower() == table.lower())
        if any(it.inputs for one in blocks for it in one.compute):
            return True
    return False


def rows(
    loaded: Loaded, source: str, table: str, ask: Ask, unmask: bool = False, reason: str = "", hides: bool = False
) -> Page:
    """Return rows of a table's binlog on one DN; raises the source's errors. `hides` masks the rows of any source.

    `masked` in the page: its values must not be shown; they are included for the comparison of changes.
    """
    if source not in loaded.sources:
        raise ConfigError(f"unknown source {source!r}", f"known: {', '.join(sorted(loaded.sources)) or 'none'}")
    if not masks(loaded, source, table) and not hides:
        return _read(loaded, source, table, ask)
    if not unmask:
        return replace(_read(loaded, source, table, ask), masked=True)
    found: list[Page] = []

    def act() -> Done:
        page = _read(loaded, source, table, ask)
        found.append(page)
        span = f"{page.rows[0].position.text} to {page.rows[-1].position.text}" if page.rows else "none"
        return Done(f"shown: {many(len(page.rows), 'row')}", {page.shard: span})

    line = intent(ACTION, f"{source} {table} binlog", reason)
    audited(Audit(StateFolder.open(loaded.state_dir)), line, act)
    return found[0]


def _read(loaded: Loaded, source: str, table: str, ask: Ask) -> Page:
    entry, ours = loaded.sources[source], None
    if not registry.open(entry.dialect).traits.keeps_positions:
        owner = owners(loaded, source, table).get(ask.slot)
        ours = own_places(loaded.jobs[owner].of(table)) if owner else {}
    at_source = (job for job in loaded.jobs.values() if job.source.name == source)
    readers = (job for job in at_source if any(channel.source_table == table for channel in job.channels))
    options = next((job.binlog for job in readers), BinlogOptions())
    with closing(open_source(entry.dialect, entry.endpoint, f"slotkeeper-peek/{source}")) as session:
        return peek(session.table(TableAsked(table, "", options)), source, table, ask, time.monotonic, ours)
