"""The columns that the reader adds before a table's own columns in a changelog DataFrame; writers read them. Pure.

Each row is one binlog event: an insert or a delete is one row, an update is two (B, then U). The names have no leading
underscore, because Spark's pandas state functions rename such columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slotkeeper.core.domain.slot import EventType

PREFIX = "slotkeeper_"
"""Prefix of the changelog columns; a user's column cannot have it."""
CHANGE = "slotkeeper_change"
DN = "slotkeeper_dn"
POINT = "slotkeeper_point"
SEQUENCE = "slotkeeper_sequence"

COLUMNS: tuple[tuple[str, str], ...] = (
    (CHANGE, "string"),
    (DN, "string"),
    (POINT, "bigint"),
    (SEQUENCE, "bigint"),
)
"""Name and Spark type, in their order before the table's own columns. None of them is ever NULL.

POINT and SEQUENCE are the `Position.pair` of an event: they order the events of one key on one DN, but not across DNs.
The DWS binlog does not record the time of a change, so no column contains one.
"""

INSERT = EventType.INSERT.value
BEFORE = EventType.BEFORE.value
AFTER = EventType.AFTER.value
DELETE = EventType.DELETE.value
COPIED = "S"
"""A row of the table's copy (`start = "initial"`): an upsert that precedes every change of its key."""
BEGINNING = -1
"""POINT and SEQUENCE of a copied row; those of binlog events start at 0."""

WRITES = (INSERT, AFTER, COPIED)
"""After such an event the table contains the event's row for its key. Other events (B, d) guarantee only the key
columns."""
ENDS = (BEFORE, DELETE)
"""After such an event the table has no row for its key, unless a B is followed by a U of the same key."""
KINDS = (*WRITES, *ENDS)

KEY_PLACE = "slotkeeper.key"
"""Metadata of a key column: its position in the key, starting at 1.

Spark keeps a column's metadata through select, filter and renaming; a computed column has none.
"""


@dataclass(frozen=True, slots=True)
class Named:
    """A DataFrame column: its name and its metadata."""

    name: str
    metadata: Mapping[str, object]


def key_of(columns: Iterable[Named]) -> tuple[str, ...]:
    """Return the key columns in the key's order, from their metadata; empty if no column has it.

    >>> key_of([Named("b", {KEY_PLACE: 2}), Named("x", {}), Named("a", {KEY_PLACE: 1})])
    ('a', 'b')
    """
    places = [(place, one.name) for one in columns if isinstance(place := one.metadata.get(KEY_PLACE), int)]
    return tuple(name for _, name in sorted(places))


def own(columns: Iterable[str]) -> tuple[str, ...]:
    """Return a changelog's columns without those that Slotkeeper adds, in order.

    >>> own(["slotkeeper_change", "slotkeeper_dn", "slotkeeper_point", "slotkeeper_sequence", "id", "amount"])
    ('id', 'amount')
    """
    ours = {name for name, _ in COLUMNS}
    return tuple(name for name in columns if name not in ours)


def is_changelog(columns: Iterable[str]) -> bool:
    """Return whether the rows have the column with the kind of change."""
    return CHANGE in set(columns)


def missing(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the missing columns without which a changelog's events have no order; the DN is not needed for that.

    >>> missing(["slotkeeper_change", "slotkeeper_point", "id"])
    ('slotkeeper_sequence',)
    """
    there = set(columns)
    return tuple(name for name in (CHANGE, POINT, SEQUENCE) if name not in there)
