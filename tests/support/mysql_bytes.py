"""Bytes of MySQL's published formats that no server in the tests writes. For tests of the pure parts.

Sources: MySQL's Doxygen pages of binary_log::Table_map_event, Rows_event, Gtid_event; sql-common/json_binary.h.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from enum import Enum
from uuid import UUID

import zstandard

HEADER_BYTES = 19


TIME = 1_700_000_000


class Padding(Enum):
    """The bits of a bitmap after its last column, as each server writes them."""

    MARIADB = 0
    MYSQL = 1


def bitmap(bits: int, width: int, padding: Padding = Padding.MYSQL) -> bytes:
    """A bitmap of `width` columns."""
    size = (width + 7) // 8
    pad = (1 << size * 8) - (1 << width) if padding is Padding.MYSQL else 0
    return (bits | pad).to_bytes(size, "little")


def event(code: int, body: bytes, end: int = 0, checksum: bool = False, flags: int = 0) -> bytes:
    """An event with its header; `end` is where it ends in its file."""
    size = HEADER_BYTES + len(body) + 4 * checksum
    raw = struct.pack("<IBIIIH", TIME, code, 1, size, end, flags) + body
    return raw + struct.pack("<I", zlib.crc32(raw)) if checksum else raw


def format_description(version: str = "8.4.2", checksum: bool = True, created: int = 0) -> bytes:
    """The first event of a file, which always has a checksum. `created` is its time, which a dump retains."""
    body = struct.pack("<H50sIB", 4, version.encode(), 0, HEADER_BYTES) + bytes(41) + bytes([checksum])
    raw = struct.pack("<IBIIIH", created, 15, 1, HEADER_BYTES + len(body) + 4, 0, 0) + body
    return raw + struct.pack("<I", zlib.crc32(raw) if checksum else 0)


def length(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    return b"\xfc" + struct.pack("<H", number) if number < 1 << 16 else b"\xfd" + struct.pack("<I", number)[:3]


def named(text: str) -> bytes:
    return length(len(text.encode())) + text.encode()


def table_map(
    codes: Sequence[int],
    meta: bytes = b"",
    number: int = 7,
    schema: str = "s",
    table: str = "t",
    fields: dict[int, bytes] | None = None,
    padding: Padding = Padding.MYSQL,
) -> bytes:
    """The body of a TABLE_MAP event; all columns may be NULL."""
    head = struct.pack("<IHH", number, 0, 1)
    name = bytes([len(schema)]) + schema.encode() + b"\0" + bytes([len(table)]) + table.encode() + b"\0"
    nulls = bitmap((1 << len(codes)) - 1, len(codes), padding)
    optional = b"".join(bytes([kind]) + length(len(value)) + value for kind, value in (fields or {}).items())
    return head + name + length(len(codes)) + bytes(codes) + length(len(meta)) + meta + nulls + optional


def rows(
    width: int,
    body: bytes,
    number: int = 7,
    present: int | None = None,
    extra: bytes = b"",
    padding: Padding = Padding.MYSQL,
) -> bytes:
    """The body of a second-version insert."""
    columns = bitmap((1 << width) - 1 if present is None else present, width, padding)
    return struct.pack("<IHHH", number, 0, 1, 2 + len(extra)) + extra + length(width) + columns + body


def payload(events: Sequence[bytes], compressed: bool = True) -> bytes:
    raw = b"".join(events)
    held = zstandard.ZstdCompressor().compress(raw) if compressed else raw
    fields = ((2, length(0 if compressed else 255)), (3, length(len(raw))), (1, length(len(held))), (9, b"later"))
    head = b"".join(bytes([kind, len(value)]) + value for kind, value in fields)
    return event(40, head + b"\0" + held)


def gtid(source: UUID, number: int) -> bytes:
    """The body of a GTID event of MySQL 8, with the fields after the number."""
    return b"\x01" + source.bytes + struct.pack("<qBqq", number, 2, 0, 1) + bytes(7) + b"\xfc\x01"


def query(text: str, schema: str = "s") -> bytes:
    """The body of a QUERY event with a status variable."""
    status = b"\x00" + struct.pack("<I", 0)
    head = struct.pack("<IIBHH", 1, 0, len(schema), 0, len(status))
    return head + status + schema.encode() + b"\0" + text.encode()


def xa_prepare(gtrid: bytes, bqual: bytes = b"", number: int = 1, one_phase: bool = False) -> bytes:
    return struct.pack("<BIII", one_phase, number, len(gtrid), len(bqual)) + gtrid + bqual


def placed(packets: Sequence[bytes], offset: int = 4) -> list[bytes]:
    """Return the same events, each with its end in a file in which the first event starts at `offset`."""
    found = []
    for packet in packets:
        offset += len(packet)
        found.append(packet[:13] + struct.pack("<I", offset) + packet[17:])
    return found
