"""Parse the bytes of a replication stream into events (format version 4). Pure; rows are not decoded in this module.

Sources: MariaDB, "Replication Protocol" (mariadb.com/kb, one page per event); MySQL, "Binary Log" in the server's
Doxygen pages (libbinlogevents; Query_event has the table of status variables, MariaDB writes the same). Events that
would hide rows are rejected; so is an unknown event that is not marked as ignorable, with an error that contains its
number.

MySQL, "Binary Log Transaction Compression" (8.0.20 and later): a payload holds one whole transaction after its GTID, as
events without checksums, compressed with zstd. The payload is decompressed event by event, so memory does not grow with
the transaction.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import cast
from uuid import UUID

from slotkeeper.core.domain.text import see
from slotkeeper.core.drivers.my import EVENT_BYTES
from slotkeeper.core.sources.mysql.client_text import query_text
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged, Unsupported
from slotkeeper.core.sources.mysql.position import MysqlSet
from slotkeeper.core.sources.mysql.table_map import TableMap, length_encoded, parse_table_map

HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = HEADER.size
CHECKSUM_BYTES = 4
ARTIFICIAL = 0x20
"""Header flag: the server generated the event for this stream; the event is not in the file."""
IGNORABLE = 0x80
_IN_USE = 0x01
NO_TABLE = 0xFFFFFF
"""The table id of a rows event that only ends a statement."""


@dataclass(frozen=True, slots=True)
class Header:
    """An event header: `time` is in seconds since 1970, `size` in bytes including header and checksum; `end` is the low
    32 bits of the event's end offset in its file (0 for an artificial event).
    """

    time: int
    code: int
    server_id: int
    size: int
    end: int
    flags: int

    @property
    def is_artificial(self) -> bool:
        """Whether the server generated the event for this stream; such an event does not advance the offset."""
        return bool(self.flags & ARTIFICIAL)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of which only the header is needed."""

    header: Header


@dataclass(frozen=True, slots=True)
class Rotate(Event):
    """The next events are in `file`, starting at `offset`."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class FormatDescription(Event):
    """The first event of a file, with the version of the server that wrote it and whether events end with a CRC32."""

    server_version: str
    checksum: bool

    @property
    def born(self) -> tuple[int, int] | None:
        """The creation time of the file and the server_id that created it; None if the server does not report them.

        A dump that starts inside a file also sends this event. The server then clears the creation time in the body of
        the event, but never in the header (MySQL, `Binlog_sender::send_format_description_event`; MariaDB does the
        same).
        """
        return (self.header.time, self.header.server_id) if self.header.time else None


@dataclass(frozen=True, slots=True)
class Query(Event):
    """The text of a statement, including BEGIN, COMMIT and XA statements.

    `sql_mode` contains the bits of the session. `decoded` is False if the client's character set cannot be decoded;
    names in `text` can then differ from those in the statement.
    """

    schema: str
    text: str
    sql_mode: int = 0
    decoded: bool = True


@dataclass(frozen=True, slots=True)
class Commit(Event):
    """The commit of a transaction (XID_EVENT)."""


@dataclass(frozen=True, slots=True)
class XaPrepared(Event):
    """The prepare of an XA transaction, whose rows may still be rolled back; `xid` is `formatID-gtrid-bqual`."""

    xid: str


@dataclass(frozen=True, slots=True)
class MariaGtid(Event):
    """The start of a MariaDB event group; a `standalone` group has no commit of its own (DDL)."""

    domain: int
    server: int
    sequence: int
    standalone: bool
    ddl: bool
    prepared_xa: bool


@dataclass(frozen=True, slots=True)
class MysqlGtid(Event):
    """The start of a MySQL transaction; `source` is None for an anonymous transaction.

    `committed` is the time of its commit on the server that first wrote it, in microseconds since 1970, which every
    replica writes unchanged (MySQL, "Delayed Replication": original_commit_timestamp); 0 if unknown.
    """

    source: UUID | None
    number: int
    tag: str = ""
    committed: int = 0


@dataclass(frozen=True, slots=True)
class PreviousGtids(Event):
    """The transactions executed before this file."""

    executed: MysqlSet


@dataclass(frozen=True, slots=True)
class MariaGtidList(Event):
    """The last GTID of each domain before this file: (domain, server, sequence)."""

    last: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Heartbeat(Event):
    """A heartbeat: there is nothing new, and the stream has reached the header's `end` in `file`."""

    file: str


@dataclass(frozen=True, slots=True)
class Mapped(Event):
    """The description of a table for the rows events that follow."""

    table: TableMap


class Action(Enum):
    """The operation of a rows event."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Rows(Event):
    """Rows of one table, undecoded: `body[begin:stop]`. `before` and `after` are the bitmaps of the columns present."""

    action: Action
    table_id: int
    width: int
    before: bytes
    after: bytes
    body: bytes
    begin: int
    stop: int


@dataclass(frozen=True, slots=True)
class Payload(Event):
    """The events of one transaction, compressed: `body[begin:stop]` decompresses to `size` bytes of events.

    `method` is 0 for zstd and 255 for none (MySQL, mysql::binlog::event::compression::type).
    """

    method: int
    size: int
    body: bytes
    begin: int
    stop: int


@dataclass(frozen=True, slots=True)
class Incident(Event):
    """An incident: the server reports, in `message`, that it has lost events."""

    message: str


class Parser:
    """Parses the events of one stream in order; a format description applies to the events that follow it."""

    def __init__(self) -> None:
        self._checksum = False

    def parse(self, packet: bytes, at: int = 0) -> Event:
        """Return the event that starts at `at` and ends with the packet.

        Raises Damaged if a checksum or a length is wrong, and Unsupported for an event form that is not supported.
        """
        if len(packet) - at < HEADER_BYTES:
            raise Damaged(f"an event has {len(packet) - at} bytes, less than its header of {HEADER_BYTES}")
        header = Header(*HEADER.unpack_from(packet, at))
        if header.size != len(packet) - at:
            raise Damaged(f"event type {header.code} claims {header.size} bytes, but has {len(packet) - at}")
        stop = self._without_checksum(header, packet, at)
        read = _READ.get(header.code)
        if read is None:
            return _other(header)
        try:
            event = read(header, packet, at + HEADER_BYTES, stop)
        except BinlogError:
            raise
        except (struct.error, IndexError, ValueError) as error:
            raise Damaged(f"cannot parse event type {header.code} of {header.size} bytes") from error
        if isinstance(event, FormatDescription):
            self._checksum = event.checksum
        return event

    def _without_checksum(self, header: Header, packet: bytes, at: int) -> int:
        """Verify the checksum, and return the offset at which the event ends without its checksum."""
        stop = len(packet)
        if header.code == 15:
            stop -= CHECKSUM_BYTES
            if not packet[stop - 1]:
                return stop  # the checksum field exists even if checksums are off
            if header.flags & _IN_USE:  # set in the file after the checksum was computed (MySQL, Log_event_footer)
                packet = packet[: at + 17] + bytes([packet[at + 17] & ~_IN_USE]) + packet[at + 18 :]
            checked = True
        elif header.is_artificial or header.code in (27, 41):
            # such an event can have another checksum setting than its file: only its bytes show whether it has a
            # checksum
            return stop - CHECKSUM_BYTES if _matches(packet, at) else stop
        else:
            checked = self._checksum
        if not checked:
            return stop
        if not _matches(packet, at):
            raise Damaged(
                f"wrong checksum of the event of type {header.code} that ends at {header.end}",
                "binlog or connection is damaged: retry; if the error persists, take a new snapshot",
            )
        return len(packet) - CHECKSUM_BYTES


def _matches(packet: bytes, at: int) -> bool:
    stop = len(packet) - CHECKSUM_BYTES
    return zlib.crc32(memoryview(packet)[at:stop]) == int.from_bytes(packet[stop:], "little")


def _format_description(header: Header, body: bytes, at: int, stop: int) -> Event:
    version, name = struct.unpack_from("<H50s", body, at)
    if version != 4:
        raise Unsupported(
            f"unsupported binlog format version {version} (supported: 4)",
            "upgrade the server: versions before 5.0 are too old",
        )
    server = name.rstrip(b"\0").decode()
    if body[at + 56] != HEADER_BYTES:
        raise Damaged(f"event headers have {body[at + 56]} bytes, expected {HEADER_BYTES}")
    algorithm = body[stop - 1]
    if algorithm not in (0, 1):
        raise Unsupported(f"unknown binlog checksum algorithm {algorithm} (0: none, 1: CRC32)")
    return FormatDescription(header, server, algorithm == 1)


def _query(header: Header, body: bytes, at: int, stop: int) -> Event:
    schema_bytes, _, status_bytes = struct.unpack_from("<BHH", body, at + 8)
    start = at + 13 + status_bytes
    schema = body[start : start + schema_bytes].decode("utf-8", "replace")
    raw = body[start + schema_bytes + 1 : stop]
    if raw == b"BEGIN":
        return Query(header, schema, "BEGIN")
    return Query(header, schema, *query_text(body[at + 13 : start], raw))


def _xa_prepared(header: Header, body: bytes, at: int, stop: int) -> Event:
    # one phase: prepare and commit in one event (MySQL, XA_prepare_event)
    if body[at]:
        return Commit(header)
    number, gtrid, bqual = struct.unpack_from("<III", body, at + 1)
    data = body[at + 13 : stop]
    if len(data) != gtrid + bqual:
        raise Damaged(f"an XA identifier has {len(data)} bytes, expected {gtrid + bqual}")
    return XaPrepared(header, xid_text(number, data[:gtrid].hex(), data[gtrid:].hex()))


def xid_text(number: int, gtrid: str, bqual: str) -> str:
    """Return an XA identifier in the format of positions; a negative formatID has 64 bits in statements, 32 in events.

    >>> xid_text(1, "6162", ""), xid_text(18446744073709551615, "61", "") == xid_text(0xFFFFFFFF, "61", "")
    ('1-6162-', True)
    """
    return f"{number & 0xFFFFFFFF}-{gtrid}-{bqual}"


def _rows(header: Header, body: bytes, at: int, stop: int) -> Event:
    action, version = _ROWS[header.code]
    table = int.from_bytes(body[at : at + 6], "little")
    at += 8
    if version == 2:
        at += int.from_bytes(body[at : at + 2], "little")  # extra: partitions and replication channels
    width, at = length_encoded(body, at)
    size = (width + 7) // 8
    before = after = body[at : at + size]
    at += size
    if action is Action.UPDATE:
        after = body[at : at + size]
        at += size
    if at > stop:
        raise Damaged(f"a rows event of {header.size} bytes is shorter than its header fields")
    return Rows(header, action, table, width, before, after, body, at, stop)


def _maria_gtid(header: Header, body: bytes, at: int, stop: int) -> Event:
    sequence, domain, flags = struct.unpack_from("<QIB", body, at)
    kinds = bool(flags & 1), bool(flags & 32), bool(flags & 64)
    return MariaGtid(header, domain, header.server_id, sequence, *kinds)


def _maria_gtid_list(header: Header, body: bytes, at: int, stop: int) -> Event:
    count = int.from_bytes(body[at : at + 4], "little") & 0x0FFFFFFF
    found = tuple(struct.unpack_from("<IIQ", body, at + 4 + 16 * number) for number in range(count))
    return MariaGtidList(header, found)


def _mysql_gtid(header: Header, body: bytes, at: int, stop: int) -> Event:
    """Parse a GTID without a tag (MySQL, mysql::binlog::event::Gtid_event).

    After the GTID: a type of 2 with two numbers of eight bytes, then the commit time on this server in seven bytes; if
    its highest bit is set, the original time follows.
    """
    number = int.from_bytes(body[at + 17 : at + 25], "little", signed=True)
    committed = 0
    if stop >= at + 49 and body[at + 25] == 2:
        committed = int.from_bytes(body[at + 42 : at + 49], "little")
        if committed >> 55:
            committed = int.from_bytes(body[at + 49 : at + 56], "little") if stop >= at + 56 else 0
    if header.code == 34:
        return MysqlGtid(header, None, 0, committed=committed)
    return MysqlGtid(header, UUID(bytes=body[at + 1 : at + 17]), number, committed=committed)


_TAGGED_VERSION = 1
_UUID_BYTES = 16


def _tagged_gtid(header: Header, body: bytes, at: int, stop: int) -> Event:
    """Parse a GTID with a tag (MySQL 8.3, Gtid_event; its fields are those of the serialization library, "Library:
    Serialization"): version, size, last field that must not be ignored, then pairs of field number and value.
    """
    version, at = varlen(body, at)
    if version != _TAGGED_VERSION:
        raise Unsupported(f"unknown version {version} of a GTID with a tag", "the server is newer than supported")
    _, at = varlen(body, at)
    _, at = varlen(body, at)
    found: dict[int, int] = {}
    source, tag = b"", ""
    while at < stop:
        name, at = varlen(body, at)
        if name == 1:
            numbers = []
            for _ in range(_UUID_BYTES):
                number, at = varlen(body, at)
                numbers.append(number)
            source = bytes(numbers)
        elif name == 3:
            size, at = varlen(body, at)
            tag, at = body[at : at + size].decode("ascii"), at + size
        elif name <= 7:
            found[name], at = varlen(body, at)
        else:
            break  # the fields after the times are not needed, and a newer server can add some
    if not source or not tag or 2 not in found:
        raise Damaged("a GTID with a tag has no source, no number or no tag")
    committed = found.get(7, found.get(6, 0))
    return MysqlGtid(header, UUID(bytes=source), found[2] >> 1, tag, committed)  # a signed number: its sign is bit 0


def varlen(body: bytes, at: int) -> tuple[int, int]:
    """Return a number of the serialization library and the offset after it: the low bits of its first byte that are 1
    count the bytes that follow.

    >>> varlen(bytes([10]), 0), varlen(bytes([0b01, 0b10]), 0), varlen(bytes([255, 7, 0, 0, 0, 0, 0, 0, 0]), 0)
    ((5, 1), (128, 2), (7, 9))
    """
    more = ((~body[at] & (body[at] + 1)).bit_length() or 9) - 1
    if at + more >= len(body):
        raise IndexError("the number is longer than the event")
    if more == 8:
        return int.from_bytes(body[at + 1 : at + 9], "little"), at + 9
    return int.from_bytes(body[at : at + more + 1], "little") >> (more + 1), at + more + 1


def _heartbeat(header: Header, body: bytes, at: int, stop: int) -> Event:
    return Heartbeat(header, body[at:stop].decode() if header.code == 27 else "")


def _payload(header: Header, body: bytes, at: int, stop: int) -> Event:
    """Parse a payload (MySQL, Transaction_payload_event): fields of (type, length, value), then type 0 and the payload.

    Field types: 1 is the payload size, 2 the compression method, 3 the uncompressed size; a server may add others.
    """
    found = {2: 255}
    while True:
        kind, at = length_encoded(body, at)
        if not kind:
            break
        size, at = length_encoded(body, at)
        if kind in (1, 2, 3):
            found[kind] = length_encoded(body, at)[0]
        at += size
    if found.get(1) != stop - at:
        raise Damaged(f"a transaction payload of {stop - at} bytes claims {found.get(1, 'none')}")
    return Payload(header, found[2], found.get(3, stop - at), body, at, stop)


_ROWS = {
    23: (Action.INSERT, 1),
    24: (Action.UPDATE, 1),
    25: (Action.DELETE, 1),
    30: (Action.INSERT, 2),
    31: (Action.UPDATE, 2),
    32: (Action.DELETE, 2),
}
_READ: dict[int, Callable[[Header, bytes, int, int], Event]] = {
    2: _query,
    4: lambda header, body, at, stop: Rotate(
        header, body[at + 8 : stop].decode(), int.from_bytes(body[at : at + 8], "little")
    ),
    15: _format_description,
    16: lambda header, body, at, stop: Commit(header),
    19: lambda header, body, at, stop: Mapped(header, parse_table_map(body, at, stop)),
    26: lambda header, body, at, stop: Incident(
        header, body[at + 3 : at + 3 + body[at + 2]].decode("utf-8", "replace")
    ),
    27: _heartbeat,
    33: _mysql_gtid,
    34: _mysql_gtid,
    35: lambda header, body, at, stop: PreviousGtids(header, MysqlSet.decode(body[at:stop])),
    38: _xa_prepared,
    40: _payload,
    41: _heartbeat,
    42: _tagged_gtid,
    162: _maria_gtid,
    163: _maria_gtid_list,
    **dict.fromkeys(_ROWS, _rows),
}
_PASSED_OVER = frozenset({3, 5, 13, 14, 28, 29, 36, 37, 160, 161, 164})
"""STOP, INTVAR, RAND, USER_VAR (of statements), IGNORABLE, ROWS_QUERY, TRANSACTION_CONTEXT, VIEW_CHANGE,
ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION: none contains a row."""
_COMPRESSED = "turn log_bin_compress off on the source, and take a new snapshot"
_REFUSED = {
    39: (
        "partial JSON updates (PARTIAL_UPDATE_ROWS_EVENT) are not supported",
        "set binlog_row_value_options = '' on the source, and take a new snapshot",
    ),
    165: ("compressed statements (QUERY_COMPRESSED_EVENT) are not supported", _COMPRESSED),
    **{code: (f"compressed rows (event type {code}) are not supported", _COMPRESSED) for code in range(166, 172)},
    **{code: (f"row events from before version 5.1 (type {code}) are not supported", "") for code in (20, 21, 22)},
    **{
        code: (
            f"LOAD DATA as a statement (event type {code}) is not supported",
            "set binlog_format = ROW on the source, and take a new snapshot",
        )
        for code in (6, 7, 8, 9, 10, 11, 12, 17, 18)
    },
}


def _other(header: Header) -> Event:
    if header.code in _REFUSED:
        raise Unsupported(*_REFUSED[header.code])
    if header.code in _PASSED_OVER or header.flags & IGNORABLE:
        return Event(header)
    raise Unsupported(
        f"unknown event type {header.code}: it may contain rows",
        f"the server is newer than the supported versions: {see('mysql', 'What the server has to be')}",
    )


_ZSTD, _NONE = 0, 255
_PIECE_BYTES = 256 * 1024
_INSIDE = frozenset({Event, Query, Commit, XaPrepared, Mapped, Rows})
"""Event types allowed in a payload: a rotation or a GTID there would move the stream's position."""


def parts(event: Event) -> Iterator[tuple[Event, int | None]]:
    """Yield the event with None, then each event of a compressed transaction with its offset (errors: see `events`)."""
    yield event, None
    if isinstance(event, Payload):
        yield from ((part, at) for at, part in events(event))


def events(payload: Payload) -> Iterator[tuple[int, Event]]:
    """Return each event with its start offset in the decompressed payload.

    Raises Damaged if the payload cannot be decompressed or contains anything except the events of one transaction, and
    Unsupported for an unknown compression method and for events that are also rejected outside a payload.
    """
    parser = Parser()
    for at, packet in packets(payload):
        event = parser.parse(packet)
        if type(event) not in _INSIDE:
            what = f"an event of type {event.header.code}, which is not part of a transaction"
            raise Damaged(f"a transaction payload contains {what}")
        yield at, event


def packets(payload: Payload) -> Iterator[tuple[int, bytes]]:
    """Return each event's bytes and start offset. The header's end offset is 0, because the event is not in a file."""
    source, at = _inflated(payload), 0
    while head := _read(source, HEADER_BYTES):
        if len(head) < HEADER_BYTES:
            raise Damaged("a transaction payload ends inside an event's header")
        time, code, server, size, _, flags = HEADER.unpack(head)
        if not HEADER_BYTES <= size <= min(payload.size - at, EVENT_BYTES):
            raise Damaged(f"event type {code} in a transaction payload has {size} bytes, past the payload's end")
        yield at, HEADER.pack(time, code, server, size, 0, flags) + _read(source, size - HEADER_BYTES)
        at += size
    if at != payload.size:
        raise Damaged(f"a transaction payload decompresses to {at} bytes, expected {payload.size}")


def _inflated(payload: Payload) -> io.BufferedReader:
    raw = memoryview(payload.body)[payload.begin : payload.stop]
    if payload.method == _NONE:
        return io.BufferedReader(cast(io.RawIOBase, io.BytesIO(raw)))
    if payload.method != _ZSTD:
        raise Unsupported(
            f"unsupported compression method {payload.method} of a transaction (supported: zstd, 0)",
            "set binlog_transaction_compression = OFF on the source, and take a new snapshot",
        )
    import zstandard  # only for sources that compress their binlog

    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return io.BufferedReader(cast(io.RawIOBase, reader), _PIECE_BYTES)


def _read(source: io.BufferedReader, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end."""
    import zstandard

    try:
        return source.read(size)
    except zstandard.ZstdError as error:
        raise Damaged("cannot decompress a transaction payload") from error
