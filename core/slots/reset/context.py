"""What a reset asks of the outside, as protocols: the source's reach, the sink's rows and resets, the local files.

Next door: `core.services.reset` provides them; `plan.py`, `apply.py` and `resume.py` use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.clock import Clock
from core.domain.audit import Actor, AuditLine
from core.domain.position import Position
from core.domain.progress import LaneKey, ProgressRow
from core.domain.reset import Check, Count, Swap
from core.domain.reset_entry import Entry
from core.domain.slot import Shard, SlotStatus, TableIdentity
from core.domain.spec import JobSpec
from core.ports.progress import Lock
from core.slots.status.inspect import Point

Probe = Callable[[str], None]
"""Called at named points of a reset; does nothing in production, stops or kills it in tests."""


class Record(Protocol):
    """The first record of a DN at or after a point."""

    @property
    def latest(self) -> int | None: ...
    @property
    def point(self) -> int | None: ...
    @property
    def xmin(self) -> int | None: ...


class Retention(Protocol):
    """One session at the source, for one table and slot."""

    def identify(self) -> TableIdentity: ...
    def nodes(self) -> list[Shard]: ...
    def points(self) -> Sequence[Point] | None:
        """Every registered point of the table, of all its slots; None where the kernel cannot list them."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Both points; sent only for a slot that exists, because asking makes one (DWS)."""

    def records(self, point: int = 0, shard: Shard | None = None) -> Mapping[str, Record]:
        """The first record at or after a point by DN."""

    def since(self, at: str) -> dict[str, int | None]:
        """The smallest point of a record at or after a time by DN, as far as it lies below all points of other DNs;
        Refused where records carry no time."""

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """The changes beyond `low` and up to `high`, by kind."""

    def seconds(self) -> float:
        """The server's clock, in seconds since 1970."""

    def ttl(self) -> int | None:
        """The table's TTL in seconds."""

    def pinned(self) -> AbstractContextManager[None]: ...
    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int: ...
    def silence(self) -> bool:
        """End the job's other sessions at the source; False where it is not certain."""

    def close(self) -> None: ...


class Resets(Protocol):
    """The sink: progress rows of the slot, its lease, and the resets."""

    def rows(self) -> list[ProgressRow]: ...
    def read_row(self, key: LaneKey) -> ProgressRow | None: ...
    def take_lease(self) -> bool: ...
    def holder(self) -> str: ...
    def lease_id(self) -> str: ...
    def end_holder(self) -> None: ...
    def raise_epoch(self) -> int: ...
    def registration(self, key: LaneKey, epoch: int) -> AbstractContextManager[Lock]: ...
    def writable(self) -> bool:
        """Whether the progress table can be changed now."""

    def can_copy(self, identity: TableIdentity) -> bool:
        """Whether the target is empty or absent."""

    def make_table(self) -> None: ...
    def insert_reset(self, entry: Entry) -> None: ...
    def step(self, reset: str, step: str, outcome: str = "") -> None: ...
    def held_beyond(self, rows: Sequence[ProgressRow]) -> int:
        """How many rows in quarantine lie beyond these positions."""

    def write(
        self, reset: str, step: str, swap: Swap, epoch: int, by: str = "", undone: str = "", outcome: str = ""
    ) -> list[str]:
        """The rows under the epoch, and the reset's step, in one transaction; what is not as expected, in words.

        Rows in quarantine beyond them are archived as `by`, those that the reset `undone` had archived come back.
        """

    def reset(self, reset: str) -> Entry | None: ...
    def unfinished(self) -> Entry | None: ...
    def history(self, limit: int = 100) -> list[Entry]: ...
    def ended(self, limit: int = 100) -> list[tuple[str, int]]:
        """The plans of resets that have ended, the newest first, and when: ms since 1970 by the sink's clock."""

    def close(self) -> None: ...


class Files(Protocol):
    """The state folder's part: plans, backups, and the marks of unfinished resets."""

    def save(self, kind: str, name: str, text: str) -> None: ...
    def load(self, kind: str, name: str) -> str | None: ...
    def remove(self, kind: str, name: str) -> None: ...
    def names(self, kind: str) -> list[str]: ...


PLANS, BACKUPS, RESETS = "plans", "backups", "resets"
"""The folders of plans, backups, and marks of unfinished resets."""


def silent(point: str) -> None:
    """The probe of production."""


@dataclass
class ResetContext:
    """Everything that a reset is given; `at_rest` says whether the job is, `told` hears that it was reset."""

    job: JobSpec
    retention: Retention
    resets: Resets
    files: Files
    actor: Actor
    audit: Callable[[AuditLine], None]
    at_rest: Callable[[], Check]
    told: Callable[[str], None]
    clock: Clock
    now: Callable[[], datetime]
    pause: Callable[[float], None]
    new_id: Callable[[], str]
    steal: str = ""
    probe: Probe = silent

    @property
    def what(self) -> str:
        """The slot in words."""
        return f"{self.job.source.name} {self.job.channel.source_table} slot {self.job.slot}"
