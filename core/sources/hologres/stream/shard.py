"""One shard of a binlog out of the messages of its stream: what is new, how far it is, whether it is at its end.

Pure: it is fed messages and says what they bring. What a connection may bring again is dropped by its LSN, an update's
two halves come together or not at all, and a position moves by rows only: LSNs of the protocol's own frames are not
read (what a Hologres writes there is not documented; holo-client ignores them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.errors import Defect, Refused, Trouble, TroubleName
from slotkeeper.core.sources.hologres.stream.binary_row import LoggedRow, RowReader
from slotkeeper.core.sources.hologres.stream.payload import payload

_REPORT = "read the binlog by SQL, and report it: the job stands before that row"
START = -1
"""The LSN before the first one: a stream is asked for what lies behind it only where it is above this."""


class LoggedEvent(IntEnum):
    """The numbers of `hg_binlog_event_type` (Hologres, "Subscribe to Hologres binlogs")."""

    DELETE = 2
    BEFORE = 3
    INSERT = 5
    AFTER = 7
    HEARTBEAT = 27
    """Sent where `hg_experimental_enable_binlog_heartbeat_record` is on."""


_KNOWN = frozenset(LoggedEvent)
_BARE = frozenset({int(LoggedEvent.HEARTBEAT)})
"""Types whose rows have no columns."""
_ASKED = 2
"""How often the columns of a newer version are asked for: a coordinator may be behind (holo-client does as much)."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What one message brought: new rows in their order, and the shard's LSN behind them.

    `lsn` is what a new connection may begin behind. `caught_up`: the server had nothing to send. `complete_us` is set
    by a heartbeat of the server: everything up to that time, in microseconds since 1970, has been delivered. `beats`
    are the heartbeats' own LSNs, which move no position: a range may end at one that the server has named as newest.
    """

    rows: tuple[LoggedRow, ...]
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
        """The last LSN that was delivered: what comes again up to it is dropped."""
        self._columns = columns
        self._compressed = compressed
        self._half: LoggedRow | None = None
        """An update's row before, whose row behind it has not come yet."""
        self.version, known = columns()
        self._reader = RowReader(known)

    def connected(self) -> int:
        """A new connection begins: the LSN that it is to begin behind. The half of an update comes again."""
        self._half = None
        return self.lsn

    def feed(self, raw: bytes) -> Delivered:
        """What a message brings. Raises an error of ours, and nothing of the message is delivered then."""
        message = payload(raw, self._compressed)
        if message.version != self.version and not message.empty:
            self._renew(message.version)
        lsn, half, complete_us, rows = self.lsn, self._half, None, list[LoggedRow]()
        newest = half.lsn if half else lsn
        last, beats = START, list[int]()
        for piece in message.rows:
            row = self._reader.row(piece, _BARE)
            if row.event == LoggedEvent.HEARTBEAT:
                complete_us = max(row.at_us, complete_us or 0)
                beats.append(row.lsn)
                continue
            if row.event not in _KNOWN:
                raise self._refused(f"has an event of the unknown type {row.event} at LSN {row.lsn}")
            if row.lsn < last:
                raise self._defect(f"sent LSN {row.lsn} behind {last}")
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

    def _take(self, row: LoggedRow, half: LoggedRow | None, rows: list[LoggedRow]) -> LoggedRow | None:
        """Add what is whole; the half of an update that waits.

        A row behind an update that comes alone is whole: it has every column.
        """
        if half is not None and row.event != LoggedEvent.AFTER:
            raise self._defect(f"has the half of an update at LSN {half.lsn}, and no other half behind it")
        if row.event == LoggedEvent.BEFORE:
            return row
        if half is not None:
            rows.append(half)
        rows.append(row)
        return None

    def _renew(self, version: int) -> None:
        """Ask for the columns of a table's new version; nobody guesses what a row of another one has."""
        for _ in range(_ASKED if version > self.version else 0):
            known, columns = self._columns()
            if known == version:
                self.version, self._reader = known, RowReader(columns)
                return
        raise self._changed(version)

    def _changed(self, version: int) -> Trouble:
        what = f"shard {self.shard}: the binlog's rows are of version {version} of the table, it has {self.version} now"
        return trouble(TroubleName.SCHEMA_CHANGED, what)

    def _refused(self, what: str) -> Refused:
        return Refused(f"shard {self.shard} {what}", _REPORT, where="source")

    def _defect(self, what: str) -> Defect:
        return Defect(f"shard {self.shard} {what}", _REPORT, where="source")
