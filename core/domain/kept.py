"""What a server keeps for a slot on one DN, as the core sees it: a text and what can be asked of it.

A server may keep one position for a slot (`OnePlace`), two (DWS), or none (`NothingKept`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from slotkeeper.core.domain.position import Position
from slotkeeper.core.errors import Defect


class Kept:
    """What is kept for a slot on one DN. Two are equal where a server would show the same for them."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """The form that is stored; the dialect's `Positions` reads it back as an equal value."""
        raise NotImplementedError

    @property
    @abstractmethod
    def shown(self) -> str:
        """The form for people: what the server shows."""
        raise NotImplementedError

    @property
    @abstractmethod
    def marks(self) -> tuple[str, ...]:
        """The values for the columns of the dialect, "" where there is none."""
        raise NotImplementedError

    @property
    @abstractmethod
    def missing(self) -> bool:
        """Whether something that must be kept for a slot in use is not: then changes may be gone."""
        raise NotImplementedError

    @property
    @abstractmethod
    def furthest(self) -> Position | None:
        """The furthest place that was ever confirmed; None where nothing was."""
        raise NotImplementedError

    @property
    @abstractmethod
    def oldest(self) -> Position | None:
        """The place from which on the server holds its binlog back; None where it does not."""
        raise NotImplementedError

    @property
    def shared(self) -> bool:
        """Whether it is one for the stream of all channels: then lanes of other channels move it, too, on and on."""
        return False

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether it is all at one place, as behind a confirmation that was not broken off."""
        raise NotImplementedError

    @property
    @abstractmethod
    def blank(self) -> Kept:
        """What is kept for a slot that nothing was ever confirmed for."""
        raise NotImplementedError

    @property
    @abstractmethod
    def known(self) -> Kept:
        """The same as a progress row remembers it: what is absent is as if never confirmed."""
        raise NotImplementedError

    @abstractmethod
    def at(self, position: Position) -> Kept:
        """What is kept once a position is confirmed behind this."""
        raise NotImplementedError

    @abstractmethod
    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """What may be seen while it is not known how much of a confirmation of `to` has landed, `to` among it."""
        raise NotImplementedError

    @abstractmethod
    def behind(self, other: Kept) -> bool:
        """Whether a part of this lies before the same part of another."""
        raise NotImplementedError

    @abstractmethod
    def found(self, there: Kept) -> Kept:
        """What is remembered here, moved to what a server shows now."""
        raise NotImplementedError

    @abstractmethod
    def no_newer(self, others: Iterable[Kept]) -> Kept:
        """The same, with what is handed back beside it no newer than that of `others`."""
        raise NotImplementedError

    @property
    @abstractmethod
    def again(self) -> Position:
        """The position that confirms once more what is kept, for nothing but its time."""
        raise NotImplementedError


class OnePlace(Kept):
    """What is kept is one place at most, which cannot be half moved; no binlog is held back for it."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """As it is stored."""
        return self.text

    @property
    def oldest(self) -> Position | None:
        """None: nothing is held back."""
        return None

    @property
    def settled(self) -> bool:
        """Always."""
        return True

    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """The old one or the new one."""
        return frozenset((self, to))

    def no_newer(self, others: Iterable[Kept]) -> Self:
        """The same: nothing is handed back beside it."""
        return self


@dataclass(frozen=True, slots=True)
class NothingKept(OnePlace):
    """What a server keeps that keeps nothing for a job: its positions are in our progress rows alone."""

    @property
    def text(self) -> str:
        """The word for it."""
        return "nothing"

    @property
    def marks(self) -> tuple[str, ...]:
        """No columns."""
        return ()

    @property
    def missing(self) -> bool:
        """Nothing has to be there."""
        return False

    @property
    def furthest(self) -> Position | None:
        """Nothing is confirmed."""
        return None

    @property
    def blank(self) -> NothingKept:
        """The same."""
        return self

    @property
    def known(self) -> NothingKept:
        """The same."""
        return self

    def at(self, position: Position) -> NothingKept:
        """The same."""
        return self

    def behind(self, other: Kept) -> bool:
        """Never."""
        return False

    def found(self, there: Kept) -> NothingKept:
        """The same."""
        return self

    @property
    def again(self) -> Position:
        """Raises Defect: nothing has to be kept alive."""
        raise Defect("nothing is kept at the server, so nothing is confirmed once more")


NOTHING_KEPT = NothingKept()


def nothing_of(text: str) -> NothingKept:
    """What is stored for nothing; raises ValueError for anything else."""
    if text != NOTHING_KEPT.text:
        raise ValueError(f"nothing is kept at the server, not {text!r}")
    return NOTHING_KEPT


class Positions(Protocol):
    """A dialect's texts; reading raises ValueError for a damaged one, so that nothing is guessed at."""

    unit: str
    """What `Position.ahead_of` counts, in the plural: "commits"."""

    name: str
    """What a place is called: "sync point"."""

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
