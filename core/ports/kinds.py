"""Ports of a server kind: one session with its interfaces, and the kind's own strings and traits.

Each interface serves one part of the program; all interfaces of a session share the session, which executes one call at
a time. No code above these ports names a kind: `slotkeeper.core.sources.registry` and `slotkeeper.core.sinks.registry`
open a kind by its name in the configuration. `TableReader` is for the comparison of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from slotkeeper.core.domain.audit import AuditLine, CopiedHead
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Objection
from slotkeeper.core.domain.inventory import TableListed
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.probing import Answer, Left, ProbePlan
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, TableAsked
from slotkeeper.core.domain.traits import Encoding, SinkTraits, SourceTraits
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.driver import (
    CopyStore,
    Decisions,
    LaneSeen,
    Placements,
    ResetStore,
    Runner,
    StartStore,
    Target,
)
from slotkeeper.core.ports.sink import (
    BatchSink,
    BatchWriter,
    LabelSink,
    LockReader,
    Quarantine,
    QueryAccounts,
    QuerySink,
    QueryTarget,
    ReplaysBeside,
    StepSink,
    TargetReader,
    TargetRecords,
    TargetSight,
    Views,
)
from slotkeeper.core.ports.source import SlotsOfTables, SlotWords, SourceTable, SourceWaits

Key = tuple[str, ...]
"""A row's key: the canonical text form of each key column under the session's pinned text settings."""

COUNTED = "counted"
"""The hash form of a column that every kind supports: its text, preceded by the text's length."""

Digest = tuple[str | None, ...]
"""One hash per compared column, None for NULL; the values never leave the server."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `low` (included) to `high` (excluded) in the reader's order; None: unbounded."""

    low: Key | None = None
    high: Key | None = None

    def cut(self, bounds: Sequence[Key]) -> list[KeyRange]:
        """Split this range into parts that start at `bounds`.

        >>> [(r.low, r.high) for r in KeyRange().cut([("5",), ("9",)])]
        [(None, ('5',)), (('5',), ('9',)), (('9',), None)]
        """
        edges = [self.low, *bounds, self.high]
        return [KeyRange(low, high) for low, high in pairwise(edges)]


WHOLE = KeyRange()


@dataclass(frozen=True, slots=True)
class Checksum:
    """The number of rows and the sum of their hashes: the same for equal tables, in any storage order."""

    rows: int
    total: int


class TableReader(Protocol):
    """One of the two tables of a comparison. Both must sort keys and format values in the same way.

    Each call sees one snapshot of the table; different calls can see different snapshots.
    """

    @property
    def label(self) -> str:
        """The table's name in messages."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the compared columns; they match the other table's columns by position."""

    @property
    def signature(self) -> Sequence[str]:
        """The sort order of keys and the text encoding, which must be the same for both tables."""

    def count(self, bounds: KeyRange) -> int:
        """Return the number of rows in the range."""

    def checksum(self, bounds: KeyRange) -> Checksum:
        """Return count and hash of the range, computed by the server."""

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        """Return the keys, in ascending order, that split the range into parts of about `rows` rows."""

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        """Return key and hash of each row of the range, at most `limit`, unordered."""

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        """Return the column hashes of existing `keys`; if a key has several rows, their hashes are concatenated."""


class ComparedKey(Protocol):
    """A column of a compared table's key."""

    @property
    def name(self) -> str:
        """The column's name."""

    def of_copy(self, text: str) -> str:
        """Convert a value's text in a copy of the source to the reader's canonical form."""


def hash_of(texts: Sequence[str | None]) -> str:
    """Return the hash of a row in the form COUNTED."""
    return md5_of("".join("-" if text is None else f"{len(text)}:{text}" for text in texts))


def md5_of(text: str) -> str:
    """Return the hash of a column."""
    import hashlib  # loads OpenSSL, which starting a console does not need

    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


Rewrite = Callable[[Sequence[str | None]], Sequence[str | None]]
"""Computes the compared values of a row from the values of the columns named when the table was opened."""


class ComparedTable(TableReader, Protocol):
    """A table that can be compared with a table of another server."""

    @property
    def key(self) -> Sequence[ComparedKey]:
        """The columns of the key, in order."""

    @property
    def forms(self) -> Sequence[str]:
        """The hash form of each compared column."""

    def hashes_by(self, forms: Sequence[str]) -> None:
        """Set the columns' hash forms; both tables of a comparison must use the same forms."""

    def rewrite(self, columns: Sequence[str], values: Rewrite) -> None:
        """Compare these columns, whose values are computed from the texts of each row; hashed in this process."""


class TableSession(Protocol):
    """An open session that reads whole tables, in short transactions."""

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> ComparedTable:
        """Open a table `schema.table`; by default with its primary key as the key and all columns.

        `where` is a trusted condition over the columns. Raises Refused if there is no usable key.
        """

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table that configured jobs read; `followers`: the jobs that follow its binlog, each reduced to this table."""

    name: str
    followers: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class SourceAsked:
    """Inputs of `doctor` for a source; `points_proven` and `recorded` come from the record of a probe.

    `recorded` returns the answer to a question by its name, "" if unknown.
    """

    name: str
    endpoint: Endpoint
    tables: tuple[FollowedTable, ...]
    points_proven: bool
    recorded: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SinkAsked:
    """Inputs of `doctor` for a sink; `jobs`: the jobs that write to it, once per channel.

    `identity_of` returns a job's source table (None if unknown) and the channel's objection to that table.
    """

    name: str
    endpoint: Endpoint
    progress_schema: str
    jobs: tuple[JobSpec, ...]
    identity_of: Callable[[JobSpec], tuple[TableIdentity | None, str]]


class SourceSession(Protocol):
    """One session on a source, with its interfaces."""

    def table(self, asked: TableAsked) -> SourceTable:
        """Return one table, for reading it, for registering its slot, and for queries about it."""

    doctor: Doctor
    """The interface of `doctor`, `locks` and other checks outside of a job."""

    def ping(self) -> None:
        """Return once the server has answered; raises a SlotkeeperError (Unreachable after a few seconds)."""

    def sever(self) -> None:
        """Close the connection immediately, from any thread, without waiting."""

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class ProbeAsked:
    """Inputs of a probe's execution, with the jobs that read the source, or that write to the sink.

    `left` receives tables that could not be dropped, and `progress` each question; `ending` is called before the drop.
    """

    plan: ProbePlan
    jobs: Sequence[JobSpec]
    left: list[Left]
    progress: Callable[[str], None]
    ending: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a kind of server, on scratch tables that it creates and drops, in sessions of its own."""

    asked: int
    """The number of questions."""
    plan: Callable[[str, str, bool], ProbePlan]
    """Returns the plan of a probe for a server's name, a schema, and whether the server is PROD; changes nothing.

    Raises Refused if the server cannot be probed.
    """
    ask: Callable[[ProbeAsked], tuple[Sequence[Answer], Mapping[str, bool | None]]]
    """Executes a plan. Returns the answers, and the answer to each question for which the stand-in has a switch."""


@dataclass(frozen=True, slots=True)
class FeedAsked:
    """Inputs of a shared reader: the job, its slot, the lowest position by source table, and a folder for its socket.

    Only this user can enter the folder; its path is short.
    """

    job: str
    slot: str
    positions: Mapping[str, Position]
    folder: Path


@dataclass(frozen=True, slots=True)
class Feed:
    """A reader of a server's only stream for several tables of a job; lanes reach it at `address`, on this host.

    It only saves work: a lane that cannot connect to it, or for which it has no rows, reads over its own connection.
    `close` ends it. `error` returns why it does not read, or did not until recently; None if it works.
    """

    address: str
    close: Callable[[], None]
    error: Callable[[], SlotkeeperError | None]


OpenFeed = Callable[[Login, FeedAsked], Feed | None]
"""Starts a shared reader; returns None if this server cannot have one. Raises a SlotkeeperError."""


class Doctor(Protocol):
    """The login's privileges and view of a source, and the behavior of its server; creates nothing outside a probe."""

    def hidden(self, table: str) -> Sequence[Objection]:
        """Return why rows of a table may be hidden or masked from this login; empty if the table does not exist."""

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """Return the findings of `doctor` about the server and the tables that jobs read from it."""

    def list_tables(self, schemas: Collection[str], binlog: bool) -> Sequence[TableListed]:
        """Return the tables and views that this login can see in these schemas; empty: in all but the system schemas.

        `binlog`: a table without a binlog is unfit. Reads only catalogs, and locks no table.
        """

    def waits(self, tables: SlotsOfTables) -> SourceWaits | None:
        """Return a reader of the waits for slots and sessions of jobs; None if the server kind cannot report waits."""


class SourceKind(Protocol):
    """A source kind."""

    traits: SourceTraits
    """Whether the kind stores positions, creates slots, and has one stream for all channels."""

    gives: tuple[Encoding, ...]
    """The encodings in which the source supplies a batch."""

    words: SlotWords
    """The kind's strings about its slots."""

    positions: Positions
    """The parser of the kind's positions."""

    manual: ManualSql
    """The SQL for users to run on the server."""

    feed: OpenFeed | None
    """Starts a shared reader; None for a kind with several streams."""

    @property
    def probe(self) -> Callable[[Login], Probe] | None:
        """Return the kind's probe over sessions of a login; None if it has none."""

    def connect(self, login: Login, polls: bool = False) -> SourceSession:
        """Return a session that opens at its first call.

        `polls`: the session polls slots for a screen. On DWS, each of its queries about slots is then one statement
        that the server ends after 3 s.
        """

    def tables(self, login: Login, limit_ms: int) -> TableSession:
        """Open a session that reads whole tables for a comparison."""


class AuditCopy(Protocol):
    """A copy of the audit log in a sink."""

    def append(self, line: AuditLine, chain: str, head: str) -> None:
        """Append a line, its audit log's name and its hash, in a separate transaction; raises the sink's errors."""

    def heads(self, chains: Sequence[str]) -> list[CopiedHead]:
        """Return the hashes of these audit logs' lines, oldest first; none before the first copy. Creates nothing."""


class SinkSession(Protocol):
    """One session on any sink, with the interfaces that all sinks have."""

    def target(self, job: JobSpec) -> Target:
        """Return the target of a job's channel for a start."""

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """Return the findings of `doctor` about the server and the targets of jobs that write to it."""

    def locks(self, prefix: str) -> LockReader | None:
        """Return a reader of lock waits of the sessions whose names start with `prefix`.

        None if the server kind cannot report them.
        """

    def sever(self) -> None:
        """Close the connection immediately, from any thread, without waiting."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchSession(SinkSession, Protocol):
    """One session on a sink that cannot store progress rows."""

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> BatchSink | LabelSink:
        """Return the sink with which a worker writes ranges and chunks to the target of a job's channel."""

    def target(self, job: JobSpec, store: CopyStore | None = None) -> Target:
        """Return the target of a job's channel, compared with its record in the store if one is given."""

    def labelled(self, target: QueryTarget) -> LabelSink:
        """Return the sink for a query's batches; raises Refused for a kind without labels, or an unsuitable target.

        The target is created on request.
        """

    def targets(self) -> TargetSight | None:
        """Return a reader of targets; None if the kind identifies a table only by its name."""

    def ping(self) -> None:
        """Return once the server has answered; raises a SlotkeeperError."""


@dataclass(frozen=True, slots=True)
class TablesVersion:
    """A group of Slotkeeper's own tables in a sink: the recorded version, 0 if none is recorded, and this version's."""

    group: str
    version: int
    known: int


class StoreSession(SinkSession, Protocol):
    """One session on a sink that is a store: it has progress rows, for its own jobs or for other sinks."""

    def targets(self) -> TargetReader:
        """Return a reader of the store's own targets."""

    def target_records(self) -> TargetRecords:
        """Return the target records of a sink that uses this store."""

    def step_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> StepSink:
        """Return the sink with which a worker writes steps and chunks to the target of a job's channel."""

    def batches(self, job: JobSpec, identity: TableIdentity) -> BatchWriter:
        """Return a writer of batches to a job's target, without progress rows; the target is created on request."""

    def query_sink(self, target: QueryTarget) -> QuerySink:
        """Return the sink for a Spark query, which fences its own batches."""

    def planned_query_sink(self, target: QueryTarget, place: str, beside: BatchSession) -> QuerySink:
        """Return the sink for a query that writes over `beside`; this store has its plans, for the target `place`.

        Raises Refused for options that only a sink in the store's own server has.
        """

    def progress(self, job: JobSpec, runner: Runner) -> StartStore:
        """Return the progress rows of a job's channel."""

    def resets(self, job: JobSpec, runner: Runner) -> ResetStore:
        """Return the progress rows with the steps of a reset."""

    def decisions(self, quarantines: bool = False) -> Decisions:
        """Return a worker's calls for a sink that uses this store; `quarantines`: the job quarantines rejected rows."""

    def replays(self, key: LaneKey) -> ReplaysBeside:
        """Return the calls of a replay of a slot's table into a sink that uses this store; ignores the key's shard."""

    def quarantine(self) -> Quarantine:
        """Return the quarantine of this sink's targets."""

    def at_work(self, name: str) -> bool:
        """Whether a session of this login with exactly that name is running a statement."""

    def end_sessions(self, name: str) -> int:
        """End this login's sessions with exactly that name in this database; return their number."""

    def lanes(self, job: JobSpec) -> list[LaneSeen]:
        """Return a job's lanes according to their progress rows; none before a first run. Creates and locks nothing."""

    def followed(self) -> list[tuple[str, str, str, str]]:
        """Return (job, source, source table, slot) of all progress rows; none before a first run."""

    def queried(self) -> list[tuple[str, str, str]]:
        """Return (source, source table, slot) of DataFrame queries' progress rows. Creates and locks nothing."""

    def accounts(self, key: LaneKey) -> QueryAccounts:
        """Return the account of the query that reads a slot; ignores the key's shard."""

    def own_tables(self) -> list[TablesVersion]:
        """Return the versions of Slotkeeper's own tables that exist. Creates and locks nothing."""

    def audit(self) -> AuditCopy:
        """Return this sink's copy of the audit log."""

    def placements(self, limit_ms: int) -> Placements:
        """Return the jobs that several hosts share; `limit_ms` is the time limit of each call."""

    def views(self, job: JobSpec) -> Views:
        """Return the views of a job; raises Refused if this kind of store keeps none."""

    def ping(self) -> None:
        """Return once the server has answered; raises a SlotkeeperError (Unreachable after a few seconds)."""


class SinkKind(Protocol):
    """A sink kind."""

    traits: SinkTraits
    """The kind's capabilities, which determine what a job guarantees."""

    no_reset: str
    """Why slots of jobs with this sink cannot be reset; empty if they can."""

    takes: tuple[Encoding, ...]
    """The encodings of a batch that the sink accepts."""

    @property
    def probe(self) -> Callable[[Login], Probe] | None:
        """Return the kind's probe over sessions of a login; None if it has none."""

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> StoreSession:
        """Return a session on a store, which opens at its first call; raises Defect for any other sink.

        `positions` parses progress rows, which the session otherwise cannot read.
        """

    def connect_beside(self, login: Login) -> BatchSession:
        """Return a session on a sink that is not a store, which opens at its first call; raises Defect for a store."""

    def tables(self, login: Login, limit_ms: int) -> TableSession:
        """Open a session that reads whole tables for a comparison."""

    def condition(self, channel: ChannelSpec) -> str:
        """Return the SQL condition that a target row mirrors a source row, for a constant or soft deletes."""

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        """Return GRANT statements with the least privileges for these jobs, once per channel."""
