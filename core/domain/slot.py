"""Slots, DNs, and the answers of servers about them: plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.position import Kept, Position
from slotkeeper.core.domain.ttl import Ttl


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One data node of a table's cluster; `node_id` is a signed 32-bit number, often negative (DWS)."""

    name: str
    node_id: int


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """The answer of the source about one DN at one time.

    `kept` are the points that the server keeps for the slot, `latest` the source's newest position as reported by this
    DN. `fingerprint` is the `TableIdentity.text` of the table at that time; `oldest` is the first position still
    retained, if a server reports that without a slot.
    """

    shard: Shard
    kept: Kept
    latest: Position
    fingerprint: str = ""
    oldest: Position | None = None


@dataclass(frozen=True, slots=True)
class RegisteredPoint:
    """A registered point as the server lists it: one per DN, slot and checkpoint flag."""

    shard: str
    slot: str
    checkpoint: bool
    point: Position | None
    registered_at: datetime | None
    xmin: int | None


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """The changes that a DN still retains for a slot and checkpoint flag; `rows` is None if they cannot be counted."""

    shard: str
    slot: str
    checkpoint: bool
    rows: int | None


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """A DN's first record at or after a point, and its newest point; None if there is none."""

    latest: Position | None
    point: Position | None
    time_us: int | None = None


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """One answer about a table: the server's clock, the TTL of its slots (None: no such table), its points.

    `points` is None if this server cannot list them.
    """

    now: datetime
    ttl: Ttl | None
    consume_timeout: int | None
    points: Sequence[RegisteredPoint] | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name and its type as the server writes it (`numeric(12,2)`).

    A type outside pg_catalog includes its schema, regardless of the session's search_path. `required`: it holds no
    NULL; `collation` is SQL text, empty if it is the type's own. `number` identifies the column at the server
    regardless of its name (attnum), 0 if not reported. A server's text is never used as SQL: a type or a collation that
    cannot be parsed raises Refused here, and `TypeName` writes a type into a statement.
    """

    name: str
    type: str
    required: bool = field(default=False, compare=False)
    collation: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        owner = f"column {self.name}"
        object.__setattr__(self, "type", type_name.parsed(self.type, owner).text)
        if self.collation:
            type_name.qualified(self.collation, owner)


@dataclass(frozen=True, slots=True)
class UserType:
    """A user-defined type; `kind` is pg_type's letter.

    `base` is a domain's type, a range's subtype, or a multirange's range. `parts` are an enum's labels, a composite's
    attributes as `name type`, or a range's further options as SQL. `table`: the composite is the row type of a table,
    whose key is `key`. As with a column, SQL parts are parsed first.
    """

    name: str
    kind: str
    base: str = ""
    parts: tuple[str, ...] = ()
    table: bool = False
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        owner = f"type {self.name}"
        type_name.qualified(self.name, owner)
        if self.base:
            type_name.parsed(self.base, owner)
        for part in self.parts if self.kind in ("c", "r") else ():
            type_name.attribute(part, owner) if self.kind == "c" else type_name.range_options(part, owner)


def without_domains(spelled: str, known: Iterable[UserType]) -> str:
    """Return a type with its domains replaced by their base types, through all levels, including array elements.

    An array of a domain over an array stays unchanged: arrays of arrays have a different text format.

    >>> price = [UserType("a.price", "d", "a.amount"), UserType("a.amount", "d", "numeric(8,3)")]
    >>> without_domains("a.price", price), without_domains("a.price[]", price), without_domains("a.mood", price)
    ('numeric(8,3)', 'numeric(8,3)[]', 'a.mood')
    """
    known = tuple(known)
    own = _named(spelled, known)
    if own is None or own.kind != "d":
        return spelled
    base = without_domains(own.base, known)
    if own.name == spelled:
        return base
    return spelled if base.endswith("[]") else f"{base}[]"


def _named(spelled: str, known: Iterable[UserType]) -> UserType | None:
    plain = re.sub(r"(\([^()]*\))?(\[\])*$", "", spelled)
    return next((one for one in known if one.name == plain), None)


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The identity of a table: a changed `oid` or `columns` means a different table with the same name.

    The storage file is not part of it: VACUUM FULL changes the file alone, and the table remains the same.
    """

    oid: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    server: str
    user_types: tuple[UserType, ...] = field(default=(), compare=False)
    """The user-defined types of `columns`, and the types within them; not part of the identity."""

    def user_type(self, spelled: str) -> UserType | None:
        """Return the user-defined type of a column (or of its elements); None if the type is built in."""
        return _named(spelled, self.user_types)

    def plain(self, spelled: str) -> str:
        """Return a column's type with its domains replaced by their base types."""
        return without_domains(spelled, self.user_types)

    @property
    def text(self) -> str:
        """The fingerprint as stored in the progress row."""
        import hashlib  # loads OpenSSL, which starting a console does not need

        # public is left out, because it is on nearly every search_path: stored rows contain such types without it
        pairs = [(column.name, column.type.removeprefix("public.")) for column in self.columns]
        spelled = "\x1f".join(map("\x1e".join, pairs)) + "\x1d" + "\x1f".join(self.key)
        if any(mark in part for pair in pairs for part in pair for mark in "\x1d\x1e\x1f"):
            spelled = json.dumps([pairs, self.key])  # stored rows use the other form, ambiguous for such names
        return f"{self.server}:{self.oid}:{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"


class EventType(Enum):
    """The documented event types of a row of the DWS binlog; note the lower-case d."""

    INSERT = "I"
    DELETE = "d"
    BEFORE = "B"
    AFTER = "U"
