"""A shard's stream over a connection of its own, begun anew behind the last row that was delivered.

Built from the connector's published source, and run against no live Hologres. It names a table and no slot (Hologres
2.1 and later), so that nothing we or the driver send moves a position at the server; or a slot, over a line that moves
none by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_stream import Replication, SlotReplication
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.hologres.stream.shard import START, Delivered, ShardStream
from slotkeeper.core.sqltext import dotted

EARLIEST = "1970-01-01 08:00:00+08:00"
"""What holo-client asks for where it has no LSN: a time before every row is the earliest row."""
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
    """Where it begins while there is no LSN; with its offset, for a server takes one without as its own zone's."""
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
    """Reads one shard; not shared between threads, but `sever` may come from any.

    `classify` makes an error of ours of a driver's and the place in words, as that of any session of the source does.
    """

    def __init__(self, login: Login, classify: Classify, asked: StreamAsked, stream: ShardStream) -> None:
        self.stream = stream
        self._login, self._classify, self._asked = login, classify, asked
        self._line: Replication | None = None

    def read(self, seconds: float) -> Delivered | None:
        """What the next message brings, None where none comes in time; connects where there is no line.

        Raises an error of ours, and the line is gone then: the next call begins behind the last row that was delivered.
        """
        try:
            line = self._line or self._connect()
            raw = line.read(seconds)
            return None if raw is None else self.stream.feed(raw)
        except pg.DriverError as error:
            self.close()
            raise self._classify(pg.hiding(error, self._login.password), self._login.endpoint.place) from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Replication:
        line = self._line = (SlotReplication if self._asked.slot else Replication)(self._login)
        line.start(command(self._asked, self.stream.shard, self.stream.connected()))
        return line

    def sever(self) -> None:
        """Cut the line off, from any thread, without waiting."""
        if self._line is not None:
            self._line.sever()

    def close(self) -> None:
        """End the line; safe to call twice."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
