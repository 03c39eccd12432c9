"""Ports of a source: reading one binlog table, writing its slot's points, and reading slots and rows.

All calls block; they raise only errors of `slotkeeper.core.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

from slotkeeper.core.domain.inspection import Filter, Range, Searched
from slotkeeper.core.domain.logged_change import LoggedChange
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.reset import Count
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.slot import (
    FirstRecord,
    RegisteredPoint,
    Shard,
    SlotStatus,
    TableAnswer,
    TableIdentity,
    UnreadRows,
)
from slotkeeper.core.domain.source_waits import SourceWait, lasting
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.errors import Defect
from slotkeeper.core.ports.sink import SessionEnder, Top

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


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The transactions that were open at one moment."""

    left: Callable[[], str]
    """Returns a message that names the transactions that are still open; empty once all have certainly ended."""
    advice: str
    """What a user can do about transactions that do not end; {job} is replaced by the job's name."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """An interval of keys, lo < key <= hi in the source's own order; values are the source's text forms.

    `lo` is empty for the first chunk, which contains all keys up to `hi`; `hi` is empty for a chunk without an end.
    """

    number: int
    lo: tuple[str, ...]
    hi: tuple[str, ...]


SlotsOfTables = Mapping[str, Mapping[str, str]]
"""The tables whose waits are queried: those that jobs follow, each with its slots and the job of each slot."""


@dataclass(slots=True)
class SourceWaits:
    """Repeatedly reads one source's waits for slots and sessions of jobs, and remembers when they started."""

    ask: Callable[[float, Sequence[SourceWait]], tuple[Sequence[SourceWait], str]]
    """Returns the waits as the server now shows them, and `hidden`; receives `now` and the last waits of `read`."""
    hidden: str = ""
    """Text about sessions that the last answer did not show; empty if it showed every session."""
    ender: SessionEnder | None = None
    """Ends a session that waits in front of a job's sessions; None if jobs' sessions never wait for other sessions."""
    before: tuple[SourceWait, ...] = ()
    """The waits that `read` returned last."""

    def read(self, now: float) -> Sequence[SourceWait]:
        """Return the current waits within a few seconds; `now`: this host's clock in seconds since 1970.

        Takes no table lock. Raises a SlotkeeperError.
        """
        found, self.hidden = self.ask(now, self.before)
        self.before = lasting(self.before, found)
        return self.before


ReadBeside: TypeAlias = "Callable[[Sequence[Source]], Sequence[list[SlotStatus]]] | None"
FindNews: TypeAlias = Callable[[Mapping[str, Position]], Set[str]] | None


class Source(Protocol):
    """Reads one binlog table of one source; one session, not shared between threads."""

    joint_status: bool
    """Whether the status of all DNs costs about as much as that of one."""
    read_beside: ReadBeside
    """Returns the result of `read_status(None)` for each of several sources of this session, with one message for all.

    Raises the error of any source. None if this kind of source has no such message.
    """
    find_news: FindNews
    """Returns the tables, of several, that can have a row after the given position, with one message for all.

    The result only makes polls earlier: a wrong answer delays a poll, or causes an additional poll. Raises the error of
    any table. None if this kind of source has no such message.
    """

    def admit(self) -> None:
        """Raise Refused for a server or a table that a job cannot follow; touches no slot."""

    def identify(self, filters: bool = False) -> TableIdentity:
        """Return the table's identity; raises Refused if it does not exist, has no usable key, or lacks a column.

        `filters`: also raise Refused for a row filter that this table does not support.
        """

    def nodes(self) -> list[Shard]:
        """Return the DNs that hold the table; touches no slot."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Return the status of one DN or of all; creates a slot that does not exist (DWS)."""

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """Whether the DN has a row in (after, up_to]."""

    def next_range(self, after: Position, status: SlotStatus, width: int, begins: bool = False) -> Position:
        """Return the end of the range after `after`: at most the latest position in `status`, about `width` wide.

        `begins`: the range is the first of a step. A source can limit the bytes of a step: the result is then `after`
        itself for a later range once the limit is reached. If the end is stored, the range can be read again and
        returns the same rows. `width` is in the source's own unit. Raises Trouble if rows cannot represent the next
        change; everything before it is readable.
        """

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        """Write the rows of (after, up_to]: both numbers of `Position.pair`, type, user columns; return the row count.

        A source of COPY text writes COPY text; a source of rows writes each row with
        `slotkeeper.core.drivers.pipe.put`; `out` converts if the sink reads the other encoding.

        With `TableAsked.images`, rows have these columns, old images as complete as the log has them, and `up_to` must
        be complete (`reached` without `top`, or a range within it).
        """

    def reached(self, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus) -> Position:
        """Return the position of a lane that has applied all of (after, up_to]; `top`: its highest staged numbers.

        Without `up_to`, there is no change between `after` and the latest position in `status`. Without `top`, nothing
        was staged, and the result is the end of the complete part of the range: reading up to it always returns the
        same rows. Otherwise, `status` was read after the rows; the position carries its values for `Slot.confirm`.
        """

    def open_lanes(self) -> list[SlotStatus]:
        """Return the status of every DN where new lanes start: a later read of the table sees every change before it.

        Creates a missing slot. Raises Refused if the source has no position for the slot, Busy if a DN was not reached.
        """

    def open_now(self) -> OpenTransactions | None:
        """Return the currently open transactions; later calls on the result do not wait.

        None if no open transaction can have written a row that neither the binlog nor a later copy shows.
        """

    def plan_chunks(self, rows: int) -> list[Chunk]:
        """Split the table into chunks of about `rows` rows in one pass."""

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        """Write the user columns of a chunk's rows in the encoding of `copy_changes`; return the number of rows."""


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

    def put(
        self,
        shard: Shard,
        kept: Kept,
        probe: Callable[[str], None],
        first: SlotStatus | None = None,
        lost: bool = False,
    ) -> None:
        """Register exactly this state on one DN: for a new lane, replacing any other; or, with `first`, for a reset.

        Raises Busy if no node was reached. `first`: the slot's status, just read; each part is then checked before the
        next is registered. `lost`: the slot did not exist when the reset was planned. For a reset, raises Refused if
        the server rejects the state, or SLOT LOST if the slot has been lost in the meantime.
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

    def end_sessions(self, pattern: str = "") -> bool:
        """End the login's other sessions of that name, or those that register the same lane; False if not certain."""


class Inspector(Protocol):
    """Queries about one table: how far back its binlog reaches, what a lane needs, its slots and its rows.

    No query creates a slot, but `count`, and `since` with `lowest`, are only for a slot that exists: on DWS, they can
    read its status, which creates a missing slot. A member is None if this kind of server cannot answer it.
    """

    def read(self) -> TableAnswer | None:
        """Return clock, TTL and points; None if the kernel cannot list points: later answers then contain none.

        An unknown table has no TTL, or raises Refused.
        """

    @property
    def unread(self) -> Callable[[], Sequence[UnreadRows] | None] | None:
        """Count the unread rows of every slot; None if this kernel lacks the function."""

    @property
    def consumed(self) -> Callable[[int], bool | None] | None:
        """Whether every slot has read all records, on the DN with this id, or on all DNs (0).

        None if the kernel does not report it.
        """

    @property
    def may_drop(self) -> Callable[[], bool | None] | None:
        """Whether this login can drop a slot; None if this kernel cannot drop slots."""

    @property
    def purge(self) -> Callable[[Position | None], Purge] | None:
        """When files are deleted by age even if a slot needs them, and the state of the file needed at a position."""

    def latest(self, shard: Shard | None = None) -> Mapping[str, Position | None] | None:
        """Return the newest position by DN, of one DN or of all; None if the kernel does not report it."""

    def describe(self) -> TableIdentity:
        """Return the table's columns and key, which can be missing; raises Refused for an unknown table."""

    def place(self, text: str) -> Position:
        """Parse a typed position; raises ValueError for an invalid one."""

    def records(self, place: Position | None = None) -> Mapping[str, FirstRecord]:
        """Return the first record at or after a position by DN; without a position, the oldest record."""

    def since(self, at: str, lowest: bool = True, shard: Shard | None = None) -> Mapping[str, Position | None]:
        """Return by DN the position of the first record at or after a time; raises Refused if records have no time.

        `lowest`: of a record at or after that time, so that the lowest result is the lowest of all DNs. `shard`: only
        the first record of this DN, to show it.
        """

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """Return the number of changes after `low` up to `high`, by kind."""

    def count_rows(self) -> RowCount:
        """Return the number of rows that a copy would read, within 5 s; unknown if the table is unreadable."""

    def clock(self) -> tuple[float, Ttl | None]:
        """Return the server's time in seconds since 1970, and the TTL; None if records are not deleted by a TTL."""

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        """Return rows of a range in stream order: the first rows after its start or, without a start, the last rows."""


NOT_YET = "not yet"
"""The code of an error about transactions that a server lacks, but may still execute because it is a replica."""


class Failover(Protocol):
    """Moves lanes to another server with the same binlog history; None for kinds of sources that cannot do this."""

    def other_server(self, fingerprint: str, position: Position, compares: bool) -> str:
        """Return how the server that answers now differs from the position's server; "" if it is the same server.

        Opens a new session, because an open session can still be connected to the former server. `compares`: also
        compare the position with the server's binlog.
        """

    def moved(self, fingerprint: str, positions: Sequence[Position]) -> Sequence[Position]:
        """Return the positions on this server that correspond to exactly the same transactions, in the same order.

        Raises Trouble with the reason if there are none, with the code `NOT_YET` if that can change.
        """


class Shapes(Protocol):
    """Finds changes to a table's columns in the source's log; a kind of source without it compares statuses only."""

    def change(self, after: Position) -> LoggedChange | None:
        """Return the statement that stopped a lane at a position; None if rows of the table come first.

        The table's known columns are those before the statement.
        """

    def needed(self) -> Sequence[str]:
        """Return the columns that the channel needs besides the mirrored ones, those of its filter."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table of a source over one session; `slot` is None if the server stores no positions."""

    source: Source
    slot: Slot | None
    inspector: Inspector
    words: SlotWords
    """The kind's strings about its slots."""
    pinned: Callable[[], AbstractContextManager[None]] = nullcontext
    """Holds one open session for a block that registers: a lost session is not reopened inside it."""
    failover: Failover | None = None
    """Moves lanes to another server; None if this kind of server does not support it."""
    shapes: Shapes | None = None
    """Follows changes to the table's columns; None if this kind's log does not contain them."""

    @property
    def own_slot(self) -> Slot:
        """The slot; raises Defect if the server stores no positions, which callers must rule out."""
        if self.slot is None:
            raise Defect("this source stores no positions")
        return self.slot

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Return every registered point of the table, of all its slots; None if the server cannot list them."""
        return self.slot.points() if self.slot is not None else None

    def lists(self, slot: str) -> bool:
        """Whether the slot has a point, without creating it; False if the server cannot list slots."""
        return any(one.slot == slot for one in self.points() or ())

    def slot_ttl(self) -> Ttl | None:
        """Return the TTL of the table's slots; None if the server stores no positions, or no slot expires."""
        return self.inspector.clock()[1] if self.slot is not None and self.words.retains else None

    def record_ttl(self) -> int | None:
        """Return the TTL if records are deleted by age and no status shows whether a lane's records are retained."""
        ttl = self.slot_ttl()
        return ttl.seconds if ttl is not None and ttl.by_record else None


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
    no_expiry: str = "the source retains no data for this slot, so nothing can expire"
    ddl: DdlWords | None = None


NEUTRAL = SlotWords()
