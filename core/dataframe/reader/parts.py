"""The offset of a query, and the part that a task reads: a range of a DN's changes, or a chunk of the table.

Parts are sent to workers with references to secrets, not with secrets. Spark stores an offset in its checkpoint.
"""

from __future__ import annotations

import hashlib
import json
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
    """The changes in (after, up_to] on one DN; `epoch` is the query's epoch, which its session names contain.

    `feed` is the address of the query's shared reader; it reaches only workers on the driver's host.
    """

    job: JobSpec
    epoch: int
    layout: Layout
    shard: Shard
    after: Position
    up_to: Position
    only: tuple[Condition, ...] = ()
    feed: str = ""


@dataclass(frozen=True)
class ChunkPart(InputPartition):
    """The rows of a chunk at the time of reading."""

    job: JobSpec
    epoch: int
    layout: Layout
    chunk: Chunk
    only: tuple[Condition, ...] = ()


Part = RangePart | ChunkPart


VERSION = 1


@dataclass(frozen=True)
class Offset:
    """A position per DN, and the table's fingerprint. Equal offsets have equal JSON text, which Spark compares.

    `copied` is False before the batch that contains the table's existing rows; `positions` is by DN. `origin` is the
    digest of the query's first offset: its first batch is planned with it, and can be read again only from there.
    """

    fingerprint: str
    positions: Mapping[str, Position]
    copied: bool = True
    origin: str = ""

    @classmethod
    def first(cls, fingerprint: str, positions: Mapping[str, Position], copied: bool) -> Offset:
        """Return the first offset of a query."""
        made = cls(fingerprint, positions, copied)
        return replace(made, origin=hashlib.sha256(json.dumps(made.json).encode()).hexdigest()[:16])

    def at(self, positions: Mapping[str, Position]) -> Offset:
        """Return the offset of the same table at other positions."""
        return replace(self, positions=positions, copied=True)

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON value for Spark's checkpoint."""
        places = {name: self.positions[name].text for name in sorted(self.positions)}
        own = {"version": VERSION, "fingerprint": self.fingerprint, "copied": self.copied, "origin": self.origin}
        return {**own, "positions": places}

    @classmethod
    def read(cls, kept: Mapping[str, Any], positions: Positions) -> Offset:
        """Parse an offset from a checkpoint; raises Refused for the offset of another source."""
        try:
            if kept["version"] != VERSION:
                raise ValueError(f"version {kept['version']}")
            places = {str(name): positions.position(text) for name, text in kept["positions"].items()}
            return cls(str(kept["fingerprint"]), places, bool(kept["copied"]), str(kept.get("origin", "")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"cannot parse the checkpoint's offset ({error})"
            raise Refused(what, "start with a new checkpoint", where="spark") from None
