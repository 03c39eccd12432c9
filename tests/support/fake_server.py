"""A server on loopback that speaks enough of PostgreSQL's protocol to misbehave: silent, endless, or no server.

Each mode is one failure of a server (`Mode`). It runs in its own threads and never ends by itself. Protocol: PostgreSQL
documentation, "Message Formats" (https://www.postgresql.org/docs/current/protocol-message-formats.html).
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum

from slotkeeper.core.domain.endpoint import Endpoint
from tests.support.tls_lines import exactly

TRICKLE_SECONDS = 0.5
_STARTUP, _CANCEL, _TLS, _GSS = 196_608, 80_877_102, 80_877_103, 80_877_104
_SETTINGS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
}


class Mode(Enum):
    """The misbehaviour of the server; before it, the server is correct."""

    MUTE = "accepts, and never sends a byte"
    HANG_AT_LOGIN = "reads the startup, and never answers it"
    HANG = "logs in, answers as many statements as it was told to, then none"
    TRICKLE = "then sends a row every half second, for ever"
    FLOOD = "then sends rows as fast as they are taken, for ever"
    GARBAGE = "answers the startup with bytes of no protocol"
    NO_TLS = "refuses TLS, and logs in without"
    TLS_HANG = "says yes to TLS, and then nothing"
    CLEARTEXT = "asks for the password in clear, and refuses it"
    ECHO = "refuses the login with what it was sent, the password too"
    NOTICE_AT_LOGIN = "logs in with a notice that clears the terminal"
    FLOOD_AT_LOGIN = "takes the login, and tells settings as fast as they are taken, for ever"
    NOTIFY = "then sends notifications as fast as they are taken, for ever"
    HUGE_ROW = "sends one row of a COPY that never ends, as fast as it is taken"
    ECHO_LATER = "logs in, and answers statements with an error that holds the password, which it was told otherwise"


class FakeServer:
    """A server in one mode; `port` is its port, `received` the bytes of clients, `closed` is set once a client has
    gone.
    """

    def __init__(self, mode: Mode, answered: int = 0, columns: Sequence[str] = ("a",), password: str = "") -> None:
        """This number of statements (`answered`) get an empty answer before the mode starts, whatever they ask."""
        self.mode = mode
        self.received = bytearray()
        self.statements: list[str] = []
        self.asked, self.cancelled, self.closed = threading.Event(), threading.Event(), threading.Event()
        """Set at the first statement without an answer (or login without one), a request to cancel, a lost client."""
        self.answered = answered
        self._columns = columns
        self._password = password.encode()
        self._ended = threading.Event()
        self._clients: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="fake-server", daemon=True).start()

    @property
    def sslmode(self) -> str:
        """Disabled, unless the mode tests TLS."""
        return "require" if self.mode in (Mode.TLS_HANG, Mode.NO_TLS) else "disable"

    def endpoint(self, name: str = "dws1", connect_timeout_ms: int = 2_000) -> Endpoint:
        plain = {"sslmode": self.sslmode, "connect_timeout_ms": connect_timeout_ms}
        return Endpoint(name, "127.0.0.1", self.port, "gaussdb", "etl", **plain)  # type: ignore[arg-type]

    def close(self) -> None:
        self._ended.set()
        for one in (self._socket, *self._clients):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), name="fake-server-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError, ValueError):  # a closed socket has no descriptor to wait for
            if self.mode is Mode.MUTE:
                self.asked.set()
            elif self._logged_in(client):
                self._talk(client)
            # nothing more is read: further bytes of the client remain in the connection
            gone = select.poll()
            gone.register(client, select.POLLRDHUP)
            gone.poll()
        self.closed.set()

    def _logged_in(self, client: socket.socket) -> bool:
        code, body = self._startup(client)
        while code in (_TLS, _GSS):
            if code == _TLS and self.mode is Mode.TLS_HANG:
                client.sendall(b"S")
                self.asked.set()
                return False
            client.sendall(b"N")
            code, body = self._startup(client)
        if code == _CANCEL:
            self.cancelled.set()  # the connection stays open: a client that waited for its end would never return
            return False
        if self.mode is Mode.HANG_AT_LOGIN:
            self.asked.set()
            return False
        if self.mode is Mode.GARBAGE:
            client.sendall(bytes(range(255, 0, -1)) * 40)
            return False
        if self.mode is Mode.FLOOD_AT_LOGIN:
            client.sendall(_message(b"R", struct.pack("!i", 0)))
            self._settings(client)
            return False
        if self.mode in (Mode.CLEARTEXT, Mode.ECHO):
            client.sendall(_message(b"R", struct.pack("!i", 3)))
            _, password = self._message(client)
            sent = body + password if self.mode is Mode.ECHO else b"password authentication failed"
            shown = sent.replace(b"\0", b" ")
            client.sendall(_message(b"E", b"SFATAL\0C28P01\0M" + shown + b"\0\0"))
            client.shutdown(socket.SHUT_RDWR)
            return False
        settings = b"".join(_message(b"S", f"{name}\0{value}\0".encode()) for name, value in _SETTINGS.items())
        key = _message(b"K", struct.pack("!ii", 4711, 42))
        notice = _message(b"N", b"SNOTICE\0C00000\0M\x1b[2J\0\0") if self.mode is Mode.NOTICE_AT_LOGIN else b""
        client.sendall(_message(b"R", struct.pack("!i", 0)) + notice + settings + key + _READY)
        return True

    def _talk(self, client: socket.socket) -> None:
        while True:
            kind, body = self._message(client)
            if kind == b"X":
                return
            if kind == b"Q" and not self._answer(client, body.rstrip(b"\0").decode(errors="replace")):
                return

    def _answer(self, client: socket.socket, statement: str) -> bool:
        if statement == "SELECT pg_catalog.pg_backend_pid()":  # also in the login: there is no pooler in between
            return self._tell_pid(client)
        setting = statement.startswith("SET ")  # for the login: a session is set up before its first query
        if not setting:
            self.statements.append(statement)
        if setting or self.mode is Mode.NO_TLS or len(self.statements) <= self.answered:
            client.sendall(_message(b"C", b"SET\0") + _READY)
            return True
        if self.mode is Mode.ECHO_LATER:
            client.sendall(_message(b"E", b"SERROR\0CXX000\0Mno: " + self._password + b"\0\0") + _READY)
            return True
        if "FROM STDIN" in statement:
            client.sendall(_message(b"G", b"\0" + struct.pack("!h", 0)))
        self.asked.set()
        if self.mode in (Mode.TRICKLE, Mode.FLOOD):
            self._rows(client)
        if self.mode is Mode.HUGE_ROW:
            self._huge_row(client)
        while self.mode is Mode.NOTIFY and not self._ended.is_set():
            client.sendall(_message(b"A", struct.pack("!i", 4711) + b"c\0" + b"x" * 100_000 + b"\0"))
        return False

    def _tell_pid(self, client: socket.socket) -> bool:
        fields = _message(b"T", struct.pack("!h", 1) + b"pid\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 0))
        row = _message(b"D", struct.pack("!h", 1) + struct.pack("!i", 4) + b"4711")
        client.sendall(fields + row + _message(b"C", b"SELECT 1\0") + _READY)
        return True

    def _rows(self, client: socket.socket) -> None:
        fields = b"".join(name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0) for name in self._columns)
        client.sendall(_message(b"T", struct.pack("!h", len(self._columns)) + fields))
        value = b"x" * (1 if self.mode is Mode.TRICKLE else 8_000)
        row = _message(b"D", struct.pack("!h", len(self._columns)) + struct.pack("!i", len(value)) + value)
        while not self._ended.wait(TRICKLE_SECONDS if self.mode is Mode.TRICKLE else 0.001):
            client.sendall(row)

    def _huge_row(self, client: socket.socket) -> None:
        client.sendall(_message(b"H", b"\0" + struct.pack("!h", 0)) + b"d" + struct.pack("!i", 1_500_000_000))
        while not self._ended.is_set():
            client.sendall(b"x" * 1_000_000)

    def _settings(self, client: socket.socket) -> None:
        number = 0
        while not self._ended.is_set():
            number += 50
            client.sendall(
                b"".join(_message(b"S", b"s%d\0%s\0" % (n, b"v" * 1_000)) for n in range(number, number + 50))
            )

    def _startup(self, client: socket.socket) -> tuple[int, bytes]:
        body = self._exactly(client, struct.unpack("!i", self._exactly(client, 4))[0] - 4)
        return int(struct.unpack("!i", body[:4])[0]), body[4:]

    def _message(self, client: socket.socket) -> tuple[bytes, bytes]:
        kind = self._exactly(client, 1)
        return kind, self._exactly(client, struct.unpack("!i", self._exactly(client, 4))[0] - 4)

    def _exactly(self, client: socket.socket, size: int) -> bytes:
        found = exactly(client, size)
        self.received += found
        return found


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


_READY = _message(b"Z", b"I")


@contextmanager
def fake_server(mode: Mode, answered: int = 0, password: str = "") -> Iterator[FakeServer]:
    server = FakeServer(mode, answered, password=password)
    try:
        yield server
    finally:
        server.close()
