"""A TCP proxy on loopback before a working server: it passes, slows down, goes silent, or cuts the connection."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

SLOW_BYTES, SLOW_SECONDS = 512, 0.05
CORRUPT_SHARE = 0.05
_RST = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing sends RST (socket(7))."""


class Line(Enum):
    """The treatment of bytes."""

    THROUGH = "both ways"
    SLOW = "both ways, 512 bytes every 50 ms"
    HALF_OPEN = "to the server only: its answers are dropped"
    BLACK_HOLE = "neither way, and no line ends; new ones are accepted"
    CUT = "lines are reset, and new ones too"
    CORRUPT = "both ways, a byte of one chunk in twenty is another one"
    RESET = "half of the next chunk arrives, then RST both ways; new ones too"
    REFUSED = "lines end, and no listener takes new ones"


Seen = Callable[[bytes], None]


class Proxy:
    """A proxy to `port` on loopback; its line may be set at any time and from any thread, with immediate effect."""

    def __init__(self, port: int, draw: random.Random | None = None) -> None:
        self.draw = draw or random.Random(port)
        """Which bytes are corrupted."""
        self.flips = 0
        """Bytes that were corrupted."""
        self.on_sent: Seen = lambda data: None
        """Called with each piece of a client's data before it is passed on, in the line's thread; it may set the
        line."""
        self.asked = threading.Event()
        """Set once a client has sent something."""
        self._line = Line.THROUGH
        self._changed = threading.Condition()
        self._target = port
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self.port = 0
        self._listen()

    def set(self, line: Line) -> None:
        """Set the treatment of bytes from now on; with CUT and REFUSED, the open connections end as well."""
        was = self._line
        with self._changed:
            self._line = line
            self._changed.notify_all()
        if was is Line.REFUSED and line is not was:
            self._listen()
        if line is Line.REFUSED and line is not was:
            self._shut([self._socket])
        if line in (Line.CUT, Line.REFUSED):
            self._shut(self._sockets)

    def aim(self, port: int) -> None:
        """End the open connections; new ones go to another port."""
        self._target = port
        self._shut(self._sockets)

    def close(self) -> None:
        self._ended.set()
        self.set(Line.CUT)
        self._shut([self._socket])

    @property
    def open(self) -> bool:
        return bool(self._sockets)

    def _listen(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._socket,), name="proxy", daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            if self._line is Line.CUT:
                client.close()
                continue
            threading.Thread(target=self._carry, args=(client,), name="proxy-line", daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with suppress(OSError, ValueError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            self._sockets += [client, server]
            try:
                if self._line not in (Line.CUT, Line.REFUSED):  # set while this line was being opened
                    self._carry_both(client, server)
            finally:
                for one in (client, server):
                    with suppress(ValueError):
                        self._sockets.remove(one)

    def _carry_both(self, client: socket.socket, server: socket.socket) -> None:
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
        if data and not self._passes(one, other, data, sent):
            return False
        dropped = (Line.BLACK_HOLE,) if sent else (Line.BLACK_HOLE, Line.HALF_OPEN)
        if self._line in dropped:
            if not data:  # the other end receives nothing, not even this, until the connection works again
                with self._changed:
                    self._changed.wait_for(lambda: self._line not in dropped)
            return bool(data)
        if slow:
            self._ended.wait(SLOW_SECONDS)
        if data and self._line is Line.RESET:
            other.sendall(data[: len(data) // 2])
            for broken in (one, other):
                broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
            return False
        if data:
            other.sendall(self._corrupted(data) if self._line is Line.CORRUPT else data)
        return bool(data)

    def _passes(self, one: socket.socket, other: socket.socket, data: bytes, sent: bool) -> bool:
        """Called in the line's thread before a piece of data is passed on; whether its line stays open."""
        return True

    def _corrupted(self, data: bytes) -> bytes:
        if self.draw.random() >= CORRUPT_SHARE:
            return data
        at = self.draw.randrange(len(data))
        self.flips += 1
        return data[:at] + bytes([data[at] ^ self.draw.randrange(1, 256)]) + data[at + 1 :]

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


class Wire(Proxy):
    """A proxy whose silent connections stay silent for good; new ones are carried once it is whole again.

    A stream with a gap in its middle does not exist in TCP, so a connection must not carry bytes after it has dropped
    some.
    """

    def __init__(self, port: int, draw: random.Random | None = None) -> None:
        super().__init__(port, draw)
        self._lost: set[socket.socket] = set()

    def _pass_on(self, one: socket.socket, other: socket.socket, sent: bool) -> bool:
        silent = self._line is Line.BLACK_HOLE or (self._line is Line.HALF_OPEN and not sent)
        if silent:
            self._lost.add(one)
        if one not in self._lost:
            return super()._pass_on(one, other, sent)
        return bool(one.recv(65_536))

    def whole(self, cut: bool) -> None:
        """Pass data again; `cut` resets the earlier lines, which otherwise stay silent until one end closes them."""
        if cut:
            self.set(Line.CUT)
        self.set(Line.THROUGH)
