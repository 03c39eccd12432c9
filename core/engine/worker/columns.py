"""Adds a channel's own columns to rows between source and sink (`slotkeeper.core.domain.columns`)."""

from __future__ import annotations

from datetime import datetime
from typing import BinaryIO

from slotkeeper.core.domain.columns import constant_tail, tail_of
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers.pipe import LineText, with_tail


def with_columns(out: BinaryIO, channel: ChannelSpec, now: datetime, copying: bool) -> BinaryIO:
    """Return the source's end of a batch that is read at `now`: of copied rows, or of events with their kind."""
    tail = tail_of(channel, now)
    if tail is None:
        return with_tail(out, constant_tail(channel, now))
    if copying:
        return with_tail(out, tail(b"I"))
    return LineText(out, lambda line: line + tail(line.split(b"\t", 3)[2]))
