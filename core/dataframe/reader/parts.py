"""Where a query is, and what one task reads: an offset, a range of one DN's changes, a chunk of the table.

Parts travel to workers and carry references to secrets, never secrets. Spark keeps an offset in its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.type_name import Condition
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Chunk


@dataclass(frozen=True)
class RangePart(InputPartition):
    """The changes of (after, up_to] on one DN; `epoch` is that of the query, under which its sessions are named."""

    job: JobSpec
    epoch: int
    layout: Layout
    shard: Shard
    after: Position
    up_to: Position
    only: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class ChunkPart(InputPartition):
    """The rows of a chunk as they are when it is read."""

    job: JobSpec
    epoch: int
    layout: Layout
    chunk: Chunk
    only: tuple[Condition, ...] = ()


Part = RangePart | ChunkPart


VERSION = 1


@dataclass(frozen=True)
class Offset:
    """A position per DN, and whose table that is; Spark compares offsets as JSON text, so one place has one text.

    `copied` is False before the batch that holds the table's rows as they were; `positions` is by DN.
    """

    fingerprint: str
    positions: Mapping[str, Position]
    copied: bool = True

    def at(self, positions: Mapping[str, Position]) -> Offset:
        """The same table elsewhere."""
        return replace(self, positions=positions, copied=True)

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON text for Spark's checkpoint."""
        places = {name: self.positions[name].text for name in sorted(self.positions)}
        return {"version": VERSION, "fingerprint": self.fingerprint, "copied": self.copied, "positions": places}

    @classmethod
    def read(cls, kept: Mapping[str, Any], positions: Positions) -> Offset:
        """Parse an offset of a checkpoint; raises Refused for another source's offset."""
        try:
            if kept["version"] != VERSION:
                raise ValueError(f"version {kept['version']}")
            places = {str(name): positions.position(text) for name, text in kept["positions"].items()}
            return cls(str(kept["fingerprint"]), places, bool(kept["copied"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"cannot parse the checkpoint's offset ({error})"
            raise Refused(what, "start with a new checkpoint", where="spark") from None
