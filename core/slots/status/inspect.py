"""What slots a table has and how far each has come, without ever creating one: only calls that read.

Unknown is None and a sentence in `TableSlots.untold`, never 0. Next door: `core.services.verify` gives this a viewer of
a dialect; the verbs that change a slot have a file each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.errors import Refused


class Point(Protocol):
    """A registered point as the server lists it: one per DN, slot and checkpoint flag."""

    @property
    def shard(self) -> str: ...
    @property
    def slot(self) -> str: ...
    @property
    def checkpoint(self) -> bool: ...
    @property
    def point(self) -> int | None: ...
    @property
    def registered_at(self) -> datetime | None: ...
    @property
    def xmin(self) -> int | None: ...


class Unread(Protocol):
    """What a DN still keeps for a slot and checkpoint flag."""

    @property
    def shard(self) -> str: ...
    @property
    def slot(self) -> str: ...
    @property
    def checkpoint(self) -> bool: ...
    @property
    def rows(self) -> int | None: ...


class SlotViewer(Protocol):
    """Reads what a server says about a table's slots; no call of it creates a slot."""

    def points(self, table: str) -> Sequence[Point] | None:
        """Every registered point of a table; None where this kernel has no function for it."""

    def unread(self, table: str) -> Sequence[Unread] | None:
        """Unread rows of every slot of a table; None where this kernel has no function for it."""


@dataclass(frozen=True, slots=True)
class SlotOnShard:
    """A slot on one DN; `unread` is that of the point that lies further back."""

    shard: str
    live: int | None = None
    durable: int | None = None
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
    def oldest_point(self) -> int | None:
        """The point that keeps the server from cleaning; None where one of them is unknown."""
        found = [point for one in self.shards for point in (one.live, one.durable)]
        known = _all_known(found)
        return min(known) if known else None

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
    """The slots of one source table; `untold` says what this server cannot tell."""

    source: str
    table: str
    slots: tuple[SlotView, ...]
    untold: tuple[str, ...] = ()

    def slot(self, name: str) -> SlotView:
        """One slot by its name; raises Refused with the names that there are."""
        for one in self.slots:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in self.slots) or "none"
        raise Refused(f"{self.source} {self.table} has no slot {name!r}", f"its slots: {names}", where="source")


NO_LIST = "this kernel cannot list slots (9.1.0.223 or newer can): only configured ones are shown, and no points"
NO_COUNT = "this kernel cannot count unread rows of this table (9.1.0.223 or newer can)"


def inspect(viewer: SlotViewer, source: str, table: str, owners: Mapping[str, str]) -> TableSlots:
    """Every slot of a table that the server names and every configured one; `owners` are jobs by slot name."""
    points, unread = viewer.points(table), viewer.unread(table)
    untold = [text for text, answer in ((NO_LIST, points), (NO_COUNT, unread)) if answer is None]
    named = {one.slot for one in points or ()} | {one.slot for one in unread or ()}
    listed = points is not None
    slots = []
    for name in sorted(named | set(owners)):
        exists = True if name in named else False if listed else None
        slots.append(SlotView(name, owners.get(name), exists, _shards(name, points or (), unread or ())))
    return TableSlots(source, table, tuple(slots), tuple(untold))


def _shards(name: str, points: Iterable[Point], unread: Iterable[Unread]) -> tuple[SlotOnShard, ...]:
    mine = [one for one in points if one.slot == name]
    counts = [one for one in unread if one.slot == name]
    names = sorted({one.shard for one in mine} | {one.shard for one in counts})
    return tuple(
        _shard(shard, [one for one in mine if one.shard == shard], [one for one in counts if one.shard == shard])
        for shard in names
    )


def _shard(shard: str, points: Sequence[Point], counts: Sequence[Unread]) -> SlotOnShard:
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
