"""What slots a table has and how far each has come, put together from what the server lists.

Unknown is None and a sentence in `TableSlots.untold`, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import RegisteredPoint, UnreadRows
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import NEUTRAL, SlotWords


@dataclass(frozen=True, slots=True)
class SlotOnShard:
    """A slot on one DN; `unread` is that of the point that lies further back."""

    shard: str
    live: Position | None = None
    durable: Position | None = None
    registered_at: datetime | None = None
    xmin: int | None = None
    unread: int | None = None


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot of a table; `job` is the configured job that owns it, None for an external one.

    `exists` is None where it cannot be told whether it is there.
    """

    name: str
    job: str | None
    exists: bool | None
    shards: tuple[SlotOnShard, ...] = ()

    @property
    def oldest_point(self) -> Position | None:
        """The point that keeps the server from cleaning; None where one of them is unknown."""
        found = [point for one in self.shards for point in (one.live, one.durable)]
        known = [place for place in found if place is not None]
        return min(known) if known and len(known) == len(found) else None

    @property
    def registered_at(self) -> datetime | None:
        """The registration that is longest ago among the DNs: the one whose TTL ends first."""
        times = [one.registered_at for one in self.shards]
        known = [at for at in times if at is not None]
        return min(known) if known and len(known) == len(times) else None

    @property
    def unread(self) -> int | None:
        """Unread rows in all; None where they are unknown on one DN."""
        known = _all_known([one.unread for one in self.shards])
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class TableSlots:
    """The slots of one source table; `untold` says what this server cannot tell, `listed` whether it lists slots."""

    source: str
    table: str
    slots: tuple[SlotView, ...]
    untold: tuple[str, ...] = ()
    listed: bool = True

    def slot(self, name: str) -> SlotView:
        """One slot by its name; raises Refused with the names that there are."""
        for one in self.slots:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.slots) or "none"
        raise Refused(f"{self.source} {self.table} has no slot {name!r}", f"its slots: {names}", where="source")


def inspect(
    source: str,
    table: str,
    owners: Mapping[str, str],
    points: Sequence[RegisteredPoint] | None,
    unread: Sequence[UnreadRows] | None,
    words: SlotWords = NEUTRAL,
) -> TableSlots:
    """Every slot of a table that the server names and every configured one; `owners` are jobs by slot name.

    `points` and `unread` are the server's answers, None where it has none; `words` say that in its dialect.
    """
    untold = [text for text, answer in ((words.no_list, points), (words.no_count, unread)) if answer is None]
    named = {one.slot for one in points or ()} | {one.slot for one in unread or ()}
    listed = points is not None
    slots = []
    for name in sorted(named | set(owners)):
        exists = True if name in named else False if listed else None
        slots.append(SlotView(name, owners.get(name), exists, _shards(name, points or (), unread or ())))
    return TableSlots(source, table, tuple(slots), tuple(filter(None, untold)), listed)


def _shards(name: str, points: Iterable[RegisteredPoint], unread: Iterable[UnreadRows]) -> tuple[SlotOnShard, ...]:
    mine = [one for one in points if one.slot == name]
    counts = [one for one in unread if one.slot == name]
    names = sorted({one.shard for one in mine} | {one.shard for one in counts})
    return tuple(
        _shard(shard, [one for one in mine if one.shard == shard], [one for one in counts if one.shard == shard])
        for shard in names
    )


def _shard(shard: str, points: Sequence[RegisteredPoint], counts: Sequence[UnreadRows]) -> SlotOnShard:
    by_flag = {one.checkpoint: one for one in points}
    live, durable = by_flag.get(False), by_flag.get(True)
    times = [one.registered_at for one in points if one.registered_at is not None]
    xmins = [one.xmin for one in points if one.xmin is not None]
    rows = [one.rows for one in counts if one.rows is not None]
    return SlotOnShard(
        shard,
        live.point if live else None,
        durable.point if durable else None,
        max(times) if times else None,
        min(xmins) if xmins else None,
        max(rows) if rows else None,
    )


def _all_known(values: Sequence[int | None]) -> list[int]:
    """The values where every one is known, else nothing."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []
