"""The progress row of a lane, as plain values: the only record of a lane's position (design 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.position import Kept, Position


class LaneState(Enum):
    """The state of a lane, stored in its progress row."""

    CREATING = "creating"
    COPYING = "copying"
    CATCHING_UP = "catching up"
    RUNNING = "running"


class Activity(Enum):
    """The activity of a lane; the values are shown to users."""

    IDLE = "idle"
    DUE = "due"
    APPLYING = "applying"
    REGISTERING = "registering"
    WAITING = "waiting"
    STOPPED = "stopped"
    """The lane's table has stopped independently of its job."""


STREAMING = frozenset({LaneState.CATCHING_UP, LaneState.RUNNING})
"""The states in which a step can commit, because the copy, if any, has ended."""


@dataclass(frozen=True, slots=True, order=True)
class LaneKey:
    """The key of a progress row: a source table's slot on one DN; `shard` is the DN's name."""

    source: str
    source_table: str
    slot: str
    shard: str


QUERY_TARGET = "dataframe "
"""Prefix of the target in a query's rows, which do not contain a table's name."""
_LABEL = "label:"


@dataclass(frozen=True, slots=True)
class Decided:
    """A range that was decided but not settled, from the row's position to `end`, with its number of rows.

    `token` is the token that the sink returned when the range was prepared; empty if the sink stores nothing. If
    `label` is set, the range was planned with this label before it was sent, and `token` identifies the load that can
    be committed; it is empty if there is no such load (ADR 41).
    """

    end: Position
    token: str
    rows: int
    label: str = ""

    @property
    def text(self) -> str:
        """The label and the token, neither of which contains a blank, as one string.

        >>> from typing import Any
        >>> end: Any = None
        >>> Decided(end, "t1", 4).text, Decided(end, "", 4, "a_1").text, Decided(end, "77", 4, "a_1").text
        ('t1', 'label:a_1', 'label:a_1 77')
        """
        return f"{_LABEL}{self.label} {self.token}".rstrip() if self.label else self.token

    @classmethod
    def read(cls, end: Position, text: str, rows: int) -> Decided:
        """Parse a string written by `text`.

        >>> from typing import Any
        >>> end: Any = None
        >>> all(Decided.read(end, one, 4).text == one for one in ("", "t1", "label:a_1", "label:a_1 77"))
        True
        """
        if not text.startswith(_LABEL):
            return cls(end, text, rows)
        label, _, token = text.removeprefix(_LABEL).partition(" ")
        return cls(end, token, rows, label)


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """A lane's progress row; `position` is None until the copy's start is known, `changes` counts all events read.

    `noted_end` is the position that the lane must reach before CATCHING UP ends; `registered` is the last value that
    Slotkeeper registered in the source for the lane; `fingerprint` identifies the server, table and columns for which
    the row was created; `channel` is the hash of mapping, filter and key. `decided` is the next range for a sink that
    is separate from its store; `repeats` counts all rows that such a sink may have received twice.
    """

    key: LaneKey
    node_id: int
    target: str
    position: Position | None
    epoch: int
    changes: int
    state: LaneState
    noted_start: Position | None
    noted_end: Position | None
    channel: str
    fingerprint: str
    registered: Kept | None
    decided: Decided | None = None
    repeats: int = 0

    @property
    def of_query(self) -> bool:
        """Whether the row follows the checkpoint of a DataFrame query and therefore has no target."""
        return self.target.partition(".")[2].startswith(QUERY_TARGET)
