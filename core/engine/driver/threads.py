"""The driver's threads: ordered work per connection, and one long call beside the driver's thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

Work = Callable[[], None]

SHARED_FROM = 16
"""Most connections per kind: with more DNs each connection serves several."""


class SerialExecutor:
    """Creates connections by name, at most `most`."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "slotkeeper-driver")
        self._waiting: dict[str, deque[Work]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, line: str, work: Work) -> None:
        """Do it once everything that was given to the line before is done; after `close` never."""
        with self._lock:
            if line in self._waiting:
                self._waiting[line].append(work)
            elif not self._closed:
                self._waiting[line] = deque()
                self._pool.submit(self._go, line, work)

    def close(self) -> None:
        """Start nothing more; abandons running work."""
        with self._lock:
            self._closed = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _go(self, line: str, work: Work) -> None:
        try:
            work()
        finally:
            with self._lock:
                waiting = self._waiting[line]
                if self._closed or not waiting:
                    del self._waiting[line]
                else:
                    self._pool.submit(self._go, line, waiting.popleft())


def line_of(node_id: int, nodes: int) -> str:
    """Return the connection of a DN for the number of DNs: its own, or a shared one.

    >>> line_of(-7, 4), line_of(-7, 64)
    ('-7', '9')
    """
    return str(node_id if nodes <= SHARED_FROM else node_id % SHARED_FROM)


GIVEN_UP = 5.0
"""Seconds after which a call that does not end although it was cancelled is left behind: a stop takes 10 s at most."""
CANCEL_EVERY = 0.2
"""Seconds between cancel requests: one ends one statement, and a call has several."""


class Beside(threading.Thread):
    """A running call; any thread can `cancel` it, which asks the server to end its statement.

    `sever` does not wait, and cuts off a call that did not end.
    """

    def __init__(self, call: Callable[[], None], cancel: Callable[[], None], sever: Callable[[], None]) -> None:
        super().__init__(name="slotkeeper-beside", daemon=True)
        self._call, self._cancel, self._sever = call, cancel, sever
        self._reported = False
        self._error: BaseException | None = None

    def run(self) -> None:
        """The call, in the thread."""
        try:
            self._call()
        except BaseException as error:
            self._error = error

    def ended(self, seconds: float) -> bool:
        """Wait for at most so long; True once the call has ended well. Raises what it raised."""
        self.join(seconds)
        over = not self.is_alive()  # asked once: it may end between two questions
        if over and self._error is not None:
            raise self._error
        return over

    def end(self) -> None:
        """Cancel the running call, and abandon it if it does not end; it can still take effect.

        Waits once: a second call returns at once.
        """
        if self._reported:
            return
        self._reported = True
        asking = threading.Thread(target=self._ask, name="slotkeeper-cancel", daemon=True)
        asking.start()  # a server that hangs may not answer this either
        self.join(GIVEN_UP)
        if self.is_alive():
            self._sever()

    def _ask(self) -> None:
        while self.is_alive():
            self._cancel()
            self.join(CANCEL_EVERY)


@contextmanager
def beside(
    call: Callable[[], None], cancel: Callable[[], None], sever: Callable[[], None] = lambda: None
) -> Iterator[Beside]:
    """Start the call; end it with the block if it is still running. Some calls cannot be severed."""
    going = Beside(call, cancel, sever)
    going.start()
    try:
        yield going
    finally:
        if going.is_alive():
            going.end()
