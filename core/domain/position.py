"""Positions in a lane's stream, and those that a server retains for a slot on one DN: texts with an order. Pure.

Each dialect defines its own positions. A server may keep one position per slot (`OnePlace`), two (DWS), or none
(`NothingKept`); `confirmable` is for servers that keep one position for the stream of all channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Self

from slotkeeper.core.errors import Defect, Trouble, TroubleName


class Order(Enum):
    """The order of two positions; UNKNOWN if it is not defined."""

    BEFORE = -1
    SAME = 0
    AFTER = 1
    UNKNOWN = None


class Position(ABC):
    """A point in a lane's stream: all events before it have been applied; the dialect defines which events these are.

    The order is partial: two positions of different precision may be neither before nor after each other, without being
    equal by `==`. Comparing two positions without a defined order raises Trouble (POSITIONS DIFFER). A position can
    contain data that its dialect needs to confirm it; this data is not part of its text or order. A position that a
    server reports as its newest may be less precise than a lane's position.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The stored form; the dialect's `Positions` parses it to an equal position."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The displayed form, at most about ten characters."""

    @property
    @abstractmethod
    def pair(self) -> tuple[int, int]:
        """Two numbers by which a batch orders the last event before the position; the first grows along the lane."""

    @property
    @abstractmethod
    def from_here(self) -> Position:
        """The position at which to start reading so that the events at this position are read, or read again."""

    @property
    @abstractmethod
    def place(self) -> Position:
        """The same position, with no more precision than a server's positions have."""

    @property
    def committed_at(self) -> float | None:
        """The commit time of the last event before the position, by the source's clock, in seconds since 1970.

        None if the position does not contain it; not part of its text.
        """
        return None

    @property
    def plain(self) -> str:
        """The full displayed form: the text without data that only the core needs."""
        return self.text

    @property
    def gtids_text(self) -> str:
        """The transactions applied at this position, as the server names them; "" if this kind of position has none."""
        return ""

    @property
    def called(self) -> str:
        """The term for such a position on screens, one word."""
        return "point"

    @property
    def seen_at(self) -> float | None:
        """The time up to which all changes of the server have been applied, in seconds since 1970 by its clock.

        None if unknown. If records are deleted by age, later records are retained for a TTL from this time on.
        """
        return None

    @abstractmethod
    def order(self, other: Position) -> Order:
        """Return the order of this and another position of the same lane."""

    @abstractmethod
    def ahead_of(self, other: Position) -> int | None:
        """Return how far this position is after another, in the dialect's unit, at least 0; None if unknown."""

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
        what = f"the order of {one.text} and {other.text} is unknown: they belong to different binlog histories"
        raise Trouble(what, "verify the target, then take a new snapshot", name=TroubleName.POSITIONS_DIFFER)
    return found


def further(one: Position | None, other: Position | None) -> Position | None:
    """Return the later of two positions, or the only known one."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Kept(ABC):
    """A slot's points on one DN. Two are equal if a server would show the same values for them."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The stored form; the dialect's `Positions` parses it to an equal value."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The displayed form, as the server shows it."""

    @property
    @abstractmethod
    def marks(self) -> tuple[str, ...]:
        """The values for the dialect's columns, "" for a missing value."""

    @property
    @abstractmethod
    def missing(self) -> bool:
        """Whether a point of a slot in use is missing, in which case changes may be lost."""

    @property
    @abstractmethod
    def furthest(self) -> Position | None:
        """The furthest confirmed position; None if there is none."""

    @property
    @abstractmethod
    def oldest(self) -> Position | None:
        """The position from which the server retains its binlog; None if it does not retain it for a slot."""

    @property
    def shared(self) -> bool:
        """Whether this is one position for the stream of all channels, which lanes of other channels also move."""
        return False

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether all points are at one position, as after a completed confirmation."""

    @property
    @abstractmethod
    def blank(self) -> Kept:
        """The value for a slot for which nothing was ever confirmed."""

    @property
    @abstractmethod
    def known(self) -> Kept:
        """The value as a progress row stores it: a missing point is stored as never confirmed."""

    @abstractmethod
    def at(self, position: Position) -> Kept:
        """Return the value after a later position is confirmed."""

    @abstractmethod
    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """Return the values, including `to`, that a server may show until the outcome of a confirmation is known."""

    @abstractmethod
    def behind(self, other: Kept) -> bool:
        """Return whether one of its points is before the corresponding point of another value."""

    @abstractmethod
    def found(self, there: Kept) -> Kept:
        """Return this stored value, updated to the points that a server shows now."""

    @abstractmethod
    def no_newer(self, others: Iterable[Kept]) -> Kept:
        """Return this value, with the data that is confirmed with a position (DWS: xmin) no newer than in `others`."""

    @property
    @abstractmethod
    def again(self) -> Position:
        """The position that confirms the current value again, only to renew its time to live."""


class OnePlace(Kept):
    """At most one position per slot, which moves atomically; the server retains no binlog for it."""

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
    """For a server that keeps no positions: they are stored in the progress rows only."""

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
        raise Defect("the server stores no position, so nothing is confirmed again")


NOTHING_KEPT = NothingKept()


def nothing_of(text: str) -> NothingKept:
    """Parse the stored form of `NothingKept`; raises ValueError for any other text."""
    if text != NOTHING_KEPT.text:
        raise ValueError(f"the server stores no position, not {text!r}")
    return NOTHING_KEPT


class Positions(Protocol):
    """The text forms of a dialect's positions; parsing raises ValueError for a damaged text."""

    unit: str
    """The unit of `Position.ahead_of`, in the plural: "commits"."""

    name: str
    """The dialect's term for a position: "sync point"."""

    part: str
    """The term for the part of a table that a lane reads, one of several or the only one: "DN"."""

    marks: tuple[str, ...]
    """The names of `Kept.marks`, as columns: "live", "durable"."""

    def position(self, text: str) -> Position:
        """Return the position of a lane with this text; raises ValueError if the text is not precise enough."""

    def place(self, text: str) -> Position:
        """Return the position with this text, as written by a lane, a server or a user."""

    def kept(self, text: str) -> Kept:
        """Return the slot's points with this text."""


def confirmable(wanted: Position, others: Iterable[Position | None], stands: Position | None) -> Position:
    """Return the position to confirm for a channel that requests `wanted`: the lowest position of all channels.

    `others` are the positions in the rows of the other channels, None for a channel that has not started: it will start
    at the newest position, after any position confirmed before. `stands` is the position already confirmed; the result
    is never before it.
    """
    least = min([wanted, *(one for one in others if one is not None)])
    return further(least, stands) or least
