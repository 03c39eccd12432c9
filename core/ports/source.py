"""What is asked of a source: reading one binlog table, and writing its slot's points.

All calls block; each raises an error of `core.errors` and nothing else. Next door: `core.sources.dws` implements these.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from core.domain.position import Position
from core.domain.sight import Sight
from core.domain.slot import Shard, SlotStatus, TableIdentity


@dataclass(frozen=True, slots=True)
class Waiter:
    """A transaction that was open when the slot was made: `started` identifies it together with `pid`.

    A prepared one has no session: `pid` is 0, `started` its name and `application` its database.
    """

    pid: int
    started: str
    user: str
    application: str
    hidden: bool = False

    @property
    def text(self) -> str:
        """Which it is, in words."""
        if not self.pid:
            return f"prepared transaction {self.started} ({self.user}, database {self.application})"
        return f"pid {self.pid} ({self.user}, {self.application or 'no name'})"


@dataclass(frozen=True, slots=True)
class Chunk:
    """An interval of keys, lo < key <= hi in the source's own order; values are the source's text forms.

    `lo` is empty for the first chunk: everything up to `hi`.
    """

    number: int
    lo: tuple[str, ...]
    hi: tuple[str, ...]


class Source(Protocol):
    """Reads one binlog table of one source; one session, not shared between threads."""

    def admit(self) -> None:
        """Refuse by name a server or a table that cannot be followed; no slot is touched."""

    def identify(self) -> TableIdentity:
        """Which table this is now; raises Refused where it does not exist or has no usable key."""

    def nodes(self) -> list[Shard]:
        """The DNs that hold the table, without touching any slot."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Both points, latest and xmin of one DN or of all; creates a slot that does not exist (DWS)."""

    def has_changes(self, shard: Shard, after: Position, up_to: int) -> bool:
        """Whether the DN holds one row beyond `after` and at most `up_to`."""

    def copy_changes(self, shard: Shard, after: Position, up_to: int, out: BinaryIO) -> int:
        """Write the rows of (after, up_to] as COPY text: point, sequence, type, user columns; returns the count."""

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """The xmin that belongs to the record at exactly `point`, or None."""

    def sight(self) -> Sight:
        """What our login can see of other sessions."""

    def open_transactions(self, across: bool = False) -> list[Waiter]:
        """Other sessions inside a transaction now, and prepared transactions; `across` all coordinators."""

    def snapshot_xmin(self) -> int:
        """The oldest transaction number that is still open by the source's own snapshot."""

    def transaction_id(self) -> int:
        """The source's transaction counter now."""

    def plan_chunks(self, rows: int) -> list[Chunk]:
        """Cut the table into chunks of about `rows` rows in one pass."""

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        """Write the rows of one chunk as COPY text: user columns; returns the count."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class SlotAdmin(Protocol):
    """Writes slot points; only the driver and slot commands hold one."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """As `Source.status`."""

    def has_changes(self, shard: Shard, after: Position, up_to: int) -> bool:
        """As `Source.has_changes`."""

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """As `Source.xmin_at`."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN; returns the number of nodes registered (DWS)."""

    def pinned(self) -> AbstractContextManager[None]:
        """Hold one open session for the block: a lost one is not opened again inside it."""

    cleared_for: int
    """The sink connection (its `generation`) up to which other registrars of the lane are known to be gone."""

    def end_rivals(self) -> bool:
        """End other sessions that register the same lane; False where it is not certain."""

    def end_sessions(self, pattern: str, own: str) -> bool:
        """End our own sessions of earlier epochs; False where it cannot be known that they are gone."""

    def close(self) -> None:
        """End the session; safe to call twice."""
