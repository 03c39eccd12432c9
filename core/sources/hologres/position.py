"""Positions in a Hologres binlog by shard, which the server does not store, and the LSN that a slot stores.

Hologres, "Subscribe to Hologres binlogs": hg_binlog_lsn grows inside a shard, with gaps; LSNs of two shards cannot be
compared. A record is deleted once it is older than binlog.ttl, whether it was read or not, so a position has to contain
times.

A slot stores one LSN per shard, the LSN of the last confirmed record. The server retains no records for a slot: records
are deleted by binlog.ttl, whether confirmed or not (Hologres, "Subscribe to Hologres binlogs"), so a slot that is
behind costs nothing and loses nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import cast

from slotkeeper.core.domain.position import Kept, OnePlace, Order, Position, nothing_of

_TEXT = re.compile(r"(\d{1,19}|-)/(\d{1,17})/(\d{1,17})")
_PLACE = re.compile(r"\d{1,19}|-")
_NO_LSN = "-"
HIGHEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class HoloPosition(Position):
    """All records up to `lsn` have been applied, and so have all records that the server wrote up to the time `seen`.

    Times are in microseconds since 1970 by the server's clock, 0 if unknown. `at` is the time of the record with this
    LSN; `seen` is later if the shard was queried later and had no newer record. `empty` is the newest position of a
    shard without any record: it has no LSN and is compared with other positions only by `seen`.
    """

    called = "LSN"  # Hologres's own term

    lsn: int
    at: int = 0
    seen: int = 0
    empty: bool = False
    image: int = field(default=1, compare=False)
    """0 for the row before an update (for display); in a batch, that row has the LSN of the row after the update."""

    @property
    def text(self) -> str:
        """`lsn/at/seen`.

        >>> HoloPosition(10516, 1700000000000000, 1700000000000000).text, HoloPosition(0, empty=True).text
        ('10516/1700000000000000/1700000000000000', '-/0/0')
        """
        return f"{self.shown}/{self.at}/{self.seen}"

    @property
    def shown(self) -> str:
        return _NO_LSN if self.empty else str(self.lsn)

    @property
    def pair(self) -> tuple[int, int]:
        """The LSN, and the number of the image at that LSN: the two images of an update share one LSN."""
        return self.lsn, self.image

    @property
    def plain(self) -> str:
        return self.shown

    @property
    def seen_at(self) -> float | None:
        """`seen` in seconds; None for a position that a user typed.

        >>> HoloPosition(9, 5, 2_000_000).seen_at, HoloPosition(9).from_here.seen_at
        (2.0, None)
        """
        return self.seen / 1_000_000 if self.seen > 1 else None

    @property
    def from_here(self) -> HoloPosition:
        """The same position for use by a lane; if the shard has no records, a position before its first record.

        A typed position has no time. The lane's position gets a time in 1970, so that any newest position is later.
        """
        return replace(self, empty=False, seen=self.seen or 1)

    @property
    def place(self) -> HoloPosition:
        return self

    def order(self, other: Position) -> Order:
        """Order by LSN, then by the time up to which there was no newer record, if both positions have that time.

        >>> HoloPosition(9, 5, 5) < HoloPosition(10), HoloPosition(10, 5, 5).order(HoloPosition(10)).name
        (True, 'SAME')
        >>> HoloPosition(10, 5, 5).order(HoloPosition(10, 5, 7)).name
        'BEFORE'
        """
        if isinstance(other, Oldest):
            return Order.BEFORE if other.order(self) is Order.AFTER else Order.SAME
        there = ours(other)
        if not (self.empty or there.empty) and self.lsn != there.lsn:
            return Order.BEFORE if self.lsn < there.lsn else Order.AFTER
        if not self.seen or not there.seen or self.seen == there.seen:
            return Order.SAME
        if self.empty != there.empty:  # the newest position of a shard without a record is not before a lane's
            lane, newest = (there, self) if self.empty else (self, there)
            if lane.seen > newest.seen:
                return Order.SAME
        return Order.BEFORE if self.seen < there.seen else Order.AFTER

    def ahead_of(self, other: Position) -> int:
        """Return the number of LSNs between the two positions, which is at least the number of records."""
        there = ours(other)
        return 0 if self.empty or there.empty else max(0, self.lsn - there.lsn)


@dataclass(frozen=True, slots=True)
class Oldest(HoloPosition):
    """The oldest record that a shard still has (`empty` if none), and the time up to which records may be deleted.

    It compares as after a lane's position if records that the lane has not applied may be missing, else as equal.
    Records may be missing if the oldest record is after the lane's next record, and either the lane has not queried the
    shard since `expired`, or the lane's own last record is missing although it is younger than that: the binlog was
    then shortened (binlog.level turned off and on, or a temporarily shorter binlog.ttl). An idle lane whose last record
    expired by age has lost nothing; for this reason `seen` advances even without new records.
    """

    expired: int = 0

    def order(self, other: Position) -> Order:
        """Return AFTER if a lane at the other position has lost records, SAME if it has not.

        >>> oldest, cut = Oldest(20, 900, 900, expired=700), HoloPosition(10, 800, 800)
        >>> oldest > HoloPosition(10, 300, 600), oldest > HoloPosition(10, 300, 800), oldest > cut
        (True, False, True)
        >>> oldest > HoloPosition(20, 900, 900), oldest > HoloPosition(19)
        (False, False)
        """
        if isinstance(other, Oldest):
            return Order.SAME
        lane = ours(other)
        if lane.empty or (not self.empty and self.lsn <= lane.lsn + 1):
            return Order.SAME
        if lane.seen < self.expired or lane.at > self.expired:
            return Order.AFTER
        return Order.SAME


class HoloPositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "LSNs"
    name = "LSN"
    part = "shard"
    marks: tuple[str, ...] = ()

    def position(self, text: str) -> HoloPosition:
        """Parse `lsn/at/seen`; raises ValueError for anything else.

        >>> POSITIONS.position("10516/7/9")
        HoloPosition(lsn=10516, at=7, seen=9, empty=False, image=1)
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"invalid position (lsn/time/time): {text!r}")
        return _read(text, found[1], int(found[2]), int(found[3]))

    def place(self, text: str) -> HoloPosition:
        """Parse `lsn/at/seen`, or only the LSN after which to read; raises ValueError for anything else.

        >>> POSITIONS.place("10516").lsn
        10516
        """
        return _read(text, text, 0, 0) if _PLACE.fullmatch(text) else self.position(text)

    def kept(self, text: str) -> Kept:
        return nothing_of(text)


POSITIONS = HoloPositions()


def _read(whole: str, lsn: str, at: int, seen: int) -> HoloPosition:
    empty = lsn == _NO_LSN
    made = HoloPosition(0 if empty else int(lsn), at, seen, empty)
    if whole not in (made.text, made.shown) or made.lsn > HIGHEST:
        raise ValueError(f"invalid LSN: {whole!r}")
    return made


def ours(position: Position) -> HoloPosition:
    """Return a position as this dialect's type; a position of another dialect would fail at its first use."""
    return cast("HoloPosition", position)


MARK = "confirmed"


@dataclass(frozen=True, slots=True)
class SlotKept(OnePlace):
    """The confirmed LSN of a slot; 0 if none is confirmed yet, None if the table has no such slot."""

    lsn: int | None

    @property
    def text(self) -> str:
        """The LSN; "-" if there is no slot.

        >>> SlotKept(10516).text, SlotKept(None).text
        ('10516', '-')
        """
        return "-" if self.lsn is None else str(self.lsn)

    @property
    def marks(self) -> tuple[str, ...]:
        return ("" if self.lsn is None else str(self.lsn),)

    @property
    def missing(self) -> bool:
        """Whether the slot does not exist. A slot without a confirmed LSN exists: a shard may have no record yet."""
        return self.lsn is None

    @property
    def furthest(self) -> HoloPosition | None:
        return HoloPosition(self.lsn) if self.lsn else None

    @property
    def blank(self) -> SlotKept:
        return SlotKept(0)

    @property
    def known(self) -> SlotKept:
        return SlotKept(self.lsn or 0)

    def calls(self, table: str, slot: str, node: int) -> list[str]:
        return [f"START_REPLICATION SLOT {slot} (parallel_index {node - 1}); flushed = {self.text}"]

    def at(self, position: Position) -> SlotKept:
        """Return the state at the position's LSN; a position without LSN cannot be confirmed and changes nothing."""
        return SlotKept(ours(position).lsn or self.known.lsn)

    def behind(self, other: Kept) -> bool:
        return (self.lsn or 0) < (kept_of(other).lsn or 0)

    def found(self, there: Kept) -> SlotKept:
        return kept_of(there).known

    @property
    def again(self) -> HoloPosition:
        return HoloPosition(self.lsn or 0)


class SlotPositions(HoloPositions):
    """Parses positions as for any Hologres source, and the LSN that a slot stores."""

    marks: tuple[str, ...] = (MARK,)

    def kept(self, text: str) -> SlotKept:
        found = SlotKept(None if text == "-" else int(text) if text.isascii() and text.isdigit() else -1)
        if found.text != text or (found.lsn or 0) > HIGHEST:
            raise ValueError(f"invalid LSN of a slot: {text!r}")
        return found


SLOT_POSITIONS = SlotPositions()


def kept_of(kept: Kept) -> SlotKept:
    return cast("SlotKept", kept)
