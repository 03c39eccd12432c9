"""Ports of a sink: batches and their commit, rejected rows, locks, Spark queries, and targets.

A sink with progress rows commits a step together with these rows in one transaction, under their fence (`StepSink`). A
sink without progress rows writes in two parts (`BatchSink`), between which a separate store records the decision
(`Decisions` of `slotkeeper.core.ports.driver`); `slotkeeper.core.engine.worker.two_part` combines both into a
`StepSink` (ADR 23).

A Spark query has an id, which its checkpoint retains; its batches have ascending numbers. The sink records a target's
query and its last batch in the transaction that writes the rows; this record is the fence. A store has an account of a
query that reads a slot; the account is informational only.

While a job runs, its target is checked: its current state, and whether a start would still accept it (ADR 63).

All calls block; they raise only errors of `slotkeeper.core.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.ending import InFront
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import QuarantineCount, QuarantineEntry, Refusal, Replayed, Wanted
from slotkeeper.core.domain.query_report import QueryReport
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec, SinkOptions
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.domain.views import Difference, Explained, Round, ViewRow, ViewState
from slotkeeper.core.errors import Refused, SlotkeeperError


@dataclass(frozen=True, slots=True)
class Top:
    """The highest first number of the staged pairs, and the highest second number among pairs at the range's end.

    A pair is at the range's end if its first number is that of the end position. Both are None without rows.
    """

    first: int | None
    second: int | None


class StepSink(Protocol):
    """A worker's sink: it stages and commits one transaction after another, under the fence."""

    encoding: Encoding
    """The batch encoding that the sink reads; `slotkeeper.core.drivers.pipe` converts any other encoding once."""
    names_rows: bool
    """Whether an isolating step of a job without quarantine raises RowRefused with the row's key."""

    @property
    def sweeps(self) -> Sweeps | None:
        """The object that commits steps of several lanes together; None if each step needs its own transaction."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """Return the lane's committed progress row."""

    def stage(self, reader: BinaryIO) -> int:
        """Start a transaction and load a batch in its encoding into the staging table; return the number of rows."""

    def stage_isolating(self, reader: BinaryIO) -> int:
        """Stage like `stage`; `commit` then quarantines the rows that the target rejects, and applies the others."""

    def top(self, up_to: Position) -> Top:
        """Return the highest pairs of the staging table."""

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Update the fenced progress row, apply the net effect, COMMIT; return False if the fence did not match."""

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        """Finish the decided range of `row`; raises Refused for a sink with one transaction per step.

        `read_again` stages exactly the rows after the row's position, like `stage`, and a few rows after the decided
        end if the source cannot distinguish them; it is called only if the sink has stored nothing.
        """

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Claim the planned chunk and fill the target in one open transaction; return None if it is not free."""

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Copy like `copy_chunk`; quarantine the rows that the target rejects."""

    def finish_chunk(self) -> None:
        """Commit the transaction that `copy_chunk` left open."""

    def rest(self, session: str = "") -> None:
        """Prepare for the next task: roll back an open transaction, and end a session after long use.

        `session` becomes the name of the store's session, if its server allows it; "" leaves the name.
        """

    def abandon(self) -> None:
        """Roll back an open transaction."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class Buffered(Protocol):
    """The rows of a step that are staged in memory only."""

    def top(self, up_to: Position) -> Top:
        """Return the highest pairs of the rows, like `StepSink.top`."""


@dataclass(frozen=True, slots=True)
class BufferedStep:
    """A buffered step of a lane: the values of `StepSink.commit`, and the rows."""

    key: LaneKey
    epoch: int
    after: Position
    new: Position
    rows: int
    buffered: Buffered


class Sweeps(Protocol):
    """Commits small steps of several lanes in one transaction, each under its own fence (ADR 85).

    The sinks of the lanes share one session, and any of them can commit for all.
    """

    def read_rows(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, ProgressRow] | None:
        """Return the committed progress rows of lanes of one slot; None if each has to be read by its own sink."""

    def detach(self) -> Buffered | None:
        """Take the rows of the last `stage` out of the sink, which can then stage another step.

        Return None if the step has to be committed alone; it then stays staged.
        """

    def put_back(self, buffered: Buffered) -> None:
        """Stage buffered rows again, for `StepSink.commit`; until it succeeds, no step of the target is buffered.

        If the commit was slow, the next steps are not buffered either.
        """

    def sweep(self, steps: Sequence[BufferedStep]) -> Set[LaneKey] | None:
        """Update the fenced rows, apply the net effects, COMMIT. Return the lanes whose fence matched.

        Nothing is written for the other lanes, whose row is at another position or locked by another session. None: the
        server reported an error, such as a rejected row or a lock that was not free soon enough; then nothing is
        written at all. After an error that is raised, the outcome is unknown.
        """


class Views(Protocol):
    """The views of a job in its sink, over one session (ADR 94).

    Calls with an epoch raise Superseded if a newer driver has taken over, and Busy if they have to be repeated.
    """

    def enter(self) -> int:
        """Record the configured views; return a new epoch. Raises Refused for a sink or a table that cannot be used."""

    def rows(self, job: str | None = None) -> list[ViewRow]:
        """Return the stored views of the job, or of the given job ("" for all); empty before a first run."""

    def due(self) -> list[str]:
        """Return the views to build now, in order: PENDING or STALE, and all their tables are RUNNING."""

    def waits(self, epoch: int) -> bool:
        """Return whether a round has anything to do."""

    def round(self, epoch: int) -> Round:
        """Apply the captured changes to all RUNNING views in one transaction; does nothing if there are none."""

    def build(self, target: str, epoch: int) -> None:
        """Make a view equal to its SELECT while its table remains readable; the view is then RUNNING."""

    def set_state(self, target: str, state: ViewState, cause: str, epoch: int = 0) -> None:
        """Record a view's state; with an epoch, only if it is the newest."""

    def verify(self, target: str, most: int = 20) -> list[Difference]:
        """Compare a RUNNING view with its SELECT in one snapshot; return at most `most` differences."""

    def waiting(self, most: int = 100_000) -> Mapping[str, int]:
        """Return the number of changes that wait for a round, up to `most` of each table, by built view."""

    def explain(self, target: str) -> Explained:
        """Return how a view is maintained, and the indexes that it lacks. Raises Refused for an unknown view."""

    def activity(self, session: str) -> tuple[bool, str]:
        """Return whether the session of a task, by its name, executes a statement, and a text that each one changes.

        The text is empty if there is no such session.
        """

    def drop(self, target: str) -> bool:
        """Remove a view with its triggers and its table; return False if the table stays because no view created it."""


class BatchWriter(Protocol):
    """Writes batches to one target, each in its own transaction; writing a batch again changes nothing."""

    def write(self, text: bytes, rows: int) -> None:
        """Write the net effect of a batch per key; `text` is COPY text as `Source.copy_changes` writes it."""


Fields = tuple[str | None, ...]
"""A row of `Encoding.ROWS`: in a step, point, sequence, type and columns; in a chunk, only columns. None is NULL."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of `count` rows for a sink with a separate store, from a lane's range or a chunk (`key` has no shard).

    `label` names the rows in messages; after a reset, the same label can name other rows. `rows` can be iterated
    repeatedly, in the source's order.
    """

    key: LaneKey
    label: str
    count: int
    rows: Callable[[], Iterator[Fields]]


class Outcome(Enum):
    """The outcome of a load's commit."""

    COMMITTED = "the load is or will become visible, through this commit or an earlier one"
    ABORTED = "the load will never be visible"
    UNKNOWN = "the server no longer knows the load: it may be visible"


@runtime_checkable
class LabelSink(Protocol):
    """A sink with labels and two-phase commit; plans in its separate store use the labels (ADR 41). One session.

    A label consists of letters, digits, `_`, `-` and `:`, at most 128 characters; a load's number contains no blank.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns, in the order of rows."""

    @property
    def types(self) -> tuple[str, ...]:
        """The types of `columns`; a column that a query sends as text has that of the target's column."""

    @property
    def key(self) -> tuple[int, ...]:
        """Indexes of the key columns in `columns`."""

    def label(self, batch: Batch) -> str:
        """Return a new label for a plan of this batch; sends nothing."""

    def send(self, batch: Batch, label: str) -> str:
        """Send all rows without making them visible; return the number of the load.

        The number is empty if the label's load is already committed. A load of unknown state is aborted first.
        """

    def commit(self, label: str, load: str) -> Outcome:
        """Make a load visible; repeating it changes nothing."""

    def abort(self, load: str) -> None:
        """Abort a load that no task will commit; ignores failures, because the load ends at its timeout."""

    def clear(self, label: str) -> None:
        """Abort a load that is pre-committed under a plan's label; raises an error if the sink did not answer."""

    def write_chunk(self, batch: Batch) -> None:
        """Write the rows of a chunk; they become visible immediately."""

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        """Return how many of these rows, one per key, the target rejects now; none becomes visible."""

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        """Return why the target rejects this row now; None if it does not. The row never becomes visible."""

    def rest(self) -> None:
        """Prepare for the next task."""

    def abandon(self) -> None:
        """Abandon a running call; rows that were already sent remain."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchSink(Protocol):
    """A sink that shares no transaction with its progress rows; one session, not shared between threads."""

    def prepare(self, batch: Batch) -> str:
        """Send the rows without making them visible, and return a token of at most 200 characters.

        The token is empty if the server cannot store invisible rows: then nothing was sent. Every possible rejection
        must be raised here: once a range is decided, only a user can resolve a rejection.
        """

    def commit(self, token: str) -> bool:
        """Make prepared rows visible; repeating a token changes nothing. Return False if it is unknown to the server.

        An unknown token may have been committed, so its rows are written again, and counted as repeats.
        """

    def discard(self, token: str) -> None:
        """Discard prepared rows whose range will certainly not be decided."""

    def write(self, batch: Batch) -> None:
        """Write the rows, immediately visible; the call can be a repeat, and can be interrupted at any row."""

    def write_chunk(self, batch: Batch) -> None:
        """Write the rows of a copy's chunk, which are older than those of any range."""

    def rest(self) -> None:
        """Prepare for the next task: roll back an open transaction, and end a session after long use."""

    def abandon(self) -> None:
        """Roll back an open transaction; prepared rows remain."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class ReplaysBeside(Protocol):
    """Replays of a slot's table into a sink whose separate store has the quarantine entries (ADR 50).

    A replay is stored as a plan of an empty range: its load is armed on every lane that can have the row, so that no
    task plans anything else there until a task or replay resolves it.
    """

    def waiting(self) -> Sequence[tuple[str, str]]:
        """Return (label, load) of armed, unresolved replays."""

    def arm(self, id: int, load: tuple[str, str], by: str, reason: str) -> bool:
        """Record that this (label, load) can be committed for an entry; return False while a range is in progress.

        Raises Refused if the entry is no longer quarantined, and during a copy.
        """

    def resolve(self, label: str, applied: bool) -> None:
        """End the replay: its entry becomes replayed or remains quarantined."""

    def still_bad(self, id: int, refusal: Refusal) -> None:
        """Record that the target rejected the row again, and why."""


class Quarantine(Protocol):
    """The quarantine of one sink, which all its jobs share; always empty for a sink without one."""

    def page(self, wanted: Wanted) -> Sequence[QuarantineEntry]:
        """Return entries without their values, the newest first, at most `wanted.limit`."""

    def entry(self, id: int) -> QuarantineEntry | None:
        """Return one entry with its values; None if it does not exist."""

    def counts(self) -> Sequence[QuarantineCount]:
        """Return the number of quarantined rows by slot and table; tables without quarantined rows are omitted."""

    def values(self, key: LaneKey) -> Sequence[dict[str, str | None]]:
        """Return the quarantined rows of a slot's table, by target column; an update's old half has only its key."""

    def ids(self, key: LaneKey) -> list[int]:
        """Return the ids of the quarantined entries of a slot's table, in the order in which the rows were read."""

    def replay(self, id: int, job: JobSpec, key: LaneKey, identity: TableIdentity, by: str, reason: str) -> Replayed:
        """Apply an entry to the target of the job's channel in one transaction; raises Refused during a copy."""

    def discard(self, id: int, key: LaneKey, by: str, reason: str) -> Replayed:
        """Discard an entry: the row remains missing in the target until its key changes again."""


@runtime_checkable
class SessionEnder(Protocol):
    """Finds a session of one server that blocks a session of this login, and ends it."""

    def in_front(self, pid: int, now: float, end: float | None = None) -> InFront | None:
        """Return the session of that pid if a session of this login waits for it at this moment, else None.

        With `end`, a start time, the same statement ends the session if it is a client session that started then,
        belongs to no job, and the login is allowed to end it; if a server has no such statement, the session is ended
        right after the query. Raises Refused if this kind of server cannot report blocking sessions.
        """

    def is_there(self, pid: int, began: float) -> bool:
        """Return whether exactly that session still exists."""


class LockReader(SessionEnder, Protocol):
    """Repeatedly reads one sink's lock waits; it remembers a wait between two attempts of the waiting session."""

    def read(self, now: float) -> Sequence[LockWait]:
        """Return the current waits within a few seconds; `now`: this host's clock in seconds since 1970.

        Takes no table lock. A session that waited in the last answer but does not wait now is included, with `waits`
        False, while the server still shows the session that blocked it. Raises a SlotkeeperError.
        """


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """A target and the data staged for it; `columns`: in the order of the staged values; `key`: its key's column names.

    A text column can be written to a column of any type that parses its text. `ordered` rows are a changelog; others
    are upserts, at most one per key and batch. `successor_of`: the id of the query that wrote the target before and
    that this query replaces.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    ordered: bool = True
    create_target: bool = False
    successor_of: str = ""
    options: SinkOptions = field(default_factory=SinkOptions)


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A batch, identified by its query's id and its number."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged rows of one attempt of a task, with its unique token.

    `left_out`: rows of the task that have no effect and were not staged.
    """

    token: int
    rows: int
    left_out: int = 0


class QuerySink(Protocol):
    """One session on a sink for a query's batches; not shared between threads."""

    def admit(self) -> str:
        """Create missing tables; raise Refused for an unsuitable target; return the location where tasks stage rows."""

    def stage(self, place: str, query: str, token: int, lines: BinaryIO) -> int:
        """Stage CSV lines of (token, point, sequence, kind, columns) at `place`; return the number of stored rows.

        The rows are durable, and invisible to readers of the target. Raises Refused if another query writes the target.
        """

    def commit(self, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
        """Apply the staged rows to the target at once; return False if the batch is already committed.

        After an error the outcome is unknown: repeat the call.
        """

    def claim(self, query: str, of: str) -> int | None:
        """Take the target over for `query` from the query whose id starts with `of`; return its last batch.

        No batch of that query is committed afterwards. None if nothing was written yet. Raises Refused if any other
        query writes the target.
        """

    def discard(self) -> None:
        """Delete staged rows that no run needs any more; revert nothing, and ignore failures."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class QueryAccounts(Protocol):
    """A store's account of the query that reads one slot; informational only, and it can be missing."""

    def begin(self, epoch: int, fresh: bool) -> None:
        """Create the account of a query of this epoch, and its table if missing; does nothing if a newer one exists.

        Earlier reports are retained unless `fresh`: a slot has one checkpoint, so they belong to this query. Raises the
        store's errors, for example if the login cannot create a table.
        """

    def write(self, report: QueryReport) -> bool:
        """Store a report; return False if the query's epoch is not the newest, or if `begin` was not called."""

    def read(self) -> QueryReport | None:
        """Return the newest report, or None. Creates nothing."""

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One target to check: its job, restricted to the channel, the target's mirrored columns, and its last record.

    Rows are counted up to `most`.
    """

    job: JobSpec
    columns: tuple[str, ...]
    since: TargetSeen | None
    most: int


@dataclass(frozen=True, slots=True)
class Applied:
    """A store's counts for a table's lanes: applied events, and decided events that are not settled.

    `home`: the table that holds the counts.
    """

    home: int
    changes: int
    decided: int


class TargetRecords(Protocol):
    """The records of targets in a store, for sinks that use the store."""

    def applied(self, jobs: Sequence[JobSpec]) -> Mapping[str, Applied]:
        """Return the counts for the channel of each job, by source table, in one statement."""

    def recorded(self, job: JobSpec) -> tuple[TargetSeen | None, bool]:
        """Return the newest record of a job's channel, and whether a copy is due, in which case no record is needed."""

    def record(self, job: JobSpec, seen: TargetSeen) -> None:
        """Write the record into all rows of a job's channel."""

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        """Write a record that no start accepts, under the epoch."""

    def sever(self) -> None:
        """Close the connection immediately, from any thread, without waiting."""


class TargetSight(Protocol):
    """The targets of a sink with a separate store; written rows can take up to `late` seconds to become visible."""

    @property
    def late(self) -> float: ...

    def sight(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        """Return each target's state by source table, without a store's counts; an error if the state is unknown."""

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        """Return why a start would reject the target of a job's channel now; None if it would not."""

    def sever(self) -> None:
        """Close the connection immediately, from any thread, without waiting."""


class TargetReader(Protocol):
    """Reads the targets of a sink in a separate session."""

    def read(self, asked: Sequence[Asked]) -> Mapping[str, TargetSeen | SlotkeeperError]:
        """Return each target's state by source table, in one statement; an error for an unreadable target."""

    def refusal(self, job: JobSpec, identity: TableIdentity) -> Refused | None:
        """Return why a start would reject the target of a job's channel now; None if it would not."""

    def mark(self, job: JobSpec, epoch: int, record: TargetSeen) -> None:
        """Write a record that no start accepts into the rows of a job's channel, under its epoch."""

    def sever(self) -> None:
        """Close the connection immediately, from any thread, without waiting."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A watched target: its job, restricted to the channel, the source's table, and the target's mirrored columns."""

    job: JobSpec
    identity: TableIdentity
    columns: tuple[str, ...]
    record: TargetSeen | None


@dataclass(frozen=True, slots=True)
class Targets:
    """A driver loop's targets by source table, and their reader; without one, no registration waits for a check."""

    reader: TargetReader | None = None
    tables: Mapping[str, Watched] = field(default_factory=dict)
