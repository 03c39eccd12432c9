"""What the engine asks of the outside, as protocols: it never sees a dialect or a sink by name.

Next door: `core.sources.dws` and `core.sinks.postgres` implement these; `core.wiring.worker` puts them together.
All calls block; each raises an error of `core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from core.domain.position import Position
from core.domain.progress import LaneKey, ProgressRow, Registered
from core.domain.sight import Sight
from core.domain.slot import Look, Shard, TableIdentity


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

    def look(self, shard: Shard | None) -> list[Look]:
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

    def look(self, shard: Shard | None) -> list[Look]:
        """As `Source.look`."""

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


@dataclass(frozen=True, slots=True)
class Top:
    """The highest point staged, and the highest sequence staged at the range's last point; None where there is none."""

    point: int | None
    sequence: int | None


class StepSink(Protocol):
    """One sink transaction after another for a worker: stage, then commit under the fence."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def stage(self, reader: BinaryIO) -> int:
        """Begin a transaction and fill the staging table from COPY text; returns the rows staged."""

    def stage_carefully(self, reader: BinaryIO) -> int:
        """As `stage`; `commit` then holds in quarantine what the target refuses, and applies the rest."""

    def top(self, up_to: int) -> Top:
        """What the staging table holds at its end."""

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Fenced progress row first, then the net effect, then COMMIT; False where the fence was not hit."""

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Take the planned chunk and fill the target in one open transaction; None where it is not ours to take."""

    def copy_chunk_carefully(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """As `copy_chunk`; what the target refuses is held in quarantine."""

    def finish_chunk(self) -> None:
        """Commit the chunk that `copy_chunk` left open."""

    def abandon(self) -> None:
        """Roll back whatever is open."""

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Who runs a job, as the progress rows name it."""

    job: str
    run: str
    host: str
    os_user: str
    pid: int


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """How far a copy is: chunks done, chunks in all, rows copied."""

    done: int
    total: int
    rows: int


class Lock(Protocol):
    """A progress row held FOR UPDATE with its epoch checked, while the source is told."""

    @property
    def row(self) -> ProgressRow:
        """The row as locked."""

    @property
    def record(self) -> Callable[[Registered], None]:
        """Writes what was registered into the locked row."""


class Rows(Protocol):
    """What a registration and an empty step need of the progress rows."""

    def registration(self, key: LaneKey, epoch: int) -> AbstractContextManager[Lock]:
        """Lock the row for a registration; raises Superseded where the epoch is not ours."""

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        """Move a position over a range without rows; False where the fence was not hit."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def rows(self) -> list[ProgressRow]:
        """All lanes' rows as they are committed now."""

    def held(self) -> int:
        """How many rows are held in quarantine; only where the job holds any by its configuration."""

    @property
    def generation(self) -> int:
        """How many connections this session has had: a new one may have met a sink that fell back."""

    def close(self) -> None:
        """End the session; safe to call twice."""
