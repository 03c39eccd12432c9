"""Servers between a client and a server on loopback: TLS proxies, servers that ask for a password, a man in the middle.

The embedded server is built without OpenSSL, so TLS ends here and continues to it in plain text. PostgreSQL, "Message
Flow", SSL Session Encryption: the client asks with eight bytes and is answered S or N. MySQL,
"Protocol::HandshakeV10": the lower two bytes of the capabilities follow the version, the thread's number, eight bytes
of the challenge and a filler; "Protocol::SSLRequest" is a client's 32 bytes before its hello.
"""

from __future__ import annotations

import hashlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

SSL_REQUEST = 80877103
HOST = "127.0.0.1"
SALT = b"slot"


@dataclass(slots=True)
class Seen:
    """The connections of clients at a listener: `port` is its port, `tls` and `plain` count how they started."""

    port: int = 0
    tls: int = 0
    plain: int = 0
    answers: list[bytes] = field(default_factory=list)
    """The passwords that clients sent, in their form inside of any TLS."""


class Authority:
    """An authority of certificates in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.root = folder / "root.crt"
        self.ca.cert_pem.write_to_path(self.root)

    def server(self, *names: str, days: int = 1, client: Authority | None = None) -> ssl.SSLContext:
        """The server's files with a certificate for `names` that expires in this number of days; clients present one of
        `client`.
        """
        ends = datetime.now(timezone.utc) + timedelta(days=days)
        begins = datetime.now(timezone.utc) - timedelta(days=30)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names, not_before=begins, not_after=ends).configure_cert(context)
        if client is not None:
            client.ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, name: str, password: str = "") -> tuple[Path, Path]:
        """(certificate, key) files of a client, with the key encrypted if a password is given."""
        made = self.ca.issue_cert(common_name=name)
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(cert)
        pem = made.private_key_pem.bytes()
        if password:
            pem = serialization.load_pem_private_key(pem, None).private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password.encode()),
            )
        key.touch(0o600)
        key.write_bytes(pem)
        return cert, key


@contextmanager
def tls_front(context: ssl.SSLContext, port: int) -> Iterator[Seen]:
    """TLS in front of a server at `port` that has none."""

    def serve(line: socket.socket, first: bytes) -> None:
        with socket.create_connection((HOST, port)) as behind:
            behind.sendall(first)
            exchange(line, behind)

    with _listening(context, serve) as seen:
        yield seen


@contextmanager
def begging(context: ssl.SSLContext | None, method: int) -> Iterator[Seen]:
    """Start a server that has TLS only with a context, and requests a password: 3 in clear text, 5 as an MD5 hash."""

    def serve(line: socket.socket, first: bytes) -> None:
        salt = SALT if method == 5 else b""
        line.sendall(b"R" + struct.pack("!II", 8 + len(salt), method) + salt)
        answer = exactly(line, 5)
        if answer[:1] == b"p":
            seen.answers.append(exactly(line, struct.unpack("!I", answer[1:])[0] - 4).rstrip(b"\0"))
        line.sendall(_error("28P01", "password authentication failed"))

    with _listening(context, serve) as seen:
        yield seen


def md5_answer(user: str, password: str) -> bytes:
    """A client's answer to a server that requests an MD5 hash with this salt."""
    inner = hashlib.md5((password + user).encode()).hexdigest().encode()
    return b"md5" + hashlib.md5(inner + SALT).hexdigest().encode()


@contextmanager
def _listening(context: ssl.SSLContext | None, serve: Callable[[socket.socket, bytes], None]) -> Iterator[Seen]:
    seen = Seen()
    with listening(lambda line: _greet(line, context, serve, seen)) as seen.port:
        yield seen


def _greet(
    line: socket.socket, context: ssl.SSLContext | None, serve: Callable[[socket.socket, bytes], None], seen: Seen
) -> None:
    """Answer a request for TLS, take the client's first message, and continue with `serve`."""
    first = _message(line)
    if struct.unpack("!I", first[4:8])[0] == SSL_REQUEST:
        seen.tls += 1
        line.sendall(b"S" if context else b"N")
        if context:
            with context.wrap_socket(line, server_side=True) as safe:
                serve(safe, _message(safe))
            return
        first = _message(line)
    seen.plain += 1
    serve(line, first)


def _message(line: socket.socket) -> bytes:
    head = exactly(line, 4)
    return head + exactly(line, struct.unpack("!I", head)[0] - 4)


def exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = line.recv(count - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def exchange(line: socket.socket, behind: socket.socket) -> None:
    """Pass bytes both ways until one end closes, in one thread: a TLS socket of Python 3.11 does not support two."""
    while True:
        waits = isinstance(line, ssl.SSLSocket) and line.pending()
        for one in [line] if waits else select.select([line, behind], [], [])[0]:
            more = one.recv(65_536)
            if not more:
                return
            (behind if one is line else line).sendall(more)


def _error(code: str, text: str) -> bytes:
    fields = f"SFATAL\0C{code}\0M{text}\0\0".encode()
    return b"E" + struct.pack("!I", 4 + len(fields)) + fields


CLIENT_SSL = 0x0800
_BEHIND_VERSION = 4 + 8 + 1
SSL_REQUEST_BYTES = 32


@dataclass(slots=True)
class Middle:
    """What the man in the middle has captured: `port` is his port, `logins` are the packets in which clients log in."""

    port: int = 0
    logins: list[bytes] = field(default_factory=list)


@contextmanager
def between(port: int, own: ssl.SSLContext | None) -> Iterator[Middle]:
    """In front of a server at `port`: with a certificate of his own, or, without one, without TLS.

    He greets as the server does, takes the login, and ends: he wants only the contents of a login.
    """
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

    with listening(serve) as middle.port:
        yield middle


@contextmanager
def mysql_tls_front(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """TLS in front of a server at `port` that has none; returns its own port."""

    def serve(line: socket.socket) -> None:
        with socket.create_connection((HOST, port)) as server:
            line.sendall(_flagged(_packet(server), True))
            _packet(line)  # exactly the request: the client's hello follows it at once
            with context.wrap_socket(line, server_side=True) as safe:
                _mysql_log_in(safe, server)
                exchange(safe, server)

    with listening(serve) as front:
        yield front


def _mysql_log_in(safe: socket.socket, server: socket.socket) -> None:
    """Carry a login, whose packets have numbers: the server does not see the request for TLS."""
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
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port that serves each connection in a separate thread; a lost connection ends its thread."""

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
    at = greeting.index(b"\0", 5) + 1 + _BEHIND_VERSION
    (capabilities,) = struct.unpack_from("<H", greeting, at)
    capabilities = capabilities | CLIENT_SSL if tls else capabilities & ~CLIENT_SSL
    return greeting[:at] + struct.pack("<H", capabilities) + greeting[at + 2 :]


def _packet(line: socket.socket) -> bytes:
    head = exactly(line, 4)
    return head + exactly(line, int.from_bytes(head[:3], "little"))
