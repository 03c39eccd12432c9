"""A place in one lane's stream, ordered, with a text form that round-trips.

DWS: a sync point is the commit sequence number of the writing transaction, unique and ordered per cluster
in common GTM mode; the event sequence orders the events inside it.
"""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = -1
"""The sequence of a position at whose point no event has been applied."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Everything up to event `sequence` of sync point `point` has been applied; sequence -1 means none at it."""

    point: int
    sequence: int = NOTHING

    @property
    def text(self) -> str:
        """The form that is stored in the progress row: `point/sequence`.

        >>> Position(10516, 2).text
        '10516/2'
        """
        return f"{self.point}/{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read the stored form; raises ValueError for anything else, so that a damaged row is never guessed at.

        >>> Position.parse("10516/-1")
        Position(point=10516, sequence=-1)
        """
        point, slash, sequence = text.partition("/")
        if not slash:
            raise ValueError(f"not a position: {text!r}")
        position = cls(int(point), int(sequence))
        if position.text != text or position.point < 0 or position.sequence < NOTHING:
            raise ValueError(f"not a position: {text!r}")
        return position
