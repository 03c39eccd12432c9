"""Deadlines for calls that block in C: at its end, or at Ctrl-C, the socket of a call is shut down, and the call fails.

psycopg2 waits in libpq, which begins its poll again after a signal, so that neither a handler of Python's nor an
exception gets through. Only the socket reaches such a call: `shutdown` on a copy of its descriptor, never `close`,
which would free the number under libpq for another file. One thread of the process waits for the next deadline and for
signals, in one `select`. Decision: docs/adr/0024-nothing-that-hangs.md. Next door: `pg.py` has every call under one.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

T = TypeVar("T")

GRACE_SECONDS = 2.0
"""How much later than the server's own limit ours ends a call: the server's answer says more."""

_STALE = 64


class Call:
    """A call under way; `cut` once its socket was shut for it."""

    __slots__ = ("at", "cut", "descriptor", "over")

    def __init__(self, descriptor: int, at: float | None) -> None:
        self.descriptor = os.dup(descriptor)  # libpq closes its own where a line breaks, and the number is used again
        self.at = at
        self.cut = False
        self.over = False

    def shut(self) -> None:
        """Shut the socket down; only while the call is not over."""
        self.cut = True
        shut(self.descriptor)


class Watchdog:
    """The deadlines of this process and the thread that keeps them, started with the first call."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew, as in a child of a fork: threads do not come along, and the pipe is the parent's."""
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._due: list[tuple[float, int, Call]] = []
        """A heap; calls that ended stay in it until they are many."""
        self._numbers = 0
        self._next = float("inf")
        self._reading = self._writing = -1

    def wakeup(self) -> int:
        """What `signal.set_wakeup_fd` takes; the thread runs."""
        with self._lock:
            self._start()
            return self._writing

    def begin(self, descriptor: int, seconds: float | None) -> Call:
        """A call on this socket begins, with so many seconds to go, None for no end; whoever begins it ends it."""
        call = Call(descriptor, None if seconds is None else time.monotonic() + seconds)
        with self._lock:
            self._start()
            self._calls.add(call)
            if call.at is None:
                return call
            self._numbers += 1
            heapq.heappush(self._due, (call.at, self._numbers, call))
            sooner = call.at < self._next
        if sooner:
            self._wake()
        return call

    def end(self, call: Call) -> None:
        """It is over: nothing shuts its socket any more."""
        with self._lock:
            call.over = True
            self._calls.discard(call)
            os.close(call.descriptor)
            if len(self._due) > _STALE + 2 * len(self._calls):
                self._due = [one for one in self._due if not one[2].over]
                heapq.heapify(self._due)

    def shut_all(self) -> None:
        """Shut the sockets of all calls under way."""
        with self._lock:
            for call in self._calls:
                call.shut()

    def _start(self) -> None:
        if self._writing < 0:
            self._reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            threading.Thread(target=self._run, name="slotkeeper-deadlines", daemon=True).start()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # a full pipe wakes too
            os.write(self._writing, b"\0")

    def _run(self) -> None:
        while True:
            woken = select.select([self._reading], [], [], self._shut_due())[0]
            heard = os.read(self._reading, 4096) if woken else b""
            # whoever takes the signal for something else, as a job's driver does, ends its calls itself
            if signal.SIGINT in heard and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self.shut_all()

    def _shut_due(self) -> float | None:
        """Shut what is due; seconds until the next, None where there is none."""
        with self._lock:
            now = time.monotonic()
            while self._due and (self._due[0][2].over or self._due[0][0] <= now):
                call = heapq.heappop(self._due)[2]
                if not call.over:
                    call.shut()
            self._next = self._due[0][0] if self._due else float("inf")
            return self._next - now if self._due else None


_watchdog = Watchdog()
os.register_at_fork(after_in_child=_watchdog.renew)


@contextmanager
def deadline(descriptor: int, seconds: float | None) -> Iterator[Call]:
    """The block's calls on this socket end after so many seconds (None: at Ctrl-C only), by whatever error they raise.

    `cut` of the call says that they did so for this. A call that was answered in the same moment counts as answered.
    """
    call = _watchdog.begin(descriptor, seconds)
    try:
        yield call
    finally:
        _watchdog.end(call)


def shut(descriptor: int) -> None:
    """Shut a socket down and leave the descriptor open: whoever waits there gets its end."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """For the block, which is a command's: Ctrl-C ends what blocks in C, so that Python's handler comes to run.

    Only in the main thread; whoever sets another wakeup descriptor or another handler hears signals instead.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(_watchdog.wakeup(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


class Late(Exception):
    """A call in a thread of its own did not end in time."""


class _Aside(threading.Thread, Generic[T]):
    """A call whose result is waited for, or not wanted any more."""

    def __init__(self, call: Callable[[], T], unwanted: Callable[[T], None]) -> None:
        super().__init__(name="slotkeeper-login", daemon=True)
        self._call = call
        self._unwanted = unwanted
        self._lock = threading.Lock()
        self._left = False
        self.ended = threading.Event()
        self.result: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            result = self._call()
        except BaseException as error:
            self.error = error
        else:
            with self._lock:
                self.result.append(result)
                late = self._left
            if late:
                self._unwanted(result)
        self.ended.set()

    def leave(self) -> None:
        """Nobody waits any more: what comes, or has just come, is given to `unwanted`."""
        with self._lock:
            self._left = True
            come = list(self.result)
        for one in come:
            self._unwanted(one)


def in_time(call: Callable[[], T], seconds: float, unwanted: Callable[[T], None]) -> T:
    """What a call gives that has no socket yet to shut: it runs in a thread, which is left behind where it is late.

    Raises what it raises, and `Late`. Waiting here ends at Ctrl-C; a result that comes later goes to `unwanted`.
    """
    aside = _Aside(call, unwanted)
    aside.start()
    try:
        if not aside.ended.wait(seconds):
            raise Late
    except BaseException:
        aside.leave()
        raise
    if aside.error is not None:
        raise aside.error
    return aside.result[0]
