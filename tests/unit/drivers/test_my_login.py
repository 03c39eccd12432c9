"""A hostile server of MySQL's protocol gets nothing: no password, no file, and no unbounded time or memory.

The server is a fake on loopback, in its own threads; each mode is one kind of attack (`Asks`). Protocol: MySQL,
"Connection Phase" and "COM_QUERY Response".
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, Login
from slotkeeper.core.drivers import my
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import AccessRefused, SlotkeeperError
from slotkeeper.core.sources.mysql.session import MysqlSession

_CAPABILITIES = 0x00000001 | 0x00000200 | 0x00002000 | 0x00008000 | 0x00080000 | 0x00200000
"""Long password, protocol 4.1, transactions, secure connection, plugins, plugin data with length."""
_SALT = b"12345678abcdefghijkl"
_OK = b"\0\0\0\2\0\0\0"
PUBLIC_KEY = b"""-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC7vbqajDw4o6gJy8UtmIbkcpnk
O3Kwc4qsEnSZp/TR+fQi62F79RHWmwKOtFmwteURgLbj7D/WGuNLGOfa/2vse3G2
eHnHl5CB8ruRX9fBl/KgwCVr2JaEuUm66bBQeP5XeBotdR4cvX38uPYivCDdPjJ1
QWPdspTBKcxeFbccDwIDAQAB
-----END PUBLIC KEY-----
"""


class Asks(Enum):
    """The server's attack; until then it behaves correctly."""

    CLEAR = "the password in clear"
    DIALOG = "the password, by a question"
    OLD = "the password by the hash of before 4.1"
    KEY = "the password encrypted for a key that it names, as a cache that has it not"
    KEY_AT_ONCE = "the same, from the greeting on"
    FILE = "logs in, and asks for a file at any statement"
    GARBAGE = "logs in, and answers a statement with bytes of no protocol"
    CLOSED_TLS = "offers TLS, and closes the line in the middle of it"
    TRICKLE = "greets, a byte at a time, for ever"
    FLOOD = "refuses the login with a message that never ends"
    ROWS = "logs in, and answers a statement with rows for ever, as fast as they are taken"
    WRONG = "refuses the login: the password is wrong"
    ECHO = "refuses the login with the password, which it was told otherwise"


class FakeMysql:
    """A server in one mode, on `port`; `received` is the clients' data after the first packet of the login."""

    def __init__(self, asks: Asks, password: str = "") -> None:
        self.asks = asks
        self.received = bytearray()
        self.logins = 0
        """The number of clients that have sent the first packet of a login."""
        self._password = password
        self._ended = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, name="fake-mysql", daemon=True).start()

    def endpoint(self, name: str = "my1", sslmode: str = "disable", connect_timeout_ms: int = 2_000) -> Endpoint:
        return Endpoint(name, "127.0.0.1", self.port, "", "etl", sslmode=sslmode, connect_timeout_ms=connect_timeout_ms)

    def close(self) -> None:
        self._ended.set()
        self._socket.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="fake-mysql-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            if self.asks is Asks.TRICKLE:
                client.sendall(b"\xff\xff\xff\0")
                while not self._ended.wait(0.02):
                    client.sendall(b"\x0a")
                return
            client.sendall(_packet(0, self._greeting()))
            if _read(client):
                self.logins += 1
                self._login(client)

    def _greeting(self) -> bytes:
        plugin = {Asks.KEY: b"caching_sha2_password", Asks.KEY_AT_ONCE: b"sha256_password"}
        offered = _CAPABILITIES | (0x0800 if self.asks is Asks.CLOSED_TLS else 0)
        low, high = struct.pack("<I", offered)[:2], struct.pack("<I", offered)[2:]
        head = b"\x0a8.4.0\0" + struct.pack("<I", 1) + _SALT[:8] + b"\0" + low + b"\x2d\2\0" + high
        method = plugin.get(self.asks, b"mysql_native_password")
        return head + bytes([len(_SALT) + 1]) + bytes(10) + _SALT[8:] + b"\0" + method + b"\0"

    def _login(self, client: socket.socket) -> None:
        """From the client's first packet on, which has number 1."""
        switched = {Asks.CLEAR: b"mysql_clear_password\0", Asks.OLD: b"mysql_old_password\0" + _SALT[:8] + b"\0"}
        switched[Asks.DIALOG] = b"dialog\0\1Password: "
        if self.asks in switched:
            client.sendall(_packet(2, b"\xfe" + switched[self.asks]))
            self._listen(client)
        elif self.asks is Asks.KEY:
            client.sendall(_packet(2, b"\1\4"))
            if _read(client) == b"\2":  # a request for the public key, which reveals nothing
                client.sendall(_packet(4, b"\1" + PUBLIC_KEY))
            self._listen(client)
        elif self.asks is Asks.KEY_AT_ONCE:
            client.sendall(_packet(2, b"\1" + PUBLIC_KEY))
            self._listen(client)
        elif self.asks is Asks.FLOOD:
            number = 2
            while not self._ended.is_set():  # each packet declares that another one continues it
                client.sendall(_packet(number, b"\xff" * 0xFFFFFF))
                number = (number + 1) % 256
        elif self.asks in (Asks.ECHO, Asks.WRONG):
            wrong = "Access denied for user 'etl'@'localhost' (using password: YES)"
            said = wrong if self.asks is Asks.WRONG else f"no such password: {self._password}"
            client.sendall(_packet(2, b"\xff\x15\x04#28000" + said.encode()))
        else:
            client.sendall(_packet(2, _OK))
            while statement := _read(client):
                self._answer(client, statement)

    def _answer(self, client: socket.socket, statement: bytes) -> None:
        if statement[1:4].upper() == b"SET":
            client.sendall(_packet(1, _OK))
        elif self.asks is Asks.FILE:
            client.sendall(_packet(1, b"\xfb/etc/passwd"))
            self._listen(client)
        elif self.asks is Asks.GARBAGE:
            client.sendall(_packet(1, b"\xfc\x01") + _packet(2, b"\xfd"))
        elif self.asks is Asks.ROWS:
            column = b"\3def\0\0\0\1a\1a\x0c\x2d\0" + struct.pack("<I", 255) + b"\xfd\0\0\0\0\0"
            client.sendall(_packet(1, b"\1") + _packet(2, column) + _packet(3, b"\xfe\0\0\2\0"))
            row = b"\xfd" + struct.pack("<I", 1 << 20)[:3] + bytes(1 << 20)
            number = 4
            while not self._ended.is_set():
                client.sendall(_packet(number, row))
                number = (number + 1) % 256
        else:
            client.sendall(_packet(1, _OK))

    def _listen(self, client: socket.socket) -> None:
        while piece := client.recv(65_536):
            self.received += piece


def _packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


def _read(client: socket.socket) -> bytes:
    """A packet's body; b"" after the client has disconnected."""
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    return client.recv(int.from_bytes(head[:3], "little"), socket.MSG_WAITALL)


@contextmanager
def fake_mysql(asks: Asks, password: str = "") -> Iterator[FakeMysql]:
    server = FakeMysql(asks, password)
    try:
        yield server
    finally:
        server.close()


SECRET = "canary-4711"
SECONDS = 5.0
Ask = Callable[[Login], object]


def as_source(login: Login) -> object:
    with closing(MysqlSession(login)) as session:
        return session.rows("SELECT 1")


def as_sink(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 5.0)) as queries:
        return queries.rows("SELECT 1")


def as_stream_of_rows(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 5.0)) as queries:
        return list(queries.streamed("SELECT 1"))


def as_part_of_an_answer(login: Login) -> object:
    with closing(MysqlSession(login)) as session:
        return next(session.read("SELECT 1", (), SECONDS))


def as_part_of_a_stream(login: Login) -> object:
    with closing(MysqlQueries(login, "sink", 600.0)) as queries:
        return next(queries.streamed("SELECT 1"))


BOTH = pytest.mark.parametrize("ask", [as_source, as_sink])


@pytest.mark.parametrize("asks", [Asks.CLEAR, Asks.DIALOG, Asks.OLD, Asks.KEY, Asks.KEY_AT_ONCE])
@BOTH
def test_the_password_is_not_sent_on_an_open_line_however_it_is_asked_for(asks: Asks, ask: Ask) -> None:
    with fake_mysql(asks) as server:
        with pytest.raises(AccessRefused, match="requires TLS"):
            ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
        assert not server.received


@BOTH
def test_no_file_of_this_machine_is_sent(ask: Ask) -> None:
    with fake_mysql(Asks.FILE) as server:
        with pytest.raises(SlotkeeperError, match="requested a local file") as refused:
            ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
        assert "passwd" not in str(refused.value)
        assert not server.received


@pytest.mark.parametrize("ask", [as_source, as_sink, as_stream_of_rows])
def test_bytes_of_no_protocol_cause_one_named_error(ask: Ask) -> None:
    with (
        fake_mysql(Asks.GARBAGE) as server,
        pytest.raises(SlotkeeperError, match="not in the MySQL protocol"),
    ):
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_a_greeting_that_comes_byte_by_byte_ends_at_the_limit_of_a_login(ask: Ask) -> None:
    with fake_mysql(Asks.TRICKLE) as server, pytest.raises(SlotkeeperError, match="does not answer within 2 s"):
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_a_login_that_is_answered_without_end_is_cut(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(my, "LOGIN_BYTES", 1 << 20)
    with fake_mysql(Asks.FLOOD) as server, pytest.raises(SlotkeeperError, match="sent more than 1 MiB"):
        ask(Login(server.endpoint(connect_timeout_ms=60_000), SECRET, "slotkeeper/test"))


def test_an_answer_that_is_more_than_is_held_of_one_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.drivers.mysql_queries.ANSWER_BYTES", 4 << 20)
    with fake_mysql(Asks.ROWS) as server, pytest.raises(SlotkeeperError, match="sent more than 4 MiB"):
        as_sink(Login(server.endpoint(), SECRET, "slotkeeper/test"))


def test_large_rows_are_read_a_few_at_a_time() -> None:
    with fake_mysql(Asks.ROWS) as server:
        session = my.connect(server.endpoint(), SECRET, "slotkeeper/test", SECONDS)
        rows = next(session.read("SELECT 1"))
        session.close()
    assert 1 < sum(len(row[0]) for row in rows) >> 20 <= (my.LOT_BYTES >> 20) + 1


@pytest.mark.parametrize("ask", [as_part_of_an_answer, as_part_of_a_stream])
def test_an_answer_that_is_left_is_not_read_to_its_end(ask: Ask) -> None:
    """The answer has no end: a client that continued to read would never return."""
    with fake_mysql(Asks.ROWS) as server:
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))


@BOTH
def test_a_servers_error_about_the_password_is_reported_without_it(ask: Ask) -> None:
    with fake_mysql(Asks.ECHO, SECRET) as server, pytest.raises(SlotkeeperError) as refused:
        ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
    assert "no such password" in str(refused.value) and SECRET not in repr(refused.value)


@BOTH
def test_a_wrong_password_is_tried_twice_however_many_sessions_are_opened(ask: Ask) -> None:
    with fake_mysql(Asks.WRONG) as server:
        said = []
        for _ in range(5):
            with pytest.raises(AccessRefused) as refused:
                ask(Login(server.endpoint(), SECRET, "slotkeeper/test"))
            said.append(str(refused.value))
        assert server.logins == 2 and "so that the account is not locked" in said[-1]


def test_a_server_without_tls_is_not_spoken_to_where_it_is_insisted_on() -> None:
    with fake_mysql(Asks.CLEAR) as server:
        with pytest.raises(AccessRefused) as refused:
            as_source(Login(server.endpoint(sslmode="require"), SECRET, "slotkeeper/test"))
        assert "does not support TLS" in refused.value.hint and not server.received


def test_a_file_of_tls_that_is_none_is_named(tmp_path: Path) -> None:
    endpoint = Endpoint("my1", "127.0.0.1", 1, "", "etl", sslmode="verify-full", sslrootcert=str(tmp_path / "none"))
    with fake_mysql(Asks.CLEAR) as server, pytest.raises(AccessRefused, match="sslrootcert"):
        as_source(Login(replace(endpoint, port=server.port), SECRET, "slotkeeper/test"))
