"""Ports of a job's driver: the progress rows with their locks and lease, named sessions, targets, and tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from slotkeeper.core.domain.consent import Ordered
from slotkeeper.core.domain.copy_limit import NO_LIMIT, CopyLimit
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.locks import LockOwner
from slotkeeper.core.domain.logged_change import Loss
from slotkeeper.core.domain.placement import HostSeen, Order, Placement
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut
from slotkeeper.core.domain.reset import ResetEntry, Swap
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError
from slotkeeper.core.ports.sink import TargetReader, TargetRecords, Views
from slotkeeper.core.ports.source import Chunk, Source, SourceTable


@dataclass(frozen=True, slots=True)
class Runner:
    """The run of a job, as recorded in its progress rows."""

    job: str
    run: str
    host: str
    os_user: str
    pid: int
    owner: str = ""
    """The id of the state folder that must own the job when it raises an epoch; empty: the job has one host."""


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """The progress of a copy: finished chunks, all chunks, copied rows, and the limit that currently applies."""

    done: int
    total: int
    rows: int
    limit: CopyLimit = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Repeats:
    """Numbers of rows that a sink with a separate store may have received twice: in ranges, and in the last copy."""

    ranges: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Lock:
    """A progress row that is locked FOR UPDATE during a registration, after its epoch check; `others` are also locked.

    `record` stores the registration and the record of the target check in the row; "" leaves that record unchanged.
    """

    row: ProgressRow
    record: Callable[[Kept, str], None]
    others: tuple[ProgressRow, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane according to its progress row: the stored registration, and its age in seconds."""

    shard: str
    position: str
    registered: str | None
    age: float | None


@dataclass(frozen=True, slots=True)
class Followed:
    """A lane that continues after a statement that changed its table's columns.

    `row` is its progress row, `moved` the row after the statement, under `epoch`; `identity` is the table after it,
    and `statements` are those of the target. Exactly `affected` rows have the values that the `losses` remove.
    """

    row: ProgressRow
    moved: ProgressRow
    epoch: int
    identity: TableIdentity
    statements: Sequence[str] = ()
    losses: Sequence[Loss] = ()
    affected: int = 0

    def refuse_moved(self, affected: int) -> None:
        """Raise Busy if another number of rows is affected now; the driver then compares it with the confirmed one."""
        if affected != self.affected:
            raise Busy(f"{affected} rows are affected now, {self.affected} were a moment ago", where="sink")


class LaneRows(Protocol):
    """Fenced access to a lane's row, for the driver and for workers; uses one session."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """Return the lane's committed progress row."""

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        """Move a position over a range without rows; return False if the fence did not match."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class LaneFence(LaneRows, Protocol):
    """The progress rows of a channel that streams: for registrations, empty steps and reports."""

    def registration(self, key: LaneKey, epoch: int, others: Sequence[LaneKey] = ()) -> AbstractContextManager[Lock]:
        """Lock the row and `others` for a registration; raises Superseded if another start raised an epoch."""

    def rows(self) -> list[ProgressRow]:
        """Return all lanes' committed rows."""

    def quarantined(self) -> int:
        """Return the number of quarantined rows; only for a job whose configuration quarantines rows."""

    def newest_quarantined(self) -> tuple[int, Sequence[str], str, str]:
        """Return (entry, key, SQLSTATE, constraint or column) of the last quarantined row; entry 0 if there is none."""

    @property
    def generation(self) -> int:
        """The number of connections that this session has opened; a new one can see an older state of the sink."""


NOTHING_OUT = LeftOut()


class Decisions(LaneRows, Protocol):
    """A worker's calls to the store of a sink that shares no transaction with the store.

    Each change is a compare-and-swap of one row, and returns False if no row matched. Not shared between threads.
    """

    def decide(
        self, key: LaneKey, epoch: int, after: Position, decided: Decided, left_out: LeftOut = NOTHING_OUT
    ) -> bool:
        """Record the sink's next range if epoch and position match and no range is decided.

        The same transaction quarantines the rows of the range that the sink rejects, and ends the quarantine entries
        whose keys the range changes, under the plan's label: `withdraw` reverts both, `settle` makes both final. Raises
        QUARANTINE FULL if there are too many entries.
        """

    def quarantined_any(self, key: LaneKey) -> bool:
        """Whether the lane's table has rows in quarantine."""

    def repeat(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """Count the rows of a decided range as repeats, before they are written again."""

    def arm(self, key: LaneKey, epoch: int, after: Position, was: Decided, armed: Decided) -> bool:
        """Record that a planned range's load can be committed; it replaces the load in `was`."""

    def send_again(self, key: LaneKey, epoch: int, after: Position, was: Decided, planned: Decided) -> bool:
        """Count a range as repeated because the sink no longer has its load, and set it back to planned."""

    def withdraw(self, key: LaneKey, epoch: int, after: Position, planned: Decided) -> bool:
        """Withdraw a plan without a load that can be committed."""

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """Move the position to the end of the decided range, which the sink has stored."""

    def begin_chunk(self, key: LaneKey, epoch: int, number: int, rows: int) -> bool:
        """Record that a planned chunk is about to be written; count its rows if it may have been written before."""

    def end_chunk(self, key: LaneKey, epoch: int, number: int, left_out: LeftOut = NOTHING_OUT) -> bool:
        """Record that the sink has stored the chunk, except the rows that the same transaction quarantines."""

    def rest(self, session: str = "") -> None:
        """Prepare for the next task: roll back an open transaction; `session` becomes the session's name."""


class Lease(Protocol):
    """A channel's lease, the epoch of its rows, and the lock on its target, which all progress schemas share."""

    def take_lease(self) -> bool: ...
    def raise_epoch(self, tables: Sequence[str] = ()) -> int: ...
    def holder(self) -> str: ...

    def lease_owners(self) -> list[LockOwner]:
        """Return the other visible holders of the lease's lock."""

    def pass_lease(self) -> None:
        """Continue without the lease's lock until it is free: meanwhile, the epoch in the rows fences other writers."""

    @property
    def passes(self) -> bool:
        """Whether this session continues without the lease's lock."""

    def leased(self, asks: bool = True) -> bool: ...
    def end_others(self) -> None: ...
    def sever(self) -> None: ...

    def give_back(self, target: str) -> None:
        """Release the locks of the channel's lease and its target; raises Unreachable if their session has ended."""

    def take_target(self, target: str) -> bool: ...
    def writer(self, target: str) -> str: ...

    def target_owners(self, target: str) -> list[LockOwner]:
        """Return the other visible holders of a target's lock."""


class CopyStore(Protocol):
    """The chunks of a channel's copy, for the copy and for its target."""

    def begin_copy(self, turn: Turn, chunks: Sequence[Chunk], copying: str) -> None: ...
    def end_copy(self, turn: Turn, noted_end: Mapping[str, Position]) -> None: ...
    def way_of_copy(self) -> str: ...
    def chunks_left(self) -> list[Chunk]: ...
    def chunk_counts(self) -> ChunkCounts: ...
    def repeats(self) -> Repeats: ...

    def target_records(self) -> TargetRecords:
        """Open the target records of a sink that uses this store, in the same session."""


class StartStore(LaneFence, Lease, CopyStore, Protocol):
    """A channel's progress rows for a start, over the session that holds the lease."""

    def create_tables(self) -> None: ...
    def open_reset(self) -> str: ...
    def insert(self, rows: list[ProgressRow]) -> None: ...
    def replace_creating(self, rows: list[ProgressRow], epoch: int) -> None: ...
    def forget_creating(self, epoch: int) -> None: ...

    def plan_again(self, epoch: int, chunks: Sequence[Chunk]) -> None:
        """Replace the chunks of the last copy by those of a table that streams; raises Superseded for an old epoch."""

    def known_dns(self) -> int | None: ...
    def adopt(self, renamed: Mapping[str, str], come: list[ProgressRow], epoch: int, dns: int) -> None: ...
    def set_state(self, turn: Turn, noted_end: Mapping[str, Position] | None = None) -> None: ...
    def cancel(self) -> None: ...
    def registered_age(self) -> float | None: ...

    def ordered(self) -> Ordered:
        """Return the stored instructions for the next copy; empty once that copy has started."""

    def target_record(self) -> TargetSeen | None:
        """Return the target's last record; None if there is none, or if a copy is due."""

    def switch(self, moved: Sequence[tuple[ProgressRow, ProgressRow]], epoch: int) -> None:
        """Replace position, decided range and fingerprint of all rows (old, new) in one transaction under the epoch.

        Raises Superseded and changes nothing if a row does not match.
        """

    def note_columns(self, fingerprint: str, known: Sequence[Column], renews: bool = False) -> None:
        """Store the source's columns, which the target matches or is about to be altered to, under a fingerprint.

        Columns that are already stored under it are replaced only if this `renews` them.
        """

    def follow(self, followed: Followed) -> None:
        """Replace the lane's position and fingerprint, and store the source's columns, in one transaction.

        Raises Superseded and changes nothing if the row does not match.
        """

    def noted_columns(self, fingerprint: str) -> tuple[Column, ...] | None:
        """Return the source's columns stored under a fingerprint; None if they were never stored."""

    def empty(self, epoch: int, fingerprint: str, known: Sequence[Column]) -> None:
        """Reset all rows to CREATING, so that the next start copies again; raises Superseded if an epoch is newer.

        `fingerprint` and `known`: the source's fingerprint and columns, which the target matches now.
        """


class ResetStore(LaneFence, Lease, Protocol):
    """A channel's progress rows and the resets of its slot, over the session that holds the lease."""

    def lease_id(self) -> str: ...
    def end_holder(self) -> None: ...
    def writable(self) -> bool:
        """Whether the progress table can be changed now."""

    def make_table(self) -> None: ...
    def noted_columns(self, fingerprint: str) -> tuple[Column, ...] | None: ...
    def insert_reset(self, entry: ResetEntry) -> None: ...
    def step(self, reset: str, step: str, outcome: str = "") -> None: ...
    def quarantined_beyond(self, rows: Sequence[ProgressRow]) -> int:
        """Return the number of quarantined rows after these positions."""

    def write(
        self, reset: str, step: str, swap: Swap, epoch: int, by: str = "", undone: str = "", outcome: str = ""
    ) -> list[str]:
        """Write the rows under the epoch, and the reset's step, in one transaction; return any discrepancies as text.

        Quarantined rows after the new positions are archived as `by`; rows archived by the reset `undone` are restored.
        """

    def reset(self, reset: str) -> ResetEntry | None: ...
    def open_entry(self) -> ResetEntry | None: ...
    def history(self, limit: int = 100) -> list[ResetEntry]: ...
    def note_epoch(self, reset: str, epoch: int) -> None:
        """Record the epoch to which the reset has raised the rows."""

    def target_changed(self) -> str:
        """Return the recorded change to the target as the end of a sentence; "" if there is none."""

    def ended(self, limit: int = 100) -> list[tuple[str, int]]:
        """Return the plan and the epoch of each ended reset that raised an epoch, newest first."""


class TaskRunner(Protocol):
    """Runs a function of an importable module with one plain value, in another thread or process."""

    @property
    def capacity(self) -> int:
        """The number of tasks that can run at once."""

    @property
    def tasks_started(self) -> int:
        """The number of tasks that were ever started."""

    def submit(self, entry: Callable[[Any], Any], spec: object, group: str) -> Future[Any]:
        """Start the task `entry(spec)`; `entry` must be picklable (a function of a module, or a partial of one)."""

    def cancel(self, group: str) -> None:
        """Try to end the tasks of a group; a cancelled task can still commit, which the fence makes harmless."""

    def close(self) -> None:
        """End all tasks and their workers; safe to call twice."""


NO_DEFAULTS: Mapping[str, str] = {}


class Target(Protocol):
    """The target table for a start."""

    def admit(self, identity: TableIdentity) -> bool:
        """Raise Refused for an unsuitable target; return whether it exists. Creates nothing."""

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        """Create the target if `makes`; raise Refused for an unsuitable one; return whether it was created."""

    def takes_copy(self, identity: TableIdentity) -> bool:
        """Whether a copy can write to the target, because it does not exist yet or is empty."""

    def count_rows(self, identity: TableIdentity) -> RowCount:
        """Count the target's rows within 5 s; unknown if the target is unreadable, 0 if it does not exist."""

    def size(self, identity: TableIdentity) -> int | None:
        """Return the target's size in the sink in bytes; None if it is unknown or the target is missing."""

    def readers(self) -> str | None:
        """Return, as text, the target's other sessions and its publications; None if the sink does not report them."""

    def copying(self, on_existing: str = "") -> str:
        """Return the mode of the copy: direct, shadow or merge; raises Refused for a target with rows and no option.

        `on_existing`: a reset's option for this copy; without it, the job's option applies.
        """

    def half_done(self, way: str) -> Refused | None:
        """Return why an unfinished copy in mode `way` cannot continue; None if it can."""

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the plan and the mode, prepare the copy, and set the lanes' states, in one transaction."""

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        """Return how to alter the target after the source's columns changed; alters nothing.

        `old`: the source's columns when the target last matched, None if unknown. `defaults`: the values of existing
        rows in added columns, by source column; without one, NULL.
        """

    def follow(self, store: StartStore, followed: Followed, probe: Callable[[str], None]) -> None:
        """Alter the target, move the lane's row, and store the source's columns.

        One transaction if the sink stores its progress rows; if not, the target is altered first, by statements that
        can be repeated. Raises Superseded if another start has taken over, and Busy if the number of affected rows is
        another one.
        """

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        """Return how many rows the losses affect, and the statements that give these rows their new values.

        A column that the target does not have affects no row. Raises Refused if this kind of sink is never altered.
        """

    def alterable(self, shape: Reshape) -> None:
        """Raise Busy if the target cannot be altered now because another session uses it; alters nothing."""

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """Apply the change atomically; return the executed statements.

        `empties`: a column whose old values cannot be cast to its new type loses them.
        """

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Swap in a shadow table, if used, and set the lanes' states, in one transaction; a swap can be slow."""


class Sessions(Protocol):
    """Named sessions of the driver, which are reused; a failed session is reopened automatically."""

    def of(self, table: str) -> Sessions:
        """Return the sessions for the channel of a source table; all channels share sessions with the same name."""

    def source(self, name: str) -> Source:
        """Return the source session `name`."""

    def admin(self, name: str) -> SourceTable:
        """Return the session `name` that registers positions."""

    def rows(self, name: str) -> LaneFence:
        """Return the sink session `name` for progress rows."""

    def know_columns(self, known: Sequence[Column]) -> None:
        """Open the channel's source from now on with these earlier columns of its table; empty: its present columns."""

    def log_in(self, where: str) -> None:
        """Log in to the servers of one side ("" for both) and log out again; raises the server's rejection."""


class TaskEnds(Protocol):
    """Ends abandoned tasks' sessions in the store; `slotkeeper.core.engine.driver.copy` calls it from threads."""

    def task_prefix(self) -> str:
        """Return the unique prefix of the names of tasks' sessions in the store."""

    def end_tasks(self, names: Mapping[str, Callable[[bool], None]]) -> None:
        """End the job's own sessions of these names in the store; pass to each callback whether its session was busy.

        Waits for at most one login and 2 s. Raises a SlotkeeperError if the server is silent or rejects the request.
        """


class DriverSessions(Sessions, TaskEnds, Protocol):
    """The driver's sessions; after `begin`, new sessions have the epoch in their names.

    Calls about one table go to the sessions for its channel.
    """

    @property
    def keeps_positions(self) -> bool:
        """Whether the source stores confirmed positions; if not, the job registers nothing and renews nothing."""

    def prefer(self, server: str) -> None:
        """Connect to this server of the source from now on if it answers; only for a source with several hosts."""

    def widen(self, job: JobSpec) -> None:
        """Serve the channels of this job from now on; they must include all channels served so far."""

    @property
    def shares_position(self) -> bool:
        """Whether the source stores one position for all channels of the job."""

    @property
    def newest(self) -> Newest:
        """Whether the newest position in a table's status also advances with changes to other tables."""

    @property
    def shards_apart(self) -> bool:
        """Whether positions of different shards cannot be compared."""

    @property
    def no_reset(self) -> str:
        """Why the job's slots cannot be reset; empty if they can."""

    def of(self, table: str) -> DriverSessions:
        """Return the sessions for the channel of a source table; all channels share sessions with the same name."""

    def store(self) -> StartStore:
        """Return the start's own sink session, which holds the lease."""

    def ending(self) -> StartStore:
        """Open a separate session for the channel's progress rows at the end of a copy; the caller closes it."""

    def target(self) -> Target:
        """Return the target, over the start's sink session."""

    def targets(self) -> TargetReader | None:
        """Open a reader of the job's targets while it streams; None if the sink has none."""

    def views(self) -> AbstractContextManager[Views]:
        """Open the job's views over a separate session, which ends with the block."""

    def feed(self, positions: Mapping[str, Position]) -> str:
        """Start a shared reader of the source for the lanes of these tables, and return its address.

        Return "" if each lane of this kind has its own stream, or if the lanes have to read over their own connections.
        A shared reader that was started earlier is ended.
        """

    def feed_error(self) -> SlotkeeperError | None:
        """Return why the shared reader does not read, while lanes read for themselves; None if it works."""

    def starter(self) -> SourceTable:
        """Return the session that registers positions for a start without a copy."""

    def apart(self, job: JobSpec) -> DriverSessions:
        """Open separate sessions for some of the job's tables; the caller closes them."""

    def begin(self, epoch: int, tables: Collection[str] = ()) -> bool:
        """Name sessions after the epoch and end those of earlier epochs; return False if their end is not certain.

        With `tables`: end only the sessions that register these tables; the job's other tables can be streaming.
        """

    def close(self) -> None:
        """End all sessions."""


class Placements(Protocol):
    """The jobs that several hosts share, in the store of their progress rows; each call is one short transaction.

    A change is a compare-and-swap of the row as `read` returned it: it returns False if the row has changed since.
    """

    def create(self) -> None: ...
    def read(self) -> tuple[list[Placement], list[HostSeen]]:
        """Return the rows of all jobs and hosts; none before a first `create`."""

    def report(
        self, owner: str, host: str, sources: Mapping[str, bool], jobs: Sequence[Mapping[str, str]]
    ) -> list[Order]:
        """Record the heartbeats of a host and of its jobs (job, state, text, settings of each); return its orders."""

    def add(self, row: Placement) -> bool: ...

    def claim(self, read: Placement, row: Placement) -> bool:
        """Make the owner of `row` the job's owner, with its settings and state; fails after a heartbeat or request."""

    def hand_over(self, read: Placement, why: str) -> bool: ...

    def ask(self, read: Placement, owner: str, desired: WantedState, by: str, why: str) -> bool:
        """Set the desired state; a request of the owner itself counts as answered. Fails after another request."""

    def answer(self, read: Placement, answer: str) -> bool:
        """Record the owner's answer to the request that it has read."""

    def order(self, order: Order) -> None: ...
    def ordered(self, order: Order) -> Order | None:
        """Return the order as it is now, without its plan; None after it was withdrawn."""

    def take(self, order: Order, owner: str) -> bool: ...
    def withdraw(self, order: Order) -> bool:
        """End an order that no host has taken; False if a host has."""

    def close_order(self, order: Order, code: int, said: str) -> None:
        """Record the exit code and the output of an order's command."""
