"""Ranges of one shard out of its stream: what a pull of (after, up_to] gets, though the server pushes.

The rows behind a range's end wait for the next range; one that begins elsewhere begins a new stream there, and so does
one after a pause in which nobody answered the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.errors import Busy, Unreachable
from slotkeeper.core.sources.hologres.stream.binary_row import LoggedRow
from slotkeeper.core.sources.hologres.stream.session import ShardReader

Opened = Callable[[int], ShardReader]
"""A reader of the shard from behind an LSN."""
WAIT_SECONDS = 60.0
"""How long a row that the server has named may take to come."""
BEHIND_SECONDS = 2.0
"""How long a stream may say that it has no more, though the server has named a row: the part of the server that sends
may be behind the one that was asked by SQL."""
IDLE_SECONDS = 20.0
"""After so long without a read a stream is ended, and begun anew where it is wanted again: it is a walsender that
others may need, and a server cuts off who does not answer it (PostgreSQL, wal_sender_timeout: 60 s)."""


class ShardRanges:
    """Ranges of a shard, one after another; not shared between threads, but `sever` may come from any."""

    def __init__(
        self,
        opened: Opened,
        wait_seconds: float = WAIT_SECONDS,
        clock: Clock | None = None,
        behind_seconds: float = BEHIND_SECONDS,
    ) -> None:
        self._opened, self._wait, self._clock = opened, wait_seconds, clock or SystemClock()
        self._behind = behind_seconds
        self._reader: ShardReader | None = None
        self._waiting: deque[LoggedRow] = deque()
        self._beats: set[int] = set()
        """LSNs of heartbeats that came, of which one may be a range's end."""
        self._at = 0
        """The LSN behind which the next row that waits, or comes, is the first."""
        self._last: LoggedRow | None = None
        """The last row of all ranges of this stream."""
        self._used = 0.0
        self.busy = False
        """Whether somebody reads: set and cleared by whoever hands this out."""

    @property
    def idle_seconds(self) -> float:
        """For how long nobody has read."""
        return 0.0 if self.busy else self._clock.monotonic() - self._used

    def goes_on(self, after: int) -> bool:
        """Whether a range behind this LSN is the next one of the stream that is open."""
        fresh = self._clock.monotonic() - self._used < IDLE_SECONDS
        return self._reader is not None and self._at == after and fresh

    def ended_with(self, lsn: int) -> LoggedRow | None:
        """The row at this LSN, where the last range ended with it."""
        return self._last if self._last is not None and self._last.lsn == lsn else None

    def rows(self, after: int, up_to: int) -> Generator[LoggedRow, None, None]:
        """The rows of (after, up_to], in their order; `up_to` is the LSN of a record that the server has.

        Raises Busy where the server says that there is no more before that record came, or goes on behind it without
        it, and Unreachable where nothing comes. A range that ends between an update's halves has the first of them.
        """
        if not self.goes_on(after):
            self.close()
            self._reader = self._opened(after)
            self._at = after
        reader = self._reader
        assert reader is not None
        try:
            while self._at < up_to:
                while self._waiting and self._waiting[0].lsn <= up_to:
                    row = self._last = self._waiting.popleft()
                    self._at = row.lsn
                    yield row
                if self._at < up_to and up_to in self._beats:
                    self._at = up_to
                elif self._at < up_to and self._waiting:
                    what = f"went on to LSN {self._waiting[0].lsn} without the one at {up_to}"
                    raise self._again(reader, what)
                elif self._at < up_to:
                    self._more(reader, up_to)
        except BaseException:
            self.close()
            raise
        self._beats = {lsn for lsn in self._beats if lsn > up_to}
        self._used = self._clock.monotonic()

    def _more(self, reader: ShardReader, up_to: int) -> None:
        """Wait for what comes next, which is kept."""
        began = self._clock.monotonic()
        empty = False
        while True:
            limit = min(self._wait, self._behind) if empty else self._wait
            left = began + limit - self._clock.monotonic()
            delivered = reader.read(max(0.0, left))
            if delivered is not None:
                empty = empty or delivered.caught_up
                self._waiting.extend(delivered.rows)
                self._beats.update(lsn for lsn in delivered.beats if lsn > self._at)
                if delivered.rows or up_to in self._beats:
                    return
            if left <= 0 and empty:
                raise self._again(reader, f"says that there is no row behind LSN {self._at}, and has one at {up_to}")
            if left <= 0:  # heartbeats, and rows that came before, are no answer however many of them come
                what = f"sends nothing new within {self._wait:g} s, and has a row at LSN {up_to}"
                raise Unreachable(f"shard {reader.stream.shard} {what}", where="source")

    def _again(self, reader: ShardReader, what: str) -> Busy:
        said = f"shard {reader.stream.shard} {what}"
        return Busy(said, "the same range is read again; nothing was skipped", where="source")

    def sever(self) -> None:
        """Cut the line off, from any thread, without waiting."""
        reader = self._reader
        if reader is not None:
            reader.sever()

    def close(self) -> None:
        """End the line, and forget what waits; safe to call twice."""
        reader, self._reader = self._reader, None
        self._waiting.clear()
        self._beats.clear()
        self._last = None
        if reader is not None:
            reader.close()
