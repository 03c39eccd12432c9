"""Positions in the binlog of DWS, and the two sync points that DWS stores for a slot on one DN.

DWS: a sync point is the commit sequence number of the writing transaction, unique and ordered per cluster in common GTM
mode; the event sequence orders the events of the transaction. A point is registered with checkpoint false and true,
each with an xmin, which "affects whether old tuples can be read" and must never be newer than its point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

from slotkeeper.core.domain.position import Kept, Order, Position
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus, TableIdentity
from slotkeeper.core.sqltext import dotted, literal

NOTHING = -1
"""The sequence of a position at which no event of its point is applied."""


@dataclass(frozen=True, slots=True)
class DwsPosition(Position):
    """All events up to event `sequence` of sync point `point` are applied; -1 means no event of that point.

    If the sequence is None, the position consists only of the point, as reported by a server or used in a registration.
    `xmin` belongs to the point. `top` is the point of the last record at or before `point` whose xmin can be read; None
    if unknown.
    """

    point: int
    sequence: int | None = NOTHING
    xmin: int | None = field(default=None, compare=False)
    top: int | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """`point/sequence`, or only the point.

        >>> DwsPosition(10516, 2).text, DwsPosition(10516, None).text
        ('10516/2', '10516')
        """
        return str(self.point) if self.sequence is None else f"{self.point}/{self.sequence}"

    @property
    def shown(self) -> str:
        return str(self.point)

    @property
    def pair(self) -> tuple[int, int]:
        return self.point, NOTHING if self.sequence is None else self.sequence

    @property
    def from_here(self) -> DwsPosition:
        """The position before all events of the point.

        >>> DwsPosition(10516, None, 900).from_here
        DwsPosition(point=10516, sequence=-1, xmin=900, top=None)
        """
        return replace(self, sequence=NOTHING) if self.sequence is None else self

    @property
    def place(self) -> DwsPosition:
        return replace(self, sequence=None)

    def order(self, other: Position) -> Order:
        """Order by point, then by sequence if both have one.

        >>> DwsPosition(10, 3).order(DwsPosition(10, None)), DwsPosition(10, 3) < DwsPosition(10, 4)
        (<Order.SAME: 0>, True)
        """
        one, two = self, ours(other)
        if one.point != two.point:
            return Order.BEFORE if one.point < two.point else Order.AFTER
        if one.sequence is None or two.sequence is None or one.sequence == two.sequence:
            return Order.SAME
        return Order.BEFORE if one.sequence < two.sequence else Order.AFTER

    def ahead_of(self, other: Position) -> int:
        """Return the number of sync points between the two positions; each is a commit somewhere in the cluster."""
        return max(0, self.point - ours(other).point)


@dataclass(frozen=True, slots=True)
class SyncPoints(Kept):
    """A slot's state on one DN: the last points registered with checkpoint false and true; None if there is no row.

    0 means that the slot exists but was never registered (DWS returns 0 for a slot that was never consumed). `xmin` is
    the last returned xmin, or the xmin of the newest point if the server reported it.
    """

    live: int | None
    durable: int | None
    xmin: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        """`live/durable/xmin`; "-" if there is no row.

        >>> SyncPoints(10516, None, 900).text
        '10516/-/900'
        """
        return f"{self.shown}/{self.xmin}"

    @property
    def shown(self) -> str:
        return "/".join(mark or "-" for mark in self.marks)

    @property
    def marks(self) -> tuple[str, str]:
        return tuple("" if point is None else str(point) for point in self.both)  # type: ignore[return-value]

    @property
    def both(self) -> tuple[int | None, int | None]:
        return self.live, self.durable

    @property
    def missing(self) -> bool:
        return not self.live or not self.durable

    @property
    def furthest(self) -> DwsPosition | None:
        return _place(max(self.live or 0, self.durable or 0), self.xmin)

    @property
    def oldest(self) -> DwsPosition | None:
        return None if self.missing else _place(min(self.live or 0, self.durable or 0), self.xmin)

    @property
    def settled(self) -> bool:
        return not self.missing and self.live == self.durable

    @property
    def blank(self) -> SyncPoints:
        return SyncPoints(0, 0)

    @property
    def known(self) -> SyncPoints:
        return SyncPoints(self.live or 0, self.durable or 0, self.xmin)

    def calls(self, table: str, slot: str, node: int) -> list[str]:
        at = f"{literal(dotted(table))}, {literal(slot)}, {node}"
        flags = (("false", self.live), ("true", self.durable))
        return [f"SELECT pgxc_register_binlog_sync_point({at}, {point}, {flag}, {self.xmin})" for flag, point in flags]

    def at(self, position: Position) -> SyncPoints:
        """Return both points at the position's point, with the newer of the position's xmin and the present xmin."""
        place = ours(position)
        return SyncPoints(place.point, place.point, max(place.xmin or 0, self.xmin))

    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """Return the states that occur while moving to `to`: `false` is registered first, then `true`.

        >>> sorted(one.shown for one in SyncPoints(5, 5).on_the_way(SyncPoints(7, 7)))
        ['7/5', '7/7']
        """
        goal = points_of(to)
        return frozenset((replace(goal, durable=self.durable), goal))

    def behind(self, other: Kept) -> bool:
        there = points_of(other)
        return (self.live or 0) < (there.live or 0) or (self.durable or 0) < (there.durable or 0)

    def found(self, there: Kept) -> SyncPoints:
        return replace(points_of(there).known, xmin=self.xmin)

    def no_newer(self, others: Iterable[Kept]) -> SyncPoints:
        """Return the points with the lowest xmin of `others`: an older xmin holds back at least as much as needed."""
        return replace(self, xmin=min((points_of(one).xmin for one in others), default=0))

    @property
    def again(self) -> DwsPosition:
        """The live point with its xmin; registering it again sets both points."""
        return DwsPosition(self.live or 0, None, self.xmin)


class DwsPositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "commits"
    name = "sync point"
    part = "DN"
    marks: tuple[str, ...] = ("live", "durable")

    def position(self, text: str) -> DwsPosition:
        """Parse `point/sequence`; raises ValueError otherwise, because a point alone would skip its own events.

        >>> POSITIONS.position("10516/-1")
        DwsPosition(point=10516, sequence=-1, xmin=None, top=None)
        """
        position = self.place(text)
        if position.sequence is None:
            raise ValueError(f"invalid position: {text!r}")
        return position

    def place(self, text: str) -> DwsPosition:
        """Parse `point/sequence`, or only a point; raises ValueError for anything else.

        >>> POSITIONS.place("10516")
        DwsPosition(point=10516, sequence=None, xmin=None, top=None)
        """
        point, slash, sequence = text.partition("/")
        position = DwsPosition(_number(point, text), _number(sequence, text) if slash else None)
        if position.text != text or position.point < 0 or (position.sequence or 0) < NOTHING:
            raise ValueError(f"invalid position: {text!r}")
        return position

    def kept(self, text: str) -> SyncPoints:
        parts = text.split("/")
        if len(parts) != 3:
            raise ValueError(f"invalid registration (two sync points, xmin): {text!r}")
        live, durable = (None if part == "-" else _number(part, text) for part in parts[:2])
        kept = SyncPoints(live, durable, _number(parts[2], text))
        if kept.text != text:
            raise ValueError(f"invalid registration (two sync points, xmin): {text!r}")
        return kept


POSITIONS = DwsPositions()


def ours(position: Position) -> DwsPosition:
    """Return a position as this dialect's type; a position of another dialect would fail at its first use."""
    return cast("DwsPosition", position)


def unread_from(position: DwsPosition) -> int:
    """Return the first point of which an event can be unread.

    >>> unread_from(DwsPosition(10516, 2)), unread_from(DwsPosition(10516)), unread_from(DwsPosition(10516, None))
    (10517, 10516, 10516)
    """
    return position.point + (position.sequence not in (None, NOTHING))


def points_of(kept: Kept) -> SyncPoints:
    return cast("SyncPoints", kept)


def place(point: int | None, xmin: int | None = None) -> DwsPosition | None:
    """Return a server's point as a position; None for None."""
    return None if point is None else DwsPosition(point, None, xmin)


def _place(point: int, xmin: int) -> DwsPosition | None:
    return DwsPosition(point, None, xmin) if point else None


def _number(text: str, whole: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"invalid position: {whole!r}") from None


def statuses_of(rows: Iterable[Sequence[Any]], server: str) -> list[SlotStatus]:
    """Return statuses by DN from the result rows of statement `status` (two rows per DN, one per checkpoint flag)."""
    by_shard: dict[Shard, dict[bool, tuple[Any, ...]]] = {}
    for row in rows:
        by_shard.setdefault(Shard(str(row[1]), int(str(row[2]))), {})[bool(row[0])] = tuple(row)
    found = []
    for shard, flags in sorted(by_shard.items()):
        some = list(flags.values())
        xmin = min(int(str(row[5])) for row in some)
        points = SyncPoints(_point(flags.get(False)), _point(flags.get(True)), xmin)
        described = tuple(tuple(each or ()) for each in some[0][7:])
        found.append(
            SlotStatus(
                shard,
                points,
                DwsPosition(min(int(str(row[4])) for row in some), None, points.xmin),
                fingerprint=fingerprint_of(int(str(some[0][6])), server, *described),
            )
        )
    return found


@lru_cache(4_096)
def fingerprint_of(
    oid: int, server: str, spelled: Sequence[str], types: Sequence[str], numbers: Sequence[int], key: Sequence[int]
) -> str:
    """Return the fingerprint of a table: its columns' names, types and numbers, and the numbers of its key."""
    names = dict(zip(numbers, spelled, strict=True))
    columns = tuple(Column(name, type_) for name, type_ in zip(spelled, types, strict=True))
    return TableIdentity(oid, columns, tuple(names[number] for number in key), server).text


def _point(row: tuple[object, ...] | None) -> int | None:
    return None if row is None or row[3] is None else int(str(row[3]))
