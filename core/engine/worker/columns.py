"""Converts source rows to target rows, between source and sink (`slotkeeper.core.domain.columns`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from slotkeeper.core.domain.columns import NULL, WRITES, constant_tail, mirrored, tail_of
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers.pipe import LineText, copy_line, value_of, with_tail
from slotkeeper.core.errors import ExpressionError
from slotkeeper.core.ports.source import Source

Fields = list[bytes]
Resolve = Callable[[SecretRef], str]
"""Returns the secret of a reference; raises SecretUnread."""
HEAD = 3
"""Fields of an event before the values of its columns: point, sequence and kind."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows of one table and DN are rewritten; without `values`, columns are only added at the end."""

    channel: ChannelSpec
    values: Callable[[Fields, Fields], Fields] | None = None
    """Returns the mirrored and computed values of a row from its head, empty for a copied row, and its values."""


def plan_of(
    channel: ChannelSpec, source: Source | None = None, shard: str = "", resolve: Resolve | None = None
) -> RowPlan:
    """Return the plan; a channel with computed columns needs the source, which is asked for the table's types."""
    if not channel.compute or source is None:
        return RowPlan(channel)
    from slotkeeper.core.domain.expressions import Row, compiled  # the parser's import takes half a second

    read, salt = Mapped.of(channel).columns(source.identify()), _salt(channel, resolve)
    kept = [place for place, _ in mirrored(channel, read)]
    parts = [(one.name, compiled(one, read, salt)) for one in channel.compute]
    inputs = {place for place, column in enumerate(read) if any(column.name in one.inputs for one in channel.compute)}

    def values(head: Fields, fields: Fields) -> Fields:
        at = value_of(fields.pop().decode()) if head and channel.timed else None
        made = [fields[place] for place in kept]
        if head and head[2] not in WRITES:
            return [*made, *[NULL] * len(parts)]
        texts = [value_of(one.decode()) if place in inputs else None for place, one in enumerate(fields)]
        position = f"{head[0].decode()}/{head[1].decode()}" if head else ""
        row = Row(texts, (head[2].decode(), shard, position, at) if head else ("I", None, None, None))
        for name, part in parts:
            try:
                text = part.text(row)
            except ExpressionError as error:
                what = f"{channel.source_table}: computed column {name}: {error.message}"
                raise ExpressionError(what, "handle the value in the expression, for example with CASE") from None
            made.append(copy_line((text,))[:-1])
        return made

    return RowPlan(channel, values)


def _salt(channel: ChannelSpec, resolve: Resolve | None) -> str:
    if not channel.salt.how:
        return ""
    assert resolve is not None, "a salted column is never computed without its salt"
    return resolve(channel.salt)


def with_columns(out: BinaryIO, plan: RowPlan, now: datetime, copying: bool) -> BinaryIO:
    """Return the pipe's end to which the source writes a batch read at `now`: copied rows, or events with kinds."""
    channel, values = plan.channel, plan.values
    tail, constant = tail_of(channel, now), constant_tail(channel, now)
    if values is None and tail is None:
        return with_tail(out, constant)
    if values is None and tail is not None and copying:
        return with_tail(out, tail(b"I"))
    start = 0 if copying else HEAD

    def rewrite(line: bytes) -> bytes:
        if values is None:
            kind = line.split(b"\t", HEAD)[2]
        else:
            fields = line.split(b"\t")
            head = fields[:start]
            kind = head[2] if head else b"I"
            line = b"\t".join((*head, *values(head, fields[start:])))
        return line + (tail(kind) if tail else constant)

    return LineText(out, rewrite)
