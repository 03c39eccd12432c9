"""Metrics and the state of all jobs over HTTP: on loopback, and on a Unix socket with mode 0600. Read-only.

Any user of this host can read a loopback port, so it serves metrics only: names, states and numbers. The socket also
serves the jobs with their error texts. A request with another host's name in its Host header is rejected, because a
web page could otherwise read the port in a user's browser (DNS rebinding).
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, ClassVar

from slotkeeper.core import ownership
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError

LOOPBACK = "127.0.0.1"
OPEN_METRICS = "application/openmetrics-text"
TYPES = {"/metrics": f"{OPEN_METRICS}; version=1.0.0; charset=utf-8", "/jobs": "application/json"}
OLDER = "text/plain; version=0.0.4; charset=utf-8"
"""The type of the metrics for a reader that does not accept OpenMetrics; the text is valid in both formats."""
SAME_SECONDS = 2.0
"""Seconds for which an answer is repeated, so that frequent requests cost no more than rare ones."""
_MOST, _TIMEOUT = 8, 5.0
_HOSTS = ("", "localhost", LOOPBACK)
Texts = Mapping[str, Callable[[], str]]
"""The content of each path; a call raises SlotkeeperError if it cannot be read."""


@dataclass
class _Repeated:
    """A content that is read at most every `SAME_SECONDS`."""

    read: Callable[[], str]
    lock: Lock = field(default_factory=Lock)
    text: str = ""
    at: float = float("-inf")

    def __call__(self) -> str:
        with self.lock:
            if time.monotonic() - self.at >= SAME_SECONDS:
                self.text, self.at = self.read(), time.monotonic()
            return self.text


class _Answer(BaseHTTPRequestHandler):
    """Answers GET and HEAD; every other method gets 501."""

    timeout = _TIMEOUT
    texts: ClassVar[Texts] = {}

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        read = self.texts.get(self.path)
        if host not in _HOSTS:
            self.send_error(421)
        elif read is None:
            self.send_error(404)
        else:
            try:
                body = read().encode()
            except SlotkeeperError:  # `slotkeeper status` reports the reason
                self.send_error(503)
                return
            older = self.path == "/metrics" and OPEN_METRICS not in self.headers.get("Accept", "")
            self.send_response(200)
            self.send_header("Content-Type", OLDER if older else TYPES[self.path])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Endpoint(ThreadingHTTPServer):
    """A server of read-only texts on loopback; a port of 0 takes any free port. At most 8 requests run at a time."""

    daemon_threads = True
    address_family = socket.AF_INET

    def __init__(self, address: Any, texts: Texts) -> None:
        self._places = BoundedSemaphore(_MOST)
        kept = {path: _Repeated(read) for path, read in texts.items()}
        super().__init__(address, type("_Its", (_Answer,), {"texts": kept}))

    def server_bind(self) -> None:
        """Bind without looking up the host's name, as http.server would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects or is too slow."""


class SocketEndpoint(Endpoint):
    """An `Endpoint` on a Unix socket."""

    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        before = os.umask(0o177)  # the socket never exists with another mode; connect(2) needs write permission
        try:
            self.socket.bind(self.server_address)
        finally:
            os.umask(before)

    def server_close(self) -> None:
        super().server_close()
        with suppress(OSError):
            Path(str(self.server_address)).unlink()


def on_port(port: int, texts: Texts) -> Endpoint:
    """Return the server of the metrics on loopback. Raises Refused if the port is in use."""
    try:
        return Endpoint((LOOPBACK, port), {"/metrics": texts["/metrics"]})
    except OSError as error:
        raise Refused(f"{LOOPBACK}:{port} cannot be served: {error.strerror}", "choose another --port") from error


def on_socket(path: Path, texts: Texts) -> SocketEndpoint:
    """Return the server of all texts on a Unix socket, and replace a socket that no process serves.

    Raises Refused if another process serves it, if the path is not a socket, or if other users can write its folder.
    """
    try:
        folder = ownership.follow(path.absolute().parent)
        ownership.refuse(folder, f"the folder of {path}")
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise ConfigError(f"{path} exists and is not a socket", "choose another --socket")
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise Refused(f"another process serves {path}", "choose another --socket")
            path.unlink()
        return SocketEndpoint(str(path), texts)
    except OSError as error:  # includes a path that is too long (unix(7): 107 bytes)
        raise Refused(f"{path} cannot be served: {error.strerror or error}", "choose another --socket") from error
