"""What a Hologres keeps for a slot on one shard: one LSN, that of the last record that was confirmed.

Nothing is held back for it: records go by binlog.ttl, confirmed or not (Hologres, "Subscribe to Hologres binlogs"), so
a slot that lies behind costs nothing and loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from slotkeeper.core.domain.position import Kept, OnePlace, Position
from slotkeeper.core.sources.hologres.position import HIGHEST, HoloPosition, HoloPositions, ours

MARK = "confirmed"


@dataclass(frozen=True, slots=True)
class SlotKept(OnePlace):
    """The LSN that is confirmed; 0 where nothing was yet, None where the table has no such slot."""

    lsn: int | None

    @property
    def text(self) -> str:
        """The LSN, "-" where there is no slot.

        >>> SlotKept(10516).text, SlotKept(None).text
        ('10516', '-')
        """
        return "-" if self.lsn is None else str(self.lsn)

    @property
    def marks(self) -> tuple[str, ...]:
        """The LSN."""
        return ("" if self.lsn is None else str(self.lsn),)

    @property
    def missing(self) -> bool:
        """Whether there is no slot; one that nothing was confirmed for is there: a shard may have no record yet."""
        return self.lsn is None

    @property
    def furthest(self) -> HoloPosition | None:
        """The place that is confirmed; None where none is."""
        return HoloPosition(self.lsn) if self.lsn else None

    @property
    def blank(self) -> SlotKept:
        """A slot that nothing was confirmed for."""
        return SlotKept(0)

    @property
    def known(self) -> SlotKept:
        """A slot that is not there as one that nothing was confirmed for."""
        return SlotKept(self.lsn or 0)

    def at(self, position: Position) -> SlotKept:
        """At the position's LSN; the same at a place that names none, of which a server cannot be told."""
        return SlotKept(ours(position).lsn or self.known.lsn)

    def behind(self, other: Kept) -> bool:
        """Whether less is confirmed here."""
        return (self.lsn or 0) < (kept_of(other).lsn or 0)

    def found(self, there: Kept) -> SlotKept:
        """What is there."""
        return kept_of(there).known

    @property
    def again(self) -> HoloPosition:
        """The place that is confirmed."""
        return HoloPosition(self.lsn or 0)


class SlotPositions(HoloPositions):
    """The texts of positions as anywhere at a Hologres, and of what a slot keeps."""

    marks: tuple[str, ...] = (MARK,)

    def kept(self, text: str) -> SlotKept:
        """Read an LSN, or "-"; raises ValueError for anything else."""
        found = SlotKept(None if text == "-" else int(text) if text.isascii() and text.isdigit() else -1)
        if found.text != text or (found.lsn or 0) > HIGHEST:
            raise ValueError(f"not the LSN of a slot: {text!r}")
        return found


SLOT_POSITIONS = SlotPositions()


def kept_of(kept: Kept) -> SlotKept:
    """What is kept, as it came from here."""
    return cast("SlotKept", kept)
