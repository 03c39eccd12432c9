"""Marker rows: they measure the time from the return of a change's COMMIT to the first read of the sink that shows it.

Markers are orders of negative customers, so they are separate from the workload's rows but take the same path on every
DN. Writer and reader read the same monotonic clock, so both must be in one operating-system process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from slotkeeper.core.drivers import pg
from slotkeeper.demo import ledger
from slotkeeper.demo.orders import Order, Statements
from slotkeeper.demo.writers import Connect, Loop, gone

MARKER_CUSTS = 64
"""Markers cycle through the customers -1 to -64, which spreads them over the DNs."""

ASKED_AT_ONCE = 500


def marker_key(number: int) -> tuple[int, int]:
    """Return the key of marker `number`.

    >>> marker_key(1), marker_key(64), marker_key(65)
    ((-2, 1), (-1, 64), (-2, 65))
    """
    return -(number % MARKER_CUSTS) - 1, number


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of the sampled markers, in milliseconds; None until a marker is seen. `waiting` counts the markers
    not seen yet.
    """

    seen: int
    waiting: int
    p50: float | None
    p99: float | None
    longest: float | None


def percentile(sorted_values: list[float], share: float) -> float | None:
    """Return the nearest-rank percentile of values in ascending order.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99), percentile([], 0.5)
    (2.0, 4.0, None)
    """
    if not sorted_values:
        return None
    rank = max(0, -int(-share * len(sorted_values) // 1) - 1)
    return sorted_values[rank]


class SeenMarkers(Protocol):
    """The interface between a reader of markers and their record."""

    def unseen(self) -> list[int]:
        """Return the oldest committed markers that no reader has reported."""

    def saw(self, numbers: list[int], at: float) -> None:
        """Record that a sink read that ended at `at` showed these markers."""


class Sightings:
    """Records which markers were committed and when, and the time until each was seen; the writing and the reading
    thread share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unseen: dict[int, float] = {}
        self._delays: list[float] = []

    def committed(self, number: int, at: float) -> None:
        """Record that a marker's COMMIT has returned."""
        with self._lock:
            self._unseen[number] = at

    def unseen(self) -> list[int]:
        """Return the oldest committed markers that no reader has reported."""
        with self._lock:
            return list(self._unseen)[:ASKED_AT_ONCE]

    def saw(self, numbers: list[int], at: float) -> None:
        """Record that a sink read that ended at `at` showed these markers."""
        with self._lock:
            self._delays.extend(at - self._unseen.pop(number) for number in numbers if number in self._unseen)

    def latency(self) -> Latency:
        """Return the latency so far."""
        with self._lock:
            delays, waiting = sorted(self._delays), len(self._unseen)
        p50, p99, longest = (percentile(delays, share) for share in (0.5, 0.99, 1.0))
        return Latency(len(delays), waiting, _ms(p50), _ms(p99), _ms(longest))


class Marker(Loop, Sightings):
    """Writes `rate` marker rows per second, one transaction each, recorded in the ledger as writer `markers`."""

    def __init__(
        self,
        connect: Connect,
        rate: float = 20.0,
        limit: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(connect, "markers", monotonic)
        self._every = 1.0 / rate
        self._left = limit
        Sightings.__init__(self)
        self.written = 0

    def work(self) -> None:
        """Write one marker after another, each when it is due."""
        number, statements, due = 0, None, self._monotonic()
        while not self._stop_asked.is_set() and (self._left is None or self.written < self._left):
            connection = self._line.open()
            if connection is None:
                break
            try:
                if statements is None:
                    statements = Statements.of(connection)
                    number = ledger.last_tx(connection, self.name)
                # A number whose COMMIT was not answered may already be used: each number is tried only once.
                number += 1
                self._write(connection, statements, number)
            except pg.DriverError as error:
                if not gone(error):
                    raise
                self._line.drop()
            due = max(due + self._every, self._monotonic())
            self._stop_asked.wait(max(0.0, due - self._monotonic()))

    def _write(self, connection: pg.Connection, statements: Statements, number: int) -> None:
        cust, order_no = marker_key(number)
        order = Order(cust, order_no, "marker", "0.00", None, "2026-01-01 00:00:00+00", None, None)
        with pg.transaction(connection) as cursor:
            ledger.write(cursor, self.name, number, statements.insert(cursor, [order]))
        self.committed(number, self._monotonic())
        self.written += 1


class MarkerReader(Loop):
    """Polls `target` (`schema.table`) in the sink for markers that were committed in the source."""

    def __init__(
        self,
        connect: Connect,
        target: str,
        sightings: SeenMarkers,
        every_s: float = 0.01,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(connect, "marker-reader", monotonic)
        self._sightings = sightings
        self._every = every_s
        self._statement = pg.sql.SQL(
            "SELECT order_no FROM {} WHERE (cust, order_no) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))"
        ).format(pg.sql.Identifier(*target.split(".", 1)))

    def work(self) -> None:
        """Repeatedly query the markers that have not been seen yet."""
        while not self._stop_asked.is_set():
            wanted = self._sightings.unseen()
            if wanted:
                self._read(wanted)
            self._stop_asked.wait(self._every)

    def _read(self, wanted: list[int]) -> None:
        connection = self._line.open()
        if connection is None:
            return
        keys = [marker_key(number) for number in wanted]
        try:
            with pg.transaction(connection) as cursor:
                cursor.execute(self._statement, ([cust for cust, _ in keys], [number for _, number in keys]))
                seen = [int(row[0]) for row in cursor.fetchall()]
            self._sightings.saw(seen, self._monotonic())
        except pg.DriverError as error:
            if not gone(error):
                raise
            self._line.drop()


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
