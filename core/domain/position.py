"""A place in one lane's stream, as the core sees it: a text, an order, and nothing else. Each dialect has its own."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum

from slotkeeper.core.errors import Trouble, TroubleName


class Order(Enum):
    """How one position lies to another; UNKNOWN where it cannot be told."""

    BEFORE = -1
    SAME = 0
    AFTER = 1
    UNKNOWN = None


class Position:
    """Everything before it has been applied; which events that are is the dialect's to say.

    The order is partial: two positions that name a place less closely than each other are neither before nor after,
    and are not equal by `==` for that. Comparing two of which nothing can be told raises Trouble (POSITIONS DIFFER).
    A position may carry what its dialect needs to confirm it; that is no part of its text or its order. One that a
    server calls its newest may name its place less closely than those of a lane do.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The form that is stored; the dialect's `Positions` reads it back as an equal position."""
        raise NotImplementedError

    @property
    @abstractmethod
    def shown(self) -> str:
        """The form for people, at most about ten characters."""
        raise NotImplementedError

    @property
    @abstractmethod
    def pair(self) -> tuple[int, int]:
        """The two numbers with which a batch orders the last event before it; the first grows along the lane."""
        raise NotImplementedError

    @property
    @abstractmethod
    def from_here(self) -> Position:
        """The position from which what lies at this place is read, or read again."""
        raise NotImplementedError

    @property
    @abstractmethod
    def place(self) -> Position:
        """The same place, named no more closely than a server names it."""
        raise NotImplementedError

    @property
    def committed_at(self) -> float | None:
        """When what lies just before it was committed, by the source's clock, in seconds since 1970.

        None where it does not tell; no part of its text.
        """
        return None

    @property
    def plain(self) -> str:
        """In full for people: its text, without what only the core needs."""
        return self.text

    @property
    def gtids_text(self) -> str:
        """The transactions that are done there, as the server names them; "" where positions of its kind name none."""
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
        """How this lies to another position of the same lane."""
        raise NotImplementedError

    @abstractmethod
    def ahead_of(self, other: Position) -> int | None:
        """How far this lies beyond another, in the dialect's unit, at least 0; None where that cannot be told."""
        raise NotImplementedError

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
        what = f"which comes first of {one.text} and {other.text} cannot be told: they are of two lives of the binlog"
        raise Trouble(what, "verify the target, then take a new snapshot", name=TroubleName.POSITIONS_DIFFER)
    return found


def further(one: Position | None, other: Position | None) -> Position | None:
    """The later of two positions; the one that there is, where only one is known."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
