"""Replication connections: one command starts a stream, and messages arrive as the server sends them.

If psycopg2 assumes that everything has been read, it answers a keepalive with the keepalive's own LSN as flushed (its
`pq_read_replication_message`), and a caller cannot prevent that. Without a slot this has no effect. With a slot, it
would move the slot to an undocumented LSN. Therefore, with a slot, psycopg2 logs in and starts the stream, and this
module reads the messages from libpq, through the pointer that psycopg2 provides (`connection.pgconn_ptr`). The client
reports 0 as flushed, as pgjdbc does until it has an LSN, except in `confirm`; thus only a caller moves the slot.
"""

from __future__ import annotations

import ctypes
import select
import struct
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import psycopg2
from psycopg2.extras import LogicalReplicationConnection

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.deadline import Cut, limited

STATUS_SECONDS = 10
"""Seconds between two status messages to the server (holo-client: withStatusInterval)."""
CALL_SECONDS = 30.0
"""Time limit in seconds of the command that starts the stream, and of each message sent while it runs."""
MESSAGE_BYTES = 1024 * 1024 * 1024
"""Maximum size in bytes of a message, which libpq holds in memory."""


class _ReplicationLine(LogicalReplicationConnection):
    """A connection with `replication=database`."""

    def __init__(self, *args: Any, login_ms: int, opened: Callable[[int], None], **options: Any) -> None:
        super().__init__(*args, **options)
        opened(self.fileno())
        self.notices = deque(maxlen=0)  # type: ignore[assignment]  # no code reads them


class Replication:
    """A stream without a slot, used by one thread at a time; any thread can close it. Calls raise psycopg2.Error."""

    def __init__(self, login: Login, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._line = pg.login_as(_ReplicationLine, login.endpoint, login.password, login.name, "")
        self._cursor = self._line.cursor()

    def start(self, command: str) -> None:
        """Send a START_REPLICATION; afterwards the connection accepts no other command."""
        begin = partial(self._cursor.start_replication_expert, command, decode=False, status_interval=STATUS_SECONDS)
        self._limited(begin)

    def read(self, seconds: float) -> bytes | None:
        """Return the payload of the next message; None if none arrives within the given seconds."""
        until = self._clock.monotonic() + seconds
        while True:
            payload = self._next()
            if payload is not None:
                return payload
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            waiting = select.poll()
            waiting.register(self._line.fileno(), select.POLLIN)
            waiting.poll(min(left, STATUS_SECONDS / 2) * 1000)

    def _next(self) -> bytes | None:
        """Return the payload of a received message; None if there is none."""
        message = self._limited(self._cursor.read_message)
        return None if message is None else bytes(message.payload)

    def sever(self) -> None:
        pg.sever(self._line)

    def close(self) -> None:
        self._line.close()

    def _limited(self, call: Callable[[], Any]) -> Any:
        descriptor = self._line.fileno()
        if descriptor < 0:
            return call()
        with limited(descriptor, CALL_SECONDS, MESSAGE_BYTES) as under_way:
            try:
                return call()
            except psycopg2.Error as error:
                if under_way.cut is Cut.LATE:
                    raise pg.NoAnswer(CALL_SECONDS) from error
                if under_way.cut is Cut.MUCH:
                    raise pg.TooMuch(MESSAGE_BYTES, "sent one message with") from error
                if under_way.cut is Cut.INTERRUPTED:
                    raise KeyboardInterrupt from error
                if error.pgcode is None and not isinstance(error, psycopg2.OperationalError):
                    # psycopg2 reports a lost connection as "error with status PGRES_COPY_BOTH"
                    raise psycopg2.OperationalError("the server ended the stream") from error
                raise


_LOGGED, _KEEPALIVE = b"w", b"k"
_LOGGED_HEAD = struct.Struct("!cqqq")
_KEEPALIVE_HEAD = struct.Struct("!cqqb")
_STATUS = struct.Struct("!cqqqqb")
"""PostgreSQL, "Streaming Replication Protocol": written, flushed, applied, clock, whether a reply is requested."""
NOTHING = 0
"""A flushed value that confirms no LSN."""


class _Libpq:
    """The required libpq functions, from the library that psycopg2 is linked with."""

    def __init__(self) -> None:
        # symbols are also found in the libraries that psycopg2 is linked with; calls release the GIL
        library = ctypes.CDLL(psycopg2._psycopg.__file__)
        pointer, whole = ctypes.c_void_p, ctypes.c_int
        self.get = _typed(library.PQgetCopyData, whole, pointer, ctypes.POINTER(pointer), whole)
        self.free = _typed(library.PQfreemem, None, pointer)
        self.consume = _typed(library.PQconsumeInput, whole, pointer)
        self.put = _typed(library.PQputCopyData, whole, pointer, ctypes.c_char_p, whole)
        self.flush = _typed(library.PQflush, whole, pointer)
        self.result = _typed(library.PQgetResult, pointer, pointer)
        self.clear = _typed(library.PQclear, None, pointer)
        self.said = _typed(library.PQerrorMessage, ctypes.c_char_p, pointer)


def _typed(call: ctypes._NamedFuncPointer, answers: type | None, *takes: type) -> ctypes._NamedFuncPointer:
    call.restype, call.argtypes = answers, list(takes)
    return call


@cache
def _libpq() -> _Libpq:
    return _Libpq()


class SlotReplication(Replication):
    """A stream with a slot, used by one thread at a time; any thread can close it. All calls raise psycopg2.Error."""

    _said_at = 0.0

    def start(self, command: str) -> None:
        super().start(command)
        self._said_at = self._clock.monotonic()

    def _next(self) -> bytes | None:
        """Return the payload of a received message, or None; also send status messages, which do not move the slot."""
        while True:
            if self._clock.monotonic() - self._said_at >= STATUS_SECONDS:
                self._say(NOTHING)
            message: bytes | None = self._limited(self._message)
            if message is None:
                return None
            if message[:1] == _LOGGED:
                return message[_LOGGED_HEAD.size :]
            if message[:1] == _KEEPALIVE and _KEEPALIVE_HEAD.unpack(message)[3]:
                self._say(NOTHING)

    def confirm(self, lsn: int) -> None:
        """Report everything up to an LSN as flushed, once."""
        self._say(lsn)

    def _say(self, lsn: int) -> None:
        body = _STATUS.pack(b"r", lsn, lsn, lsn, 0, lsn != NOTHING)
        self._limited(lambda: self._send(body))
        self._said_at = self._clock.monotonic()

    def _send(self, body: bytes) -> None:
        libpq, line = _libpq(), self._open()
        if libpq.put(line, body, len(body)) != 1 or libpq.flush(line) < 0:
            raise self._lost()

    def _message(self) -> bytes | None:
        libpq, line = _libpq(), self._open()
        buffer = ctypes.c_void_p()
        for fetched in (False, True):
            size = int(libpq.get(line, ctypes.byref(buffer), 1))
            if size > 0:
                try:
                    return ctypes.string_at(buffer, size)
                finally:
                    libpq.free(buffer)
            if size < 0:
                libpq.clear(libpq.result(line))
                raise self._lost()
            if not fetched and not libpq.consume(line):
                raise self._lost()
        return None

    def _open(self) -> int:
        if self._line.closed:
            raise psycopg2.InterfaceError("connection already closed")
        return int(self._line.pgconn_ptr)

    def _lost(self) -> psycopg2.OperationalError:
        said = _libpq().said(self._open())
        text = said.decode("utf-8", "replace").strip() if said else ""
        return psycopg2.OperationalError(text or "the server ended the stream")
