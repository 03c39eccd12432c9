"""Positions in a lane's stream, and the positions that a server stores for a slot on one DN. Pure.

Each dialect defines its own positions, which have a text form and an order. A server stores one position per slot
(`OnePlace`), two (DWS), or none (`NothingKept`); `confirmable` is for servers that store one position for the stream of
all channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, Self

from slotkeeper.core.errors import Defect, Trouble, TroubleName

ANOTHER_HISTORY = (
    "Find out whether the source was rebuilt or failed over, and which server is correct; then take a new snapshot"
)
"""The safe action if the order of two positions is unknown."""


class Order(Enum):
    """The order of two positions; UNKNOWN if their order is not defined."""

    BEFORE = -1
    SAME = 0
    AFTER = 1
    UNKNOWN = None


class Position(ABC):
    """A point in a lane's stream up to which all events have been applied; the dialect defines which events precede it.

    The order is partial: if two positions differ in precision, it is possible that neither is before the other although
    they are not equal (`==`). Comparing two positions without a defined order raises Trouble (POSITIONS DIFFER). A
    position can contain data that its dialect needs to confirm it; this data is not part of the position's text or
    order. The newest position reported by a server may be less precise than a lane's position.
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
        """Two numbers that define the order of events within a batch; the first increases along the lane.

        They belong to the last event before the position.
        """

    @property
    @abstractmethod
    def from_here(self) -> Position:
        """The position at which reading has to start so that the events at this position are read (again)."""

    @property
    @abstractmethod
    def place(self) -> Position:
        """The same position, reduced to the precision of positions reported by a server if necessary."""

    @property
    def committed_at(self) -> float | None:
        """The commit time of the last event before the position, by the source's clock, in seconds since 1970.

        None if the position does not contain it; not part of its text.
        """
        return None

    @property
    def plain(self) -> str:
        """The full displayed form: the text without data that is used only internally."""
        return self.text

    @property
    def gtids_text(self) -> str:
        """The GTIDs of the transactions applied at this position; "" if this kind of position has no GTIDs."""
        return ""

    @property
    def called(self) -> str:
        """The one-word term for this kind of position on screens."""
        return "point"

    @property
    def seen_at(self) -> float | None:
        """The time up to which all changes of the server have been applied, in seconds since 1970 by its clock.

        None if unknown. If the server deletes records by age, it retains later records for a TTL from this time on.
        """
        return None

    @abstractmethod
    def order(self, other: Position) -> Order:
        """Return the order of this and another position of the same lane."""

    @abstractmethod
    def ahead_of(self, other: Position) -> int | None:
        """Return the distance from another position to this one in the dialect's unit, at least 0; None if unknown."""

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
        raise Trouble(what, ANOTHER_HISTORY, name=TroubleName.POSITIONS_DIFFER)
    return found


def further(one: Position | None, other: Position | None) -> Position | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class Kept(ABC):
    """A slot's points on one DN. Two objects are equal if a server would show the same values for both."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The stored form; the dialect's `Positions` parses it to an equal value."""

    @property
    @abstractmethod
    def shown(self) -> str:
        """The displayed form, with the values that the server shows."""

    @property
    @abstractmethod
    def marks(self) -> tuple[str, ...]:
        """The values for the dialect's columns (`Positions.marks`), "" for a missing value."""

    @property
    @abstractmethod
    def missing(self) -> bool:
        """Whether a point is missing; if the slot was in use, changes may be lost."""

    @property
    @abstractmethod
    def furthest(self) -> Position | None: ...

    @property
    @abstractmethod
    def oldest(self) -> Position | None:
        """The position from which the server retains its binlog for the slot; None if it retains nothing for slots."""

    @property
    def shared(self) -> bool:
        """Whether this is the position of a stream shared by all channels, so that lanes of other channels move it."""
        return False

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether all points are at one position, as after a completed confirmation."""

    @property
    @abstractmethod
    def blank(self) -> Kept:
        """The value for a slot without any confirmed position."""

    @property
    @abstractmethod
    def known(self) -> Kept:
        """The value as stored in a progress row, where a missing point is stored as never confirmed."""

    @abstractmethod
    def at(self, position: Position) -> Kept:
        """Return the value after a later position has been confirmed."""

    def calls(self, table: str, slot: str, node: int) -> Sequence[str]:
        """Return the calls that register these points on one DN, for a plan; empty if the server stores none."""
        return ()

    @abstractmethod
    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """Return the values, including `to`, that a server may show while the confirmation of `to` is in progress."""

    @abstractmethod
    def behind(self, other: Kept) -> bool:
        """Return whether one of its points is before the corresponding point of another value."""

    @abstractmethod
    def found(self, there: Kept) -> Kept:
        """Return this stored value, updated with the points that a server shows now."""

    @abstractmethod
    def no_newer(self, others: Iterable[Kept]) -> Kept:
        """Limit the data that is confirmed with a position (DWS: xmin) to the oldest in `others`; return the result."""

    @property
    @abstractmethod
    def again(self) -> Position:
        """The position to confirm again in order to renew the time to live without moving the slot."""


class OnePlace(Kept):
    """At most one position per slot, which moves atomically; the server retains no binlog for the slot."""

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
    """The value for a server that stores no positions; only the progress rows then contain them."""

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
    """Parse the stored form of `NothingKept`; raises ValueError for any other string."""
    if text != NOTHING_KEPT.text:
        raise ValueError(f"the server stores no position, so {text!r} is not valid")
    return NOTHING_KEPT


class Positions(Protocol):
    """The parser for the text forms of a dialect's positions; parsing raises ValueError for a damaged string."""

    unit: str
    """The unit of `Position.ahead_of`, in the plural, such as "commits"."""

    name: str
    """The dialect's term for a position, such as "sync point"."""

    part: str
    """The term for the part of a table that a lane reads, such as "DN"; a table can have a single part."""

    marks: tuple[str, ...]
    """The names of the columns for `Kept.marks`, such as "live" and "durable"."""

    def position(self, text: str) -> Position:
        """Parse a lane's position; raises ValueError if the string is not precise enough."""

    def place(self, text: str) -> Position:
        """Parse a position as written by a lane, a server or a user."""

    def kept(self, text: str) -> Kept:
        """Parse a slot's points."""


def confirmable(wanted: Position, others: Iterable[Position | None], stands: Position | None) -> Position:
    """Return the position to confirm for a channel that requests `wanted`: the lowest position of all channels.

    `others` are the positions in the rows of the other channels. A position of None belongs to a channel that has not
    started; that channel will start at the newest position, after every position confirmed so far. `stands` is the
    currently confirmed position; the result is never before it.
    """
    least = min([wanted, *(one for one in others if one is not None)])
    return further(least, stands) or least
