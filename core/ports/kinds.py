"""What a kind of server is to the rest of the program: one session with its faces, and what it says about itself.

A face is what one part of the program asks; all faces of a session share it, one call at a time. Nothing above these
ports names a kind: `slotkeeper.core.sources.registry` and `slotkeeper.core.sinks.registry` open one by the name that
the configuration has. `TableReader` is for a comparison of one table, `Changelog` for a reader that hands rows on to
somebody else's program: it fixes the end of a range before it is read, and not every kind of source has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.audit import AuditLine, CopiedHead
from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.domain.finding import Finding, Objection
from slotkeeper.core.domain.inspection import Answer, Left, ProbePlan
from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.remedy import ManualSql
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.traits import Encoding, SinkTraits, SourceTraits
from slotkeeper.core.domain.type_name import Condition, FieldType
from slotkeeper.core.ports.driver import Decisions, LaneSeen, ResetStore, Runner, Store, Target
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
)
from slotkeeper.core.ports.source import (
    BinlogReader,
    Chunk,
    Retention,
    SlotAdmin,
    SlotPoller,
    SlotVerbs,
    SlotViewer,
    Source,
    SourceWaitReader,
    WaitsAsked,
)

Key = tuple[str, ...]
"""A row's key: the text form of each key column under the pinned text settings, in canonical spelling."""

COUNTED = "counted"
"""The form of a column in a row's hash that every kind knows: its text with its length before it."""

Digest = tuple[str | None, ...]
"""One hash per compared column, None for NULL; the values never leave the server."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `low` (included) to `high` (not included) in the reader's order; None is open."""

    low: Key | None = None
    high: Key | None = None

    def cut(self, bounds: Sequence[Key]) -> list[KeyRange]:
        """This range in parts that begin at `bounds`.

        >>> [(r.low, r.high) for r in KeyRange().cut([("5",), ("9",)])]
        [(None, ('5',)), (('5',), ('9',)), (('9',), None)]
        """
        edges = [self.low, *bounds, self.high]
        return [KeyRange(low, high) for low, high in pairwise(edges)]


WHOLE = KeyRange()


@dataclass(frozen=True, slots=True)
class Checksum:
    """Number of rows and the sum of their hashes: equal tables have equal ones, in whatever order rows are stored."""

    rows: int
    total: int


class TableReader(Protocol):
    """One side of a comparison. Both sides must order keys alike and spell equal values alike.

    Each call sees one moment of the table; different calls may see different moments.
    """

    @property
    def label(self) -> str:
        """The table in words, for messages."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the compared columns; pairs with the other side's by place."""

    @property
    def signature(self) -> Sequence[str]:
        """How keys are ordered and text is encoded; both sides must have the same."""

    def count(self, bounds: KeyRange) -> int:
        """Rows in the range."""

    def checksum(self, bounds: KeyRange) -> Checksum:
        """Count and hash of the range, computed by the server."""

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        """Keys inside the range at which a new part of about `rows` rows begins, ascending."""

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        """Key and hash of each row of the range, at most `limit` of them, in no particular order."""

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        """The column hashes of those of `keys` that exist; several rows of one key are strung together."""


class ComparedKey(Protocol):
    """A column of a compared table's key."""

    @property
    def name(self) -> str:
        """Its name."""

    def of_copy(self, text: str) -> str:
        """A value as a copy of the source spells it, in the reader's canonical spelling."""


class ComparedTable(TableReader, Protocol):
    """A table that can be compared with one of another server."""

    @property
    def key(self) -> Sequence[ComparedKey]:
        """The columns of the key, in its order."""

    @property
    def forms(self) -> Sequence[str]:
        """In which form each compared column is hashed."""

    def hashes_by(self, forms: Sequence[str]) -> None:
        """Hash the columns in these forms; both sides of a comparison must have the same."""


class TableSession(Protocol):
    """An open session that reads whole tables, in short transactions."""

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> ComparedTable:
        """A table as `schema.table`; no `key` means its primary key, no `columns` all of them.

        `where` is a trusted condition over the columns. Raises Refused where there is no usable key.
        """

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """A table that configured jobs read; `followers` are those that follow its binlog, each narrowed to it."""

    name: str
    followers: tuple[JobSpec, ...]


@dataclass(frozen=True, slots=True)
class SourceAsked:
    """What `doctor` asks of a source; `points_proven` and `recorded` are what a probe has recorded of it.

    `recorded` gives the answer to a question by its name, "" where it was not told.
    """

    name: str
    endpoint: Endpoint
    tables: tuple[FollowedTable, ...]
    points_proven: bool
    recorded: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SinkAsked:
    """What `doctor` asks of a sink; `jobs` are those that write to it, once per channel.

    `identity_of` gives the source's table of a job and what the channel asks of it in vain; None where it cannot be
    told.
    """

    name: str
    endpoint: Endpoint
    progress_schema: str
    jobs: tuple[JobSpec, ...]
    identity_of: Callable[[JobSpec], tuple[TableIdentity | None, str]]


class SourceSession(Protocol):
    """One session at a source, with what can be asked over it."""

    @property
    def name(self) -> str:
        """The session's own name at the server."""

    def source(self, job: JobSpec, points_proven: bool = False) -> Source:
        """The channel of a job; `points_proven`: a probe has recorded one sync point per transaction."""

    def admin(self, job: JobSpec) -> SlotAdmin:
        """Registers the slot of a job's channel."""

    def retention(self, job: JobSpec) -> Retention:
        """What a start without a copy and a reset ask."""

    def verbs(self, table: str, slot: str, options: BinlogOptions) -> SlotVerbs:
        """What commands ask that create, move or drop a slot."""

    def viewer(self) -> SlotViewer:
        """What commands ask that only look."""

    def reader(self, options: BinlogOptions) -> BinlogReader:
        """Reads rows of a binlog for people."""

    def hidden(self, table: str) -> Sequence[Objection]:
        """Why rows of a table may be hidden or masked from this login; nothing where there is no such table."""

    def findings(self, asked: SourceAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """What `doctor` says about the server and the tables that jobs read there."""

    def waits(self, asked: WaitsAsked) -> SourceWaitReader | None:
        """Reads who waits there for slots and sessions of jobs; None of a kind of server that cannot tell."""

    def ping(self) -> None:
        """Return once the server has answered something; raises an error of ours, Unreachable after a few seconds."""

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class Probe(Protocol):
    """What a kind of source can be asked about itself, on scratch tables that are made for it and dropped again."""

    asked: int
    """The number of questions."""

    def plan(self, login: Login, source: str, schema: str, prod: bool) -> ProbePlan:
        """What a probe would do; only looks. Raises Refused where it cannot be done there."""

    def ask(
        self,
        login: Login,
        plan: ProbePlan,
        jobs: Sequence[JobSpec],
        left: list[Left],
        progress: Callable[[str], None],
        ending: Callable[[], None],
    ) -> list[Answer]:
        """Carry a plan out; `left` gets the tables that could not be dropped, `ending` is called before they are."""

    def switches(self, answers: Iterable[Answer]) -> Mapping[str, bool | None]:
        """The yes and no of every question that a stand-in has a switch for; None where it was not told."""


class SourceKind(Protocol):
    """A kind of source."""

    traits: SourceTraits
    """Its traits: whether it stores positions, creates slots, and has one stream for all channels."""

    gives: tuple[Encoding, ...]
    """The encodings in which it supplies a batch."""

    @property
    def positions(self) -> Positions:
        """Reads the texts of its positions."""

    @property
    def manual(self) -> ManualSql:
        """What a person may type there as the last resort."""

    @property
    def probe(self) -> Probe:
        """What it can be asked about itself."""

    def connect(self, login: Login) -> SourceSession:
        """A session, opened at its first call."""

    def poller(self, login: Login) -> SlotPoller:
        """A quiet session that is asked for slots while they are shown."""

    def tables(self, login: Login, limit_ms: int) -> TableSession:
        """A session that reads whole tables for a comparison; opens it."""

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """The least rights that following and comparing these tables needs, as statements."""


class AuditCopy(Protocol):
    """A copy of the audit at a sink."""

    def append(self, line: AuditLine, chain: str, head: str) -> None:
        """One line more, in a transaction of its own, with whose it is and its hash; raises what the sink raises."""

    def heads(self, chains: Sequence[str]) -> list[CopiedHead]:
        """The hashes of these audits' lines, the oldest first; none where nothing was ever copied. Makes nothing."""


class SinkSession(Protocol):
    """One session at a sink, with what can be asked of any."""

    def target(self, job: JobSpec) -> Target:
        """The target of a job's channel, as a start sees it."""

    def findings(self, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
        """What `doctor` says about the server and the targets that jobs write there."""

    def locks(self, prefix: str) -> LockReader | None:
        """Reads which sessions wait for a lock there, of those whose names begin with `prefix`.

        None of a kind of server whose sessions cannot tell.
        """

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class BatchSession(SinkSession, Protocol):
    """One session at a sink that keeps no progress rows."""

    def batch_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> BatchSink | LabelSink:
        """A worker's ranges and chunks into the target of a job's channel."""

    def target(self, job: JobSpec, store: Store | None = None) -> Target:
        """The target of a job's channel, compared with what is recorded of it at its store, where that is given."""

    def targets(self) -> TargetSight | None:
        """Looks at targets; None of a kind that cannot tell what a table is beyond its name."""

    def ping(self) -> None:
        """Return once the server has answered something; raises an error of ours."""


class StoreSession(SinkSession, Protocol):
    """One session at a sink that is a store: it keeps progress rows, its own jobs' or those of sinks beside it."""

    def targets(self) -> TargetReader:
        """Reads its own targets."""

    def target_records(self) -> TargetRecords:
        """The records of targets that a sink beside it has."""

    def step_sink(self, job: JobSpec, identity: TableIdentity, copying: str) -> StepSink:
        """A worker's steps and chunks into the target of a job's channel."""

    def batches(self, job: JobSpec, identity: TableIdentity) -> BatchWriter:
        """The target of a job's channel, made on request, for batches without progress rows."""

    def query_sink(self, target: QueryTarget) -> QuerySink:
        """The target of a Spark query, whose batches it fences itself."""

    def progress(self, job: JobSpec, runner: Runner) -> Store:
        """The progress rows of a job's channel."""

    def resets(self, job: JobSpec, runner: Runner) -> ResetStore:
        """The same with the steps of a reset."""

    def decisions(self, quarantines: bool = False) -> Decisions:
        """What a worker asks for a sink beside this store; `quarantines`: its job holds rows that are refused."""

    def replays(self, key: LaneKey) -> ReplaysBeside:
        """What a replay into a sink beside this store asks of a slot's table; the key's shard is not looked at."""

    def quarantine(self) -> Quarantine:
        """The rows that targets of this sink refused."""

    def at_work(self, name: str) -> bool:
        """Whether the server is at work on a statement of this login's sessions of just that name."""

    def end_sessions(self, name: str) -> int:
        """End this login's sessions in this database that go by just that name; how many were told to."""

    def lanes(self, job: JobSpec) -> list[LaneSeen]:
        """The lanes of a job's channel by their progress rows; none where nothing ever ran. Makes and locks nothing."""

    def followed(self) -> list[tuple[str, str, str, str]]:
        """(job, source, source table, slot) of all progress rows; none where nothing ever ran."""

    def queried(self) -> list[tuple[str, str, str]]:
        """(source, source table, slot) of the progress rows that follow DataFrame queries. Makes and locks nothing."""

    def accounts(self, key: LaneKey) -> QueryAccounts:
        """The account of the query that reads a slot; the key's shard is not looked at."""

    def audit(self) -> AuditCopy:
        """The copy of the audit there."""

    def ping(self) -> None:
        """Return once the server has answered something; raises an error of ours, Unreachable after a few seconds."""


class SinkKind(Protocol):
    """A kind of sink."""

    traits: SinkTraits
    """Its capabilities, on which a job's promise rests."""

    no_reset: str
    """Why a slot of its jobs cannot be reset; empty if it can."""

    takes: tuple[Encoding, ...]
    """The encodings of a batch that it accepts."""

    def connect(self, login: Login, progress_schema: str, positions: Positions | None = None) -> StoreSession:
        """A session at a store, opened at its first call; Defect where it is none.

        `positions` reads progress rows: without it there are none to read.
        """

    def connect_beside(self, login: Login) -> BatchSession:
        """A session at a sink that is no store, opened at its first call; Defect where it is one."""

    def tables(self, login: Login, limit_ms: int) -> TableSession:
        """A session that reads whole tables for a comparison; opens it."""

    def grants(self, endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
        """The least rights that these jobs need, once per channel, as statements."""


class Changelog(Source, Protocol):
    """One table of one source; one session, not shared between threads."""

    def field_type(self, column: Column) -> FieldType:
        """What a column's values are read as."""

    def exists(self) -> bool | None:
        """Whether the slot is there, without making it; None where the server cannot list slots."""

    def end_of(self, shard: Shard, after: Position, up_to: Position, status: SlotStatus) -> Position:
        """How far of (after, up_to] is there for certain, at this moment: a range to there reads the same rows again.

        `status` was read before. At its newest place this is the last event that shows, as more of it may still come.
        """

    def copy_images(
        self,
        shard: Shard,
        after: Position,
        up_to: Position,
        columns: Sequence[Column],
        only: Sequence[Condition],
        out: BinaryIO,
    ) -> int:
        """Write the rows of (after, up_to] as COPY text: the two numbers of `Position.pair`, type, these columns.

        `up_to` came from `end_of`, or from `next_range` of a range whose end did. Returns how many.
        """

    def copy_rows(self, chunk: Chunk, columns: Sequence[Column], only: Sequence[Condition], out: BinaryIO) -> int:
        """Write these columns of a chunk's rows as COPY text, of those alone that meet the conditions; how many."""


@runtime_checkable
class ChangelogSession(SourceSession, Protocol):
    """A session of a kind of source that has changelogs."""

    def changelog(self, job: JobSpec) -> Changelog:
        """The table of a job's channel."""
