"""Requests to FE and BE: each on its own connection, with one deadline; passwords are sent to named hosts only.

`http.client` is used directly: FE needs `Expect: 100-continue` and no body, its 307 response has the password in its
URL, and a rejection from a BE must be read before the body is sent. None of the common client libraries waits for the
100 response, and all follow redirects (ADR 41).
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import IO, Any, cast
from urllib.parse import urlsplit

from slotkeeper.core.domain.endpoint import Login, Place, place_of, secret_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import deadline, tls_context
from slotkeeper.core.drivers.login import Refusals, by_newest
from slotkeeper.core.errors import LoginRefused, Refused, SlotkeeperError, Unreachable

GO_ON_SECONDS = 2.0
"""Seconds that the client waits for the server before it sends the body anyway (RFC 9110, 10.1.1). The wait uses
`recv`, not `poll`, because over TLS 1.3 a connection can be readable although only a session ticket has arrived."""
ERRORS = "/api/_load_error_log"
"""The path of an error page (BE, `ERROR_LOG` of stream_load.cpp's ErrorURL)."""
BE_PORT = 8040
"""The default port of a BE for loads (Doris, "BE Configuration": webserver_port)."""
ANSWER_BYTES = 1 << 20
"""Maximum number of bytes read from an answer."""
_PIECE = 1 << 16
_GO_ON = b"HTTP/1.1 100"
_LOGIN = "check user and password"
_refusals = Refusals()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer."""

    status: int
    data: bytes
    location: str = ""

    @property
    def json(self) -> dict[str, Any] | None:
        """The body's JSON object; None for any other value, or if it is nested too deeply."""
        try:
            found = json.loads(self.data)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, which is sent to FE without its body; `seconds` is the deadline of each exchange."""

    method: str
    path: str
    headers: Mapping[str, str]
    seconds: float
    body: IO[bytes] | None = None
    size: int = 0


@dataclass(slots=True)
class DorisHttp:
    """Requests of one session, one at a time; `sever` closes the connection of the running request, from any thread.

    `backends` queries the FE for the hosts and ports of its BEs.
    """

    login: Login
    backends: Callable[[], Collection[Place]] = tuple
    _places: frozenset[Place] = frozenset()
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
        """Return the answer of the BE to which FE redirects, or FE's own answer; raises Unreachable if neither answers.

        Raises LoginRefused if FE rejects the newest password; a password rejected twice is not sent again for hours.
        """
        if method == "PUT":
            headers = {**headers, "Expect": "100-continue"}
        request = _Request(method, path, headers, seconds, body, size)
        endpoint, password = self.login.endpoint, self.login.password
        return by_newest(endpoint, password, _refusals, lambda plain: self._ask(plain, request))

    def _ask(self, plain: str, request: _Request) -> HttpAnswer:
        endpoint = self.login.endpoint
        with _refusals.turn(endpoint, plain, request.seconds) as standing:
            if standing:
                raise LoginRefused(f"{standing}; not retried, to avoid locking the account", _LOGIN, where="sink")
            to_fe = replace(request, body=None, size=0)
            first = self._exchange(plain, (endpoint.host, endpoint.http_port), to_fe)
            if first.status == 401:
                said = f"FE {endpoint.host}:{endpoint.http_port}: HTTP 401, login denied"
                _refusals.refused(endpoint, plain, said)
                raise LoginRefused(said, _LOGIN, where="sink")
            _refusals.taken(endpoint, plain)
        if first.status != 307:
            return first
        return self._exchange(plain, self._named(first.location), request)

    def page(self, url: str, seconds: float) -> str:
        """Return an error page, at most ANSWER_BYTES; "" if it is unreachable or the URL is of another page.

        The server supplies the URL, the request contains the password, and requests of some other pages change the
        server.
        """
        try:
            place, where = self._named(url), urlsplit(url)
            if where.path != ERRORS:
                return ""
            asked = _Request("GET", f"{where.path}?{where.query}", {}, seconds)
            found = self._exchange(secret_of(self.login.password).now(), place, asked)
        except SlotkeeperError:
            return ""
        return found.data.decode("utf-8", "replace") if found.status == 200 else ""

    def _named(self, url: str) -> Place:
        """Return host and port of a URL, without its password; raises Refused unless they belong to this Doris."""
        endpoint = self.login.endpoint
        try:
            where = urlsplit(url)
            host, port = safe(where.hostname or "", 253), where.port or BE_PORT
        except ValueError as error:  # the URL contains a password, so it is not shown
            what = f"the FE {endpoint.host} redirects to an invalid URL"
            raise Refused(what, "check which program answers there", where="sink") from error
        if (where.scheme == "https") != (endpoint.sslmode != "disable"):
            # a redirect must neither send a password in plain text nor start TLS that the configuration does not
            # request
            scheme = where.scheme
            what = f'the FE {endpoint.host} redirects to {scheme}://{host}:{port}, but sslmode is "{endpoint.sslmode}"'
            hint = "enable TLS at the BE (enable_https in be.conf)" if scheme == "http" else "set sslmode"
            raise Refused(what, hint, where="sink")
        own = (endpoint.host, 0), (endpoint.host, endpoint.http_port)
        named = _lowered([*own, *map(place_of, endpoint.backends)])
        if host not in {name for name, _ in named}:
            what = f"the FE {endpoint.host} redirects loads to the BE {host}, which the configuration does not name"
            hint = f'add "{host}" to backends of [sinks.{endpoint.name}]: the password is sent there'
            raise Refused(what, hint, where="sink")
        if (host, port) not in named and not ((host, 0) in named and self._has_be(host, port)):
            what = f"the FE {endpoint.host} redirects loads to {host}:{port}, a port of no known BE"
            place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            more = f"backends of [sinks.{endpoint.name}]: the password is sent there"
            hint = f'if a BE listens there, add "{place}" to {more}'
            raise Refused(what, hint, where="sink")
        return host, port

    def _has_be(self, host: str, port: int) -> bool:
        """Whether the FE lists a BE with this port; if it lists no BE on the host, whether the port is the default.

        For an unknown port, the FE is queried once more: a BE may have been added or moved.
        """
        if (host, port) not in self._places:
            self._places = _lowered(self.backends())
        ports = {there for name, there in self._places if name == host}
        return port in (ports or {BE_PORT})

    def _exchange(self, plain: str, place: Place, request: _Request) -> HttpAnswer:
        """Send one request on its own connection; the client's deadline ends even a slow answer."""
        (host, port), seconds, tls = place, request.seconds, tls_context.context(self.login.endpoint)
        limit = self.login.endpoint.connect_timeout_ms / 1000
        line = http.client.HTTPConnection(host, port, timeout=limit)
        if tls is not None:
            line = http.client.HTTPSConnection(host, port, timeout=limit, context=tls)
        try:
            with closing(line):
                line.connect()
                line.sock.settimeout(None)  # the deadline below or Ctrl-C ends a blocking call
                self._line = line
                with deadline.limited(line.sock.fileno(), seconds) as call:
                    if self._severed:
                        raise ConnectionAbortedError
                    late = Unreachable(f"{host}:{port} did not answer within {seconds:g} s", where="sink").after_limit()
                    try:
                        answer = self._through(line, plain, request)
                    except (OSError, http.client.HTTPException) as error:
                        if call.cut is None:
                            raise
                        raise late from error
                    if call.cut is not None:  # a closed connection can look like the end of a body
                        raise late
                    return answer
        except (OSError, http.client.HTTPException) as error:
            refused = tls_context.refused(error, f"{host}:{port}", "sink")
            lost = f"{host}:{port}: {type(error).__name__} on {request.method}"
            raise refused or Unreachable(lost, where="sink") from error
        finally:
            self._line = None

    def _through(self, line: http.client.HTTPConnection, plain: str, request: _Request) -> HttpAnswer:
        method, body = request.method, request.body
        basic = base64.b64encode(f"{self.login.endpoint.user}:{plain}".encode()).decode()
        line.putrequest(method, request.path, skip_accept_encoding=True)
        for name, value in {**request.headers, "Authorization": f"Basic {basic}"}.items():
            line.putheader(name, value.encode())  # the FE reads the bytes as UTF-8 (doris-flink-connector, PR 623)
        if method == "PUT":
            line.putheader("Content-Length", str(request.size))
        line.endheaders()
        begun = b"" if body is None else first_bytes(line.sock)
        if body is not None and begun in (b"", _GO_ON):
            body.seek(0)
            try:
                while piece := body.read(_PIECE):
                    line.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server answered before the body was sent completely: its answer is read below
        answer = http.client.HTTPResponse(cast("socket.socket", _Begun(line.sock, begun)), method=method)
        answer.begin()
        data = answer.read(ANSWER_BYTES)
        if answer.length and len(data) < ANSWER_BYTES:
            raise http.client.IncompleteRead(data, answer.length)
        return HttpAnswer(answer.status, data, answer.getheader("Location", ""))

    def sever(self) -> None:
        """Close the connection of the running request, and reject every later request."""
        self._severed = True
        line = self._line
        if line is not None and line.sock is not None:
            try:
                line.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return


def _lowered(places: Iterable[Place]) -> frozenset[Place]:
    """Return addresses in the form in which a URL's host is compared: host names in lower case (RFC 3986, 3.2.2)."""
    return frozenset((host.lower(), port) for host, port in places)


def first_bytes(line: socket.socket) -> bytes:
    """Return the status that a server sends before the body; empty if the server silently waits for the body.

    `_GO_ON` requests the body; anything else is already an answer, and the body must not be sent.
    """
    found = b""
    line.settimeout(GO_ON_SECONDS)
    try:
        while len(found) < len(_GO_ON) and (piece := line.recv(len(_GO_ON) - len(found))):
            found += piece
    except TimeoutError:
        if found:
            raise
    finally:
        line.settimeout(None)
    return found


class _Begun(io.RawIOBase):
    """A connection whose first bytes have already been read, for `http.client.HTTPResponse`."""

    def __init__(self, line: socket.socket, begun: bytes) -> None:
        super().__init__()
        self._line, self._begun = line, begun

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._begun:
            return self._line.recv_into(buffer)
        piece, self._begun = self._begun[: len(buffer)], self._begun[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
