"""Slots, DNs, and the information that servers return about them: plain values."""

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
    """A data node (DN) of a table's cluster; `node_id` is a signed 32-bit number, often negative (DWS)."""

    name: str
    node_id: int


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """The status of a slot on one DN, as reported by the source at one time.

    `kept` contains the points that the server stores for the slot, and `latest` is the source's newest position as
    reported by this DN. `fingerprint` is the `TableIdentity.text` of the table at that time; `oldest` is the first
    position that is still retained, if the server reports it without a slot.
    """

    shard: Shard
    kept: Kept
    latest: Position
    fingerprint: str = ""
    oldest: Position | None = None


@dataclass(frozen=True, slots=True)
class RegisteredPoint:
    """A registered point as listed by the server: one point per DN, slot and checkpoint flag."""

    shard: str
    slot: str
    checkpoint: bool
    point: Position | None
    registered_at: datetime | None
    xmin: int | None


@dataclass(frozen=True, slots=True)
class UnreadRows:
    """The changes that a DN still retains for a slot and checkpoint flag; `rows` is None if it cannot count them."""

    shard: str
    slot: str
    checkpoint: bool
    rows: int | None


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """A DN's first record at or after a point, and the DN's newest point; each is None if there is none."""

    latest: Position | None
    point: Position | None
    time_us: int | None = None


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """A server's information about a table: its clock, the TTL of the table's slots, and the registered points.

    The TTL is None if the table does not exist; `points` is None if the server cannot list points.
    """

    now: datetime
    ttl: Ttl | None
    consume_timeout: int | None
    points: Sequence[RegisteredPoint] | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name and its type as the server writes it (`numeric(12,2)`).

    A type outside pg_catalog includes its schema, regardless of the session's search_path. `required`: the column
    contains no NULL; `collation` is SQL text, empty for the type's default collation. `number` (attnum) identifies the
    column on the server regardless of its name; it is 0 if not reported. A server's text is never used as SQL: a type
    or a collation that cannot be parsed raises Refused here, and `TypeName` writes a type into a statement. `native` is
    the source's own description of the column, in the source's format; "" if the source does not use one.
    """

    name: str
    type: str
    required: bool = field(default=False, compare=False)
    collation: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)
    native: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        owner = f"column {self.name}"
        object.__setattr__(self, "type", type_name.parsed(self.type, owner).text)
        if self.collation:
            type_name.qualified(self.collation, owner)


@dataclass(frozen=True, slots=True)
class UserType:
    """A user-defined type; `kind` is its letter in pg_type.

    `base` is the base type of a domain, the subtype of a range, or the range type of a multirange. `parts` are the
    labels of an enum, the attributes of a composite as `name type`, or the further options of a range as SQL. `table`:
    the composite is the row type of a table, whose key is `key`. As in a `Column`, parts that are SQL are parsed.
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
    """Return a type with its domains replaced by their base types, at all levels, including array elements.

    An array of a domain over an array is returned unchanged, because arrays of arrays have a different text format.

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

    The storage file is not part of the identity: VACUUM FULL changes only the file, and the table remains the same.
    """

    oid: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    server: str
    user_types: tuple[UserType, ...] = field(default=(), compare=False)
    """The user-defined types of `columns`, and the types within them; not part of the identity."""
    known: tuple[Column, ...] = field(default=(), compare=False)
    """Every column of the table with its `native`, for a source that needs them at a later start; not part of the
    identity, which lacks columns that are not followed."""

    def user_type(self, spelled: str) -> UserType | None:
        """Return the user-defined type of a column (or of its elements); None if the type is built in."""
        return _named(spelled, self.user_types)

    def plain(self, spelled: str) -> str:
        """Return a column's type with its domains replaced by their base types."""
        return without_domains(spelled, self.user_types)

    @property
    def text(self) -> str:
        """The table's fingerprint, as stored in the progress row."""
        import hashlib  # loads OpenSSL, which starting a console does not need

        # the schema public is omitted: it is on nearly every search_path, so stored rows contain types without it
        pairs = [(column.name, column.type.removeprefix("public.")) for column in self.columns]
        spelled = "\x1f".join(map("\x1e".join, pairs)) + "\x1d" + "\x1f".join(self.key)
        if any(mark in part for pair in pairs for part in pair for mark in "\x1d\x1e\x1f"):
            spelled = json.dumps([pairs, self.key])  # the other form, used in stored rows, is ambiguous for such names
        return f"{self.server}:{self.oid}:{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"


class EventType(Enum):
    """The documented event types of DWS binlog rows; note the lowercase `d`."""

    INSERT = "I"
    DELETE = "d"
    BEFORE = "B"
    AFTER = "U"
