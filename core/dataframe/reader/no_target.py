"""What a start asks of a target, answered for a query that has none: it writes wherever its program says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Defect, Refused
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.wiring.driver import WiredSessions


class NoTarget:
    """Implements `slotkeeper.core.ports.driver.Target`: it takes everything, and nothing is ever copied into it."""

    def admit(self, identity: TableIdentity) -> bool:
        return False

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        return False

    def takes_copy(self, identity: TableIdentity) -> bool:
        return True

    def count_rows(self, identity: TableIdentity) -> RowCount:
        return RowCount(None)

    def copying(self, on_existing: str = "") -> str:
        return "spark"

    def half_done(self, way: str) -> Refused | None:
        return None

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        raise Defect("a query copies by its own batches")

    def reshape(self, identity: TableIdentity, old: Sequence[Column] | None) -> Reshape:
        return Reshape()

    def alterable(self, shape: Reshape) -> None: ...

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        return ()

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        raise Defect("a query copies by its own batches")


class TargetlessSessions(WiredSessions):
    """A query's sessions: those of a job, without a target."""

    def target(self) -> NoTarget:
        """None there is."""
        return NoTarget()

    def targets(self) -> None:
        """None is watched."""
        return
