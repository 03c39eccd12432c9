"""What is asked of a source: reading one binlog table, writing its slot's points, and looking at slots and rows.

All calls block; each raises an error of `core.errors` and nothing else. Next door: `core.sources.dws` implements these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Protocol

from core.domain.peek import ChangeRow, Filter, Range
from core.domain.position import Position
from core.domain.progress import Registered
from core.domain.reset import Count
from core.domain.sight import Sight
from core.domain.slot import FirstRecord, RegisteredPoint, Shard, SlotStatus, TableAnswer, TableIdentity, UnreadRows
from core.errors import Busy

LOST_ANSWER_WAIT = 15.0
"""So many seconds a call of a killed driver can still land: longer than a registration may take at the server."""


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


@dataclass(frozen=True, slots=True)
class Chunk:
    """An interval of keys, lo < key <= hi in the source's own order; values are the source's text forms.

    `lo` is empty for the first chunk: everything up to `hi`.
    """

    number: int
    lo: tuple[str, ...]
    hi: tuple[str, ...]


class Source(Protocol):
    """Reads one binlog table of one source; one session, not shared between threads."""

    shows_open: str
    """Where an administrator sees the transactions that are open."""

    def admit(self) -> None:
        """Refuse by name a server or a table that cannot be followed; no slot is touched."""

    def identify(self) -> TableIdentity:
        """Which table this is now; raises Refused where it does not exist or has no usable key."""

    def selects(self, identity: TableIdentity) -> None:
        """Refuse by name a mapping or a row filter that this table cannot serve."""

    def nodes(self) -> list[Shard]:
        """The DNs that hold the table, without touching any slot."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Both points, latest and xmin of one DN or of all; creates a slot that does not exist (DWS)."""

    def has_changes(self, shard: Shard, after: Position, up_to: int) -> bool:
        """Whether the DN holds one row beyond `after` and at most `up_to`."""

    def copy_changes(self, shard: Shard, after: Position, up_to: int, out: BinaryIO) -> int:
        """Write the rows of (after, up_to] as COPY text: point, sequence, type, user columns; returns the count."""

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """The xmin that belongs to the record at exactly `point`, or None."""

    def sight(self) -> Sight:
        """What our login can see of other sessions."""

    def open_transactions(self, across: bool = False) -> list[Waiter]:
        """Other sessions inside a transaction now, and prepared transactions; `across` all coordinators."""

    def snapshot_xmin(self) -> int:
        """The oldest transaction number that is still open by the source's own snapshot."""

    def transaction_id(self) -> int:
        """The source's transaction counter now."""

    def plan_chunks(self, rows: int) -> list[Chunk]:
        """Cut the table into chunks of about `rows` rows in one pass."""

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        """Write the rows of one chunk as COPY text: user columns; returns the count."""

    def close(self) -> None:
        """End the session; safe to call twice."""


class SlotAdmin(Protocol):
    """Writes slot points; only the driver and slot commands hold one."""

    def nodes(self) -> list[Shard]:
        """As `Source.nodes`."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """As `Source.read_status`."""

    def has_changes(self, shard: Shard, after: Position, up_to: int) -> bool:
        """As `Source.has_changes`."""

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """As `Source.xmin_at`."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN; returns the number of nodes registered (DWS)."""

    def register_full_sync(self) -> str:
        """Move both points of every DN to now; what the server answered, in words (its result is not documented)."""

    def pinned(self) -> AbstractContextManager[None]:
        """Hold one open session for the block: a lost one is not opened again inside it."""

    cleared_for: int
    """The sink connection (its `generation`) up to which other registrars of the lane are known to be gone."""

    def end_rivals(self) -> bool:
        """End other sessions that register the same lane; False where it is not certain."""

    def end_sessions(self, pattern: str) -> bool:
        """End our login's sessions of that name but this one; False where it cannot be known that they are gone."""

    def close(self) -> None:
        """End the session; safe to call twice."""


def register_point(admin: SlotAdmin, shard: Shard, point: int, checkpoint: bool, xmin: int) -> None:
    """Register one point on one DN; Busy where the server answers that it reached another number of nodes."""
    nodes = admin.register(shard, point, checkpoint, xmin)
    if nodes != 1:
        flag = "true" if checkpoint else "false"
        raise Busy(f"{shard.name}: registering {flag} reached {nodes} of 1 nodes (partial registration)")


class Retention(SlotAdmin, Protocol):
    """What a start without a copy and a reset ask beside: how far back the binlog of one table reaches, and its points.

    `read_status` and `register` are sent only for a slot that exists, because asking makes one (DWS).
    """

    def identify(self) -> TableIdentity:
        """As `Source.identify`."""

    def points(self) -> Sequence[RegisteredPoint] | None:
        """Every registered point of the table, of all its slots; None where the kernel cannot list them."""

    def records(self, point: int = 0, shard: Shard | None = None) -> Mapping[str, FirstRecord]:
        """The first record at or after a point by DN."""

    def at_time(self, at: str) -> dict[str, int | None]:
        """The point of the first record at or after a time by DN; Refused where records carry no time."""

    def since(self, at: str) -> dict[str, int | None]:
        """The smallest point of a record at or after a time by DN, as far as it lies below all points of other DNs;
        Refused where records carry no time."""

    def count(self, shard: Shard, low: Position, high: Position) -> Count:
        """The changes beyond `low` and up to `high`, by kind."""

    def registration_text(self, node: int, points: Registered) -> list[str]:
        """The calls that register these points on one DN, as a plan shows them."""

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


class SlotVerbs(SlotAdmin, Protocol):
    """What the commands ask that create, move or drop a slot."""

    def clear(self) -> int:
        """Clear the slot on all DNs; returns how many points the server says it cleared."""


class SlotViewer(Protocol):
    """What is asked of a source about the slots of its tables by commands that look; no call of it creates a slot."""

    calls: SlotCalls
    """What the slot commands of this kind send."""

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """Every registered point of a table; None where this kernel has no function for it."""

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """Unread rows of every slot of a table; None where this kernel has no function for it."""

    def latest(self, table: str) -> Mapping[str, int | None] | None:
        """The newest sync point by DN, without a slot; None where the kernel cannot tell."""

    def nodes(self, table: str) -> dict[str, int]:
        """The DNs that hold a table: id by name."""

    def consumed(self, table: str, node: int = 0) -> bool | None:
        """Whether every slot has read everything, on one DN or on all; None where the kernel cannot tell."""

    def options(self, table: str) -> str | None:
        """A table's storage options; None where there is no such table."""

    def settings(self) -> dict[str, str]:
        """Server settings that matter, those that the server has."""

    def may_drop(self) -> bool | None:
        """Whether this login may drop a slot; None where this kernel cannot drop any."""

    def now(self) -> datetime:
        """The server's clock."""


class SlotPoller(Protocol):
    """What is asked of a source while its slots are shown, each with one statement; no call of it creates a slot."""

    def read_table(self, table: str) -> TableAnswer | None:
        """Points and clock; None where this kernel just turned out to list no points: the next answer has none."""

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """As `SlotViewer.unread`."""

    def close(self) -> None:
        """End the session."""


class BinlogReader(Protocol):
    """What is asked of a source to show rows of a binlog; no call of it names a slot."""

    def identity(self, table: str) -> TableIdentity:
        """The table's columns and key."""

    def nodes(self, table: str) -> dict[str, int]:
        """As `SlotViewer.nodes`."""

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """As `SlotViewer.points`."""

    def first(self, table: str, shard: Shard, point: int) -> FirstRecord:
        """The first record of a DN at or after a point."""

    def firsts(self, table: str, point: int) -> dict[str, FirstRecord]:
        """The first record at or after a point by DN."""

    def at_time(self, table: str, shard: Shard, moment: str) -> int | None:
        """The point of a DN's first record at or after a time; Refused where times are not kept."""

    def read(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> list[ChangeRow]:
        """Rows of a range in the order of the stream."""
