"""What stands in front of a MySQL server, on loopback: a front that speaks TLS, and a man in the middle, who strips TLS
from the greeting or answers it himself.

MySQL, "Protocol::HandshakeV10": the lower two bytes of the capabilities follow the version, the thread's number, eight
bytes of the challenge and a filler; "Protocol::SSLRequest" is a client's 32 bytes before its hello.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.postgres_lines import exchange

HOST = "127.0.0.1"
CLIENT_SSL = 0x0800
_BEHIND_VERSION = 4 + 8 + 1
SSL_REQUEST_BYTES = 32


@dataclass(slots=True)
class Middle:
    """What he has got: `port` is where he listens, `logins` are the packets in which clients log in."""

    port: int = 0
    logins: list[bytes] = field(default_factory=list)


@contextmanager
def between(port: int, own: ssl.SSLContext | None) -> Iterator[Middle]:
    """In front of a server at `port`: with a certificate of his own, or, with none, without TLS. He greets as the
    server does, takes the login, and ends: what a login holds is all that he is after."""
    middle = Middle()

    def serve(line: socket.socket) -> None:
        with socket.create_connection((HOST, port)) as server:
            line.sendall(_flagged(_packet(server), own is not None))
            answer = _packet(line)
            if own is None or len(answer) != 4 + SSL_REQUEST_BYTES:
                middle.logins.append(answer)
                return
            with own.wrap_socket(line, server_side=True) as safe:
                middle.logins.append(_packet(safe))

    with _listening(serve) as middle.port:
        yield middle


@contextmanager
def tls_front(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """TLS in front of a server at `port` that speaks none; its own port."""

    def serve(line: socket.socket) -> None:
        with socket.create_connection((HOST, port)) as server:
            line.sendall(_flagged(_packet(server), True))
            _packet(line)  # exactly the request: the client's hello follows it at once
            with context.wrap_socket(line, server_side=True) as safe:
                _log_in(safe, server)
                exchange(safe, server)

    with _listening(serve) as front:
        yield front


def _log_in(safe: socket.socket, server: socket.socket) -> None:
    """Carry a login, whose packets have numbers: the server does not know of the request for TLS."""
    login = _packet(safe)
    flags = int.from_bytes(login[4:8], "little") & ~CLIENT_SSL
    login = login[:4] + flags.to_bytes(4, "little") + login[8:]
    while True:
        server.sendall(_numbered(login, -1))
        answer = _packet(server)
        safe.sendall(_numbered(answer, 1))
        if answer[4] in (0x00, 0xFF):
            return
        login = _packet(safe)


def _numbered(packet: bytes, more: int) -> bytes:
    return packet[:3] + bytes([packet[3] + more]) + packet[4:]


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port each of whose connections is served in a thread of its own; a lost one ends it."""

    def served(line: socket.socket) -> None:
        with suppress(OSError, EOFError), line:
            serve(line)

    def accepting(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=served, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=accepting, args=(listener,), daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _flagged(greeting: bytes, tls: bool) -> bytes:
    """A greeting whose server has TLS, or has none."""
    at = greeting.index(b"\0", 5) + 1 + _BEHIND_VERSION
    (capabilities,) = struct.unpack_from("<H", greeting, at)
    capabilities = capabilities | CLIENT_SSL if tls else capabilities & ~CLIENT_SSL
    return greeting[:at] + struct.pack("<H", capabilities) + greeting[at + 2 :]


def _packet(line: socket.socket) -> bytes:
    head = _exactly(line, 4)
    return head + _exactly(line, int.from_bytes(head[:3], "little"))


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = line.recv(count - len(found))
        if not more:
            raise EOFError
        found += more
    return found
