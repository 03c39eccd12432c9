"""Positions in a lane's stream, and what a server retains for a slot on one DN: texts with an order. Pure.

Each dialect has positions of its own. A server may keep one position for a slot (`OnePlace`), two (DWS), or none
(`NothingKept`); `confirmable` is for one that keeps one position for the stream of all channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Self

from slotkeeper.core.errors import Defect, Trouble, TroubleName


class Order(Enum):
    """The order of two positions; UNKNOWN where it is not defined."""

    BEFORE = -1
    SAME = 0
    AFTER = 1
    UNKNOWN = None


class Position(ABC):
    """Everything before it has been applied; which events that are is the dialect's to say.

    The order is partial: two positions that name a place less closely than each other are neither before nor after,
    and are not equal by `==` for that. Comparing two without a known order raises Trouble (POSITIONS DIFFER).
    A position may carry what its dialect needs to confirm it; that is not part of its text or its order. One that a
    server calls its newest may name its place less closely than those of a lane do.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The form that is stored; the dialect's `Positions` reads it back as an equal position."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The displayed form, at most about ten characters."""

    @property
    @abstractmethod
    def pair(self) -> tuple[int, int]:
        """The two numbers with which a batch orders the last event before it; the first grows along the lane."""

    @property
    @abstractmethod
    def from_here(self) -> Position:
        """The position from which what lies at this place is read, or read again."""

    @property
    @abstractmethod
    def place(self) -> Position:
        """The same place, named no more closely than a server names it."""

    @property
    def committed_at(self) -> float | None:
        """When what lies just before it was committed, by the source's clock, in seconds since 1970.

        None where it does not tell; no part of its text.
        """
        return None

    @property
    def plain(self) -> str:
        """The full displayed form: its text, without what only the core needs."""
        return self.text

    @property
    def gtids_text(self) -> str:
        """The transactions applied there, as the server names them; "" where positions of its kind name none."""
        return ""

    @property
    def called(self) -> str:
        """What such a place is called where one is shown, in one word."""
        return "point"

    @property
    def seen_at(self) -> float | None:
        """Up to when everything that its server wrote has been applied, by the server's clock, in seconds since 1970.

        None where that is not known. Where records go by their age, what came later is kept for a TTL from here on.
        """
        return None

    @abstractmethod
    def order(self, other: Position) -> Order:
        """Return the order of this and another position of the same lane."""

    @abstractmethod
    def ahead_of(self, other: Position) -> int | None:
        """Return how far this is beyond another, in the dialect's unit, at least 0; None where unknown."""

    def __lt__(self, other: Position) -> bool:
        return _compared(self, other) is Order.BEFORE

    def __gt__(self, other: Position) -> bool:
        return _compared(self, other) is Order.AFTER

    def __le__(self, other: Position) -> bool:
        return _compared(self, other) is not Order.AFTER

    def __ge__(self, other: Position) -> bool:
        return _compared(self, other) is not Order.BEFORE


def _compared(one: Position, other: Position) -> Order:
    found = one.order(other)
    if found is Order.UNKNOWN:
        what = f"the order of {one.text} and {other.text} is unknown: they belong to two histories of the binlog"
        raise Trouble(what, "verify the target, then take a new snapshot", name=TroubleName.POSITIONS_DIFFER)
    return found


def further(one: Position | None, other: Position | None) -> Position | None:
    """Return the later of two positions, or the only known one."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Kept(ABC):
    """A slot's points on one DN. Two are equal where a server would show the same for them."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The form that is stored; the dialect's `Positions` reads it back as an equal value."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The displayed form: as the server shows it."""

    @property
    @abstractmethod
    def marks(self) -> tuple[str, ...]:
        """The values for the columns of the dialect, "" where there is none."""

    @property
    @abstractmethod
    def missing(self) -> bool:
        """Whether a point of a slot in use is missing: then changes may be lost."""

    @property
    @abstractmethod
    def furthest(self) -> Position | None:
        """The furthest confirmed position; None without one."""

    @property
    @abstractmethod
    def oldest(self) -> Position | None:
        """The position from which on the server retains its binlog; None where it does not."""

    @property
    def shared(self) -> bool:
        """Whether it is one for the stream of all channels: then lanes of other channels move it, too, on and on."""
        return False

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it is all at one place, as behind a confirmation that was not broken off."""

    @property
    @abstractmethod
    def blank(self) -> Kept:
        """What is kept for a slot that nothing was ever confirmed for."""

    @property
    @abstractmethod
    def known(self) -> Kept:
        """The same as a progress row remembers it: what is absent is as if never confirmed."""

    @abstractmethod
    def at(self, position: Position) -> Kept:
        """What is kept once a position is confirmed behind this."""

    @abstractmethod
    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """What may be seen while it is not known how much of a confirmation of `to` has landed, `to` among it."""

    @abstractmethod
    def behind(self, other: Kept) -> bool:
        """Whether a part of this is before the same part of another."""

    @abstractmethod
    def found(self, there: Kept) -> Kept:
        """What is remembered here, moved to what a server shows now."""

    @abstractmethod
    def no_newer(self, others: Iterable[Kept]) -> Kept:
        """The same, with what is handed back beside it no newer than that of `others`."""

    @property
    @abstractmethod
    def again(self) -> Position:
        """The position that confirms once more what is kept, for nothing but its time."""


class OnePlace(Kept):
    """At most one position per slot, which cannot be half moved; the server retains no binlog for it."""

    __slots__ = ()
    settled = True

    @property
    def shown(self) -> str:
        return self.text

    @property
    def oldest(self) -> Position | None:
        return None

    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        return frozenset((self, to))

    def no_newer(self, others: Iterable[Kept]) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class NothingKept(OnePlace):
    """For a server that keeps no positions: they are in the progress rows only."""

    text = "nothing"
    marks = ()
    missing = False
    furthest = None

    @property
    def blank(self) -> NothingKept:
        return self

    @property
    def known(self) -> NothingKept:
        return self

    def at(self, position: Position) -> NothingKept:
        return self

    def behind(self, other: Kept) -> bool:
        return False

    def found(self, there: Kept) -> NothingKept:
        return self

    @property
    def again(self) -> Position:
        raise Defect("the server keeps no position, so nothing is confirmed again")


NOTHING_KEPT = NothingKept()


def nothing_of(text: str) -> NothingKept:
    """Parse the stored form of no points; raises ValueError for any other text."""
    if text != NOTHING_KEPT.text:
        raise ValueError(f"the server keeps no position, not {text!r}")
    return NOTHING_KEPT


class Positions(Protocol):
    """A dialect's texts; parsing raises ValueError for a damaged one, and never guesses."""

    unit: str
    """What `Position.ahead_of` counts, in the plural: "commits"."""

    name: str
    """The dialect's term for a position: "sync point"."""

    part: str
    """What a lane of a table reads, one of several or the only one: "DN"."""

    marks: tuple[str, ...]
    """The names of `Kept.marks`, as columns: "live", "durable"."""

    def position(self, text: str) -> Position:
        """The position of a lane that has this text; one that is named less closely is damaged."""

    def place(self, text: str) -> Position:
        """The position, or the place as a server or a person names it, that has this text."""

    def kept(self, text: str) -> Kept:
        """What has this text."""


def confirmable(wanted: Position, others: Iterable[Position | None], stands: Position | None) -> Position:
    """The place that may be confirmed for a channel that wants `wanted`: the least of all channels' positions.

    `others` are the positions of the other channels' rows, None for one that has not begun: it begins at the newest
    place, behind what is confirmed before. `stands` is what is confirmed already, to which the server is never set
    back.
    """
    least = min([wanted, *(one for one in others if one is not None)])
    return further(least, stands) or least
