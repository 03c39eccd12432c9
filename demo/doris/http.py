"""An HTTP server on the loopback interface for one part of the stand-in: routing, Basic auth, responses, lost
connections.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slotkeeper.demo.doris.faults import Faults

LOOPBACK = "127.0.0.1"
STANDIN = "slotkeeper-standin (not Apache Doris)"
"""The `Server` header of every response."""


@dataclass
class Request:
    """A request whose body has not been read."""

    method: str
    parts: list[str]
    query: dict[str, str]
    headers: Mapping[str, str]
    handler: Exchange

    @property
    def user(self) -> str | None:
        """`user:password` of Basic auth; None if the request has none."""
        kind, _, given = self.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            return None
        return base64.b64decode(given).decode()


class Exchange(BaseHTTPRequestHandler):
    """One connection; the server's `respond` sends the answers."""

    protocol_version = "HTTP/1.1"
    server: Server

    def version_string(self) -> str:
        return STANDIN

    def handle_expect_100(self) -> bool:
        return True  # the code that reads the body sends 100 Continue

    def go_on(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends its body."""
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_GET(self) -> None:
        self._answer("GET")

    def _answer(self, method: str) -> None:
        where = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(where.query).items()}
        headers = {name.lower(): _utf8(value) for name, value in self.headers.items()}
        self.close_connection = True
        parts = [one for one in where.path.split("/") if one]
        self.server.respond(Request(method, parts, query, headers, self))

    def send_json(self, answer: Mapping[str, Any], status: int = 200) -> None:
        self.send_text(json.dumps(answer, indent=4) + "\n", "application/json", status)

    def send_text(self, text: str, kind: str = "text/html", status: int = 200, **headers: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def trickle(self, ended: threading.Event) -> None:
        """Send a response that never ends, one byte at a time."""
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        while not ended.wait(0.05):
            try:
                self.wfile.write(b" ")
            except OSError:
                return

    def break_off(self) -> None:
        """Close the connection without a response."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a request can contain a password."""


def _utf8(value: str) -> str:
    """Decode a header's value: the BE sends its bytes to the FE, which reads them as UTF-8
    (doris-flink-connector, PR 623).
    """
    return value.encode("latin-1").decode("utf-8", "replace")


class Server(ThreadingHTTPServer):
    """An HTTP server for one part of the stand-in; `respond` answers requests."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, respond: Callable[[Request], None], faults: Faults, tls: ssl.SSLContext | None = None) -> None:
        super().__init__((LOOPBACK, 0), Exchange)
        if tls is not None:  # the connection's thread performs the handshake at the first byte
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.respond = respond
        self.faults = faults
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has disconnected."""

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
