"""A bounded peek at the rows of one DN's binlog: names no slot, registers nothing, moves nothing.

A range is read in windows of sync points that grow while they hold little, until there are rows enough or time is up.
Where a table was quiet, the next record is asked for first, so that no empty stretch is read.
Next door: `core.sources.dws.peek` reads, `core.services.binlog_rows` connects; `inspect` lists slots.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from core.domain.peek import Ask, ChangeRow, Filter, Page, Range
from core.domain.position import NOTHING, Position
from core.domain.slot import RegisteredPoint, Shard, TableIdentity
from core.errors import Refused, SlotkeeperError
from core.ports.source import BinlogReader

SECONDS = 5.0
"""How long a peek may go on; a statement of it has its own, shorter limit at the server."""

_FIRST_WIDTH = 1_000
_WIDER, _NARROWER = 8, 16


def peek(reader: BinlogReader, source: str, table: str, ask: Ask, now: Callable[[], float]) -> Page:
    """Look; `now` is a clock in seconds. Raises what the source raises, Refused for names that are not there."""
    identity = reader.identity(table)
    _refuse_unknown(identity, table, ask.filter)
    nodes = reader.nodes(table)
    points = (reader.points(table) or ()) if ask.slot else ()
    shard = _shard(reader, table, nodes, ask, points)
    after, notes = _begin(reader, table, shard, ask, points)
    search = _Search(reader, identity, table, shard, ask, now() + SECONDS, now)
    latest = reader.first(table, shard, 0 if after is None else after.point).latest
    up_to = latest if ask.up_to is None else ask.up_to
    found = search.forward(after, up_to or 0) if after is not None else search.newest(up_to or 0)
    unread = [row for row in found if after is None or row.point > after.point]
    if after is not None and not unread and search.whole and ask.slot and ask.after is None and ask.up_to is None:
        notes.append(f"{ask.slot} has nothing unread on {shard.name}: these are the last rows")
        after, found = None, search.newest(up_to or 0)
    on = max([Position(search.searched), *(row.position for row in found[-1:])])
    shards = tuple(sorted(nodes))
    return Page(
        source, table, shard.name, shards, identity, tuple(found), after, search.searched, latest, on, search.whole,
        notes=(*notes, *search.notes),
    )  # fmt: skip


def stands(points: Collection[RegisteredPoint], slot: str, shard: str) -> int | None:
    """The point of a slot that lies further back on a DN; None where it has none there."""
    known = [one.point for one in points if (one.slot, one.shard) == (slot, shard) and one.point is not None]
    return min(known, default=None)


def _refuse_unknown(identity: TableIdentity, table: str, only: Filter) -> None:
    names = [column.name for column in identity.columns]
    for name in only.key:
        if name not in names:
            raise Refused(f"{table} has no column {name!r}", f"its columns: {', '.join(names)}", where="source")


def _shard(
    reader: BinlogReader, table: str, nodes: Mapping[str, int], ask: Ask, points: Collection[RegisteredPoint]
) -> Shard:
    """The DN that was named; else the one with the oldest row that the slot has not read, or with any row."""
    if not nodes:
        raise Refused("the source names no DN", "check this login's rights on its catalog of nodes", where="source")
    if ask.dn and ask.dn not in nodes:
        raise Refused(f"there is no DN {ask.dn!r}", f"its DNs: {', '.join(sorted(nodes))}", where="source")
    if ask.dn:
        return Shard(ask.dn, nodes[ask.dn])
    at = {name: stands(points, ask.slot, name) or 0 for name in nodes}
    lowest = min(at.values())
    try:
        firsts = reader.firsts(table, ask.after.point if ask.after else lowest)
    except SlotkeeperError:  # one DN that does not answer must not hide the others
        firsts = {}
    unread = [(one.point, name) for name, one in firsts.items() if name in at and one.point and one.point >= at[name]]
    name = min(unread)[1] if unread else min((point, name) for name, point in at.items())[1]
    return Shard(name, nodes[name])


def _begin(
    reader: BinlogReader, table: str, shard: Shard, ask: Ask, points: Collection[RegisteredPoint]
) -> tuple[Position | None, list[str]]:
    if ask.after is not None:
        return ask.after, []
    if ask.time:
        point = reader.at_time(table, shard, ask.time)
        if point is None:
            return None, [f"{shard.name} has no record at or after {ask.time}: these are the last rows"]
        return Position(point), []
    if ask.slot:
        at = stands(points, ask.slot, shard.name)
        if at is None:
            return None, [f"where {ask.slot} stands on {shard.name} is not known: these are the last rows"]
        return Position(at), []  # whether the point itself was read is not documented
    return None, []


@dataclass
class _Search:
    """One peek's windows; `searched` is how far it came, `full` whether it ended because there were rows enough."""

    reader: BinlogReader
    identity: TableIdentity
    table: str
    shard: Shard
    ask: Ask
    end: float
    now: Callable[[], float]
    width: int = _FIRST_WIDTH
    searched: int = 0
    full: bool = False
    whole: bool = False
    notes: list[str] = field(default_factory=list)

    def forward(self, after: Position, up_to: int) -> list[ChangeRow]:
        """The first rows after a position."""
        found: list[ChangeRow] = []
        at = after
        self.searched = max(0, at.point - 1 if at.sequence == NOTHING else at.point)
        while at.point <= up_to:
            first = self.reader.first(self.table, self.shard, at.point).point
            if first is None or first > up_to:
                break
            low = max(at, Position(first))
            high = min(up_to, low.point + self.width)
            rows = self._window(Range(low, high, self.ask.most - len(found)))
            if rows is not None:
                found += rows
                at = Position(high + 1)
                self.full = len(found) >= self.ask.most
                self.searched = found[-1].point if self.full else high
            if self.full or self._late(f"searched up to {self.searched}"):
                return found
        self.whole, self.searched = True, max(self.searched, up_to)
        return found

    def newest(self, up_to: int) -> list[ChangeRow]:
        """The last rows up to a point."""
        found: list[ChangeRow] = []
        self.searched, high = up_to, up_to
        oldest = self.reader.first(self.table, self.shard, 0).point
        while oldest is not None and high >= oldest:
            low = max(oldest, high - self.width)
            rows = self._window(Range(Position(low), high, self.ask.most - len(found), newest=True))
            if rows is not None:
                found = rows + found
                high = low - 1
            if len(found) >= self.ask.most or self._late(f"searched back to {high + 1}"):
                return found
        self.whole = True
        return found

    def _window(self, what: Range) -> list[ChangeRow] | None:
        """The rows of a window; None where the server did not get through it in time: the next one is narrower."""
        try:
            rows = self.reader.read(self.identity, self.table, self.shard, what, self.ask.filter)
        except SlotkeeperError as error:
            if not error.timed_out or self.width <= 1:
                raise
            self.width = max(1, self.width // _NARROWER)
            return None
        self.width *= _WIDER
        return rows

    def _late(self, so_far: str) -> bool:
        late = self.now() >= self.end
        if late:
            self.notes.append(f"stopped after {SECONDS:.0f} s: {so_far}")
        return late
