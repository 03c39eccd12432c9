"""What one task reads: a range of one DN's changes, or a chunk of the table. Values that travel to a worker.

They carry references to secrets, never secrets.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from slotkeeper.core.dataframe.reader.schema import Layout
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.type_name import Condition
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
