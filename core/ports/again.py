"""Ports of a table that is copied again while its stream continues: its source, its sink, and the users' requests.

A chunk is read after the lane's position and written by the lane's next step, before the changes that follow the
position (ADR 98). All calls block, and raise only errors of `slotkeeper.core.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.ports.source import Chunk

CHUNK_ROWS = 2_000
"""Rows of a chunk: the lane's changes wait while a chunk is read and written."""

OLDEST = ("0", "0", "U")
"""Point, sequence and type of a chunk's row that is staged as a change: every change has a point above 0. Quarantine
entries, which are older than the chunk, take effect with the point -1."""


@dataclass(frozen=True, slots=True)
class AgainStep:
    """A step with a chunk: the values of `StepSink.commit`, and the number of the chunk's rows.

    `rows` is the number of changes after the chunk. `written` is the number of staged rows and deletes of the chunk:
    they count as repeats, because the target check explains a replaced row by a change or a repeat.
    """

    key: LaneKey
    epoch: int
    after: Position
    new: Position
    rows: int
    chunk: Chunk
    copied: int
    written: int


@runtime_checkable
class CopiedAgain(Protocol):
    """A source whose tables can be copied again while they stream (ADR 98)."""

    def plan_again(self, rows: int) -> list[Chunk]:
        """Return chunks of about `rows` rows that contain all possible keys; the last one has no upper bound.

        Raises Refused if source and target order the key differently, or the server does not show what is visible.
        """

    def copy_chunk_after(self, chunk: Chunk, after: Position, out: BinaryIO) -> int:
        """Write a chunk like `copy_chunk`; its rows contain all changes up to `after`.

        Raises Busy if that is not possible yet.
        """


@runtime_checkable
class AgainSink(Protocol):
    """A sink that writes a chunk together with the changes that follow it, in one transaction under the fence (ADR 98).

    The rows of a chunk are staged as changes that precede all others: as `OLDEST`, then the row's columns.
    """

    def next_chunk(self, key: LaneKey, epoch: int) -> Chunk | None:
        """Return the first planned chunk; None if there is none of this epoch."""

    def stage_with_chunk(self, reader: BinaryIO) -> int:
        """Start a transaction and load a chunk and changes into the staging table; return the number of rows."""

    def stage_gone(self, chunk: Chunk) -> int:
        """Stage a delete for each target row in the chunk's range that the chunk does not contain; return how many."""

    def commit_chunk(self, step: AgainStep) -> bool | None:
        """Update the fenced progress row and the chunk's row, apply the net effect, COMMIT.

        Return False if the fence did not match, None if the chunk is no longer planned: then nothing is written.
        """


class AgainRequests(Protocol):
    """The tables of one job that users want to be copied again; at most one request of a table at a time."""

    def tables(self) -> Collection[str]:
        """Return the requested source tables; called in every turn of a loop, so it must be cheap."""

    def is_planned(self, table: str) -> bool:
        """Return whether `planned` was called for the table's request."""

    def planned(self, table: str) -> None:
        """Record that the chunks of a request are stored in the sink."""

    def end(self, table: str) -> None:
        """Remove a request that was carried out or refused."""

    @property
    def tell(self) -> Callable[[str, str], None]:
        """Reports a table's progress as text; "" once it is complete."""
