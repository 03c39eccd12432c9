"""A row that the target rejected, as the quarantine stores it, and its possible states. Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.field import Positive, Signed
from slotkeeper.core.domain.text import safe

STOP, QUARANTINE = "stop", "quarantine"
"""How a job handles a bad row, `on_bad_row`: fail with its error, or quarantine it and continue."""

COPIED = "c"
"""The kind of a row that a copy read; the others are the binlog's: I, U, and B for the old half of a changed key."""
EVERYWHERE = "*"
"""The shard of a row whose DN is unknown: a copy reads the table, not its DNs."""


DAMAGED = "22021"
"""SQLSTATE (character_not_in_repertoire) of a text that is stored with escaped bytes, and cannot be replayed."""


class EntryState(Enum):
    """The state of an entry; only a held one can be replayed or discarded."""

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
    """The DN's name; * where a copy read it."""
    target: str
    """The schema.table at the sink."""
    point: Signed
    """The first part of its position."""
    sequence: Signed
    """The second part; negative: a copied row has none."""
    kind: str
    """One of I, U, B for the old half of a changed key, c copied."""
    key: tuple[str, ...]
    """Its key, one form per equal key; each: a value."""
    sqlstate: str
    """The server's SQLSTATE, or Slotkeeper's own code where no server gave one."""
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
    """That run's epoch."""
    quarantined_at: datetime
    """When it was quarantined."""
    state: EntryState
    """Its state."""
    ended_at: datetime | None = None
    """When it ended; null: it has not."""
    ended_by: str = ""
    """Who or what ended it, or empty: an actor, the position that superseded it, the reset or "copy" that archived
    it."""
    reason: str = ""
    """Why it was ended, or empty."""
    pair: str = ""
    """The position of its U, shared by the two halves of a changed key, or empty."""
    values: tuple[tuple[str, str | None], ...] = ()
    """The row as the source wrote it, by target column; empty in a list, of an old half its key alone."""

    @property
    def position(self) -> str:
        """Where it was read: `point/sequence`; a copied row has no sequence.

        >>> at(7, 3).position, at(7, -1).position
        ('7/3', '7')
        """
        return str(self.point) if self.sequence < 0 else f"{self.point}/{self.sequence}"

    @property
    def where(self) -> str:
        """The column or constraint that the server named, or nothing."""
        return self.constraint or self.column


def key_in_words(names: Sequence[str], key: Sequence[str | None]) -> str:
    """Format a row's key for a search, long values cut; values alone where no name is known.

    >>> key_in_words(("cust", "order_no"), ("3", "90001"))
    'cust = 3, order_no = 90001'
    """
    values = [safe("NULL" if value is None else value, 60) for value in key]
    return ", ".join(map(" = ".join, zip(names, values, strict=False)) if names else values)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a server rejects a row, without its values; `column` where it names one."""

    sqlstate: str
    column: str
    message: str


@dataclass(frozen=True, slots=True)
class RowLeftOut:
    """A row to quarantine: its position and type, its key, and its texts as the source wrote them.

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
    """What a range or chunk changes in the quarantine: rows that it adds, entries that it ends.

    `columns` are the target's, in the order of the texts; `touched` are the keys that the range changes: entries of
    these are superseded. `limit` is the most that a table may have.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[RowLeftOut, ...] = ()
    touched: tuple[tuple[str, ...], ...] = ()
    limit: int = 0

    def __bool__(self) -> bool:
        """Whether it does anything."""
        return bool(self.rows or self.touched)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries to list; an empty field selects all. Newest first: the next page is `before` its smallest id."""

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
    """How many rows of one slot's table are held, the two halves of a changed key as one, and since when the oldest is.

    `entries` counts each half.
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
    """What became of an entry that was to be replayed or discarded: `state` is how it is now.

    `ids` are the entries that ended with it (both halves of a changed key), or that stay held with a new error; empty
    where it was not held any more, and then nothing was done.
    """

    id: int
    state: EntryState
    ids: tuple[int, ...] = ()
    sqlstate: str = ""
    message: str = ""
    where: str = ""

    @property
    def nothing_done(self) -> bool:
        """Whether it was over already."""
        return not self.ids


def at(point: int, sequence: int) -> QuarantineEntry:
    """An entry at a position, for examples."""
    moment = datetime(2026, 1, 1)
    names = ("dws1", "ods.t", "slot", "dn_1", "mart.t")
    return QuarantineEntry(
        1, *names, point, sequence, "U", ("1",), "22003", "", "", "", 1, "", "", 0, moment, EntryState.QUARANTINED
    )


NEARLY_FULL = 0.9
"""The part of `quarantine_limit` from which on it is critical: a job that reaches the limit stops."""


def nearly_full(number: int, limit: int | None) -> bool:
    """Whether this number of quarantined rows is near the limit; False without a limit.

    >>> nearly_full(89, 100), nearly_full(90, 100), nearly_full(90, None)
    (False, True, False)
    """
    return limit is not None and number >= limit * NEARLY_FULL
