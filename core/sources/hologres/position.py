"""Positions of a Hologres binlog by shard, and what the server keeps for them: nothing.

Hologres, "Subscribe to Hologres binlogs": hg_binlog_lsn grows inside a shard, with gaps; LSNs of two shards say nothing
of each other. A record goes once it is older than binlog.ttl, read or not, so that a position has to know how old it
is.

A slot keeps one LSN on one shard, that of the last record that was confirmed. Nothing is held back for it: records go
by binlog.ttl, confirmed or not (Hologres, "Subscribe to Hologres binlogs"), so a slot that lies behind costs nothing
and loses nothing.
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
    """Everything up to `lsn` has been applied, and so has everything that the server wrote up to `seen`.

    Times are in microseconds since 1970 by the server's clock, 0 where they are not known. `at` is that of the record
    with this LSN; `seen` is later where the shard was asked and had nothing newer. `empty` is what a shard without any
    record answers for its newest: it names no LSN at all, and lies before or at others by `seen` alone.
    """

    called = "LSN"  # as Hologres calls it

    lsn: int
    at: int = 0
    seen: int = 0
    empty: bool = False
    image: int = field(default=1, compare=False)
    """0: the row before an update, for display; in a batch it has the LSN of the row after it."""

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
        """The LSN, and the second of the two places that an update's images have at it."""
        return self.lsn, self.image

    @property
    def plain(self) -> str:
        return self.shown

    @property
    def seen_at(self) -> float | None:
        """`seen` in seconds; None for a place that a person has typed.

        >>> HoloPosition(9, 5, 2_000_000).seen_at, HoloPosition(9).from_here.seen_at
        (2.0, None)
        """
        return self.seen / 1_000_000 if self.seen > 1 else None

    @property
    def from_here(self) -> HoloPosition:
        """The same, as a lane stands there: at a shard without a record, before the first that it will have.

        A place that a person has typed has no time. Its lane has one of 1970, so that any newest is later.
        """
        return replace(self, empty=False, seen=self.seen or 1)

    @property
    def place(self) -> HoloPosition:
        return self

    def order(self, other: Position) -> Order:
        """By LSN; of one LSN by the time up to which nothing else was there, where both know one.

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
        if self.empty != there.empty:  # the newest of a shard without a record is never behind a lane
            lane, newest = (there, self) if self.empty else (self, there)
            if lane.seen > newest.seen:
                return Order.SAME
        return Order.BEFORE if self.seen < there.seen else Order.AFTER

    def ahead_of(self, other: Position) -> int:
        """LSNs between the two: at least as many as records."""
        there = ours(other)
        return 0 if self.empty or there.empty else max(0, self.lsn - there.lsn)


@dataclass(frozen=True, slots=True)
class Oldest(HoloPosition):
    """The oldest record that a shard still has (`empty`: none), and the time up to which records may be deleted.

    It is beyond a lane's position if records that the lane has not applied may be missing, and at it otherwise. They
    may be missing if the oldest record is after the lane's next one, and either the lane has not seen the shard since
    `expired`, or the lane's own last record is missing though younger: then the binlog was shortened (binlog.level
    off and on again, a temporarily shorter binlog.ttl). An idle lane whose last record expired by age has lost nothing:
    so `seen` advances while no record comes.
    """

    expired: int = 0

    def order(self, other: Position) -> Order:
        """AFTER where something is lost to a lane at the other place, SAME where nothing is.

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
        """Read `lsn/at/seen`; raises ValueError for anything else.

        >>> POSITIONS.position("10516/7/9")
        HoloPosition(lsn=10516, at=7, seen=9, empty=False, image=1)
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"invalid position (lsn/time/time): {text!r}")
        return _read(text, found[1], int(found[2]), int(found[3]))

    def place(self, text: str) -> HoloPosition:
        """Read the same, or an LSN alone, behind which is read; raises ValueError for anything else.

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
    """A position that came from here; whatever else it were, its first use would fail."""
    return cast("HoloPosition", position)


MARK = "confirmed"


@dataclass(frozen=True, slots=True)
class SlotKept(OnePlace):
    """The LSN that is confirmed; 0 where nothing was yet, None where the table has no such slot."""

    lsn: int | None

    @property
    def text(self) -> str:
        """The LSN; "-" without a slot.

        >>> SlotKept(10516).text, SlotKept(None).text
        ('10516', '-')
        """
        return "-" if self.lsn is None else str(self.lsn)

    @property
    def marks(self) -> tuple[str, ...]:
        return ("" if self.lsn is None else str(self.lsn),)

    @property
    def missing(self) -> bool:
        """Whether the slot does not exist; a slot without a confirmed LSN does: a shard may have no record yet."""
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

    def at(self, position: Position) -> SlotKept:
        """At the position's LSN; unchanged at a position without one, which a server cannot confirm."""
        return SlotKept(ours(position).lsn or self.known.lsn)

    def behind(self, other: Kept) -> bool:
        return (self.lsn or 0) < (kept_of(other).lsn or 0)

    def found(self, there: Kept) -> SlotKept:
        return kept_of(there).known

    @property
    def again(self) -> HoloPosition:
        return HoloPosition(self.lsn or 0)


class SlotPositions(HoloPositions):
    """The texts of positions as anywhere at a Hologres, and of what a slot keeps."""

    marks: tuple[str, ...] = (MARK,)

    def kept(self, text: str) -> SlotKept:
        found = SlotKept(None if text == "-" else int(text) if text.isascii() and text.isdigit() else -1)
        if found.text != text or (found.lsn or 0) > HIGHEST:
            raise ValueError(f"invalid LSN of a slot: {text!r}")
        return found


SLOT_POSITIONS = SlotPositions()


def kept_of(kept: Kept) -> SlotKept:
    """What is kept, as it came from here."""
    return cast("SlotKept", kept)
