"""Requests to FE and BE: each on a line of its own, under one deadline, with a password for named hosts only.

`http.client` and no client above it: FE must be asked with `Expect: 100-continue` and without a body, its 307 carries
the password in its URL, and a BE that refuses before the body has come must be heard before it is sent; none of the
common clients waits for the 100, and all follow redirects (ADR 41). Next door: `sink.py` asks.
"""

from __future__ import annotations

import base64
import http.client
import json
import select
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlsplit

from core.domain.endpoint import Login
from core.drivers import deadline
from core.errors import Refused, SlotkeeperError, Unreachable

GO_ON_SECONDS = 2.0
"""How long a server is waited for before the body is sent all the same (RFC 9110, 10.1.1)."""
ANSWER_BYTES = 1 << 20
"""Of an answer, at most."""
_PIECE = 1 << 16
_GO_ON = b"HTTP/1.1 100"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, whole."""

    status: int
    data: bytes
    location: str = ""

    @property
    def json(self) -> dict[str, Any] | None:
        """Its object; None where it is none."""
        try:
            found = json.loads(self.data)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


@dataclass(slots=True)
class DorisHttp:
    """Requests of one session, one at a time; `sever` cuts the one under way off, from any thread."""

    login: Login
    _line: http.client.HTTPConnection | None = None
    _severed: bool = False

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        seconds: float,
        body: IO[bytes] | None = None,
        size: int = 0,
    ) -> HttpAnswer:
        """The answer of the BE to which FE sends a request, or FE's own; Unreachable where it is not known."""
        endpoint = self.login.endpoint
        asked = {**headers, "Expect": "100-continue"} if method == "PUT" else headers
        first = self._exchange(endpoint.host, endpoint.http_port, method, path, asked, seconds, None, 0)
        if first.status != 307:
            return first
        host, port = self._named(first.location)
        return self._exchange(host, port, method, path, asked, seconds, body, size)

    def page(self, url: str, seconds: float) -> str:
        """What a page of a BE says, at most ANSWER_BYTES; "" where it cannot be had."""
        where = urlsplit(url)
        try:
            host, port = self._named(url)
            path = f"{where.path}?{where.query}"
            found = self._exchange(host, port, "GET", path, {}, seconds, None, 0)
        except SlotkeeperError:
            return ""
        return found.data.decode("utf-8", "replace") if found.status == 200 else ""

    def _named(self, url: str) -> tuple[str, int]:
        """The host and port of a URL, without the password in it; Refused where nobody named the host."""
        where = urlsplit(url)
        host, port = where.hostname or "", where.port or 8040
        endpoint = self.login.endpoint
        if host not in (endpoint.host, *endpoint.backends):
            what = f"the FE {endpoint.host} sends loads to the BE {host}, which the configuration does not name"
            hint = f'add "{host}" to backends of [sinks.{endpoint.name}]: the password goes there'
            raise Refused(what, hint, where="sink")
        return host, port

    def _exchange(
        self,
        host: str,
        port: int,
        method: str,
        path: str,
        headers: Mapping[str, str],
        seconds: float,
        body: IO[bytes] | None,
        size: int,
    ) -> HttpAnswer:
        """One request on a line of its own, ended by our own deadline, however slowly an answer comes."""
        line = http.client.HTTPConnection(host, port, timeout=self.login.endpoint.connect_timeout_ms / 1000)
        try:
            with closing(line):
                line.connect()
                line.sock.settimeout(None)  # the deadline below ends what blocks, and Ctrl-C
                self._line = line
                with deadline.limited(line.sock.fileno(), seconds) as call:
                    if self._severed:
                        raise ConnectionAbortedError
                    try:
                        return self._through(line, method, path, headers, body, size)
                    except (OSError, http.client.HTTPException) as error:
                        if call.cut is None:
                            raise
                        late = Unreachable(f"{host}:{port} did not answer within {seconds:g} s", where="sink")
                        raise late.after_limit() from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"{host}:{port}: {type(error).__name__} on {method}", where="sink") from error
        finally:
            self._line = None

    def _through(
        self,
        line: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: IO[bytes] | None,
        size: int,
    ) -> HttpAnswer:
        endpoint = self.login.endpoint
        basic = base64.b64encode(f"{endpoint.user}:{self.login.password}".encode()).decode()
        line.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {**headers, "Authorization": f"Basic {basic}"}.items():
            line.putheader(name, value)
        if method == "PUT":
            line.putheader("Content-Length", str(size))
        line.endheaders()
        if body is not None and goes_on(line.sock):
            body.seek(0)
            try:
                while piece := body.read(_PIECE):
                    line.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered before all was sent: what it says is read below
        answer = line.getresponse()
        data = answer.read(ANSWER_BYTES)
        if answer.length and len(data) < ANSWER_BYTES:
            raise http.client.IncompleteRead(data, answer.length)
        return HttpAnswer(answer.status, data, answer.getheader("Location", ""))

    def sever(self) -> None:
        """Cut the request under way off, and every later one."""
        self._severed = True
        line = self._line
        if line is not None and line.sock is not None:
            try:
                line.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def goes_on(line: socket.socket) -> bool:
    """Whether the body is to be sent: not where the server has said something else than 100 already."""
    waiting = select.poll()
    waiting.register(line, select.POLLIN)
    if not waiting.poll(GO_ON_SECONDS * 1000):
        return True
    return line.recv(len(_GO_ON), socket.MSG_PEEK | socket.MSG_WAITALL) == _GO_ON
