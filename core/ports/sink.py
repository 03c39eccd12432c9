"""What is asked of a sink: batches and their commit, rows that it refused, locks, Spark queries, its targets.

A sink that keeps its progress rows commits a step in one transaction with them, under their fence (`StepSink`). One
that cannot is asked for two parts (`BatchSink`), between which a store beside it decides (`Decisions` of
`slotkeeper.core.ports.driver`); of both `slotkeeper.core.engine.worker.two_part` makes a `StepSink` (ADR 23).

A query of Spark is known by its id, which its checkpoint keeps; its batches have numbers that grow. The sink remembers,
in the transaction that writes the rows, which query writes a target and which batch was its last: that is the fence. Of
a query that reads a slot a store keeps an account, which only informs.

Of a target of a running job is asked what it is now, and whether a start would still take it (ADR 63).

All calls block; each raises an error of `slotkeeper.core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from slotkeeper.core.errors import Refused, SlotkeeperError


@dataclass(frozen=True, slots=True)
class Top:
    """The pairs that order what was staged: the highest first number, and the highest second at the range's last one.

    None where there is none.
    """

    first: int | None
    second: int | None


class StepSink(Protocol):
    """One sink transaction after another for a worker: stage, then commit under the fence."""

    encoding: Encoding
    """The encoding of a batch that it reads; `slotkeeper.core.drivers.pipe` converts another one of a source, once."""
    names_rows: bool
    """Whether an isolating step of a job without quarantine raises RowRefused with the row's key."""

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""

    def stage(self, reader: BinaryIO) -> int:
        """Begin a transaction and fill the staging table from a batch in its encoding; returns the rows staged."""

    def stage_isolating(self, reader: BinaryIO) -> int:
        """As `stage`; `commit` then holds in quarantine what the target refuses, and applies the rest."""

    def top(self, up_to: Position) -> Top:
        """What the staging table holds at its end."""

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        """Fenced progress row first, then the net effect, then COMMIT; False where the fence was not hit."""

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        """Finish what `row` says is decided; Refused by a sink that decides nothing beside its transaction.

        `read_again` stages exactly the rows beyond the row's position as `stage` does, and a few beyond the decided
        end where the source cannot tell; it is called only where the sink kept nothing.
        """

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """Take the planned chunk and fill the target in one open transaction; None where it is not ours to take."""

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        """As `copy_chunk`; what the target refuses is held in quarantine."""

    def finish_chunk(self) -> None:
        """Commit the chunk that `copy_chunk` left open."""

    def rest(self, session: str = "") -> None:
        """Between two tasks: roll back whatever is open, and end a session that has been used for long enough.

        The one at the store goes by the name `session` from here on, as far as its server allows it; "" leaves it.
        """

    def abandon(self) -> None:
        """Roll back whatever is open."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchWriter(Protocol):
    """Writes batches into one target, each in its own transaction; one that is written again changes nothing."""

    def write(self, text: bytes, rows: int) -> None:
        """The net effect of a batch per key; `text` is COPY text as `Source.copy_changes` writes it."""


Fields = tuple[str | None, ...]
"""A row of `Encoding.ROWS`: of a step point, sequence, type and the columns, of a chunk the columns; None is NULL."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`count` rows for a sink beside its store: those of a lane's range, or of a chunk (then `key` names no shard).

    `label` says which they are in words; after a reset the same words may be of other rows. `rows` can be gone through
    again and again, in the order in which the source gave them.
    """

    key: LaneKey
    label: str
    count: int
    rows: Callable[[], Iterator[Fields]]


class Outcome(Enum):
    """What became of a load that was to be committed."""

    COMMITTED = "it is visible, or will be; now or earlier"
    ABORTED = "it will certainly never be visible"
    UNKNOWN = "the server has forgotten it: it may be visible"


@runtime_checkable
class LabelSink(Protocol):
    """A sink with labels and two-phase commit, beside a store that plans under them (ADR 41); one session.

    A label is of letters, digits, `_`, `-` and `:`, at most 128 characters; a load's number has no blank.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns, in the order in which rows have them."""

    @property
    def key(self) -> tuple[int, ...]:
        """Places of the key among them."""

    def label(self, batch: Batch) -> str:
        """A label that no batch ever had, for a plan of this one; nothing is sent."""

    def send(self, batch: Batch, label: str) -> str:
        """Send the rows to be seen later, all of them; the number of the load.

        Empty where what has the label is committed already. A load of it that may be anything is aborted first.
        """

    def commit(self, label: str, load: str) -> Outcome:
        """Make a load seen; the same load again changes nothing."""

    def abort(self, load: str) -> None:
        """Give up a load that nobody may commit; fails in silence, for the server ends it in time."""

    def clear(self, label: str) -> None:
        """Give up whatever is pre-committed under a label of a plan that is withdrawn; fails in silence likewise."""

    def write_chunk(self, batch: Batch) -> None:
        """The rows of a chunk in one go, seen at once."""

    def trial(self, rows: Callable[[], Iterator[Fields]], count: int, chunk: bool) -> int:
        """How many of these rows, one of each key, the target refuses now; nothing of them is ever seen."""

    def refusal(self, row: Fields, chunk: bool) -> Refusal | None:
        """Why the target refuses this row now; None where it does not. Nothing of it is ever seen."""

    def rest(self) -> None:
        """Between two tasks."""

    def abandon(self) -> None:
        """Give up whatever is under way; what was sent stays."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchSink(Protocol):
    """A sink that shares no transaction with its progress rows; one session, not shared between threads."""

    def prepare(self, batch: Batch) -> str:
        """Hand the rows over so that nobody sees them, and get a token, at most 200 characters.

        Empty where the server keeps nothing unseen: then nothing was sent. It refuses what it can refuse here: once a
        range is decided, it is written or a person is asked.
        """

    def commit(self, token: str) -> bool:
        """Make what was prepared seen; the same token again changes nothing. False where the server forgot the token.

        Such a one may have been committed before it was forgotten, so its rows are written again, and counted.
        """

    def discard(self, token: str) -> None:
        """Give up what was prepared and is certain not to be decided."""

    def write(self, batch: Batch) -> None:
        """Write the rows in one go, seen at once; it may be a repeat, and may be cut off anywhere."""

    def write_chunk(self, batch: Batch) -> None:
        """The same for a chunk of a copy, whose rows are older than those of any range."""

    def rest(self) -> None:
        """Between two tasks: roll back whatever is open, and end a session that has been used for long enough."""

    def abandon(self) -> None:
        """Roll back whatever is open; what was prepared stays."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class ReplaysBeside(Protocol):
    """Replays of a slot's table into a sink beside the store that has its entries (ADR 50).

    A replay is a plan without width: its load is armed on every lane that the row may lie on, so that nothing else is
    planned there until it is resolved, by whoever finds it.
    """

    def waiting(self) -> Sequence[tuple[str, str]]:
        """(label, load) of replays that were armed and not resolved."""

    def arm(self, id: int, load: tuple[str, str], by: str, reason: str) -> bool:
        """Say that this (label, load) may be committed for an entry; False where a range is under way.

        Refused where the entry is not quarantined any more, and during a copy.
        """

    def resolve(self, label: str, applied: bool) -> None:
        """The replay is over: its entry is replayed, or stays."""

    def still_bad(self, id: int, refusal: Refusal) -> None:
        """It was refused once more, and why."""


class Quarantine(Protocol):
    """The quarantine of one sink, which all its jobs share; a sink that has none holds nothing."""

    def page(self, wanted: Wanted) -> Sequence[QuarantineEntry]:
        """Entries without their values, the newest first, at most `wanted.limit`."""

    def entry(self, id: int) -> QuarantineEntry | None:
        """One entry with its values; None where there is none."""

    def counts(self) -> Sequence[QuarantineCount]:
        """How many rows are quarantined for each slot's table; those with none are absent."""

    def values(self, key: LaneKey) -> Sequence[dict[str, str | None]]:
        """The quarantined rows of a slot's table, by target column; an old half has its key alone."""

    def ids(self, key: LaneKey) -> list[int]:
        """The quarantined entries of a slot's table, in the order in which they were read."""

    def replay(self, id: int, job: JobSpec, key: LaneKey, identity: TableIdentity, by: str, reason: str) -> Replayed:
        """Apply an entry to the target of the job's channel in one transaction; Refused during a copy."""

    def discard(self, id: int, key: LaneKey, by: str, reason: str) -> Replayed:
        """Give an entry up: the target stays without that row until its key changes again."""


@runtime_checkable
class SessionEnder(Protocol):
    """Asks one server about a session in front of a job's, and ends it."""

    def in_front(self, pid: int, now: float, end: float | None = None) -> InFront | None:
        """The session of that pid where a job's session waits for it at this moment, else None.

        With `end` the same statement ends it, if it is the client's session that began then, belongs to no job, and our
        login may; where a server knows no such statement, it is ended right after the question. Raises Refused where a
        server of this kind cannot tell.
        """

    def is_there(self, pid: int, began: float) -> bool:
        """Whether that very session is still there."""


@runtime_checkable
class LockReader(SessionEnder, Protocol):
    """Asks one sink, again and again; it remembers its last answer, by which a wait goes on between two attempts."""

    def read(self, now: float) -> Sequence[LockWait]:
        """The waits of this moment, within a few seconds; `now` is this machine's clock in seconds since 1970.

        Takes no lock of a table. A session that waited in the last answer and is not waiting now is among them, with
        `waits` False, as long as the server shows that the one in front of it is there still. Raises an error of ours.
        """


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """A target and what is staged for it: `columns` in the order of the staged values, `key` their names in the key.

    A column of type text goes into a column of any type that reads its text. `ordered` rows are a changelog; others are
    upserts, of which a batch may have one for each key. `successor_of` is the id of a query that wrote the target
    before and that this one replaces.
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
    """A batch by its query's id and its number."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What one attempt of a task has staged: the token that no other attempt has, and its rows.

    `left_out` are rows of the task that have no effect and are not there.
    """

    token: int
    rows: int
    left_out: int = 0


class QuerySink(Protocol):
    """One session at a sink for a query's batches; not shared between threads."""

    def admit(self) -> str:
        """Make what is missing, refuse by name what cannot be written; the place where tasks stage."""

    def stage(self, place: str, query: str, token: int, lines: BinaryIO) -> int:
        """Stage CSV lines of (token, point, sequence, kind, columns) at `place`; the rows that the server took.

        They are durable and seen by no reader of the target. Refused where another query writes the target.
        """

    def commit(self, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
        """Make what was staged the target's in one transaction; False where the batch is there already.

        An error says nothing of whether it took effect: the same call again does.
        """

    def discard(self) -> None:
        """Free what is staged where nobody can need it any more; undoes nothing, and fails in silence."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class QueryAccounts(Protocol):
    """A store's account of the query that reads one slot; nothing rests on it, and it may be missing."""

    def begin(self, epoch: int, anew: bool) -> None:
        """Make room for a query of this epoch, and the table where it is missing; nothing where a newer one is there.

        What was said before stays, unless it begins `anew`: a slot has one checkpoint, so it was said of this query.
        Raises what the store raises, as where the login may not create a table.
        """

    def write(self, report: QueryReport) -> bool:
        """Keep an account; False where the query's epoch is not the newest, or nothing was begun."""

    def read(self) -> QueryReport | None:
        """The newest account; None where there is none. Makes nothing."""

    def close(self) -> None:
        """End the session; safe to call twice."""


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
