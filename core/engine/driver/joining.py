"""Looks for the tables of a job's patterns while the job runs: at an interval, and at once if a table fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from slotkeeper.core.domain.inventory import TablesFound
from slotkeeper.core.engine.driver.context import Discovery
from slotkeeper.core.errors import SlotkeeperError, classed

LOOK_EVERY = 20.0
"""Seconds between two lists of the source's tables. A list of 200 tables takes MariaDB about 10 ms."""
JOINED_APART = 8
"""Maximum number of tables that run separately when a new table starts: each has sessions of its own."""


class TableLook:
    """One thread that lists the source's tables; `receive` is called with each answer, None if there was none."""

    def __init__(
        self, discovery: Discovery, receive: Callable[[TablesFound | None], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._discovery, self._receive, self._fail = discovery, receive, fail
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="slotkeeper-look", daemon=True)

    @property
    def runs(self) -> bool:
        return self._thread.is_alive() and not self._ended.is_set()

    def start(self) -> None:
        self._thread.start()

    def look_now(self) -> None:
        """Look at once, or again right after the list that is under way."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; a list that is under way is abandoned."""
        self._ended.set()
        self._wake.set()
        self._discovery.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            found = None
            with suppress(SlotkeeperError):  # the lanes report a source that does not answer
                found = self._discovery.look()
            if self._ended.is_set():
                return
            try:
                self._receive(found)
            except Exception as error:
                self._fail(classed(error))
                return
            self._wake.wait(LOOK_EVERY)
