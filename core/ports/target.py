"""What is asked of the targets of a running job: what each is now, and whether a start would still take it (ADR 63)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.errors import Refused, SlotkeeperError


@dataclass(frozen=True, slots=True)
class Asked:
    """One target: its job, narrowed to the channel, the mirrored columns of the target, and what is recorded of it.

    Rows are counted up to `most`.
    """

    job: JobSpec
    columns: tuple[str, ...]
    since: TargetSeen | None
    most: int


@dataclass(frozen=True, slots=True)
class Applied:
    """What a store counts of a table's lanes: applied events, and those that are decided and not settled.

    `home` is the table that keeps it.
    """

    home: int
    changes: int
    decided: int


class TargetRecords(Protocol):
    """The records of targets at a store, for sinks beside it."""

    def applied(self, jobs: Sequence[JobSpec]) -> Mapping[str, Applied]:
        """What is counted for the channel of each job, by source table, in one statement."""

    def recorded(self, job: JobSpec) -> tuple[TargetSeen | None, bool]:
        """The newest record of a job's channel, and whether a copy is due, which asks for none."""

    def record(self, job: JobSpec, seen: TargetSeen) -> None:
        """Write the record into all rows of a job's channel."""

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        """Write one that no start passes, under the epoch."""

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""


class TargetSight(Protocol):
    """What a sink beside its store tells of targets; `late` seconds may pass until it shows what it has taken."""

    @property
    def late(self) -> float: ...

    def sight(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        """What each target is now, by source table, without what a store counts; an error where it is not told."""

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        """Why a start would refuse the target of a job's channel now; None where it would not."""

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""


class TargetReader(Protocol):
    """Reads the targets of a sink over a session of its own."""

    def read(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        """What each target is now, by source table, in one statement; an error for one that cannot be read now."""

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        """Why a start would refuse the target of a job's channel now; None where it would not."""

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        """Write a record that no start passes into the rows of a job's channel, under its epoch."""

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A target: its job, narrowed to the channel, the source's table, and the mirrored columns of the target."""

    job: JobSpec
    identity: TableIdentity
    columns: tuple[str, ...]
    record: TargetSeen | None


@dataclass(frozen=True, slots=True)
class Targets:
    """What a loop is told of its targets: by source table, and who reads them; without a reader nothing waits."""

    reader: TargetReader | None = None
    tables: Mapping[str, Watched] = field(default_factory=dict)
