"""A server on the loopback that answers START_REPLICATION with recorded bytes: frames in their order, for each login.

No Hologres: what a Hologres writes into the LSNs of frames and keepalives is not known, so a test chooses. Protocol:
PostgreSQL documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from slotkeeper.core.domain.endpoint import Endpoint

_TLS, _GSS = 80_877_103, 80_877_104


def logged(payload: bytes, start: int = 0, end: int = 0) -> bytes:
    return b"w" + struct.pack("!qqq", start, end, 0) + payload


def keepalive(end: int, reply: bool = True) -> bytes:
    """A keepalive with this LSN as the end of the log."""
    return b"k" + struct.pack("!qqb", end, 0, reply)


@dataclass
class StreamServer:
    """Serves one script a login; a script that ends leaves the line open, `CUT` in it closes the line."""

    scripts: list[list[bytes]]
    commands: list[str] = field(default_factory=list)
    startups: list[dict[str, str]] = field(default_factory=list)
    flushed: list[int] = field(default_factory=list)
    """The flush position of each status that a client sent."""
    refusal: bytes = b""
    """What the first commands are refused with, as fields of an ErrorResponse."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set by a status."""

    def __post_init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def endpoint(self) -> Endpoint:
        return Endpoint("holo", "127.0.0.1", self._socket.getsockname()[1], "db", "etl", sslmode="disable")

    def close(self) -> None:
        for one in (self._socket, *self._clients):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._clients.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            self._startup(client)
            client.sendall(_message(b"R", struct.pack("!i", 0)))
            for name, value in {"server_version": "11.3", "client_encoding": "UTF8"}.items():
                client.sendall(_message(b"S", f"{name}\0{value}\0".encode()))
            client.sendall(_message(b"Z", b"I"))
            kind, body = _read(client)
            assert kind == b"Q", kind
            self.commands.append(body.rstrip(b"\0").decode())
            if self.refusal:
                refusal, self.refusal = self.refusal, b""
                client.sendall(_message(b"E", refusal) + _message(b"Z", b"I"))
            else:
                self._stream(client)
            client.close()

    def _stream(self, client: socket.socket) -> None:
        client.sendall(_message(b"W", b"\0\0\0"))
        script = self.scripts.pop(0)
        for frame in script:
            if frame == CUT:
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(_message(b"d", frame))
        while True:
            kind, body = _read(client)
            if kind == b"d" and body[:1] == b"r":
                self.flushed.append(struct.unpack_from("!q", body, 9)[0])
                self.answered.set()
            elif kind == b"X":
                return

    def _startup(self, client: socket.socket) -> None:
        while True:
            (size,) = struct.unpack("!i", _exactly(client, 4))
            body = _exactly(client, size - 4)
            if struct.unpack_from("!i", body)[0] in (_TLS, _GSS):
                client.sendall(b"N")
                continue
            words = [word.decode() for word in body[4:].split(b"\0")]
            self.startups.append(dict(zip(words[::2], words[1::2], strict=False)))
            return


CUT = b"\0cut"


@contextmanager
def streaming(scripts: Sequence[Sequence[bytes]], refusal: bytes = b"") -> Iterator[StreamServer]:
    server = StreamServer([list(one) for one in scripts], refusal=refusal)
    try:
        yield server
    finally:
        server.close()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(client: socket.socket) -> tuple[bytes, bytes]:
    kind = _exactly(client, 1)
    (size,) = struct.unpack("!i", _exactly(client, 4))
    return kind, _exactly(client, size - 4)


def _exactly(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = client.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found
