"""Reads graphs in a thread of its own and remembers the last ones, so that drawing them anew asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from slotkeeper.console.monitor.history import SeriesReader
from slotkeeper.console.monitor.series import JobSeries, Wanted
from slotkeeper.console.monitor.store_reader import message_of
from slotkeeper.core.clock import Clock

_Key = tuple[str, timedelta, int]


class GraphFeed:
    """The graphs of one state store; `fault` says why the last could not be read."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._reader = SeriesReader(folder, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slotkeeper-graphs")
        self._found: dict[_Key, tuple[int, JobSeries]] = {}
        self._reading: Wanted | None = None
        self.fault = ""

    def ask(self, wanted: Wanted, done: Callable[[], object]) -> JobSeries | None:
        """What is known of that stretch; where a newer point is wanted it is read, and `done` called from a thread."""
        key = (wanted.job, wanted.span, wanted.points)
        number, series = self._found.get(key, (None, None))
        if number != wanted.number and self._reading is None:
            self._reading = wanted
            self._thread.submit(self._read, key, wanted, done)
        return series

    def knows(self, wanted: Wanted) -> bool:
        """Whether that stretch was read before: it can be shown at once."""
        return (wanted.job, wanted.span, wanted.points) in self._found

    def close(self) -> None:
        """Read no more."""
        self._thread.shutdown(wait=False)

    def _read(self, key: _Key, wanted: Wanted, done: Callable[[], object]) -> None:
        try:
            found = self._reader.read(wanted)
            self._found = {**dict(list(self._found.items())[-7:]), key: (wanted.number, found)}
            self.fault = ""
        except Exception as error:  # the top of a thread: whatever it is must be told
            self.fault = message_of(error)
        finally:
            self._reading = None
        done()
