"""Messages of a binlog stream as the stand-in sends them: rows, batches, compression, in the published layouts. Pure.

It is written independently of the product's reader and shares no code with it; bytes made by Flink's own serializer
verify both. Sources: Flink, BinaryRowWriter and BinaryArrayWriter; holo-client, HoloBinlogDecoder.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

SLOTS = {
    "smallint": "<h6x",
    "integer": "<i4x",
    "bigint": "<q",
    "oid": "<q",
    "real": "<f4x",
    "double precision": "<d",
    "boolean": "<?7x",
    "date": "<i4x",
    "time without time zone": "<q",
    "timestamp without time zone": "<q",
    "timestamp with time zone": "<q",
}
"""Types stored in a slot itself, with the `struct` format of each."""


class _Space:
    """The variable part that follows a fixed one; offsets count from the start of both."""

    def __init__(self, begins: int) -> None:
        self.bytes = bytearray()
        self._begins = begins

    def slot(self, value: bytes, inline: bool = True) -> bytes:
        if inline and len(value) <= 7:
            return value.ljust(7, b"\0") + bytes([0x80 | len(value)])
        at = self._begins + len(self.bytes)
        self.bytes += value + bytes(-len(value) % 8)
        return struct.pack("<Q", at << 32 | len(value))


def array(code: str, elements: Sequence[Any]) -> bytes:
    """Return a BinaryArray; `code` is the `struct` format of an element, "Q" for bytes; None is NULL."""
    head = bytearray(struct.pack("<i", len(elements)) + bytes((len(elements) + 31) // 32 * 4))
    for place, value in enumerate(elements):
        if value is None:
            head[4 + place // 8] |= 1 << place % 8
    size = struct.calcsize(f"<{code}")
    space = _Space((len(head) + len(elements) * size + 7) // 8 * 8)
    fixed = bytearray()
    for value in elements:
        if value is None:
            fixed += bytes(size)
        else:
            fixed += space.slot(value) if code == "Q" else struct.pack(f"<{code}", value)
    fixed += bytes(-(len(head) + len(fixed)) % 8)
    return bytes(head + fixed + space.bytes)


def row(lsn: int, event: int, at_us: int, types: Sequence[str] = (), values: Sequence[Any] = ()) -> bytes:
    """Return a BinaryRow of the binlog's three fields and these values: numbers for types stored in a slot,
    else bytes.
    """
    fields = [("bigint", lsn), ("bigint", event), ("bigint", at_us), *zip(types, values, strict=True)]
    bits = bytearray((len(fields) + 63 + 8) // 64 * 8)
    space = _Space(len(bits) + 8 * len(fields))
    slots = bytearray()
    for place, (type_, value) in enumerate(fields, 8):
        if value is None:
            bits[place // 8] |= 1 << place % 8
            slots += bytes(8)
        elif type_ in SLOTS:
            slots += struct.pack(SLOTS[type_], value)
        else:
            slots += space.slot(value, inline=not type_.endswith("[]"))
    return bytes(bits + slots + space.bytes)


def message(rows: Sequence[bytes] = (), version: int = 1, protocol: int = 0, compressed: bool = False) -> bytes:
    """Return a message with these rows; an empty row represents a row that the server's filter left out."""
    at = 8 + 4 * len(rows)
    edges = []
    for one in rows:
        edges.append(at)
        at += len(one)
    raw = struct.pack(">qq", protocol, version) + struct.pack(f"<ii{len(rows)}i", 7, len(rows), *edges) + b"".join(rows)
    if not compressed:
        return raw
    import lz4.block  # only needed for compression

    block: bytes = lz4.block.compress(raw, store_size=False)
    return struct.pack(">i", len(raw)) + block
