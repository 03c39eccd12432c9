"""What libpq does by itself while a login is under way: it is kept from the terminal, and its line can be cut.

libpq gives out neither its socket nor its notices before a login is over. Its socket is found by a mark: a value of
TCP_USER_TIMEOUT that no other socket of the process has (libpq sets it before it connects; tcp(7)). Notices go to the
C library's `stderr` raw, whatever bytes a server put there (`defaultNoticeProcessor` in libpq's fe-connect.c), until
psycopg2 takes them (`_conn_sync_connect` in psycopg/connection_int.c).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slotkeeper.core.drivers.deadline import lent, received, shut

LOGIN_BYTES = 16 * 1024 * 1024
"""The most that a server may answer a login with; a right one has a few KB."""
_FIRST_MARK = 1_000_000_000
"""In milliseconds, as no configuration has it: sockets of finished logins have theirs."""
_MARKS = 1_000_000
_numbers = itertools.count()
_OPTION: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


class LoginLine:
    """The line of one login over TCP on Linux, from before it is opened; elsewhere nothing is found or cut."""

    def __init__(self) -> None:
        self.mark = _FIRST_MARK + next(_numbers) % _MARKS
        """What the login gives as `tcp_user_timeout`."""

    def check(self, late: bool) -> None:
        """Shut the line where nobody waits for it any more, or where more came than a login has."""
        with suppress(OSError):
            for number in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
                # not by a copy of the descriptor: closing one of a file would free SQLite's locks (fcntl(2))
                if self._is_ours(number) and (late or (received(number) or 0) > LOGIN_BYTES):
                    shut(number)

    def over(self, descriptor: int, timeout_ms: int) -> None:
        """The login is over: its socket gets the timeout that was meant, and is not found any more."""
        if _OPTION is not None:
            with suppress(OSError), lent(descriptor) as line:  # a socket in a folder has none
                line.setsockopt(socket.IPPROTO_TCP, _OPTION, timeout_ms)

    def _is_ours(self, descriptor: int) -> bool:
        if _OPTION is None:
            return False
        with suppress(OSError), lent(descriptor) as line:
            return line.getsockopt(socket.IPPROTO_TCP, _OPTION) == self.mark
        return False


class _Silence:
    """The C library's `stderr` leads nowhere while any login is under way; Python's own writes go to descriptor 2.

    `stderr` may be assigned in glibc ("Standard Streams" in its manual); in other C libraries it is left alone.
    """

    def __init__(self) -> None:
        self._begin_anew()
        self._kept: int | None = None
        self._nowhere: int | None = None

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._logins = 0

    def forked(self) -> None:
        """A child of a fork has none of its parent's logins."""
        self._begin_anew()
        if self._kept is not None:
            _c_stderr().value = self._kept

    @contextmanager
    def kept(self) -> Iterator[None]:
        """For the block, in any thread."""
        with self._lock:
            self._logins += 1
            if self._logins == 1 and _is_glibc():
                self._turn_off()
        try:
            yield
        finally:
            with self._lock:
                self._logins -= 1
                if not self._logins and self._kept is not None:
                    _c_stderr().value = self._kept

    def _turn_off(self) -> None:
        if self._nowhere is None:
            opened = ctypes.CDLL(None).fopen
            opened.restype = ctypes.c_void_p
            self._nowhere = opened(os.devnull.encode(), b"we")  # e: no child inherits it
        if self._nowhere is not None:
            self._kept = _c_stderr().value
            _c_stderr().value = self._nowhere


def _is_glibc() -> bool:
    with suppress(AttributeError, ValueError, OSError):
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    return False


def _c_stderr() -> ctypes.c_void_p:
    return ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")


_silence = _Silence()
os.register_at_fork(after_in_child=_silence.forked)
silenced = _silence.kept
"""For the block, the C library writes nothing to `stderr`."""
