"""Limits for calls that block in C code: at a limit or on Ctrl-C, the call's socket is shut down and the call fails.

psycopg2 waits in libpq, which restarts its poll after a signal, so neither a Python signal handler nor an exception can
end the call; only shutting down its socket can. `shutdown` is called on a copy of the descriptor. `close` would free
the descriptor number for another file while libpq still uses it. One thread per process waits for the next deadline and
for signals, in one `poll`, and reads from the kernel how many bytes of an answer have arrived, because libpq holds the
whole answer in memory.
Decision: docs/adr/0024-nothing-that-hangs.md.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

GRACE_SECONDS = 2.0
"""Seconds that the client waits beyond the server's own limit, because the server's error is more specific."""
COUNT_SECONDS = 0.1
"""Seconds between two readings of the kernel's byte counts; a call can exceed its limit by one interval."""

CHECK_SECONDS = 0.25
"""Seconds between two checks of a call without a socket; most calls end earlier."""

LATE_SECONDS = 60.0
"""Seconds for which an abandoned call is checked."""

_STALE = 64
_RECEIVED = 128
"""Offset of `tcpi_bytes_received` in Linux's struct tcp_info (since 4.1): 8 bytes, 24 u32 and 3 u64 precede it."""


class Cut(Enum):
    """Reasons for shutting down the socket of a call."""

    LATE = "its time limit was reached"
    MUCH = "its size limit was exceeded"
    INTERRUPTED = "Ctrl-C"
    GIVEN_UP = "the process is ending"


class Call:
    """A running call; `cut` is the reason if its socket was shut down."""

    __slots__ = ("at", "cut", "descriptor", "limit", "most_bytes", "moved", "moved_before", "over")

    def __init__(self, descriptor: int, at: float | None, most_bytes: int | None) -> None:
        self.descriptor = os.dup(descriptor)  # libpq closes its descriptor if a connection breaks
        self.at = at
        came = None if most_bytes is None else received(self.descriptor)
        self.limit = None if came is None or most_bytes is None else came + most_bytes
        """The limit, in bytes since the connection was opened."""
        self.most_bytes = most_bytes or 0
        self.moved = False
        """Set by a caller that has forwarded a part of the answer; the byte limit then restarts at the next count."""
        self.moved_before = False
        """Whether a byte count has already seen that `moved` is set."""
        self.cut: Cut | None = None
        self.over = False

    def shut(self, why: Cut) -> None:
        """Shut the socket down; allowed only before `end` is called."""
        self.cut = self.cut or why
        shut(self.descriptor)

    def end(self) -> None:
        """Close the copy of the descriptor; safe to call twice."""
        if not self.over:
            self.over = True
            os.close(self.descriptor)

    @property
    def too_much(self) -> bool:
        came = received(self.descriptor) or 0
        if self.moved:
            self.moved_before = True  # set first, because another thread can read both attributes in between
            self.moved, self.limit = False, came + self.most_bytes
        return self.limit is not None and came > self.limit


class Watchdog:
    """The limits of this process's calls, and the thread that enforces them; the thread starts with the first call."""

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._due: list[tuple[float, int, Call]] = []
        """A heap; ended calls stay in it until a cleanup."""
        self._numbers = 0
        self._count_at = float("inf")
        self._next = float("inf")
        self._reading = self._writing = -1

    def forked(self) -> None:
        """Reset the state in a forked child, which has no threads; the pipe and the descriptors belong to the parent.

        The child must not shut down the parent's calls, and its signals must not reach the parent.
        """
        calls, pipe = self._calls, (self._reading, self._writing)
        self._begin_anew()
        for call in calls:
            call.end()
        if pipe[1] >= 0:
            heard_by = signal.set_wakeup_fd(-1)  # the forking thread is now the child's main thread
            if heard_by not in (-1, pipe[1]):
                signal.set_wakeup_fd(heard_by)
            for one in pipe:
                os.close(one)

    def wakeup(self) -> int:
        """Return the descriptor for `signal.set_wakeup_fd`; starts the thread."""
        with self._lock:
            self._start()
            return self._writing

    def begin(self, descriptor: int, seconds: float | None, most_bytes: int | None) -> Call:
        """Start a call on this socket with its limits; None means no limit. The caller ends the call."""
        now = time.monotonic()
        call = Call(descriptor, None if seconds is None else now + seconds, most_bytes)
        with self._lock:
            self._start()
            self._calls.add(call)
            wakes = float("inf")
            if call.at is not None:
                self._numbers += 1
                heapq.heappush(self._due, (call.at, self._numbers, call))
                wakes = call.at
            if call.limit is not None and self._count_at == float("inf"):
                self._count_at = now + COUNT_SECONDS
                wakes = min(wakes, self._count_at)
            sooner = wakes < self._next
        if sooner:
            with suppress(BlockingIOError):  # a full pipe also wakes the thread
                os.write(self._writing, b"\0")
        return call

    def end(self, call: Call) -> None:
        """End the call; its socket is not shut down afterwards."""
        with self._lock:
            self._calls.discard(call)
            call.end()
            if len(self._due) > _STALE + 2 * len(self._calls):
                self._due = [one for one in self._due if not one[2].over]
                heapq.heapify(self._due)

    def shut_all(self, why: Cut) -> None:
        with self._lock:
            for call in self._calls:
                call.shut(why)

    def _start(self) -> None:
        if self._writing >= 0:
            return
        thread = threading.Thread(target=self._run, name="slotkeeper-deadlines", daemon=True)
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        try:
            thread.start()
        except RuntimeError:  # the thread could not be started: the next call tries again
            os.close(self._reading)
            os.close(self._writing)
            self._reading = self._writing = -1
            raise

    def _run(self) -> None:
        waiting = select.poll()  # not `select`, which rejects descriptors of 1,024 and above
        waiting.register(self._reading, select.POLLIN)
        while True:
            seconds = self._shut_due()
            woken = waiting.poll(None if seconds is None else seconds * 1000)
            heard = os.read(self._reading, 4096) if woken else b""
            # a program with its own handler, such as a job's driver, ends its calls itself
            if signal.SIGINT in heard and signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _interrupt):
                self.shut_all(Cut.INTERRUPTED)

    def _shut_due(self) -> float | None:
        """Shut down calls beyond their limits; return the seconds until the next check, or None if no call runs."""
        with self._lock:
            now = time.monotonic()
            while self._due and (self._due[0][2].over or self._due[0][0] <= now):
                call = heapq.heappop(self._due)[2]
                if not call.over:
                    call.shut(Cut.LATE)
            if self._count_at <= now:
                self._count()
            self._next = min(self._due[0][0] if self._due else float("inf"), self._count_at)
            return None if self._next == float("inf") else max(0.0, self._next - now)

    def _count(self) -> None:
        self._count_at = float("inf")
        for call in self._calls:
            if call.limit is not None:
                self._count_at = time.monotonic() + COUNT_SECONDS
                if call.too_much:
                    call.shut(Cut.MUCH)


_watchdog = Watchdog()
os.register_at_fork(after_in_child=_watchdog.forked)


@contextmanager
def limited(descriptor: int, seconds: float | None, most_bytes: int | None = None) -> Iterator[Call]:
    """Limit the time and answer size of the block's calls on this socket; calls that exceed a limit raise an error.

    None means no limit; then only Ctrl-C ends calls early. `cut` of the yielded call is the reason. A call that is
    answered at the moment of its limit counts as answered. Bytes are counted only on Linux and only for TCP.
    """
    call = _watchdog.begin(descriptor, seconds, most_bytes)
    mine = threading.current_thread() is threading.main_thread()
    if mine:
        _in_main.append(call)
    try:
        yield call
    finally:
        if mine:
            _in_main.remove(call)
        _watchdog.end(call)


def shut(descriptor: int) -> None:
    """Shut a socket down but leave its descriptor open; a thread that waits for the socket wakes up.

    Does nothing for a negative descriptor, which libpq returns once it has detected that the connection is broken.
    """
    if descriptor >= 0:
        with suppress(OSError), lent(descriptor) as line:
            line.shutdown(socket.SHUT_RDWR)


def received(descriptor: int) -> int | None:
    """Return the number of bytes received since this connection was opened; None if the system does not report it."""
    try:
        with lent(descriptor) as line:
            answer = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED + 8)
    except (AttributeError, OSError):  # another operating system, or not TCP
        return None
    return struct.unpack_from("=Q", answer, _RECEIVED)[0] if len(answer) == _RECEIVED + 8 else None


@contextmanager
def lent(descriptor: int) -> Iterator[socket.socket]:
    """Yield a socket object for this descriptor, which stays open; the object's family and type do not matter."""
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield line
    finally:
        line.detach()


_in_main: list[Call] = []
"""The main thread's running call, if any."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt on Ctrl-C; during a call only record it, because psycopg2 prints and discards exceptions.

    The watchdog shuts the call's socket down, and the code that made the call raises KeyboardInterrupt.
    """
    if not _in_main:
        signal.default_int_handler(number, frame)
    for call in _in_main:
        call.cut = call.cut or Cut.INTERRUPTED


@contextmanager
def interrupts_heard() -> Iterator[None]:
    """Within the block, let Ctrl-C end calls that block in C, so that Python's handler runs.

    Has an effect only in the main thread; another wakeup descriptor or handler takes precedence.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(_watchdog.wakeup(), warn_on_full_buffer=False)
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, handler)


def cut_off() -> None:
    """End all current waits of this process in any thread: calls fail as on Ctrl-C, and logins as after a timeout."""
    _watchdog.shut_all(Cut.GIVEN_UP)
    for aside in list(_asides):
        aside.ended.set()


class Late(Exception):
    """A call in its own thread did not end in time."""


class _Aside(threading.Thread, Generic[T]):
    """A call in its own thread; the calling thread waits for its result, or has abandoned it."""

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
        """Abandon the call: a late result is passed to `unwanted`."""
        with self._lock:
            self._left = True
            come = list(self.result)
        for one in come:
            self._unwanted(one)


_asides: set[_Aside[Any]] = set()
"""Calls for whose result a thread is waiting."""


def in_time(
    call: Callable[[], T], seconds: float, unwanted: Callable[[T], None], checked: Callable[[bool], None] | None = None
) -> T:
    """Return the result of a call without a socket to shut down yet; it runs in a thread, which is abandoned if late.

    `checked` is called repeatedly until the call has ended; its argument is True once the call was abandoned. Raises
    the call's error, or `Late`. The wait ends on Ctrl-C; a later result is passed to `unwanted`.
    """
    aside = _Aside(call, unwanted)
    _asides.add(aside)
    try:
        aside.start()
        end = time.monotonic() + seconds
        while not aside.ended.wait(max(0.0, min(CHECK_SECONDS, end - time.monotonic()))) and time.monotonic() < end:
            if checked is not None:
                checked(False)
        if aside.error is not None:
            raise aside.error
        if not aside.result:
            raise Late
        return aside.result[0]
    except BaseException:
        aside.leave()
        if checked is not None and aside.is_alive():
            threading.Thread(target=_end_late, args=(aside, checked), name="slotkeeper-late-login", daemon=True).start()
        raise
    finally:
        _asides.discard(aside)


def _end_late(aside: _Aside[Any], checked: Callable[[bool], None]) -> None:
    """Shut down each socket of the call until the call ends, because a host can have several addresses.

    A server can also send endlessly. A call without a socket after a minute (a name lookup, a certificate file that is
    a FIFO) is no longer checked.
    """
    end = time.monotonic() + LATE_SECONDS
    while aside.is_alive() and time.monotonic() < end:
        checked(True)
        aside.join(CHECK_SECONDS)
