"""Ranges of one shard out of its stream: what a pull of (after, up_to] gets, though the server pushes.

The rows behind a range's end wait for the next range; one that begins elsewhere begins a new stream there. Next door:
`session.py` reads messages, `shard.py` says what is new in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from core.clock import Clock, SystemClock
from core.errors import Busy, Unreachable
from core.sources.hologres.stream.binary_row import LoggedRow
from core.sources.hologres.stream.session import ShardReader

Opened = Callable[[int], ShardReader]
"""A reader of the shard from behind an LSN."""
WAIT_SECONDS = 60.0
"""How long a row that the server has named may take to come."""


class ShardRanges:
    """Ranges of a shard, one after another; not shared between threads."""

    def __init__(self, opened: Opened, wait_seconds: float = WAIT_SECONDS, clock: Clock | None = None) -> None:
        self._opened, self._wait, self._clock = opened, wait_seconds, clock or SystemClock()
        self._reader: ShardReader | None = None
        self._waiting: deque[LoggedRow] = deque()
        self._at = 0
        """The LSN behind which the next row that waits, or comes, is the first."""

    def rows(self, after: int, up_to: int) -> Iterator[LoggedRow]:
        """The rows of (after, up_to], in their order; `up_to` is the LSN of a row that the server has.

        Raises Busy where the server says that there is no more before that row came, Unreachable where nothing comes.
        A range that ends between an update's halves has the first of them.
        """
        reader = self._reader
        if reader is None or after != self._at:
            self.close()
            reader = self._reader = self._opened(after)
            self._at = after
        try:
            while self._at < up_to:
                while self._waiting and self._waiting[0].lsn <= up_to:
                    row = self._waiting.popleft()
                    self._at = row.lsn
                    yield row
                if self._at >= up_to or self._waiting:
                    break
                self._at = self._more(reader, up_to)
        except BaseException:
            self.close()
            raise
        self._at = up_to

    def _more(self, reader: ShardReader, up_to: int) -> int:
        """Wait for rows; the LSN up to which all are known, where those of a message are not wanted."""
        until = self._clock.monotonic() + self._wait
        place = f"shard {reader.stream.shard}"
        while True:
            left = until - self._clock.monotonic()
            delivered = reader.read(max(0.0, left))
            if delivered is not None and delivered.rows:
                self._waiting.extend(delivered.rows)
                return self._at
            if delivered is not None and delivered.lsn > self._at:
                return delivered.lsn
            if left <= 0:  # heartbeats, and rows that came before, are no answer however many of them come
                what = f"{place} sends nothing new within {self._wait:g} s, and has a row at LSN {up_to}"
                raise Unreachable(what, where="source")
            if delivered is not None and delivered.caught_up:
                what = f"{place} says that there is no row behind LSN {self._at}, and has one at {up_to}"
                raise Busy(what, "the same range is read again; nothing was skipped", where="source")

    def sever(self) -> None:
        """Cut the line off, from any thread, without waiting."""
        if self._reader is not None:
            self._reader.sever()

    def close(self) -> None:
        """End the line, and forget what waits; safe to call twice."""
        reader, self._reader = self._reader, None
        self._waiting.clear()
        if reader is not None:
            reader.close()
