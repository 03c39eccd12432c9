"""What is asked of the progress rows: reading and moving them, the lock of a registration, the job's
lease and chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.domain.locks import LockOwner
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut
from slotkeeper.core.domain.reset import ResetEntry, Swap
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.ports.target import TargetRecords


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


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows that a sink beside its store may have got once more: of ranges, and of chunks of the last copy."""

    ranges: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Lock:
    """A progress row held FOR UPDATE with its epoch checked, while the source is told; `others` are held beside it.

    `record` writes what was registered into it, and the record of the check that it rests on; "" leaves that.
    """

    row: ProgressRow
    record: Callable[[Kept, str], None]
    others: tuple[ProgressRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane by its progress row: what we registered (as stored), and how many seconds ago."""

    shard: str
    position: str
    registered: str | None
    age: float | None


class Rows(Protocol):
    """What a registration and an empty step need of the progress rows."""

    def registration(self, key: LaneKey, epoch: int, others: Sequence[LaneKey] = ()) -> AbstractContextManager[Lock]:
        """Lock the row for a registration, and `others` with it; raises Superseded where an epoch is not ours."""

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        """Move a position over a range without rows; False where the fence was not hit."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def rows(self) -> list[ProgressRow]:
        """All lanes' rows as they are committed now."""

    def quarantined(self) -> int:
        """How many rows are held in quarantine; only where the job holds any by its configuration."""

    @property
    def generation(self) -> int:
        """How many connections this session has had: a new one may have met a sink that fell back."""

    def close(self) -> None:
        """End the session; safe to call twice."""


NOTHING_OUT = LeftOut()


class Decisions(Protocol):
    """What a worker needs of a store for a sink that shares no transaction with it.

    Each move is a compare-and-swap that must hit one row; False where it did not. One session, not shared between
    threads.
    """

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        """Move a position over a range without rows."""

    def decide(
        self, key: LaneKey, epoch: int, after: Position, decided: Decided, left_out: LeftOut = NOTHING_OUT
    ) -> bool:
        """Say which range the sink is to have next; where epoch and position are these and nothing is decided.

        In the same transaction rows of it that the sink refuses go into quarantine, and entries that it touches end, as
        of the plan's label: `withdraw` takes both back, `settle` leaves them. QUARANTINE FULL where there are too many.
        """

    def quarantined_any(self, key: LaneKey) -> bool:
        """Whether the lane's table has rows in quarantine."""

    def repeat(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """Count the rows of a decided range as repeats, before they are written again."""

    def arm(self, key: LaneKey, epoch: int, after: Position, was: Decided, armed: Decided) -> bool:
        """Say which load of a planned range may be committed, in the place of the one that `was` has."""

    def send_again(self, key: LaneKey, epoch: int, after: Position, was: Decided, planned: Decided) -> bool:
        """Count a range as repeated whose load nobody knows any more, and put it back to a plan."""

    def withdraw(self, key: LaneKey, epoch: int, after: Position, planned: Decided) -> bool:
        """Give up a plan of which nothing may be committed."""

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """The sink has the decided range: move the position to its end."""

    def begin_chunk(self, key: LaneKey, epoch: int, number: int, rows: int) -> bool:
        """Say that a planned chunk of so many rows is about to be written; counted where it may have been before."""

    def end_chunk(self, key: LaneKey, epoch: int, number: int, left_out: LeftOut = NOTHING_OUT) -> bool:
        """The sink has the chunk, but for rows that go into quarantine in the same transaction."""

    def rest(self, session: str = "") -> None:
        """Between two tasks: roll back whatever is open; `session` is the name that it goes by from here on."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class Store(Rows, Protocol):
    """The progress rows and chunks of the job, for its driver."""

    def create_tables(self) -> None: ...
    def take_lease(self) -> bool: ...
    def pass_lease(self) -> None:
        """Go on without the lease's lock, until it can be had: the epoch of the rows is the fence."""

    @property
    def passes(self) -> bool:
        """Whether this session goes on without it."""

    def lease_owners(self) -> list[LockOwner]:
        """Who else has the lease's lock, as far as it is shown."""

    def target_owners(self, target: str) -> list[LockOwner]:
        """The same of a target's."""

    def take_target(self, target: str) -> bool: ...
    def give_back(self, target: str) -> None:
        """Give the channel's lease and its target back; Unreachable where the session that had them is gone."""

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
    def target_records(self) -> TargetRecords:
        """The records of targets that a sink beside this store has, over the same session."""

    def target_record(self) -> TargetSeen | None:
        """What was recorded last of the target; None where nothing was, or a copy is due."""

    def note_columns(self, fingerprint: str, known: Sequence[Column]) -> None:
        """Keep the source's columns behind a fingerprint, with which the target is in line now."""

    def noted_columns(self, fingerprint: str) -> tuple[Column, ...] | None:
        """The source's columns behind a fingerprint; None where they were never kept."""

    def empty(self, epoch: int, fingerprint: str, known: Sequence[Column]) -> None:
        """Put all rows back to creating, so that the next start copies anew; Superseded where an epoch is newer.

        `fingerprint` and `known` are of the source with which the target is in line now.
        """

    def raise_epoch(self, tables: Sequence[str] = ()) -> int: ...
    def end_others(self) -> None: ...
    def set_state(self, turn: Turn, noted_end: Mapping[str, Position] | None = None) -> None: ...
    def way_of_copy(self) -> str: ...
    def on_existing(self) -> str:
        """What a reset has said for the copy that begins next; "" where none has, or that copy has begun."""

    def begin_copy(self, turn: Turn, chunks: Sequence[Chunk], copying: str) -> None: ...
    def end_copy(self, turn: Turn, noted_end: Mapping[str, Position]) -> None: ...
    def repeats(self) -> Repeats: ...
    def cancel(self) -> None: ...
    def sever(self) -> None: ...
    def chunks_left(self) -> list[Chunk]: ...
    def chunk_counts(self) -> ChunkCounts: ...
    def registered_age(self) -> float | None: ...


class ResetStore(Store, Protocol):
    """What a slot's reset asks beside of the session that holds the lease: the lease's holder, and the resets."""

    def lease_id(self) -> str: ...
    def end_holder(self) -> None: ...
    def writable(self) -> bool:
        """Whether the progress table can be changed now."""

    def make_table(self) -> None: ...
    def insert_reset(self, entry: ResetEntry) -> None: ...
    def step(self, reset: str, step: str, outcome: str = "") -> None: ...
    def quarantined_beyond(self, rows: Sequence[ProgressRow]) -> int:
        """How many rows in quarantine lie beyond these positions."""

    def write(
        self, reset: str, step: str, swap: Swap, epoch: int, by: str = "", undone: str = "", outcome: str = ""
    ) -> list[str]:
        """The rows under the epoch, and the reset's step, in one transaction; what is not as expected, in words.

        Rows in quarantine beyond them are archived as `by`, those that the reset `undone` had archived come back.
        """

    def reset(self, reset: str) -> ResetEntry | None: ...
    def open_entry(self) -> ResetEntry | None: ...
    def history(self, limit: int = 100) -> list[ResetEntry]: ...
    def note_epoch(self, reset: str, epoch: int) -> None:
        """The epoch that the reset has raised."""

    def target_changed(self) -> str:
        """What is written down of the target as the end of a sentence, "" where nothing is."""

    def ended(self, limit: int = 100) -> list[tuple[str, int | None]]:
        """The plans of resets that have ended, the newest first, and the epoch that each raised, where it is told."""
