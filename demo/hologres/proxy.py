"""The proxy of the stand-in: forwards a client's statements to the real server, routed as Hologres routes them.

It handles only the message boundaries of the protocol: logins, answers and errors are the real server's. The real
server also checks a login for replication; the stream itself is the stand-in's own. The proxy listens only on the
loopback interface.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

from slotkeeper.core.drivers import pg
from slotkeeper.demo.hologres import wire
from slotkeeper.demo.hologres.faults import Fault, Faults
from slotkeeper.demo.hologres.rewrite import routed
from slotkeeper.demo.hologres.walsender import WalSender

HOST = "127.0.0.1"
_REPLICATION = ("database", "true", "on", "yes", "1")
"""PostgreSQL, "Streaming Replication Protocol": the login parameter of a streaming connection."""
_PAGE = re.compile(r"\bhg_binlog_event_type\b.*\bLIMIT\b", re.DOTALL)
_SHARD = re.compile(r"\bhg_shard_id = (\d+)|hg_get_binlog_cursor\w*\([^)]*, (\d+)\)")


class Proxy:
    """A listening proxy; `port` is its port, `close` stops it and closes all its connections.

    `connect` opens one of the stand-in's own sessions, through which streams are read.
    """

    def __init__(
        self, target: Callable[[], tuple[str, int]], connect: Callable[[], pg.Connection], faults: Faults
    ) -> None:
        self._target = target
        self._connect = connect
        self._faults = faults
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        self._lines: set[_Line] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True, name="hologres-proxy").start()

    def close(self) -> None:
        """Stop the proxy; safe to call twice."""
        self._faults.ended.set()
        # close() alone does not wake a thread that accepts connections
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target(), 10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            line = _Line(client, server, self._connect, self._faults)
            with self._lock:
                self._lines.add(line)
            for work in (line.forth, line.back):
                threading.Thread(target=self._run, args=(line, work), daemon=True).start()

    def _run(self, line: _Line, work: Callable[[], None]) -> None:
        try:
            with suppress(OSError, EOFError):
                work()
        finally:
            line.cut()
            with self._lock:
                self._lines.discard(line)


class _Line:
    """One client's connection to the server."""

    def __init__(
        self, client: socket.socket, server: socket.socket, connect: Callable[[], pg.Connection], faults: Faults
    ) -> None:
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client = client
        self._server = server
        self._connect = connect
        self._faults = faults
        self._sender: WalSender | None = None
        self._logged_in = threading.Event()
        self._watched = False
        """Whether the current answer is a page that a fault can affect; if so, the proxy inspects it."""

    def cut(self) -> None:
        """Close both sides."""
        for one in (self._client, self._server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def forth(self) -> None:
        """Forward the client's messages: a login, which has no type byte, then messages with one."""
        code = 0
        while code != wire.STARTUP:
            head = wire.exactly(self._client, 8)
            size, code = struct.unpack("!ii", head)
            body = wire.exactly(self._client, size - 8)
            if code in wire.ENCRYPTION:
                self._client.sendall(b"N")  # loopback only: the real server has no encryption either
                continue
            self._server.sendall(self._login(body) if code == wire.STARTUP else head + body)
        while True:
            letter, body = wire.message(self._client)
            if letter == b"Q" and self._sender is not None:
                if not self._logged_in.is_set():
                    raise EOFError  # the stand-in serves streams itself: the real server would not reject this one
                self._sender.serve(body[:-1].decode())
                continue
            if letter == b"Q":
                body = self._routed(body[:-1]) + b"\0"
            elif letter == b"P":
                name, statement, rest = body.split(b"\0", 2)
                body = b"\0".join((name, self._routed(statement), rest))
            self._server.sendall(wire.framed(letter, body))

    def _login(self, body: bytes) -> bytes:
        """Return a login for the real server to check. It lacks the replication parameter, because the server itself
        streams nothing.
        """
        parameters = wire.startup(body)
        if parameters.pop("replication", "") in _REPLICATION:
            self._sender = WalSender(self._client, parameters["user"], self._connect, self._faults)
        return wire.login(parameters)

    def _routed(self, statement: bytes) -> bytes:
        if b"hg_" not in statement and not statement.startswith(b"DROP TABLE"):
            return statement
        text = statement.decode()
        found = _SHARD.search(text)
        if found:
            self._faults.wait(int(found[1] or found[2]))
        page = bool(_PAGE.search(text))
        self._faults.pages += page
        # the server is not sending an answer when a client sends a statement: the next answer starts with a message
        self._watched = page and self._faults.armed()
        return routed(text).encode()

    def back(self) -> None:
        """Forward the server's answers: unchanged, except for a page that has a fault."""
        while not self._logged_in.is_set():
            letter, body = wire.message(self._server)
            if letter == wire.READY[:1]:
                self._logged_in.set()  # before the client is notified: it can send a statement at once
            self._client.sendall(wire.framed(letter, body))
        while True:
            some = self._server.recv(wire.BLOCK)
            if not some:
                return
            if self._watched:
                self._page(some)
                self._watched = False
            else:
                self._client.sendall(some)

    def _page(self, begun: bytes) -> None:
        """Forward one whole answer, up to the message ReadyForQuery."""
        rows: list[bytes] = []
        before, behind = b"", b""
        source = _PageSoFar(begun, self._server)
        while True:
            head = source.exactly(5)
            message = head + source.exactly(struct.unpack("!i", head[1:])[0] - 4)
            if message[:1] == b"D":
                rows.append(message)
            elif rows:
                behind += message
            else:
                before += message
            if message[:1] == b"Z":
                break
        fault = self._faults.take(Fault) if rows else None
        page = b"".join(rows)
        if fault is Fault.DROP:
            self._client.sendall(before + page[: max(1, len(page) // 2)])
            raise EOFError
        times = {Fault.TWICE: 2, Fault.EMPTY: 0}.get(fault, 1) if fault else 1
        self._client.sendall(before + page * times + behind)


class _PageSoFar:
    """A page of which some bytes have already arrived."""

    def __init__(self, begun: bytes, rest: socket.socket) -> None:
        self._begun = begun
        self._rest = rest

    def exactly(self, size: int) -> bytes:
        """Return exactly the requested bytes."""
        while len(self._begun) < size:
            some = self._rest.recv(wire.BLOCK)
            if not some:
                raise EOFError
            self._begun += some
        found, self._begun = self._begun[:size], self._begun[size:]
        return found
