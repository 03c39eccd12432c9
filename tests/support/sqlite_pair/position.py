"""Positions of a SQLite binlog: (life, file, offset, transaction), always at a transaction's end; nothing is kept.

Two lives of a binlog have nothing in common: which of two such positions comes first cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from slotkeeper.core.domain.position import Kept, OnePlace, Order, Position, nothing_of

BEGIN = 4
"""The offset at which the first event of a file lies."""
HIGHEST = 1 << 32
"""Offsets stay below."""


@dataclass(frozen=True, slots=True)
class SqlitePosition(Position):
    """Every event before `offset` of `file` has been applied; `tx` is the last transaction among them, 0 for none."""

    life: str
    file: int
    offset: int
    tx: int
    row: int = field(default=0, compare=False)
    """Which row of the transaction that ends there, for people who look at it; 0 for the transaction."""

    @property
    def text(self) -> str:
        """`life:file:offset:tx`.

        >>> SqlitePosition("a", 3, 104, 17).text
        'a:3:104:17'
        """
        return f"{self.life}:{self.file}:{self.offset}:{self.tx}"

    @property
    def shown(self) -> str:
        """The text: what is shown can be typed."""
        return self.text

    @property
    def pair(self) -> tuple[int, int]:
        """File and offset in one number, and 0 or the row: what is read has offsets of its own below."""
        return pair_of(self.file, self.offset, self.row)

    @property
    def from_here(self) -> SqlitePosition:
        """Itself: an offset names the next event."""
        return self

    @property
    def place(self) -> SqlitePosition:
        """Itself."""
        return self

    def order(self, other: Position) -> Order:
        """By file, then by offset, as numbers; unknown across lives.

        >>> SqlitePosition("a", 9, 4, 7) < SqlitePosition("a", 10, 4, 7)
        True
        >>> SqlitePosition("a", 9, 4, 7).order(SqlitePosition("b", 9, 4, 7))
        <Order.UNKNOWN: None>
        """
        there = ours(other)
        if self.life != there.life:
            return Order.UNKNOWN
        one, two = (self.file, self.offset), (there.file, there.offset)
        return Order.SAME if one == two else Order.BEFORE if one < two else Order.AFTER

    def ahead_of(self, other: Position) -> int | None:
        """Transactions between the two."""
        there = ours(other)
        return max(0, self.tx - there.tx) if self.life == there.life else None


@dataclass(frozen=True, slots=True)
class OneKept(OnePlace):
    """What a server keeps that keeps one position for the stream of all tables; None where there is no slot."""

    position: SqlitePosition | None

    @property
    def text(self) -> str:
        return f"kept {self.position.text}" if self.position else "kept -"

    @property
    def shown(self) -> str:
        return self.position.shown if self.position else "none"

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.position.shown if self.position else "",)

    @property
    def missing(self) -> bool:
        return self.position is None

    @property
    def shared(self) -> bool:
        return True

    @property
    def furthest(self) -> SqlitePosition | None:
        return self.position

    @property
    def oldest(self) -> SqlitePosition | None:
        return self.position

    @property
    def blank(self) -> OneKept:
        return OneKept(None)

    @property
    def known(self) -> OneKept:
        return self

    def at(self, position: Position) -> OneKept:
        return OneKept(ours(position))

    def behind(self, other: Kept) -> bool:
        return other.furthest is not None and (self.position is None or self.position < other.furthest)

    def found(self, there: Kept) -> Kept:
        return there

    @property
    def again(self) -> Position:
        assert self.position is not None
        return self.position


class SqlitePositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "transactions"
    name = "position"
    part = "file"
    marks: tuple[str, ...] = ()

    def position(self, text: str) -> SqlitePosition:
        """Read `life:file:offset:tx`; raises ValueError for anything else.

        >>> POSITIONS.position("a:3:104:17")
        SqlitePosition(life='a', file=3, offset=104, tx=17, row=0)
        """
        parts = text.split(":")
        numbers = [int(part) for part in parts[1:] if part.isascii() and part.isdigit()]
        if len(parts) != 4 or len(numbers) != 3 or not parts[0]:
            raise ValueError(f"not life:file:offset:transaction: {text!r}")
        position = SqlitePosition(parts[0], *numbers)
        if position.text != text or position.file < 1 or not BEGIN <= position.offset < HIGHEST:
            raise ValueError(f"not life:file:offset:transaction: {text!r}")
        return position

    def place(self, text: str) -> SqlitePosition:
        """The same: every position of this dialect names a transaction's end exactly."""
        return self.position(text)

    def kept(self, text: str) -> Kept:
        """Read what is stored for nothing; raises ValueError for anything else."""
        return nothing_of(text)


POSITIONS = SqlitePositions()


class KeptPositions(SqlitePositions):
    """The same where one position is kept."""

    marks: tuple[str, ...] = ("confirmed",)

    def kept(self, text: str) -> OneKept:
        """Read what is stored for the one position; raises ValueError for anything else."""
        word, _, place = text.partition(" ")
        if word != "kept" or not place:
            raise ValueError(f"not what is kept here: {text!r}")
        return OneKept(None if place == "-" else self.position(place))


KEPT_POSITIONS = KeptPositions()


def pair_of(file: int, offset: int, number: int = 0) -> tuple[int, int]:
    """The two numbers that order an event: where it lies, and which of its transaction it is."""
    return file << 32 | offset, number


def ours(position: Position) -> SqlitePosition:
    """A position that came from here; whatever else it were, its first use would fail."""
    return cast("SqlitePosition", position)
