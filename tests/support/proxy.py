"""A TCP proxy on loopback before a right server: it goes through, slows down, goes silent, or cuts the line.

Next door: `fake_server.py` is a bad server; `tests/fault/test_silent_servers.py` uses this one.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

SLOW_BYTES, SLOW_SECONDS = 512, 0.05


class Line(Enum):
    """What becomes of bytes."""

    THROUGH = "both ways"
    SLOW = "both ways, 512 bytes every 50 ms"
    HALF_OPEN = "to the server only: its answers are dropped"
    BLACK_HOLE = "neither way, and no line ends; new ones are accepted"
    CUT = "lines are reset, and new ones too"


Seen = Callable[[bytes], None]


class Proxy:
    """Goes to `port` on loopback; its line may be set at any time, from any thread, and holds from then on."""

    def __init__(self, port: int) -> None:
        self.on_sent: Seen = lambda data: None
        """Told what a client sends before it is passed on, in the line's thread; it may set the line."""
        self.asked = threading.Event()
        """Set once a client has sent something."""
        self._line = Line.THROUGH
        self._changed = threading.Condition()
        self._target = port
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def set(self, line: Line) -> None:
        """What becomes of bytes from now on; with CUT the open lines end as well."""
        with self._changed:
            self._line = line
            self._changed.notify_all()
        if line is Line.CUT:
            self._shut(self._sockets)

    def aim(self, port: int) -> None:
        """End the open lines; new ones go to another port."""
        self._target = port
        self._shut(self._sockets)

    def close(self) -> None:
        """End it with all its lines."""
        self._ended.set()
        self.set(Line.CUT)
        self._shut([self._socket])

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            if self._line is Line.CUT:
                client.close()
                continue
            threading.Thread(target=self._carry, args=(client,), name="proxy-line", daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with suppress(OSError, ValueError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            self._sockets += [client, server]
            while not self._ended.is_set():
                for one in select.select([client, server], [], [])[0]:
                    if not self._pass_on(one, server if one is client else client, one is client):
                        return

    def _pass_on(self, one: socket.socket, other: socket.socket, sent: bool) -> bool:
        slow = self._line is Line.SLOW
        data = one.recv(SLOW_BYTES if slow else 65_536)
        if sent and data:
            self.on_sent(data)
            self.asked.set()
        dropped = (Line.BLACK_HOLE,) if sent else (Line.BLACK_HOLE, Line.HALF_OPEN)
        if self._line in dropped:
            if not data:  # the other end hears of nothing, not even of this, before the line is whole again
                with self._changed:
                    self._changed.wait_for(lambda: self._line not in dropped)
            return bool(data)
        if slow:
            self._ended.wait(SLOW_SECONDS)
        if data:
            other.sendall(data)
        return bool(data)

    def _shut(self, sockets: list[socket.socket]) -> None:
        for one in list(sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """A proxy to `port`, for the block."""
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
