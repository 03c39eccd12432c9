"""A row that the target rejected, as stored in the quarantine, and its possible states. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.field import Positive, Signed
from slotkeeper.core.domain.text import safe

STOP, QUARANTINE = "stop", "quarantine"
"""The values of `on_bad_row`: fail with the error for the row, or quarantine the row and continue."""

COPIED = "c"
"""The kind of a copied row. The other kinds are from the binlog: I, U, and B for the old half of a changed key."""
EVERYWHERE = "*"
"""The shard of a row whose DN is unknown because it was read by a copy, which reads the whole table."""


DAMAGED = "22021"
"""SQLSTATE (character_not_in_repertoire) of a string that is stored with escaped bytes and cannot be replayed."""
OUTDATED = "22SK1"
"""The SQLSTATE of a row that cannot be replayed: a change of columns has since removed values of its table.

SQL standard, "SQLSTATE": class 22 contains errors in data; subclasses from 5 to 9 and I to Z belong to implementations.
"""
OUTDATED_WHY = "a change of columns has since removed values; update the row in the source, or take a new snapshot"


class EntryState(Enum):
    """The state of an entry; only a quarantined entry can be replayed or discarded."""

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
    """The source table, as schema.table."""
    slot: str
    """The slot's name."""
    shard: str
    """The DN's name, or `*` if a copy read the row."""
    target: str
    """The target table, as schema.table."""
    point: Signed
    """The first part of the row's position."""
    sequence: Signed
    """The second part of the row's position; negative for a copied row, which has none."""
    kind: str
    """One of I, U, B (the old half of a changed key) or c (a copied row)."""
    key: tuple[str, ...]
    """The row's key, in the same form for all equal keys; each: the value of a key column."""
    sqlstate: str
    """The server's SQLSTATE, or Slotkeeper's own code if there is none."""
    column: str
    """The column named in the server's error, or empty."""
    constraint: str
    """The constraint named in the server's error, or empty."""
    message: str
    """The server's error message."""
    tries: int
    """The number of attempts to write the row."""
    job: str
    """The job that quarantined it."""
    run: str
    """The run of the job."""
    epoch: int
    """The epoch of the run."""
    quarantined_at: datetime
    """When it was quarantined."""
    state: EntryState
    """The state of the entry."""
    ended_at: datetime | None = None
    """When it left the quarantine; null: it is still in quarantine."""
    ended_by: str = ""
    """The actor or superseding position that ended the entry, or the reset or "copy" that archived it; else empty."""
    reason: str = ""
    """The reason that the user gave for ending the entry, or empty."""
    pair: str = ""
    """The position of the U row, which identifies the two halves of a changed key, or empty."""
    values: tuple[tuple[str, str | None], ...] = ()
    """The row's values as written by the source, by target column; empty in lists; for an old half, only the key."""

    @property
    def position(self) -> str:
        """The position at which the row was read, as `point/sequence`; a copied row has no sequence.

        >>> at(7, 3).position, at(7, -1).position
        ('7/3', '7')
        """
        return str(self.point) if self.sequence < 0 else f"{self.point}/{self.sequence}"

    @property
    def where(self) -> str:
        """The column or constraint named in the server's error, or ""."""
        return self.constraint or self.column


def key_in_words(names: Sequence[str], key: Sequence[str | None]) -> str:
    """Format a row's key for a search, with long values truncated; without column names if none are known.

    >>> key_in_words(("cust", "order_no"), ("3", "90001"))
    'cust = 3, order_no = 90001'
    """
    values = [safe("NULL" if value is None else value, 60) for value in key]
    return ", ".join(map(" = ".join, zip(names, values, strict=False)) if names else values)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server's reason for rejecting a row, without the row's values; `column` is set if the server names a column."""

    sqlstate: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class RowLeftOut:
    """A row to quarantine: its position and kind, its key, and its values as written by the source.

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

    `columns` are the target's columns, in the order of the values; `touched` are the keys that the range changes;
    existing entries with these keys are superseded. `limit` is the maximum number of entries per table.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[RowLeftOut, ...] = ()
    touched: tuple[tuple[str, ...], ...] = ()
    limit: int = 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.touched)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The entries to list, the newest first; an empty field selects all entries.

    `before` of the next page is the smallest id of the current page.
    """

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
    """The number of quarantined rows of one slot's table, and when the oldest of them was quarantined.

    `quarantined` counts the two halves of a changed key as one row, `entries` counts both.
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

    `ids` contains the entries that ended together (both halves of a changed key), or that remain quarantined with a new
    error. It is empty if the entry was no longer quarantined, in which case nothing was done.
    """

    id: int
    state: EntryState
    ids: tuple[int, ...] = ()
    sqlstate: str = ""
    message: str = ""
    where: str = ""

    @property
    def nothing_done(self) -> bool:
        return not self.ids


def at(point: int, sequence: int) -> QuarantineEntry:
    """Return an entry at a position, for examples."""
    moment = datetime(2026, 1, 1)
    names = ("dws1", "ods.t", "slot", "dn_1", "mart.t")
    return QuarantineEntry(
        1, *names, point, sequence, "U", ("1",), "22003", "", "", "", 1, "", "", 0, moment, EntryState.QUARANTINED
    )


NEARLY_FULL = 0.9
"""Share of `quarantine_limit` from which the number of rows is critical; a job that exceeds the limit stops."""


def nearly_full(number: int, limit: int | None) -> bool:
    """Return whether this number of quarantined rows is near the limit; False without a limit.

    >>> nearly_full(89, 100), nearly_full(90, 100), nearly_full(90, None)
    (False, True, False)
    """
    return limit is not None and number >= limit * NEARLY_FULL
