"""What is asked of a source: reading one binlog table, writing its slot's points, and looking at slots and rows.

All calls block; each raises an error of `slotkeeper.core.errors` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol, runtime_checkable

from slotkeeper.core.domain.inspection import Filter, Range, Searched
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
from slotkeeper.core.domain.source_waits import SourceWait
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.ports.sink import Top

LOST_ANSWER_WAIT = 15.0
"""Seconds in which a killed driver's call can still take effect: longer than the server's limit of a registration."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A transaction that was open when the slot was made: `started` identifies it together with `pid`.

    A prepared one has no session: `pid` is 0, `started` its name and `application` its database.
    """

    pid: int
    started: str
    user: str
    application: str
    hidden: bool = False

    @property
    def text(self) -> str:
        """Which it is, in words."""
        if not self.pid:
            return f"prepared transaction {self.started} ({self.user}, database {self.application})"
        return f"pid {self.pid} ({self.user}, {self.application or 'no name'})"


class OpenTransactions(Protocol):
    """The transactions that were open at one moment."""

    def left(self) -> str:
        """Whom is waited for, in words; nothing once all have ended for certain."""

    def advice(self, job: str) -> str:
        """What a person may do about those that do not end."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """An interval of keys, lo < key <= hi in the source's own order; values are the source's text forms.

    `lo` is empty for the first chunk: everything up to `hi`.
    """

    number: int
    lo: tuple[str, ...]
    hi: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaitsAsked:
    """Whose waits are asked for: the tables that jobs follow, each with its slots and their jobs."""

    tables: Mapping[str, Mapping[str, str]]


class SourceWaitReader(Protocol):
    """Asks one source, again and again, who waits for its slots and for sessions of jobs; it remembers since when."""

    hidden: str
    """What the last answer could not see; empty if it saw every session."""

    def read(self, now: float) -> Sequence[SourceWait]:
        """The waits of this moment, within a few seconds; `now` is this host's clock in seconds since 1970.

        Holds no lock of a table. Raises an error of ours.
        """


class Source(Protocol):
    """Reads one binlog table of one source; one session, not shared between threads."""

    def admit(self) -> None:
        """Refuse by name a server or a table that cannot be followed; no slot is touched."""

    def identify(self) -> TableIdentity:
        """Which table this is now; raises Refused where it does not exist or has no usable key."""

    def selects(self, identity: TableIdentity) -> None:
        """Refuse by name a mapping or a row filter that this table cannot serve."""

    def nodes(self) -> list[Shard]:
        """The DNs that hold the table, without touching any slot."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """The status of one DN or of all; creates a slot that does not exist (DWS)."""

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """Whether the DN holds one row beyond `after` and at most at `up_to`."""

    def next_range(self, after: Position, status: SlotStatus, width: int) -> Position:
        """Where the range that begins behind `after` ends: at most at the status's latest, and about `width` wide.

        It is `after` itself where the step has enough without it (`Bounded`).
        An end can be stored, and the range read again with the same rows. `width` is in the source's own unit.
        Raises Trouble where no rows tell what comes next; what is before that can be read.
        """

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        """Write the rows of (after, up_to] and return how many: the two numbers of `Position.pair`, type, user columns.

        A source of COPY text writes that, one of rows puts each by `slotkeeper.core.drivers.pipe.put`; `out`
        converts where the sink reads the other.
        """

    def reached(self, after: Position, up_to: Position, top: Top, status: SlotStatus) -> Position:
        """The position of a lane that has applied everything of (after, up_to]; `top` is what was staged of it.

        `status` was read behind the rows; what it tells is carried along for `SlotAdmin.confirm`.
        """

    def standing(self, after: Position, status: SlotStatus) -> Position:
        """The position of a lane that was found to have nothing between `after` and the status's latest."""

    def open_now(self) -> OpenTransactions:
        """The transactions that are open at this moment; what is asked of it later waits for nothing."""

    def plan_chunks(self, rows: int) -> list[Chunk]:
        """Cut the table into chunks of about `rows` rows in one pass."""

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        """Write the rows of one chunk in the same way: user columns; returns the count."""

    def close(self) -> None:
        """End the session; safe to call twice."""


@runtime_checkable
class Bounded(Protocol):
    """A source that bounds a step by the bytes it reads: `next_range` ends where it began once there are enough."""

    def begin_step(self) -> None:
        """The ranges that are asked for from now on are of one step."""


class SlotAdmin(Protocol):
    """Writes slot points; only the driver and slot commands hold one."""

    def nodes(self) -> list[Shard]:
        """As `Source.nodes`."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """As `Source.read_status`."""

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """As `Source.has_changes`."""

    def standing(self, after: Position, status: SlotStatus) -> Position:
        """As `Source.standing`."""

    def confirm(self, first: SlotStatus, asked: Confirmation) -> Kept:
        """Tell the source that a lane is done up to a position; `first` was read just now and judged.

        Returns what is kept now. After any error but a Trouble or Superseded it is not known what landed.
        """

    def create_slot(self) -> list[SlotStatus]:
        """The status of every DN; where the source makes no slot when it is asked, it is made.

        Raises Refused where the source gives no place for the slot, Busy where a DN was not reached.
        """

    def register_first(self, shard: Shard, kept: Kept, probe: Callable[[str], None]) -> None:
        """Register this on one DN, whatever was there: of a lane that begins. Raises Busy where it reached no node."""

    def full_sync(self) -> str:
        """Move the slot to now on every DN; what the server answered, in words (DWS: its result is not documented)."""

    def pinned(self) -> AbstractContextManager[None]:
        """Hold one open session for the block: a lost one is not opened again inside it."""

    shown_as: str
    """The server's name for the session that registers the channel; "": the session's own."""

    cleared_for: int
    """The last sink connection (`generation`) for which the lane's other registrars are known to have ended."""

    def end_rivals(self) -> bool:
        """End other sessions that register the same lane; False where it is not certain."""

    def end_sessions(self, pattern: str) -> bool:
        """End our login's sessions of that name but this one; False where it cannot be known that they are gone."""

    def close(self) -> None:
        """End the session; safe to call twice."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What is confirmed for a lane: `before` is what was registered last, `check` is called before each send.

    `fingerprint` is that of the lane's table; `probe` is called at named points.
    """

    position: Position
    before: Kept
    fingerprint: str
    check: Callable[[], None]
    probe: Callable[[str], None]


class Retention(SlotAdmin, Protocol):
    """What a start without a copy and a reset ask beside: how far back the binlog of one table reaches, and its points.

    `read_status` and what registers are sent only for a slot that exists, because asking makes one (DWS).
    """

    words: SlotWords
    """The source's texts about its slots."""

    def identify(self) -> TableIdentity:
        """As `Source.identify`."""

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Every registered point of the table, of all its slots; None where the kernel cannot list them."""

    def place(self, text: str) -> Position:
        """The place that a person has typed; raises ValueError where it is none."""

    def kept_by(self, points: Sequence[RegisteredPoint]) -> Kept:
        """What these registered points of one slot on one DN are together."""

    def records(self, place: Position | None = None, shard: Shard | None = None) -> Mapping[str, FirstRecord]:
        """The first record at or after a place by DN; the first of all without one."""

    def at_time(self, at: str) -> dict[str, Position | None]:
        """The place of the first record at or after a time by DN; Refused where records carry no time."""

    def since(self, at: str) -> dict[str, Position | None]:
        """The first place of a record at or after a time by DN, as far as it lies below all places of other DNs;
        Refused where records carry no time."""

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """The changes beyond `low` and up to `high`, by kind."""

    def count_rows(self) -> RowCount:
        """The rows that a copy would find, within five seconds; unknown where the table cannot be asked."""

    def begin_at(self, status: SlotStatus, place: Position, record: FirstRecord | None) -> Kept:
        """What is registered for a lane that begins at a place; `record` is the first that it wants, where known."""

    def kept_at(self, shard: Shard, place: Position, before: Kept, status: SlotStatus | None, back: bool) -> Kept:
        """What has to be kept for a lane that is moved to a place, `back` or ahead; `before` is what is there now."""

    def restore(self, shard: Shard, kept: Kept, first: SlotStatus, lost: bool, probe: Callable[[str], None]) -> None:
        """Register exactly this for a slot that was found as in `first`, each part judged before the next.

        `lost`: the slot was gone when the reset was planned. Raises Refused where the server does not take it,
        SLOT LOST where it goes meanwhile.
        """

    def registration_text(self, node: int, kept: Kept) -> list[str]:
        """The calls that register this on one DN, as a plan shows them."""

    def seconds(self) -> float:
        """The server's clock, in seconds since 1970."""

    def ttl(self) -> int | None:
        """The table's TTL in seconds."""

    def record_ttl(self) -> int | None:
        """The TTL where records go by their own age, read or not; else None."""


@dataclass(frozen=True, slots=True)
class SlotCalls:
    """What slot commands send, as it is shown in their plans; `{}` stands for the table and the slot as literals.

    `drops` is the name of the function that drops a slot.
    """

    create: tuple[str, ...]
    register: str
    drop: str
    drops: str


@dataclass(frozen=True, slots=True)
class DdlWords:
    """What waits for slots or clears them, in a dialect's words: `waits` by action, in which {limit} is for how long.

    `limit` is that where it is not told, `limit_of` where it is; `clears` and `lost_by` say which DDL clears slots, and
    this one; `blocked` is what waits, in a few words, `note` a caution.
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
    """What cannot be told about slots, and what becomes of them, in a dialect's own sentences; "" is left unsaid.

    `head` is about a table, of its {ttl} and {timeout}; `ttl` is the name of its time to live, `part` that of what a
    lane reads (`Positions.part`). `short` says that moving a slot to the newest position reached too little, `identity`
    what tells tables of one name apart. `marks` are the names of what is kept for a slot on one DN
    (`Positions.marks`), none where nothing is: then our own position stands
    there. `retains`: records stay until slots have passed them; else they go by their age, and no slot expires.
    `there` says that a slot is whole, `no_expiry` why no TTL of a slot stands before a reset. `ddl` is None where no
    DDL waits for readers or clears a slot.
    """

    no_list: str = "the server cannot list slots: only configured ones are shown, from Slotkeeper's progress rows"
    no_count: str = "the server does not count unread rows"
    no_drop: str = "this server cannot drop a slot"
    no_after: str = "the server cannot show the current slots"
    no_drained: str = "the server does not report whether all records are read"
    no_ttl: str = ""
    no_timeout: str = ""
    own_times: str = ""
    lapses: str = ""
    moved: str = "every slot moves to the newest position"
    ages: str = ""
    head: str = ""
    ttl: str = "the time that records are retained"
    part: str = "DN"
    short: str = "the slot did not move to the newest position"
    identity: str = "columns and key"
    marks: tuple[str, ...] = ()
    retains: bool = True
    there: str = "both points are registered on every DN"
    no_expiry: str = "the source retains nothing for it that could expire"
    ddl: DdlWords | None = None


NEUTRAL = SlotWords()


class SlotVerbs(SlotAdmin, Protocol):
    """What the commands ask that create, move or drop a slot."""

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""


class SlotViewer(Protocol):
    """What is asked of a source about the slots of its tables by commands that look; no call of it creates a slot."""

    calls: SlotCalls
    """The statements of this kind's slot commands."""

    words: SlotWords
    """Its texts about its slots."""

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """Every registered point of a table; None where this kernel has no function for it."""

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """Unread rows of every slot of a table; None where this kernel has no function for it."""

    def latest(self, table: str) -> Mapping[str, Position | None] | None:
        """The newest place by DN, without a slot; None where the kernel cannot tell."""

    def nodes(self, table: str) -> dict[str, int]:
        """The DNs that hold a table: id by name."""

    def consumed(self, table: str, node: int = 0) -> bool | None:
        """Whether every slot has read everything, on one DN or on all; None where the kernel cannot tell."""

    def ttl(self, table: str) -> Ttl | None:
        """For how long a table's slots are kept that nobody registers; None where there is no such table."""

    def consume_timeout(self) -> int | None:
        """Seconds for which maintenance waits for readers; None where the server does not tell."""

    def may_drop(self) -> bool | None:
        """Whether this login may drop a slot; None where this kernel cannot drop any."""

    def now(self) -> datetime:
        """The server's clock."""


class SlotPoller(Protocol):
    """What is asked of a source while its slots are shown, each with one statement; no call of it creates a slot."""

    words: SlotWords
    """Its texts about its slots."""

    def read_table(self, table: str) -> TableAnswer | None:
        """Points and clock; None where this kernel just turned out to list no points: the next answer has none."""

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """As `SlotViewer.unread`."""

    def close(self) -> None:
        """End the session."""


@runtime_checkable
class PurgesByAge(Protocol):
    """A viewer or poller of a source that deletes its files by their age, whatever a slot still needs."""

    def purge(self, position: Position | None) -> Purge:
        """When files go, and what becomes of the one that a slot at this position needs."""


class BinlogReader(Protocol):
    """What is asked of a source to show rows of a binlog; no call of it names a slot."""

    def identity(self, table: str) -> TableIdentity:
        """The table's columns and key."""

    def nodes(self, table: str) -> dict[str, int]:
        """As `SlotViewer.nodes`."""

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """As `SlotViewer.points`."""

    def newest(self, table: str, shard: Shard) -> Position | None:
        """The newest place of a DN; None where it holds nothing."""

    def firsts(self, table: str, place: Position | None) -> dict[str, FirstRecord]:
        """The first record at or after a place by DN; the first of all without one."""

    def at_time(self, table: str, shard: Shard, moment: str) -> Position | None:
        """The place of a DN's first record at or after a time; Refused where times are not kept."""

    def forward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        """The first rows after a position, in the order of the stream."""

    def backward(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> Searched:
        """The last rows up to a place, in the order of the stream."""
