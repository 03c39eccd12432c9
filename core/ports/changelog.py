"""What is asked of a source by a reader that hands rows on to somebody else's program, as a changelog or as a table.

It fixes the end of a range before anybody reads it, and wants images as the server gives them. Not every kind of source
has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.type_name import Condition, FieldType
from slotkeeper.core.ports.kinds import SourceSession
from slotkeeper.core.ports.source import Chunk, Source


class Changelog(Source, Protocol):
    """One table of one source; one session, not shared between threads."""

    def field_type(self, column: Column) -> FieldType:
        """What a column's values are read as."""

    def exists(self) -> bool | None:
        """Whether the slot is there, without making it; None where the server cannot list slots."""

    def end_of(self, shard: Shard, after: Position, up_to: Position, status: SlotStatus) -> Position:
        """How far of (after, up_to] is there for certain, at this moment: a range to there reads the same rows again.

        `status` was read before. At its newest place this is the last event that shows, as more of it may still come.
        """

    def copy_images(
        self,
        shard: Shard,
        after: Position,
        up_to: Position,
        columns: Sequence[Column],
        only: Sequence[Condition],
        out: BinaryIO,
    ) -> int:
        """Write the rows of (after, up_to] as COPY text: the two numbers of `Position.pair`, type, these columns.

        `up_to` came from `end_of`, or from `next_range` of a range whose end did. Returns how many.
        """

    def copy_rows(self, chunk: Chunk, columns: Sequence[Column], only: Sequence[Condition], out: BinaryIO) -> int:
        """Write these columns of a chunk's rows as COPY text, of those alone that meet the conditions; how many."""


@runtime_checkable
class ChangelogSession(SourceSession, Protocol):
    """A session of a kind of source that has changelogs."""

    def changelog(self, job: JobSpec) -> Changelog:
        """The table of a job's channel."""
