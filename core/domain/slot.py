"""Slots, DNs and what one answer about them shows: plain values."""

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
    """One answer of the source about one DN, taken at one moment.

    `kept` is what the server keeps for the slot there, `latest` the newest place of the source as this DN tells it.
    `fingerprint` is `TableIdentity.text` of the table as it was at that moment; `oldest` the first place that is still
    there, where a server tells that without being asked for a slot.
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
    """What a DN still keeps for a slot and checkpoint flag; None where it cannot be counted."""

    shard: str
    slot: str
    checkpoint: bool
    rows: int | None


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """A DN's first record at or after a point, and its newest point; None where there is none."""

    latest: Position | None
    point: Position | None
    time_us: int | None = None


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """One answer about a table: the server's clock, the TTL of its slots (None: no such table), its points.

    `points` is None where this server cannot list them.
    """

    now: datetime
    ttl: Ttl | None
    consume_timeout: int | None
    points: Sequence[RegisteredPoint] | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name and its type as the server spells it (`numeric(12,2)`).

    A type outside pg_catalog has its schema before it, whatever the session's search_path. `required` says that
    it holds no NULL; `collation` is SQL text, empty where it is the type's own. `number` is what the server calls it
    by under any name (attnum), 0 where that is not told. A server's text is never SQL: a type or a collation that
    cannot be parsed is Refused here, and `TypeName` writes a type into a statement.
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
    """A type that is not the server's own: `kind` is pg_type's letter.

    `base` is a domain's type, a range's subtype, or a multirange's range. `parts` are an enum's labels, a composite's
    attributes as `name type`, or a range's further options as SQL. `table` says that a composite is the row type of a
    table, whose key is `key`. As with a column, what is SQL in it is parsed first.
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
    """A type with its domains as their base types, through all levels; so are the elements of an array.

    An array of a domain over an array stays as it is: arrays of arrays have another text.

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
    """Which table this is: changed `oid` or `columns` mean another table under the same name.

    A changed storage file alone does not change the identity (VACUUM FULL makes one), so it is not part of this.
    """

    oid: int
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    server: str
    user_types: tuple[UserType, ...] = field(default=(), compare=False)
    """The user-defined types of `columns`, and the types within them; not part of the identity."""

    def user_type(self, spelled: str) -> UserType | None:
        """The made type behind a column's type (or behind its elements); None where it is the server's own."""
        return _named(spelled, self.user_types)

    def plain(self, spelled: str) -> str:
        """A column's type with its domains as their base types."""
        return without_domains(spelled, self.user_types)

    @property
    def text(self) -> str:
        """The fingerprint as stored in the progress row."""
        import hashlib  # loads OpenSSL, which a console that only starts does not need

        # public is left out, because it is on nearly every search_path: stored rows have such types without it
        pairs = [(column.name, column.type.removeprefix("public.")) for column in self.columns]
        spelled = "\x1f".join(map("\x1e".join, pairs)) + "\x1d" + "\x1f".join(self.key)
        if any(mark in part for pair in pairs for part in pair for mark in "\x1d\x1e\x1f"):
            spelled = json.dumps([pairs, self.key])  # stored rows have the other form, which such a name would break
        return f"{self.server}:{self.oid}:{hashlib.sha256(spelled.encode()).hexdigest()[:16]}"


class EventType(Enum):
    """The documented event types of a row of the DWS binlog; note the lower case d."""

    INSERT = "I"
    DELETE = "d"
    BEFORE = "B"
    AFTER = "U"
