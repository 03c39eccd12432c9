"""What a job's driver asks: the progress rows with their locks and lease, its sessions by name, targets, tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from slotkeeper.core.domain.consent import Ordered
from slotkeeper.core.domain.locks import LockOwner
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut
from slotkeeper.core.domain.reset import ResetEntry, Swap
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.sink import TargetReader, TargetRecords
from slotkeeper.core.ports.source import Chunk, Retention, SlotAdmin, Source


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

    def newest_quarantined(self) -> tuple[int, Sequence[str], str]:
        """(entry, key, SQLSTATE) of the row that was held last; the entry is 0 where there is none."""

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
    def ordered(self) -> Ordered:
        """What is said for the copy that begins next; nothing once it has begun."""

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


class TaskRunner(Protocol):
    """Calls a function of an importable module with one plain value, somewhere else."""

    @property
    def capacity(self) -> int:
        """How many tasks can run at once."""

    @property
    def tasks_started(self) -> int:
        """How many tasks were ever started."""

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        """Start a task: `entry(spec)`; `entry` is picklable, a function of a module or a partial of one."""

    def cancel(self, group: str) -> None:
        """Try to end the tasks of a group; a cancelled one may still commit, which the fence makes harmless."""

    def close(self) -> None:
        """End all tasks and whatever runs them; safe to call twice."""


class Target(Protocol):
    """The target table as a start sees it."""

    def admit(self, identity: TableIdentity) -> bool:
        """Refuse by name what cannot hold the source, or cannot be made; makes nothing. Whether the table is there."""

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Make it on request where `makes`, and refuse by name what cannot hold the source; whether it was made."""

    def takes_copy(self, identity: TableIdentity) -> bool:
        """Whether a copy can go in as it is: there is no such table yet, or it has no row."""

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """The target's rows, within five seconds; unknown where it cannot be asked, none where it is not there."""

    def size(self, identity: TableIdentity) -> int | None:
        """Bytes that the target takes at the sink; None where that is unknown, or it is not there."""

    def readers(self) -> str | None:
        """The sessions that use the target now and what publishes it, in words; None where the sink does not tell."""

    def copying(self, on_existing: str = "") -> str:
        """How chunks go in: direct, shadow or merge; raises Refused where rows are there and nothing says how.

        `on_existing` is what a reset has said for this one copy; without it the job's counts.
        """

    def half_done(self, way: str) -> Refused | None:
        """Why a half-done copy whose chunks go in by `way` cannot go on; None where it can."""

    def begin_copy(self, store: Store, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the way, make ready for it and turn the lanes, in one transaction."""

    def reshape(self, identity: TableIdentity, old: Sequence[Column] | None) -> Reshape:
        """How it is brought in line with a source whose columns changed; alters nothing.

        `old` are the source's columns when it was last in line, None where that is not known.
        """

    def alterable(self, shape: Reshape) -> None:
        """Raise Busy where somebody else uses it so that it cannot be altered now; alters nothing."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """Carry that out, whole or not at all; returns the statements that were run.

        `empties`: a column whose old values become none of its new type may lose them.
        """

    def end_copy(self, store: Store, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Exchange a shadow and turn the lanes, in one transaction; may take long where there is a shadow."""


class Sessions(Protocol):
    """Sessions of the driver, taken by name and kept; a session that failed opens anew by itself."""

    def of(self, table: str) -> Sessions:
        """The sessions for the channel of a source table: those of one name are one session for all channels."""

    def source(self, name: str) -> Source:
        """The source session `name`."""

    def admin(self, name: str) -> SlotAdmin:
        """The registering session `name`."""

    def rows(self, name: str) -> Rows:
        """The sink session `name` for progress rows."""

    def log_in(self, where: str) -> None:
        """Open a session at the servers of a side ("" for both) and end it; raises what a server refuses it by."""


class TaskEnds(Protocol):
    """Ends what tasks that were given up still do at the store; `slotkeeper.core.engine.driver.copy` has threads
    for it.
    """

    def task_prefix(self) -> str:
        """What the names of tasks' sessions at the store begin with from here on; nobody else's ever do."""

    def end_tasks(self, names: Mapping[str, Callable[[bool], None]]) -> None:
        """End the sessions at the store that go by these names, ours alone; who asks hears whether it was at work then.

        Waits at most for a login and two seconds. An error of ours where the server does not answer or allow it.
        """


class DriverSessions(Sessions, TaskEnds, Protocol):
    """The driver's sessions; `begin` names those opened from then on after the epoch.

    What is about one table is asked of the sessions for its channel.
    """

    @property
    def keeps_positions(self) -> bool:
        """Whether the source keeps what is confirmed: else nothing is registered, nor kept alive."""

    @property
    def shares_position(self) -> bool:
        """Whether what it keeps is one position for all channels of the job."""

    @property
    def shards_apart(self) -> bool:
        """Whether places of one shard say nothing of another's."""

    @property
    def no_reset(self) -> str:
        """Why no slot of the job can be reset; empty where one can."""

    def of(self, table: str) -> DriverSessions:
        """The sessions for the channel of a source table: those of one name are one session for all channels."""

    def store(self) -> Store:
        """The start's own sink session, which holds the lease."""

    def ending(self) -> Store:
        """The channel's rows over a session of their own, for the end of a copy; whoever asks closes it."""

    def target(self) -> Target:
        """The target, over the start's sink session."""

    def targets(self) -> TargetReader | None:
        """Reads the job's targets while it streams; None of a sink that cannot tell."""

    def starter(self) -> Retention:
        """A registering session of a start without a copy."""

    def apart(self, job: JobSpec) -> DriverSessions:
        """Sessions of their own for some of the job's tables; whoever asks closes them."""

    def begin(self, epoch: int, tables: Collection[str] = ()) -> bool:
        """Name sessions after the epoch and end those of earlier ones; False where it is not certain.

        With `tables` those only that register them: the job's other tables may be streaming.
        """

    def close(self) -> None:
        """End all sessions."""
