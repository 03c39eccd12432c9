"""Ports of a source: reading one binlog table, writing its slot's points, and reading slots and rows.

All calls block; they raise only errors of `slotkeeper.core.errors`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.inspection import Filter, Range, Searched
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import (
    Column,
    FirstRecord,
    RegisteredPoint,
    Shard,
    SlotStatus,
    TableAnswer,
    TableIdentity,
    UnreadRows,
)
from slotkeeper.core.domain.source_waits import SourceWait, lasting
from slotkeeper.core.domain.ttl import Purge
from slotkeeper.core.domain.type_name import Condition, FieldType
from slotkeeper.core.errors import Defect
from slotkeeper.core.ports.sink import Top

LOST_ANSWER_WAIT = 15.0
"""Seconds in which a killed driver's call can still take effect: longer than the server's limit for a registration."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A transaction that was open when the slot was created: `started` identifies it together with `pid`.

    A prepared transaction has no session: `pid` is 0, `started` its name and `application` its database.
    """

    pid: int
    started: str
    user: str
    application: str
    hidden: bool = False

    @property
    def text(self) -> str:
        """The transaction's name in messages."""
        if not self.pid:
            return f"prepared transaction {self.started} ({self.user}, database {self.application})"
        return f"pid {self.pid} ({self.user}, {self.application or 'no name'})"


class OpenTransactions(Protocol):
    """The transactions that were open at one moment."""

    def left(self) -> str:
        """Return a message that names the transactions that are still open; empty once all have certainly ended."""

    def advice(self, job: str) -> str:
        """Return what a user can do about transactions that do not end."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """An interval of keys, lo < key <= hi in the source's own order; values are the source's text forms.

    `lo` is empty for the first chunk, which contains all keys up to `hi`.
    """

    number: int
    lo: tuple[str, ...]
    hi: tuple[str, ...]


SlotsOfTables = Mapping[str, Mapping[str, str]]
"""The tables whose waits are queried: those that jobs follow, each with its slots and the job of each slot."""


class SourceWaits(ABC):
    """Repeatedly reads one source's waits for slots and sessions of jobs, and remembers when they started."""

    hidden = ""
    """Text about sessions that the last answer did not show; empty if it showed every session."""

    _before: tuple[SourceWait, ...] = ()

    def read(self, now: float) -> Sequence[SourceWait]:
        """Return the current waits within a few seconds; `now`: this host's clock in seconds since 1970.

        Takes no table lock. Raises a SlotkeeperError.
        """
        self._before = lasting(self._before, self._seen(now))
        return self._before

    @abstractmethod
    def _seen(self, now: float) -> Iterable[SourceWait]:
        """Return the waits as the server now shows them; set `hidden`."""


class Source(Protocol):
    """Reads one binlog table of one source; one session, not shared between threads."""

    def admit(self) -> None:
        """Raise Refused for a server or a table that a job cannot follow; touches no slot."""

    def identify(self) -> TableIdentity:
        """Return the table's identity; raises Refused if it does not exist or has no usable key."""

    def selects(self, identity: TableIdentity) -> None:
        """Raise Refused for a mapping or a row filter that this table does not support."""

    def nodes(self) -> list[Shard]:
        """Return the DNs that hold the table; touches no slot."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Return the status of one DN or of all; creates a slot that does not exist (DWS)."""

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """Whether the DN has a row in (after, up_to]."""

    def next_range(self, after: Position, status: SlotStatus, width: int) -> Position:
        """Return the end of the range after `after`: at most the latest position in `status`, about `width` wide.

        The result is `after` itself if the step has enough rows without this range (`Bounded`). If the end is stored,
        the range can be read again and returns the same rows. `width` is in the source's own unit. Raises Trouble if
        rows cannot represent the next change; everything before it is readable.
        """

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        """Write the rows of (after, up_to]: both numbers of `Position.pair`, type, user columns; return the row count.

        A source of COPY text writes COPY text; a source of rows writes each row with
        `slotkeeper.core.drivers.pipe.put`; `out` converts if the sink reads the other encoding.
        """

    def reached(self, after: Position, up_to: Position, top: Top, status: SlotStatus) -> Position:
        """Return the position of a lane that has applied all of (after, up_to]; `top`: its highest staged numbers.

        `status` was read after the rows; the position carries its values for `Slot.confirm`.
        """

    def standing(self, after: Position, status: SlotStatus) -> Position:
        """Return the position of a lane without changes between `after` and the latest position in `status`."""

    def open_now(self) -> OpenTransactions | None:
        """Return the currently open transactions; later calls on the result do not wait.

        None if no open transaction can have written a row that neither the binlog nor a later copy shows.
        """

    def plan_chunks(self, rows: int) -> list[Chunk]:
        """Split the table into chunks of about `rows` rows in one pass."""

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        """Write the user columns of a chunk's rows in the encoding of `copy_changes`; return the number of rows."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class Changelog(Source, Protocol):
    """A table as a DataFrame reads it, with complete rows in COPY text."""

    def field_type(self, column: Column) -> FieldType:
        """Return the type of a column's values for readers."""

    def exists(self) -> bool | None:
        """Whether the slot exists, without creating it; None if the server cannot list slots."""

    def end_of(self, shard: Shard, after: Position, up_to: Position, status: SlotStatus) -> Position:
        """Return the end of the complete part of (after, up_to]: reading up to that end always returns the same rows.

        `status` was read before this call. If `up_to` is the newest position in `status`, the returned end is the last
        visible event, because more events can still arrive.
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

        `up_to` comes from `end_of`, or from `next_range` within such a range. Returns the number of rows.
        """

    def copy_rows(self, chunk: Chunk, columns: Sequence[Column], only: Sequence[Condition], out: BinaryIO) -> int:
        """Write these columns of a chunk's matching rows as COPY text; return the number of rows."""


@runtime_checkable
class Bounded(Protocol):
    """A source that limits a step by the number of bytes read: `next_range` is empty once that limit is reached."""

    def begin_step(self) -> None:
        """Start a step: the following ranges belong to it."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The confirmation of a lane's position; `before`: the last registration; `check` runs before each source call.

    `fingerprint`: the fingerprint of the lane's table. `probe` is called at named points.
    """

    position: Position
    before: Kept
    fingerprint: str
    check: Callable[[], None]
    probe: Callable[[str], None]


class Slot(Protocol):
    """A table's slot; only the driver and slot commands use it. A server that stores no positions has none."""

    shown_as: str
    """The name under which the server shows the session that registers the channel; "": the session's own name."""

    cleared_for: int
    """The last sink connection (`generation`) for which the lane's other registering sessions have certainly ended."""

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Return every registered point of the table, of all its slots; None if the kernel cannot list them."""

    def confirm(self, first: SlotStatus, asked: Confirmation) -> Kept:
        """Confirm a lane's position in the source; `first` was just read and checked.

        Returns the slot's new state. After any error except Trouble and Superseded the outcome is unknown.
        """

    def register_first(self, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
        """Register this state for a new lane on one DN, replacing any other. Raises Busy if no node was reached."""

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        """Register exactly this state for a slot with the status `first`; check each part before registering the next.

        `lost`: the slot did not exist when the reset was planned. Raises Refused if the server rejects it, or SLOT LOST
        if the slot has been lost in the meantime.
        """

    def full_sync(self) -> str:
        """Move the slot to the newest position on every DN; return the server's answer (undocumented for DWS)."""

    def clear(self) -> int:
        """Clear the slot on all DNs; return the number of points that the server reports as cleared."""

    def kept_by(self, points: Sequence[RegisteredPoint]) -> Kept:
        """Combine the registered points of one slot on one DN."""

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> Kept:
        """Return the registration of a lane that starts at a position; `record`: its first needed record, if known."""

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> Kept:
        """Return the slot's state for a lane moved to a position, `back` or forward; `before`: the current state."""

    def registration_text(self, node: int, kept: Kept) -> list[str]:
        """Return the calls that register this state on one DN, for a plan."""

    def record_ttl(self) -> int | None:
        """Return the TTL if the source deletes records by age, whether they are read or not; else None."""

    def pinned(self) -> AbstractContextManager[None]:
        """Hold one open session for the block: a lost session is not reopened inside it."""

    def end_rivals(self) -> bool:
        """End other sessions that register the same lane; return False if their end is not certain."""

    def end_sessions(self, pattern: str) -> bool:
        """End the login's other sessions of that name; return False if their end is not certain."""


class History(Protocol):
    """How far back a table's binlog reaches, and where lanes can start.

    Callers read the status only of a slot that exists: on DWS, the status query creates a missing slot.
    """

    words: SlotWords
    """The source's strings about its slots."""

    def open_lanes(self) -> list[SlotStatus]:
        """Return the status of every DN where new lanes start: a later read of the table sees every change before it.

        Creates a missing slot. Raises Refused if the source has no position for the slot, Busy if a DN was not reached.
        """

    def place(self, text: str) -> Position:
        """Parse a typed position; raises ValueError for an invalid one."""

    def records(self, place: Position | None = None, shard: Shard | None = None) -> Mapping[str, FirstRecord]:
        """Return the first record at or after a position by DN; without a position, the oldest record."""

    def at_time(self, at: str) -> dict[str, Position | None]:
        """Return the position of the first record at or after a time by DN; raises Refused if records have no time."""

    def since(self, at: str) -> dict[str, Position | None]:
        """Return by DN the position of a record at or after a time; the lowest result is the lowest of all DNs.

        Raises Refused if records have no time.
        """

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """Return the number of changes after `low` up to `high`, by kind."""

    def count_rows(self) -> RowCount:
        """Return the number of rows that a copy would read, within 5 s; unknown if the table is unreadable."""

    def seconds(self) -> float:
        """Return the time of the server's clock, in seconds since 1970."""

    def ttl(self) -> int | None:
        """Return the table's TTL in seconds."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table of a source over one session; `slot` is None if the server stores no positions."""

    source: Source
    slot: Slot | None
    history: History
    changelog: Changelog | None = None
    """The table as a DataFrame reads it; None if the kind has no changelogs (`SourceTraits.changelogs`)."""

    @property
    def own_changelog(self) -> Changelog:
        """The changelog; raises Defect if the kind has none, which the caller has excluded."""
        if self.changelog is None:
            raise Defect("this source has no changelogs")
        return self.changelog

    @property
    def own_slot(self) -> Slot:
        """The slot; raises Defect if the server stores no positions, which the caller has excluded."""
        if self.slot is None:
            raise Defect("this source stores no positions")
        return self.slot

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Return every registered point of the table, of all its slots; None if the server cannot list them."""
        return self.slot.points() if self.slot is not None else None

    def record_ttl(self) -> int | None:
        """Return the TTL if records are deleted by age and no status shows whether a lane's records are retained."""
        return self.slot.record_ttl() if self.slot is not None else None


@dataclass(frozen=True, slots=True)
class SlotCalls:
    """The statements of slot commands, for their plans; `{}` is replaced by the table and the slot as literals.

    `drops` is the name of the function that drops a slot.
    """

    create: tuple[str, ...] = ()
    register: str = ""
    drop: str = ""
    drops: str = ""


@dataclass(frozen=True, slots=True)
class DdlWords:
    """Strings of one kind of source about DDL that waits for slots or clears them; {limit} is replaced by the duration.

    `waits`: how each action waits. `limit`: the duration if it is unknown; `limit_of`: the duration if it is known.
    `clears`: the DDL that clears slots. `lost_by`: the same for the shown slot. `blocked`: the actions that wait, in a
    few words. `note`: a caution.
    """

    waits: Mapping[str, str]
    limit: str
    limit_of: str
    clears: str
    lost_by: str
    note: str
    blocked: str


@dataclass(frozen=True, slots=True)
class SlotWords:
    """Strings of one kind of source about slots: unknown facts, and what happens to slots; "" is not shown.

    `head`: about a table, with {ttl} and {timeout}. `ttl`: the name of a table's time to live. `part`: the name of a
    lane's part of the source (`Positions.part`). `short`: the slot did not reach the newest position when it was moved
    there. `identity`: what distinguishes tables with the same name. `marks`: the names of a slot's values on one DN
    (`Positions.marks`), empty if the server stores none, in which case Slotkeeper's own position is shown. `retains`:
    whether the source retains records until all slots have read them; if not, it deletes them by age, and no slot
    expires. `calls`: empty if no command creates, moves or drops a slot. `there`: the statement that a slot is
    complete. `no_expiry`: why a reset has no TTL to check. `ddl`: None if no DDL waits for readers or clears a slot.
    """

    no_list: str = "the server cannot list slots: only configured slots are shown, from Slotkeeper's progress rows"
    no_count: str = "the server does not count unread rows"
    no_drop: str = "this server cannot drop a slot"
    no_after: str = "the server cannot show the current slots"
    no_drained: str = "the server does not report whether all records have been read"
    no_ttl: str = ""
    no_timeout: str = ""
    own_times: str = ""
    lapses: str = ""
    moved: str = "every slot moves to the newest position"
    ages: str = ""
    head: str = ""
    ttl: str = "the retention time of records"
    part: str = "DN"
    short: str = "the slot did not move to the newest position"
    identity: str = "columns and key"
    marks: tuple[str, ...] = ()
    retains: bool = True
    calls: SlotCalls = SlotCalls()
    there: str = "both points are registered on every DN"
    no_expiry: str = "the source retains no data for this slot that could expire"
    ddl: DdlWords | None = None


NEUTRAL = SlotWords()


class Inspector(Protocol):
    """Queries of read-only commands and screens about a source's slots and rows; none names a slot, or creates one.

    A member is None if this kind of server cannot answer it.
    """

    def read_table(self, table: str) -> TableAnswer | None:
        """Return clock, TTL and points; None if the kernel cannot list points: later answers then contain none.

        An unknown table has no TTL, or raises Refused.
        """

    @property
    def unread(self) -> Callable[[str], Sequence[UnreadRows] | None] | None:
        """Count the unread rows of every slot of a table; None if this kernel lacks the function."""

    @property
    def consumed(self) -> Callable[[str, int], bool | None] | None:
        """Whether every slot of a table has read all records, on the DN with this id, or on all DNs (0).

        None if the kernel does not report it.
        """

    @property
    def may_drop(self) -> Callable[[], bool | None] | None:
        """Whether this login can drop a slot; None if this kernel cannot drop slots."""

    @property
    def purge(self) -> Callable[[Position | None], Purge] | None:
        """When files are deleted by age even if a slot needs them, and the state of the file needed at a position."""

    def latest(self, table: str, shard: Shard | None = None) -> Mapping[str, Position | None] | None:
        """Return the newest position by DN, of one DN or of all; None if the kernel does not report it."""

    def nodes(self, table: str) -> dict[str, int]:
        """Return the DNs that hold a table: id by name."""

    def identity(self, table: str) -> TableIdentity:
        """Return the table's columns and key; raises Refused for an unknown table."""

    def records(self, table: str, place: Position | None) -> Mapping[str, FirstRecord]:
        """Return the first record at or after a position by DN; without a position, the oldest record."""

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        """Return the position of a DN's first record at or after a time; raises Refused if records have no time."""

    def rows(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        """Return rows of a range in stream order: the first rows after its start or, without a start, the last rows."""
