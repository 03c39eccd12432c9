"""A row that the target rejected, as stored in the quarantine, and its possible states. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.field import Positive, Signed
from slotkeeper.core.domain.text import safe

STOP, QUARANTINE = "stop", "quarantine"
"""The values of `on_bad_row`: fail with the row's error, or quarantine the row and continue."""

COPIED = "c"
"""The kind of a row read by a copy; the other kinds are those of the binlog: I, U, and B for the old half of a changed
key."""
EVERYWHERE = "*"
"""The shard of a row whose DN is unknown, because a copy reads the table, not its DNs."""


DAMAGED = "22021"
"""SQLSTATE (character_not_in_repertoire) of a text that is stored with escaped bytes and cannot be replayed."""


class EntryState(Enum):
    """The state of an entry; only a quarantined one can be replayed or discarded."""

    QUARANTINED = "quarantined"
    SUPERSEDED = "superseded"
    REPLAYED = "replayed"
    DISCARDED = "discarded"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A row that the target rejected."""

    id: Positive
    """The entry's number."""
    source: str
    """The source's name."""
    source_table: str
    """The schema.table at the source."""
    slot: str
    """The slot's name."""
    shard: str
    """The DN's name; * if a copy read the row."""
    target: str
    """The schema.table at the sink."""
    point: Signed
    """The first part of its position."""
    sequence: Signed
    """The second part; negative: a copied row has none."""
    kind: str
    """One of I, U, B for the old half of a changed key, c copied."""
    key: tuple[str, ...]
    """Its key, in one form for all equal keys; each: a value."""
    sqlstate: str
    """The server's SQLSTATE, or Slotkeeper's own code if no server gave one."""
    column: str
    """The column that the server named, or empty."""
    constraint: str
    """The constraint that the server named, or empty."""
    message: str
    """The server's error text."""
    tries: int
    """The number of attempts."""
    job: str
    """The job that quarantined it."""
    run: str
    """That job's run."""
    epoch: int
    """The epoch of that run."""
    quarantined_at: datetime
    """When it was quarantined."""
    state: EntryState
    """Its state."""
    ended_at: datetime | None = None
    """When it left the quarantine; null: it has not."""
    ended_by: str = ""
    """What ended it, or empty: an actor, the position that superseded it, or the reset or "copy" that archived it."""
    reason: str = ""
    """The reason given for ending it, or empty."""
    pair: str = ""
    """The position of its U, shared by the two halves of a changed key, or empty."""
    values: tuple[tuple[str, str | None], ...] = ()
    """The row as the source wrote it, by target column; empty in a list; for an old half, only its key."""

    @property
    def position(self) -> str:
        """The position at which it was read: `point/sequence`; a copied row has no sequence.

        >>> at(7, 3).position, at(7, -1).position
        ('7/3', '7')
        """
        return str(self.point) if self.sequence < 0 else f"{self.point}/{self.sequence}"

    @property
    def where(self) -> str:
        """The column or constraint that the server named, or ""."""
        return self.constraint or self.column


def key_in_words(names: Sequence[str], key: Sequence[str | None]) -> str:
    """Format a row's key for a search, with long values cut; only values if no names are known.

    >>> key_in_words(("cust", "order_no"), ("3", "90001"))
    'cust = 3, order_no = 90001'
    """
    values = [safe("NULL" if value is None else value, 60) for value in key]
    return ", ".join(map(" = ".join, zip(names, values, strict=False)) if names else values)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's reason for rejecting a row, without the row's values; `column` is set if the server names one."""

    sqlstate: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class RowLeftOut:
    """A row to quarantine: its position and type, its key, and its values as the source wrote them.

    A copied row has kind COPIED; its point and sequence have no meaning.
    """

    point: int
    sequence: int
    kind: str
    key: tuple[str, ...]
    texts: tuple[str | None, ...]
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The changes that a range or chunk makes to the quarantine: rows to add, and entries to end.

    `columns` are the target's columns, in the order of the values; `touched` are the keys that the range changes: their
    entries become superseded. `limit` is the maximum number of entries per table.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[RowLeftOut, ...] = ()
    touched: tuple[tuple[str, ...], ...] = ()
    limit: int = 0

    def __bool__(self) -> bool:
        """Return whether there is any change."""
        return bool(self.rows or self.touched)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The entries to list; an empty field selects all. Newest first: `before` of the next page is the smallest id."""

    states: tuple[EntryState, ...] = (EntryState.QUARANTINED,)
    source: str = ""
    source_table: str = ""
    slot: str = ""
    job: str = ""
    shard: str = ""
    sqlstate: str = ""
    before: int | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class QuarantineCount:
    """The number of quarantined rows of one slot's table, and since when the oldest is quarantined.

    `quarantined` counts the two halves of a changed key as one, `entries` counts each half.
    """

    source: str
    source_table: str
    slot: str
    job: str
    quarantined: int
    oldest: datetime
    entries: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of replaying or discarding an entry; `state` is its current state.

    `ids` are the entries that ended together (both halves of a changed key), or that remain quarantined with a new
    error; empty if the entry was no longer quarantined, in which case nothing was done.
    """

    id: int
    state: EntryState
    ids: tuple[int, ...] = ()
    sqlstate: str = ""
    message: str = ""
    where: str = ""

    @property
    def nothing_done(self) -> bool:
        """Whether the entry had already ended."""
        return not self.ids


def at(point: int, sequence: int) -> QuarantineEntry:
    """Return an entry at a position, for examples."""
    moment = datetime(2026, 1, 1)
    names = ("dws1", "ods.t", "slot", "dn_1", "mart.t")
    return QuarantineEntry(
        1, *names, point, sequence, "U", ("1",), "22003", "", "", "", 1, "", "", 0, moment, EntryState.QUARANTINED
    )


NEARLY_FULL = 0.9
"""The share of `quarantine_limit` at which the number becomes critical: a job that exceeds the limit stops."""


def nearly_full(number: int, limit: int | None) -> bool:
    """Return whether this number of quarantined rows is near the limit; False without a limit.

    >>> nearly_full(89, 100), nearly_full(90, 100), nearly_full(90, None)
    (False, True, False)
    """
    return limit is not None and number >= limit * NEARLY_FULL
