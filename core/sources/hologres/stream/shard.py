"""One shard of a binlog over a stream: a message cut into its rows, what of it is new, the connection that brings it.

`payload` (pure): two numbers of eight bytes, the highest byte first: the protocol's version, which must be 0, and the
table's version. Then, the lowest byte first: four bytes that no client reads, a count of rows, an offset for each, and
the rows. With compression four bytes with the whole's size come first, the highest byte first, then one LZ4 block.
Source: holo-client, HoloBinlogDecoder.deserialize and .decompress.

`ShardStream` (pure) is fed messages and says what they bring. What a connection may bring again is dropped by its LSN,
an update's two halves come together or not at all, and a position moves by rows only: LSNs of the protocol's own frames
are not read (what a Hologres writes there is not documented; holo-client ignores them).

`ShardReader` starts again after the last row that was delivered. Built from the connector's published source, and run
against no live Hologres. It names a table and no slot (Hologres 2.1 and later), so that nothing we or the driver send
moves a position at the server; or a slot, over a connection that moves none by itself.
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
"""Most bytes that one byte of an LZ4 block can become."""
MOST_BYTES = 1 << 30
"""Most bytes of a decompressed message: the limit of an uncompressed one (`slotkeeper.core.drivers.pg_stream`)."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A message: the table's version, and its rows; `filtered` of them the server sent without a byte.

    One without any row at all says that the shard has no more for now.
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
        raise garbled("rows that do not follow one another")
    pieces = [body[low:high] for low, high in pairwise(edges)]
    rows = tuple(one for one in pieces if one)
    return Payload(version, rows, count - len(rows))


def _inflated(raw: bytes) -> bytes:
    import lz4.block  # asked for by those who read compressed streams only

    if len(raw) < 5:
        raise garbled(f"a compressed message of {len(raw)} bytes")
    (size,) = struct.unpack_from(">i", raw)
    if not 0 <= size <= min(_MOST_TIMES * len(raw), MOST_BYTES):
        raise garbled(f"a compressed message of {len(raw)} bytes that claims {size}")
    try:
        whole: bytes = lz4.block.decompress(raw[4:], uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise garbled("a compressed message that is not an LZ4 block") from None
    if len(whole) != size:
        raise garbled(f"a compressed message that claims {size} bytes and has {len(whole)}")
    return whole


_REPORT = "read the binlog by SQL, and report the error: the job waits before that row"
START = -1
"""The LSN before the first one: a request names a start LSN only above this."""


_KNOWN = frozenset((INSERT, DELETE, BEFORE, AFTER, HEARTBEAT))
_BARE = frozenset((HEARTBEAT,))
"""Types whose rows have no columns."""
_ASKED = 2
"""Attempts to read a newer version's columns: a coordinator can lag (holo-client retries as often)."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one message brought: new rows in their order, and the shard's LSN behind them.

    `lsn` is what a new connection may begin behind. `caught_up`: the server had nothing to send. `complete_us` is set
    by a heartbeat of the server: everything up to that time, in microseconds since 1970, has been delivered. `beats`
    are the heartbeats' own LSNs, which move no position: a range may end at one that the server has named as newest.
    """

    rows: tuple[Event, ...]
    lsn: int
    caught_up: bool = False
    complete_us: int | None = None
    beats: tuple[int, ...] = ()


class ShardStream:
    """Follows one shard from behind `after`; not shared between threads.

    `columns` gives the table's version with its columns, and is asked again where the stream has another version.
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
        """The last delivered LSN: repeated rows up to it are dropped."""
        self._columns = columns
        self._compressed = compressed
        self._half: Event | None = None
        """The before-row of an update whose after-row has not arrived yet."""
        self.version, known = columns()
        self._reader = RowReader(known)

    def connected(self) -> int:
        """A new connection begins: the LSN that it is to begin behind. The half of an update comes again."""
        self._half = None
        return self.lsn

    def feed(self, raw: bytes) -> Delivered:
        """Return the events of a message; on a SlotkeeperError none of the message is delivered."""
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
                what = f"shard {self.shard} has an event of the unknown type {row.type} at LSN {row.lsn}"
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
        """Add what is whole; the half of an update that waits.

        A row behind an update that comes alone is whole: it has every column.
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
        """Read the columns of a table's new version, without which its rows cannot be decoded."""
        for _ in range(_ASKED if version > self.version else 0):
            known, columns = self._columns()
            if known == version:
                self.version, self._reader = known, RowReader(columns)
                return
        what = f"shard {self.shard}: binlog rows have table version {version}, the table has {self.version}"
        raise trouble(TroubleName.SCHEMA_CHANGED, what)

    def _defect(self, what: str) -> Defect:
        return Defect(f"shard {self.shard} {what}", _REPORT, where="source")


EARLIEST = "1970-01-01 08:00:00+08:00"
"""The time that holo-client requests without an LSN; a time before every row selects the earliest row."""
Classify = Callable[[BaseException, str], SlotkeeperError]


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """What a stream is asked for: `batch_size` are rows of a message at most (binlogReadBatchSize).

    By `slot`, whose publication names the table; by the table where that is empty.
    """

    table: str
    batch_size: int = 1024
    compressed: bool = False
    start_time: str = EARLIEST
    """Where it starts without an LSN; with its offset: a server reads a time without one in its own zone."""
    slot: str = ""


def command(asked: StreamAsked, shard: int, lsn: int) -> str:
    """The START_REPLICATION of a shard behind an LSN, as the connector sends it: the place stands in the options.

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
    # never both: with both, a Hologres takes the LSN without a word
    options |= {"start_lsn": str(lsn)} if lsn > START else {"start_time": asked.start_time}
    spelled = ", ".join(f"\"{name}\" '{value.replace(chr(39), chr(39) * 2)}'" for name, value in options.items())
    return f"START_REPLICATION SLOT {asked.slot or 'null'} LOGICAL 0/0 ({spelled})"


class ShardReader:
    """Reads one shard; not shared between threads, except `sever`.

    `classify` converts a driver's error, as in every session of the source.
    """

    def __init__(self, login: Login, classify: Classify, asked: StreamAsked, stream: ShardStream) -> None:
        self.stream = stream
        self._login, self._classify, self._asked = login, classify, asked
        self._line: Replication | None = None

    def read(self, seconds: float) -> Delivered | None:
        """Return the events of the next message, None after the time limit; connects if needed.

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
