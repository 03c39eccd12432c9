"""The columns that the reader adds before a table's own columns in a changelog DataFrame, and that writers use.

Each row is one binlog event: an insert or a delete is one row, and an update is two rows (B, then U). The column names
have no leading underscore, because Spark's pandas state functions rename such columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.slot import EventType
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused

PREFIX = "slotkeeper_"
"""Prefix of the names of changelog columns; a table's own columns cannot have it."""
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
"""Name and Spark type of each changelog column, in order. These columns never contain NULL.

POINT and SEQUENCE are the `Position.pair` of an event; they order the events of a key on one DN, but not across DNs.
The DWS binlog does not record the time of a change, so there is no column for it.
"""

WEIGHT = "slotkeeper_weight"
"""Column of a weighted changelog, an `int` after the columns above: 1 for a row that the table has after the event, -1
for a row that it no longer has. The sum of weighted values is the difference between two states of the table."""
RAW, NET, WEIGHTED = "raw", "net", "weighted"
FORMS = {
    RAW: "every event; an update is two rows (B, U), so that no aggregate over them is one of the table",
    NET: "the newest state of each key of a batch (I, U or S), or d if the table no longer has the key",
    WEIGHTED: f"every event, with {WEIGHT} 1 or -1: sum(amount * {WEIGHT}) is the change in the table's sum",
}
"""The forms of a changelog, each with its meaning."""

INSERT = EventType.INSERT.value
BEFORE = EventType.BEFORE.value
AFTER = EventType.AFTER.value
DELETE = EventType.DELETE.value
COPIED = "S"
"""Kind of a row from the table's copy (`start = "initial"`): an upsert that precedes every change to its key."""
BEGINNING = -1
"""The value of POINT and SEQUENCE in a copied row; in binlog events they start at 0."""

WRITES = (INSERT, AFTER, COPIED)
"""Kinds of events after which the table contains the event's row. In events of other kinds (B, d), only the key columns
are guaranteed to have values."""
ENDS = (BEFORE, DELETE)
"""Kinds of events after which the table has no row for the key, unless a B is followed by a U of the same key."""
KINDS = (*WRITES, *ENDS)

KEY_PLACE, KEY_SIZE, KEY_TABLE = "slotkeeper.key", "slotkeeper.key_size", "slotkeeper.key_table"
"""Metadata keys of a key column: its position in the key, starting at 1; the key's size; and the table's fingerprint.

Spark preserves a column's metadata in select, filter and rename operations; a computed column has no metadata.
"""


def marks(key: Sequence[str], table: str) -> dict[str, dict[str, int | str]]:
    """Return the metadata of each key column of the table with this fingerprint."""
    return {name: {KEY_PLACE: place, KEY_SIZE: len(key), KEY_TABLE: table} for place, name in enumerate(key, 1)}


@dataclass(frozen=True, slots=True)
class Named:
    """A DataFrame column: its name and its metadata."""

    name: str
    metadata: Mapping[str, object]


def key_of(columns: Iterable[Named]) -> tuple[str, ...]:
    """Return the key columns in the key's order, according to their metadata; empty if no column has such metadata.

    Raises ConfigError if the marked columns are not the whole key of one table: a part of a key identifies no row.

    >>> key = marks(["a", "b"], "of t")
    >>> key_of([Named("b", key["b"]), Named("x", {}), Named("a", key["a"])])
    ('a', 'b')
    """
    marked = {one.name: one.metadata for one in columns if isinstance(one.metadata.get(KEY_PLACE), int)}
    names = tuple(sorted(marked, key=lambda name: int(str(marked[name][KEY_PLACE]))))
    tables = {str(one.get(KEY_TABLE)) for one in marked.values()}
    if [marked[name] for name in names] != list(marks(names, "".join(tables)).values()):
        shown = ", ".join(safe(name, 60) for name in names)
        what = f"the columns marked as a key ({shown}) are not the whole key of one table"
        raise ConfigError(what, "a select, computation or join changed the key: name the key columns with `key`")
    return names


def own(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a changelog, in order, without the columns added by Slotkeeper.

    >>> own(["slotkeeper_change", "slotkeeper_dn", "slotkeeper_point", "slotkeeper_sequence", "id", "amount"])
    ('id', 'amount')
    """
    ours = {WEIGHT, *(name for name, _ in COLUMNS)}
    return tuple(name for name in columns if name not in ours)


def is_changelog(columns: Iterable[str]) -> bool:
    """Return whether the column with the kind of change is present."""
    return CHANGE in set(columns)


def refuse_nulls(columns: Mapping[str, int]) -> None:
    """Raise Refused if a column with these numbers of NULLs is needed to order changes, which NULL cannot."""
    for name in (CHANGE, POINT, SEQUENCE):
        if columns.get(name):
            what = f"{name} is NULL in a row, so its change has no kind or no order"
            raise Refused(what, "filter such rows out: an outer join or a union adds them", where="sink")


def missing(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the missing columns that are needed to order a changelog's events; the DN column is not needed.

    >>> missing(["slotkeeper_change", "slotkeeper_point", "id"])
    ('slotkeeper_sequence',)
    """
    there = set(columns)
    return tuple(name for name in (CHANGE, POINT, SEQUENCE) if name not in there)
