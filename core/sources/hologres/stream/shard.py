"""Read one shard of a binlog from a stream: parse messages into rows, select the new rows, manage the connection.

`payload` (pure) parses a message: two big-endian eight-byte integers, the protocol version (must be 0) and the table
version; then, in little-endian order, four bytes that no client reads, a row count, an offset for each row, and the
rows. A compressed message consists of its decompressed size (four bytes, big-endian) and one LZ4 block. Source:
holo-client, HoloBinlogDecoder.deserialize and .decompress.

`ShardStream` (pure) takes messages and returns their new rows. It drops rows that a new connection repeats, by LSN, and
delivers the before-row and the after-row of an update together or not at all. Only rows advance a position: LSNs of the
protocol's own frames are not read (Hologres does not document their content; holo-client ignores them).

`ShardReader` reconnects after the last delivered row. It is built from the connector's published source and has not
been run against a live Hologres. It requests a table without a slot (Hologres 2.1 and later), so that no message from
Slotkeeper or the driver moves a position on the server; or it requests a slot, over a connection that does not move the
slot's position by itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_stream import Replication, SlotReplication
from slotkeeper.core.errors import Defect, Refused, SlotkeeperError, TroubleName
from slotkeeper.core.sources.hologres.changes import AFTER, BEFORE, DELETE, HEARTBEAT, INSERT, Event
from slotkeeper.core.sources.hologres.stream.values import RowReader, garbled
from slotkeeper.core.sqltext import dotted

PROTOCOL = 0
_HEAD = struct.Struct(">qq")
_COUNT = struct.Struct("<ii")
_SMALLEST = _HEAD.size + _COUNT.size
_MOST_TIMES = 255
"""Maximum number of bytes to which one byte of an LZ4 block can decompress."""
MOST_BYTES = 1 << 30
"""Maximum size of a decompressed message in bytes; the same limit as for an uncompressed message
(`slotkeeper.core.drivers.pg_stream`)."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A message: the table's version and the rows; `filtered` counts the rows that the server sent empty.

    A message without rows means that the shard currently has no more rows.
    """

    version: int
    rows: tuple[bytes, ...]
    filtered: int = 0

    @property
    def empty(self) -> bool:
        return not self.rows and not self.filtered


def payload(raw: bytes, compressed: bool = False) -> Payload:
    """Parse a message; raises a SlotkeeperError for invalid bytes, Refused for another protocol version."""
    if compressed:
        raw = _inflated(raw)
    if len(raw) < _SMALLEST:
        raise garbled(f"a message of {len(raw)} bytes")
    protocol, version = _HEAD.unpack_from(raw)
    if protocol != PROTOCOL:
        what = f"unsupported binlog stream protocol version {protocol} (supported: {PROTOCOL})"
        raise Refused(what, "read the binlog by SQL", where="source")
    body = raw[_HEAD.size :]
    _, count = _COUNT.unpack_from(body)
    first = _COUNT.size + 4 * count
    if count < 0 or first > len(body):
        raise garbled(f"a message of {len(raw)} bytes for {count} rows")
    edges = (*struct.unpack_from(f"<{count}i", body, _COUNT.size), len(body))
    if (count and edges[0] < first) or any(low > high for low, high in pairwise(edges)):
        raise garbled("rows with overlapping offsets")
    pieces = [body[low:high] for low, high in pairwise(edges)]
    rows = tuple(one for one in pieces if one)
    return Payload(version, rows, count - len(rows))


def _inflated(raw: bytes) -> bytes:
    import lz4.block  # needed only for compressed streams

    if len(raw) < 5:
        raise garbled(f"a compressed message of {len(raw)} bytes")
    (size,) = struct.unpack_from(">i", raw)
    if not 0 <= size <= min(_MOST_TIMES * len(raw), MOST_BYTES):
        raise garbled(f"a compressed message of {len(raw)} bytes that claims {size} uncompressed")
    try:
        whole: bytes = lz4.block.decompress(raw[4:], uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise garbled("a compressed message that is not an LZ4 block") from None
    if len(whole) != size:
        raise garbled(f"a compressed message that claims {size} bytes and has {len(whole)}")
    return whole


_REPORT = "read the binlog by SQL, and report the error: the job holds its position before that row"
START = -1
"""LSN before the first record. A request contains a start LSN only if that LSN is higher than this value."""


_KNOWN = frozenset((INSERT, DELETE, BEFORE, AFTER, HEARTBEAT))
_BARE = frozenset((HEARTBEAT,))
"""Types whose rows have no columns."""
_ASKED = 2
"""Attempts to read the columns of a newer table version, because a coordinator can lag (as in holo-client)."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """The content of one message: new rows in order, and the LSN of the shard after them.

    A new connection can start after `lsn`. `caught_up` is true if the server had nothing to send. A heartbeat of the
    server sets `complete_us`: everything up to that time, in microseconds since 1970, has been delivered. `beats` are
    the LSNs of the heartbeats, which do not advance a position; a range can end at a heartbeat that the server has
    reported as the newest record.
    """

    rows: tuple[Event, ...]
    lsn: int
    caught_up: bool = False
    complete_us: int | None = None
    beats: tuple[int, ...] = ()


class ShardStream:
    """Follows one shard from LSN `after` on. Not thread-safe.

    `columns` returns the table's version and columns; it is called again if a message has another table version.
    """

    def __init__(
        self,
        shard: int,
        columns: Callable[[], tuple[int, Sequence[Column]]],
        after: int = START,
        compressed: bool = False,
    ) -> None:
        self.shard = shard
        self.lsn = after
        """The last delivered LSN; repeated rows up to this LSN are dropped."""
        self._columns = columns
        self._compressed = compressed
        self._half: Event | None = None
        """The before-row of an update whose after-row has not arrived yet."""
        self.version, known = columns()
        self._reader = RowReader(known)

    def connected(self) -> int:
        """Drop the before-row of an incomplete update, which the server sends again; return the LSN to start after."""
        self._half = None
        return self.lsn

    def feed(self, raw: bytes) -> Delivered:
        """Return the events of a message; if this raises a SlotkeeperError, none of its events are delivered."""
        message = payload(raw, self._compressed)
        if message.version != self.version and not message.empty:
            self._renew(message.version)
        lsn, half, complete_us, rows = self.lsn, self._half, None, list[Event]()
        newest = half.lsn if half else lsn
        last, beats = START, list[int]()
        for piece in message.rows:
            row = self._reader.row(piece, _BARE)
            if row.type == HEARTBEAT:
                complete_us = max(row.us, complete_us or 0)
                beats.append(row.lsn)
                continue
            if row.type not in _KNOWN:
                what = f"shard {self.shard} has an event of unknown type {row.type} at LSN {row.lsn}"
                raise Refused(what, _REPORT, where="source")
            if row.lsn < last:
                raise self._defect(f"sent LSN {row.lsn} after {last}")
            last = row.lsn
            if row.lsn <= newest:
                continue
            newest = row.lsn
            half = self._take(row, half, rows)
            if half is None:
                lsn = newest
        self.lsn, self._half = lsn, half
        complete_us = None if half else complete_us
        return Delivered(tuple(rows), lsn, message.empty and half is None, complete_us, tuple(beats))

    def _take(self, row: Event, half: Event | None, rows: list[Event]) -> Event | None:
        """Add complete changes to `rows`; return a before-row whose after-row has not arrived yet, else None.

        An after-row without a before-row is complete because it has every column.
        """
        if half is not None and row.type != AFTER:
            raise self._defect(f"has the before-row of an update at LSN {half.lsn} without its after-row")
        if row.type == BEFORE:
            return row
        if half is not None:
            rows.append(half)
        rows.append(row)
        return None

    def _renew(self, version: int) -> None:
        for _ in range(_ASKED if version > self.version else 0):
            known, columns = self._columns()
            if known == version:
                self.version, self._reader = known, RowReader(columns)
                return
        what = f"shard {self.shard}: binlog rows have table version {version}, but the table has {self.version}"
        raise trouble(TroubleName.SCHEMA_CHANGED, what)

    def _defect(self, what: str) -> Defect:
        return Defect(f"shard {self.shard} {what}", _REPORT, where="source")


EARLIEST = "1970-01-01 08:00:00+08:00"
"""Start time that holo-client sends if it has no LSN. A time before all rows selects the earliest row."""
Classify = Callable[[BaseException, str], SlotkeeperError]


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """Parameters of a stream request. `batch_size` is the maximum number of rows in a message (binlogReadBatchSize).

    The request names `slot`, whose publication names the table, or the table if `slot` is empty.
    """

    table: str
    batch_size: int = 1024
    compressed: bool = False
    start_time: str = EARLIEST
    """Start time of a request without an LSN. It includes a UTC offset, because the server interprets a time without an
    offset in its own time zone."""
    slot: str = ""


def command(asked: StreamAsked, shard: int, lsn: int) -> str:
    """Return START_REPLICATION for a shard, as the connector sends it: the options contain the start position.

    >>> print(command(StreamAsked("ods.t", 2), 3, 17).partition(" LOGICAL ")[2])
    0/0 ("parallel_index" '3', "batch_size" '2', "table_name" 'ods.t', "start_lsn" '17')
    >>> print(command(StreamAsked("ods.t", 2, slot="s"), 3, 17))
    START_REPLICATION SLOT s LOGICAL 0/0 ("parallel_index" '3', "batch_size" '2', "start_lsn" '17')
    """
    options = {"parallel_index": str(shard), "batch_size": str(asked.batch_size)}
    if not asked.slot:
        options["table_name"] = dotted(asked.table)
    if asked.compressed:
        options["enable_compression"] = "true"
    # never both: if it gets both, Hologres silently uses the LSN
    options |= {"start_lsn": str(lsn)} if lsn > START else {"start_time": asked.start_time}
    spelled = ", ".join(f"\"{name}\" '{value.replace(chr(39), chr(39) * 2)}'" for name, value in options.items())
    return f"START_REPLICATION SLOT {asked.slot or 'null'} LOGICAL 0/0 ({spelled})"


class ShardReader:
    """Reads one shard. Not thread-safe, except that any thread can call `sever`.

    `classify` converts a driver error in the same way as in every session of the source.
    """

    def __init__(self, login: Login, classify: Classify, asked: StreamAsked, stream: ShardStream) -> None:
        self.stream = stream
        self._login, self._classify, self._asked = login, classify, asked
        self._line: Replication | None = None

    def read(self, seconds: float) -> Delivered | None:
        """Return the events of the next message, or None after the time limit; connects if needed.

        A SlotkeeperError closes the connection: the next call starts after the last delivered row.
        """
        try:
            line = self._line
            if line is None:
                line = self._line = (SlotReplication if self._asked.slot else Replication)(self._login)
                line.start(command(self._asked, self.stream.shard, self.stream.connected()))
            raw = line.read(seconds)
            return None if raw is None else self.stream.feed(raw)
        except pg.DriverError as error:
            self.close()
            raise self._classify(pg.hiding(error, self._login.password), self._login.endpoint.place) from error
        except BaseException:
            self.close()
            raise

    def sever(self) -> None:
        if self._line is not None:
            self._line.sever()

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
