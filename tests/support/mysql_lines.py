"""A man in the middle of MySQL's protocol, on loopback: he strips TLS from the greeting, or answers it himself.

MySQL, "Protocol::HandshakeV10": the lower two bytes of the capabilities follow the version, the thread's number, eight
bytes of the challenge and a filler; "Protocol::SSLRequest" is a client's 32 bytes before its hello.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

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
    """In front of a server at `port`: with a certificate of his own, or, with none, without TLS."""
    middle = Middle()
    with socket.create_server((HOST, 0)) as listener:
        middle.port = listener.getsockname()[1]
        threading.Thread(target=_accept, args=(listener, port, own, middle), daemon=True).start()
        try:
            yield middle
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, port: int, own: ssl.SSLContext | None, middle: Middle) -> None:
    with suppress(OSError):
        while True:
            line, _ = listener.accept()
            threading.Thread(target=_stand, args=(line, port, own, middle), daemon=True).start()


def _stand(line: socket.socket, port: int, own: ssl.SSLContext | None, middle: Middle) -> None:
    """Greet as the server does, take the login, and end: what a login holds is all that he is after."""
    with suppress(OSError, EOFError), line, socket.create_connection((HOST, port)) as server:
        greeting = _packet(server)
        line.sendall(greeting if own else without_tls(greeting))
        answer = _packet(line)
        if own is not None and len(answer) == 4 + SSL_REQUEST_BYTES:
            with own.wrap_socket(line, server_side=True) as safe:
                middle.logins.append(_packet(safe))
            return
        middle.logins.append(answer)


def without_tls(greeting: bytes) -> bytes:
    """A greeting whose server has no TLS."""
    at = greeting.index(b"\0", 5) + 1 + _BEHIND_VERSION
    (capabilities,) = struct.unpack_from("<H", greeting, at)
    return greeting[:at] + struct.pack("<H", capabilities & ~CLIENT_SSL) + greeting[at + 2 :]


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
