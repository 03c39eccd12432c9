"""A replication connection: one command begins a stream, and messages come as the server sends them.

Whether and what is flushed is not told here: psycopg2 answers keepalives by itself, with their own `wal_end` where it
believes that all was read. So this is for streams without a slot, where the answer moves nothing.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg2
from psycopg2.extras import LogicalReplicationConnection

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.deadline import Cut, limited

STATUS_SECONDS = 10
"""How often the server is told that we are there (holo-client: withStatusInterval)."""
CALL_SECONDS = 30.0
"""For the command that begins the stream, and for what is sent while it runs."""
MESSAGE_BYTES = 1024 * 1024 * 1024
"""The most that one message may have: libpq holds it whole."""


class _ReplicationLine(LogicalReplicationConnection):
    """A connection with `replication=database`."""

    def __init__(self, *args: Any, login_ms: int, opened: Callable[[int], None], **options: Any) -> None:
        super().__init__(*args, **options)
        opened(self.fileno())
        self.notices = deque(maxlen=0)  # type: ignore[assignment]  # nobody reads them


class Replication:
    """One stream by a login; one thread at a time uses it, any thread may sever it. All raise psycopg2.Error."""

    def __init__(self, login: Login, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._line = pg.login_as(_ReplicationLine, login.endpoint, login.password, login.name, "")
        self._cursor = self._line.cursor()

    def start(self, command: str) -> None:
        """Send a START_REPLICATION; nothing else can be asked over this line."""
        begin = partial(self._cursor.start_replication_expert, command, decode=False, status_interval=STATUS_SECONDS)
        self._limited(begin)

    def read(self, seconds: float) -> bytes | None:
        """The payload of the next message; None where none comes within so many seconds."""
        until = self._clock.monotonic() + seconds
        while True:
            message = self._limited(self._cursor.read_message)
            if message is not None:
                return bytes(message.payload)
            left = until - self._clock.monotonic()
            if left <= 0:
                return None
            waiting = select.poll()
            waiting.register(self._line.fileno(), select.POLLIN)
            waiting.poll(min(left, STATUS_SECONDS / 2) * 1000)

    def sever(self) -> None:
        """Cut the line, from any thread, without waiting."""
        pg.sever(self._line)

    def close(self) -> None:
        """End the line; safe to call twice."""
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
                    # psycopg2 says "error with status PGRES_COPY_BOTH" of a line that is gone
                    raise psycopg2.OperationalError("the server ended the stream") from error
                raise
