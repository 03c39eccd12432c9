"""What is asked of the progress rows: reading and moving them, the lock of a registration, the job's lease and chunks.

Next door: `core.sinks.postgres.progress.store` implements these beside the target's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from core.domain.position import Position
from core.domain.progress import LaneKey, ProgressRow, Registered
from core.domain.turn import Turn
from core.ports.source import Chunk


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


class Store(Rows, Protocol):
    """The progress rows and chunks of the job, for its driver."""

    def create_tables(self) -> None: ...
    def take_lease(self) -> bool: ...
    def take_target(self, target: str) -> bool: ...
    def leased(self, asks: bool = True) -> bool: ...
    def writer(self, target: str) -> str: ...
    def holder(self) -> str: ...
    def open_reset(self) -> str: ...
    def rows(self) -> list[ProgressRow]: ...
    def insert(self, rows: list[ProgressRow]) -> None: ...
    def replace_creating(self, rows: list[ProgressRow], epoch: int) -> None: ...
    def forget_creating(self, epoch: int) -> None: ...
    def known_dns(self) -> int | None: ...
    def adopt(self, renamed: Mapping[str, str], come: list[ProgressRow], epoch: int, dns: int) -> None: ...
    def raise_epoch(self, tables: Sequence[str]) -> int: ...
    def end_others(self) -> None: ...
    def set_state(self, turn: Turn, noted_end: dict[str, int] | None = None) -> None: ...
    def way_of_copy(self) -> str: ...
    def cancel(self) -> None: ...
    def sever(self) -> None: ...
    def chunks_left(self) -> list[Chunk]: ...
    def chunk_counts(self) -> ChunkCounts: ...
    def registered_age(self) -> float | None: ...
