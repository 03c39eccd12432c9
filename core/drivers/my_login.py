"""Logins over MySQL's protocol, in time, and what a hostile server may not ask of one: a password in clear, a file.

pymysql sends the password to whoever asks: in clear (`mysql_clear_password`, `dialog`), by the hash of before 4.1, or
encrypted for a key that the server has just named (`sha256_password`, `caching_sha2_password`). Each of them gives it
away to whoever answers on an open line; MySQL's own client refuses them there ("Client-Side Cleartext Pluggable
Authentication", "Caching SHA-2 Pluggable Authentication": --get-server-public-key is off by default).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR, ER

from slotkeeper.core.domain.endpoint import INSISTING, Endpoint, Secret
from slotkeeper.core.drivers import tls_context
from slotkeeper.core.drivers.deadline import Call, Cut, Late, in_time, limited
from slotkeeper.core.drivers.login import LOGIN_BYTES
from slotkeeper.core.drivers.logins import Refusals, by_newest
from slotkeeper.core.redaction import MASK

DriverError = pymysql.err.MySQLError
"""What this driver raises for anything that a server or a line did wrong."""
if TYPE_CHECKING:
    _Connection = pymysql.Connection[Any]
else:
    _Connection = pymysql.Connection
_HASHED = (b"mysql_native_password", b"caching_sha2_password", b"client_ed25519", b"sha256_password")
"""Methods that begin with no more than a hash; the second and the last may go on to a key, which is refused below."""
_ASKED_OPEN = 'the server asks for the password in clear, which is sent inside TLS only: sslmode = "require" or above'
_refusals = Refusals()
_FILE = "Received LOAD_LOCAL packet"


class NoAnswer(pymysql.err.OperationalError):
    """Our own deadline ended a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__(CR.CR_SERVER_LOST, f"does not answer within {seconds:g} s")


class TooMuch(pymysql.err.OperationalError):
    """A server sent more than a call may get."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(CR.CR_NET_PACKET_TOO_LARGE, f"the server sent more than {most_bytes / (1 << 20):g} MiB")


class GuardedConnection(_Connection):
    """A connection that gives its password to nobody on an open line."""

    _secure: bool

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name not in _HASHED and not self._secure:
            raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_ERR, _ASKED_OPEN)
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    @property
    def server_public_key(self) -> None:
        """None is known beforehand: one that a server names, which is asked for without TLS only, is anybody's."""
        return None

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if key:
            raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_ERR, _ASKED_OPEN)


def logged_in(
    endpoint: Endpoint,
    password: Secret | str,
    name: str,
    seconds: float,
    conv: dict[Any, Any] | None = None,
    database: str = "",
) -> Any:
    """A connection of pymysql, in time: utf8mb4, autocommit; `name` is shown as `program_name` of
    performance_schema.session_connect_attrs. Its types are pymysql's, which has none for sockets and packets.

    Raises DriverError; NoAnswer where the server does not answer, TooMuch where a login has no end; AccessRefused for a
    file of TLS that is none. A password that was refused twice is not tried again for hours (`logins.py`): MySQL,
    CREATE USER: FAILED_LOGIN_ATTEMPTS, and MariaDB, max_password_errors, lock an account.
    """
    return by_newest(
        endpoint, password, _refusals, lambda plain: _in_turn(endpoint, plain, name, seconds, conv, database)
    )


def _in_turn(
    endpoint: Endpoint, password: str, name: str, seconds: float, conv: dict[Any, Any] | None, database: str
) -> GuardedConnection:
    with _refusals.turn(endpoint, password, seconds) as standing:
        if standing:
            again = "refused twice, not asked again, so that no account gets locked"
            raise pymysql.err.OperationalError(ER.ACCESS_DENIED_ERROR, f"{standing} ({again})")
        try:
            raw = _logged_in(endpoint, password, name, seconds, conv, database)
        except DriverError as error:
            if password:
                error.args = tuple(one.replace(password, MASK) if isinstance(one, str) else one for one in error.args)
            _refusals.refused(endpoint, password, str(error.args[-1]) if error.args else "")
            raise
        _refusals.taken(endpoint, password)
    return raw


def _logged_in(
    endpoint: Endpoint, password: str, name: str, seconds: float, conv: dict[Any, Any] | None, database: str
) -> GuardedConnection:
    raw = _unconnected(endpoint, password, name, conv, database)
    try:
        line = in_time(lambda: _line(endpoint, seconds), seconds, socket.socket.close)
    except Late as late:
        raise NoAnswer(seconds) from late
    except OSError as error:
        what = f"cannot be reached: {error.strerror or error}"
        raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, what) from error
    try:
        with answered(line.fileno(), seconds, LOGIN_BYTES):
            raw.connect(line)
    except BaseException:
        line.close()
        ended(raw)  # TLS has taken the socket over
        raise
    return raw


@contextmanager
def answered(descriptor: int, seconds: float | None, most_bytes: int | None = None) -> Iterator[Call]:
    """Calls on this line are under a limit; whatever they raise comes out as a DriverError.

    What is none of the protocol ends in any exception of pymysql's parser: the server's words are not repeated.
    """
    with limited(descriptor, seconds, most_bytes) as call:
        try:
            yield call
        except Exception as error:
            if call.cut is Cut.LATE and seconds is not None:
                raise NoAnswer(seconds) from error
            if call.cut is Cut.MUCH:
                raise TooMuch(most_bytes or 0) from error
            if call.cut is Cut.INTERRUPTED and _in_main():
                raise KeyboardInterrupt from error
            if isinstance(error, DriverError):
                raise
            raise unreadable(error) from error
        if call.cut is Cut.INTERRUPTED and _in_main():
            raise KeyboardInterrupt


def _in_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def ended(raw: Any) -> None:
    """End a connection without a word that somebody would have to take; safe to call twice.

    What is left of an answer is not read: pymysql would, where the answer is collected, and complain of the line.
    """
    result = getattr(raw, "_result", None)
    if result is not None:
        result.unbuffered_active = False
    with suppress(DriverError, OSError):
        raw._force_close()


def unreadable(error: Exception) -> DriverError:
    """The driver's error for what it could not read, or for a line that broke."""
    if isinstance(error, OSError):
        return pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"the line broke: {type(error).__name__}")
    if _FILE in str(error):
        what = "the server asks for a file of this machine (LOAD DATA LOCAL), and got none"
        return pymysql.err.OperationalError(CR.CR_LOAD_DATA_LOCAL_INFILE_REJECTED, what)
    what = f"the server sent what is none of MySQL's protocol: {type(error).__name__}"
    return pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, what)


def _line(endpoint: Endpoint, seconds: float) -> socket.socket:
    line = socket.create_connection((endpoint.host, endpoint.port), seconds)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.settimeout(None)
    return line


def _unconnected(
    endpoint: Endpoint, password: str, name: str, conv: dict[Any, Any] | None, database: str
) -> GuardedConnection:
    return GuardedConnection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=password.encode(),  # a text would be sent as latin1
        database=database or None,
        charset="utf8mb4",
        autocommit=True,
        local_infile=False,
        program_name=name,
        conv=conv,
        defer_connect=True,
        **_tls(endpoint),
    )


def _tls(endpoint: Endpoint) -> dict[str, Any]:
    """libpq's modes in pymysql's words; `prefer` goes on without where the server has none."""
    if endpoint.sslmode == "disable":
        return {"ssl_disabled": True}
    if endpoint.sslmode not in INSISTING:
        return {}
    return {"ssl": tls_context.context(endpoint)}
