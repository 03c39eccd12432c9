"""The events inside a compressed transaction (MySQL 8.0.20 and later, `binlog_transaction_compression`). Pure.

MySQL, "Binary Log Transaction Compression": a payload holds one whole transaction after its GTID, as events without
checksums, compressed with zstd. It is inflated event by event, so memory does not grow with the transaction.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import cast

from slotkeeper.core.drivers.my import EVENT_BYTES
from slotkeeper.core.sources.mysql.errors import Damaged, Unsupported
from slotkeeper.core.sources.mysql.events import (
    HEADER,
    HEADER_BYTES,
    Commit,
    Event,
    Mapped,
    Parser,
    Payload,
    Query,
    Rows,
    XaPrepared,
)

_ZSTD, _NONE = 0, 255
_PIECE_BYTES = 256 * 1024
_INSIDE = frozenset({Event, Query, Commit, XaPrepared, Mapped, Rows})
"""What a transaction consists of. A rotation or a GTID inside a payload would move the position of the stream."""


def parts(event: Event) -> Iterator[tuple[Event, int | None]]:
    """The event with None, and behind a compressed transaction each event in it with its offset; raises as `events`."""
    yield event, None
    if isinstance(event, Payload):
        yield from ((part, at) for at, part in events(event))


def events(payload: Payload) -> Iterator[tuple[int, Event]]:
    """Each event with the offset in the inflated payload at which it starts.

    Raises Damaged where the payload cannot be inflated or holds anything but one transaction's events, Unsupported for
    an unknown compression method and for events that are refused outside of a payload too.
    """
    parser = Parser()
    for at, packet in packets(payload):
        event = parser.parse(packet)
        if type(event) not in _INSIDE:
            what = f"an event of type {event.header.code}, which is no part of a transaction"
            raise Damaged(f"a transaction payload holds {what}")
        yield at, event


def packets(payload: Payload) -> Iterator[tuple[int, bytes]]:
    """Each event's bytes with the offset at which it starts, without the end of the event in a file: it has none."""
    source, at = _inflated(payload), 0
    while head := _read(source, HEADER_BYTES):
        if len(head) < HEADER_BYTES:
            raise Damaged("a transaction payload ends inside an event's header")
        time, code, server, size, _, flags = HEADER.unpack(head)
        if not HEADER_BYTES <= size <= min(payload.size - at, EVENT_BYTES):
            raise Damaged(f"event type {code} in a transaction payload has {size} bytes, beyond the payload's end")
        yield at, HEADER.pack(time, code, server, size, 0, flags) + _read(source, size - HEADER_BYTES)
        at += size
    if at != payload.size:
        raise Damaged(f"a transaction payload inflates to {at} bytes, not to {payload.size}")


def _inflated(payload: Payload) -> io.BufferedReader:
    raw = memoryview(payload.body)[payload.begin : payload.stop]
    if payload.method == _NONE:
        return io.BufferedReader(cast(io.RawIOBase, io.BytesIO(raw)))
    if payload.method != _ZSTD:
        raise Unsupported(
            f"a transaction is compressed by method {payload.method}, only zstd (0) is read",
            "set binlog_transaction_compression = OFF at the source, and take a new snapshot",
        )
    import zstandard  # only for sources that compress their binlog

    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(cast(io.RawIOBase, reader), _PIECE_BYTES)


def _read(source: io.BufferedReader, size: int) -> bytes:
    """This many bytes; fewer at the end."""
    import zstandard

    try:
        return source.read(size)
    except zstandard.ZstdError as error:
        raise Damaged("a transaction payload cannot be inflated") from error
