"""The driver's threads: ordered work per connection, and long calls outside the driver's own thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

Work = Callable[[], None]

SHARED_FROM = 16
"""Maximum number of connections of one kind; with more DNs, each connection serves several DNs."""


class SerialExecutor:
    """Runs work in at most `most` threads; work for the same connection runs in the order of submission."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "slotkeeper-driver")
        self._waiting: dict[str, deque[Work]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, line: str, work: Work) -> None:
        """Run `work` after all earlier work for the connection `line`; do nothing after `close`."""
        with self._lock:
            if line in self._waiting:
                self._waiting[line].append(work)
            elif not self._closed:
                self._waiting[line] = deque()
                self._pool.submit(self._go, line, work)

    def close(self) -> None:
        """Abandon running work and start no further work."""
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
    """Return the name of a DN's connection among `nodes` DNs: its own connection, or a shared one.

    >>> line_of(-7, 4), line_of(-7, 64)
    ('-7', '9')
    """
    return str(node_id if nodes <= SHARED_FROM else node_id % SHARED_FROM)


GIVEN_UP = 5.0
"""Seconds after which a cancelled call that has not ended is abandoned: a stop must take at most 10 s."""
CANCEL_EVERY = 0.2
"""Seconds between cancel requests: a request ends one statement, but a call has several."""


class Beside(threading.Thread):
    """A call in its own thread. `cancel`, which any thread can call, asks the server to end the current statement.

    `sever` closes the connection of a call that did not end, without waiting.
    """

    def __init__(self, call: Callable[[], None], cancel: Callable[[], None], sever: Callable[[], None]) -> None:
        super().__init__(name="slotkeeper-beside", daemon=True)
        self._call, self._cancel, self._sever = call, cancel, sever
        self._reported = False
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self._error = error

    def ended(self, seconds: float) -> bool:
        """Wait for at most `seconds`; return whether the call has ended without an error. Raises the call's error."""
        self.join(seconds)
        over = not self.is_alive()  # checked only once, because the call may end between two checks
        if over and self._error is not None:
            raise self._error
        return over

    def end(self) -> None:
        """Cancel the running call, and abandon it if it does not end; an abandoned call can still take effect.

        Only the first `end` waits; later ones return at once.
        """
        if self._reported:
            return
        self._reported = True
        asking = threading.Thread(target=self._ask, name="slotkeeper-cancel", daemon=True)
        asking.start()  # a server that hangs may not answer a cancel request either
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
    """Start the call, and end it if it is still running when the block ends. Some calls have no `sever` action."""
    going = Beside(call, cancel, sever)
    going.start()
    try:
        yield going
    finally:
        if going.is_alive():
            going.end()
