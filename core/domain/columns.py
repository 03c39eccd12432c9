"""The columns that a channel adds to the rows of its source table: their types, and their values in each row. Pure.

A worker adds the values between source and sink, in the copy and in the stream, so that a sink stages, isolates and
quarantines them like the source's own (ADR 93, ADR 101).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import Refused

MOMENT = "timestamp with time zone"
NULL = b"\\N"
"""NULL in COPY text."""
WRITES = (b"I", b"U")
"""Kinds of events that write a row; every other kind removes it."""

Tail = Callable[[bytes], bytes]
"""Returns the added columns of an event of this kind as COPY text, each after a tab; a copied row has kind I."""


def mirrored(channel: ChannelSpec, read: Sequence[Column]) -> tuple[tuple[int, Column], ...]:
    """Return the columns that the target stores unchanged: their indexes in the source row, and the target's names.

    A column that a computed column replaces is not included.
    """
    names, computed = dict(channel.columns), {one.name for one in channel.compute}
    found = [
        (place, replace(column, name=names.get(column.name, column.name)))
        for place, column in enumerate(read)
        if not names or column.name in names
    ]
    return tuple((place, column) for place, column in found if column.name not in computed)


def computed(channel: ChannelSpec, read: tuple[Column, ...], identity: TableIdentity) -> tuple[Column, ...]:
    """Return the computed columns; raises Refused for one in the key, or an expression that the types do not allow."""
    if not channel.compute:
        return ()
    from slotkeeper.core.domain.expressions import compiled  # the parser's import takes half a second

    names = dict(channel.columns)
    keys = {names.get(name, name) for name in identity.key}
    found = []
    for one in channel.compute:
        if one.name in keys:
            what = f"{channel.source_table}: computed column {one.name} is part of the key"
            raise Refused(what, "mirror the columns of the key unchanged")
        found.append(Column(one.name, compiled(one, read, "").column_type))
    return tuple(found)


def image_columns(channel: ChannelSpec, identity: TableIdentity) -> tuple[Column, ...]:
    """Return the columns of the target, in the order in which a worker writes them.

    Raises Refused if two have one name.
    """
    read = Mapped.of(channel).columns(identity)
    own = tuple(column for _, column in mirrored(channel, read))
    columns = (*own, *computed(channel, read, identity), *added(channel))
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            what = f"{channel.source_table} has a column {name}, which its channel also adds to the target"
            raise Refused(what, "map that column to another name with columns = { ... }, or omit it")
    return columns


def added(channel: ChannelSpec) -> tuple[Column, ...]:
    """Return the columns that the source does not have, in the order in which they follow the source's."""
    one, soft = channel.constant, channel.soft_delete
    found = [] if one is None else [Column(one.column, one.type, required=True)]
    if soft is not None:
        found += [Column(soft.deleted_at, MOMENT), Column(soft.op, "character varying(1)")]
    if channel.synced_at:
        found.append(Column(channel.synced_at, MOMENT))
    return tuple(found)


def added_text(channel: ChannelSpec) -> str:
    """Return the description of the added columns, except a constant, for the channel's hash; "" if there are none."""
    computed = [(one.name, one.sql) for one in channel.compute]
    parts = {"soft_delete": channel.marks[:2], "synced_at": channel.synced_at, "compute": computed}
    return json.dumps({name: it for name, it in parts.items() if it}) if any(parts.values()) else ""


def tail_of(channel: ChannelSpec, now: datetime) -> Tail | None:
    """Return the added columns of a batch that is read at `now`; None if they are the same for every kind of event.

    >>> from slotkeeper.core.domain.spec import SoftDelete
    >>> tail = tail_of(ChannelSpec("a.t", "b.t", soft_delete=SoftDelete()), datetime(2026, 1, 2, 3, 4, 5))
    >>> tail(b"U"), tail(b"d")
    (b'\\t\\\\N\\tU', b'\\t2026-01-02 03:04:05+00\\tD')
    """
    if channel.soft_delete is None:
        return None
    rest, moment = constant_tail(channel, now), _text(now)
    removed = b"\t" + moment + b"\tD" + rest
    written = {kind: b"\t" + NULL + b"\t" + kind + rest for kind in WRITES}
    return lambda kind: written.get(kind, removed)


def constant_tail(channel: ChannelSpec, now: datetime) -> bytes:
    """Return the added columns that have one value in all rows of a batch, as COPY text, each after a tab."""
    found = b"" if channel.constant is None else b"\t" + channel.constant.text.encode()
    return found + (b"\t" + _text(now) if channel.synced_at else b"")


def _text(now: datetime) -> bytes:
    return now.replace(tzinfo=None).isoformat(" ").encode() + b"+00"
