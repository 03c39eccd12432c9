"""The source table as its target has it. Pure; next door: each kind of sink compares it with what is there."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec


def image_of(channel: ChannelSpec, identity: TableIdentity) -> TableIdentity:
    """The source table as its target has it: the mirrored columns in the order in which they are read, renamed."""
    if not channel.columns:
        return identity
    known, names = {column.name: column for column in identity.columns}, dict(channel.columns)
    columns = tuple(replace(known[name], name=into) for name, into in channel.columns)
    return replace(identity, columns=columns, key=tuple(names[name] for name in identity.key))
