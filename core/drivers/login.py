"""Logins: libpq's parameters, libpq's behavior during a login, and limits on retries, so that no account is locked.

Every parameter is set, so that libpq takes none from the environment or from files in the home directory. libpq's
documentation ("Environment Variables", "The Connection Service File", "The Password File", "SSL Support") lists what
libpq reads for a parameter that is not set; "Parameter Key Words" explains each parameter. An empty value counts as
set.

libpq provides neither its socket nor its notices before a login has ended. Its socket is found by a marker: a value of
TCP_USER_TIMEOUT that no other socket of the process has (tcp(7)); libpq sets it before it connects. libpq writes
notices to the C library's `stderr` with all bytes that the server sent (`defaultNoticeProcessor` in fe-connect.c),
until psycopg2 handles them (`_conn_sync_connect` in psycopg/connection_int.c).

After a rejection the password's reference is read again, and a changed password is tried immediately. An unchanged
password is tried twice, and after that only at intervals of several hours. DWS, "Setting Account Security Policies": an
account is locked for a day after `failed_login_attempts` consecutive wrong passwords (default 10). A driver opens many
sessions, and each would be another attempt.

Configuring the host or port of another server is a common mistake, so `speaks` detects the protocol of a port. Sources:
PostgreSQL, "Message Flow: SSL Session Encryption" (an SSLRequest is answered with one byte, S or N); MySQL, "Connection
Phase: Protocol::HandshakeV10" (the server sends first: a packet numbered 0, whose first byte is 10); Spark, "Spark
Standalone Mode: REST API" (the status of a submission is a JSON object with the server's version).
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.endpoint import INSISTING, Endpoint, Secret, secret_of, socket_folder
from slotkeeper.core.domain.refusals import PASSWORDS, said
from slotkeeper.core.drivers.deadline import lent, received, shut
from slotkeeper.core.errors import ConfigError

LOGIN_BYTES = 16 * 1024 * 1024
"""Maximum size in bytes of a server's answers to a login; a normal login has a few KB."""
_FIRST_MARK = 1_000_000_000
"""A timeout in milliseconds that no configuration uses: it marks the socket of an unfinished login."""
_MARKS = 1_000_000
_numbers = itertools.count()
_OPTION: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


class LoginLine:
    """The TCP connection of one login, even while it is being opened; found and shut down only on Linux."""

    def __init__(self) -> None:
        self.mark = _FIRST_MARK + next(_numbers) % _MARKS
        """The login's `tcp_user_timeout`."""

    def check(self, late: bool) -> None:
        """Shut the connection down if no caller waits for it, or if it has received more than `LOGIN_BYTES`."""
        with suppress(OSError):
            for number in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
                # do not copy the descriptor: closing a file's copy would release SQLite's locks (fcntl(2))
                if self._is_ours(number) and (late or (received(number) or 0) > LOGIN_BYTES):
                    shut(number)

    def over(self, descriptor: int, timeout_ms: int) -> None:
        """Finish the login: set the socket's final timeout, which also removes the marker."""
        if _OPTION is not None:
            with suppress(OSError), lent(descriptor) as line:  # a Unix-domain socket has no such option
                line.setsockopt(socket.IPPROTO_TCP, _OPTION, timeout_ms)

    def _is_ours(self, descriptor: int) -> bool:
        if _OPTION is None:
            return False
        with suppress(OSError), lent(descriptor) as line:
            return line.getsockopt(socket.IPPROTO_TCP, _OPTION) == self.mark
        return False


class _Silence:
    """Discards what the C library writes to `stderr` during logins; Python itself writes to descriptor 2.

    glibc allows assignments to `stderr` ("Standard Streams" in its manual); other C libraries' `stderr` is not changed.
    """

    def __init__(self) -> None:
        self._begin_anew()
        self._kept: int | None = None
        self._nowhere: int | None = None

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._logins = 0

    def forked(self) -> None:
        """Reset the state in a forked child, which has none of its parent's logins."""
        self._begin_anew()
        if self._kept is not None:
            _c_stderr().value = self._kept

    @contextmanager
    def kept(self) -> Iterator[None]:
        with self._lock:
            self._logins += 1
            if self._logins == 1 and _is_glibc():
                self._turn_off()
        try:
            yield
        finally:
            with self._lock:
                self._logins -= 1
                if not self._logins and self._kept is not None:
                    _c_stderr().value = self._kept

    def _turn_off(self) -> None:
        if self._nowhere is None:
            opened = ctypes.CDLL(None).fopen
            opened.restype = ctypes.c_void_p
            self._nowhere = opened(os.devnull.encode(), b"we")  # e: child processes do not inherit it
        if self._nowhere is not None:
            self._kept = _c_stderr().value
            _c_stderr().value = self._nowhere


def _is_glibc() -> bool:
    with suppress(AttributeError, ValueError, OSError):
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    return False


def _c_stderr() -> ctypes.c_void_p:
    return ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stderr")


_silence = _Silence()
os.register_at_fork(after_in_child=_silence.forked)
silenced = _silence.kept
"""Suppress the C library's output to `stderr` within the block."""


TRIES = 2
AGAIN_SECONDS = 6 * 3600.0
"""Seconds between attempts after the first two: four per day, fewer than ten before the server resets its count."""

RECENT_SECONDS = 10.0
RECENT_AT_ONCE = 6
"""Maximum number of parallel logins after a success; fewer than ten, in case the password has changed."""

MOST = 256
"""Maximum number of stored password hashes; without a limit, short-lived tokens would accumulate."""

_Key = tuple[str, int, str, str]
T = TypeVar("T")


@dataclass(slots=True)
class _Found:
    """A login's record: its consecutive rejections, the last rejection's time and message, and the last success."""

    count: int = 0
    at: float = 0.0
    text: str = ""
    taken_at: float | None = None
    under_way: int = 0


class Refusals:
    """The rejections of each login of this process; shared by its threads."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or SystemClock().monotonic
        self._ended = threading.Condition()
        self._found: dict[_Key, _Found] = {}

    @contextmanager
    def turn(self, endpoint: Endpoint, password: str, seconds: float) -> Iterator[str]:
        """Hold a login permit during the block; yield the last rejection's message if no attempt is due.

        Without permits, parallel logins would all be rejected before the first rejection is counted. The wait for a
        permit is limited to `seconds`, the limit of any login, because a server that has not answered in that time has
        rejected no login.
        """
        with self._ended:
            found = self._found_of(endpoint, password)
            self._ended.wait_for(lambda: self._standing(found) or found.under_way < self._at_once(found), seconds)
            standing = self._standing(found)
            found.under_way += 1
        try:
            yield standing
        finally:
            with self._ended:
                found.under_way -= 1
                self._ended.notify_all()

    def refused(self, endpoint: Endpoint, password: str, text: str) -> None:
        """Count a failed login if the password can be the cause; after any failure, logins are no longer parallel."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.taken_at = None
            if said(text, PASSWORDS):
                found.count, found.at, found.text = found.count + 1, self._now(), text

    def taken(self, endpoint: Endpoint, password: str) -> None:
        """Record a successful login: the server's count of failures restarts at 0, and so does the local count."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count, found.text, found.taken_at = 0, "", self._now()

    def forget(self, endpoint: Endpoint, password: str, but: int = 0) -> None:
        """Forget this password's rejections except `but` of them, because the server may not have known it yet."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count = min(found.count, but)

    def _found_of(self, endpoint: Endpoint, password: str) -> _Found:
        """Return the record of a password and make it the newest; drop the oldest records."""
        digest = hashlib.sha256(password.encode()).hexdigest()
        key = endpoint.host, endpoint.port, endpoint.user, digest
        found = self._found[key] = self._found.pop(key) if key in self._found else _Found()
        if len(self._found) > MOST:
            for old in [each for each, one in self._found.items() if not one.under_way and one is not found][:1]:
                del self._found[old]
        return found

    def _standing(self, found: _Found) -> str:
        return found.text if found.count >= TRIES and self._now() - found.at < AGAIN_SECONDS else ""

    def _at_once(self, found: _Found) -> int:
        if found.taken_at is not None and self._now() - found.taken_at < RECENT_SECONDS:
            return RECENT_AT_ONCE
        return max(1, TRIES - found.count)


def by_newest(endpoint: Endpoint, password: Secret | str, known: Refusals, attempt: Callable[[str], T]) -> T:
    """Log in through `attempt` with the secret's current value; after a rejection, once more with a changed password.

    The changed password is the reference's new value, or otherwise the last accepted password, because a reference can
    be changed before the server's password is. If the last accepted password works, the rejected password was not valid
    yet, and its rejections are forgotten.
    """
    secret = secret_of(password)
    plain = secret.now()
    try:
        found = attempt(plain)
    except Exception as error:
        if not said(str(error), PASSWORDS):
            raise
        secret.refused(plain)
        newer = secret.now()
        other = newer if newer != plain else secret.accepted()
        if other in ("", plain):
            raise
        try:
            found = attempt(other)
        except Exception as again:
            if newer == plain and said(str(again), PASSWORDS) and "not tried again" not in str(again):
                known.forget(endpoint, plain, 1)  # the server's password may have changed between the attempts
            raise
        if newer == plain:
            known.forget(endpoint, plain)
        plain = other
    secret.taken(plain)
    return found


OLDEST_LIBPQ = 160_000
"""The first libpq with `require_auth` and `sslcertmode`."""
NOWHERE = "/dev/null/none"
"""A path that cannot exist: without a path libpq reads a file in the home directory."""
ENVIRONMENT_ONLY = ("PGSERVICE", "PGDATESTYLE", "PGTZ", "PGGEQO")
"""Variables that libpq reads only from the environment; a service file can change any other parameter."""
_ANY = "!sspi"
"""The value that allows all supported authentication methods; an empty `require_auth` would allow none."""
_NO_KEY_PASSWORD = "-"  # noqa: S105  (not a secret)
"""A dummy key password; without one, OpenSSL prompts on the terminal for an encrypted key's password and waits."""

_ALWAYS = {
    "hostaddr": "",
    "passfile": NOWHERE,
    "client_encoding": "",
    "channel_binding": "prefer",
    "sslcompression": "0",
    "sslcrl": NOWHERE,
    "sslcrldir": "",
    "sslsni": "1",
    "ssl_min_protocol_version": "TLSv1.2",
    "ssl_max_protocol_version": "",
    "requirepeer": "",
    "gssencmode": "disable",  # otherwise GSSAPI encryption would be tried before TLS
    "krbsrvname": "postgres",
    "gssdelegation": "0",
    "gsslib": "",
    "target_session_attrs": "any",
    "load_balance_hosts": "disable",
}
_SINCE = {"sslnegotiation": (170_000, "postgres")}
"""Parameters that an older libpq rejects."""


def parameters(
    endpoint: Endpoint, password: str, application_name: str, seconds: int, options: str, libpq: int
) -> dict[str, Any]:
    """Return the parameters of one login; `seconds` is its time limit, `libpq` the version number of libpq.

    `options` are the session's options. Also removes from this process's environment the variables that no parameter
    overrides. Raises ConfigError if libpq is too old.
    """
    if libpq < OLDEST_LIBPQ:
        what = f"psycopg2 uses libpq {libpq // 10_000}, which cannot enforce encryption of passwords"
        raise ConfigError(what, "install psycopg2-binary 2.9.9 or later, or a libpq of PostgreSQL 16 or later")
    for name in ENVIRONMENT_ONLY:
        os.environ.pop(name, None)
    return {
        **_ALWAYS,
        **{name: value for name, (since, value) in _SINCE.items() if libpq >= since},
        "sslmode": endpoint.sslmode,
        "sslrootcert": endpoint.sslrootcert or NOWHERE,
        "sslcertmode": "allow" if endpoint.sslcert else "disable",
        "sslcert": endpoint.sslcert or NOWHERE,
        "sslkey": endpoint.sslkey or NOWHERE,
        "sslpassword": secret_of(endpoint.key_password).now() or _NO_KEY_PASSWORD,
        "require_auth": _ANY if endpoint.sslmode in INSISTING or socket_folder(endpoint.host) else "!password",
        "host": endpoint.host,
        "port": endpoint.port,
        "dbname": endpoint.database,
        "user": endpoint.user,
        "password": password,
        "application_name": application_name[:63],
        "options": options,
        "connect_timeout": seconds,
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": endpoint.socket_timeout_ms or 60_000,
    }


_SSL_REQUEST = bytes((0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F))
_SECONDS = 1.0
"""Time limit in seconds for each step: opening a connection, a greeting, an answer."""
_MOST = 64
_REST_SECONDS = 5.0
_REST_BYTES = 4_096
_REST_STATUS = b"GET /v1/submissions/status/none HTTP/1.0\r\n\r\n"


def speaks(host: str, port: int) -> str:
    """Return the protocol of a port, "MySQL" or "PostgreSQL", or "" if uncertain. Sends no login and no password."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        greeted = _read(line, 5)
        if greeted[3:5] == b"\x00\x0a":
            return "MySQL"
        if not greeted:
            line.sendall(_SSL_REQUEST)
            return "PostgreSQL" if _read(line, 2) in (b"S", b"N") else ""
    return ""


def takes_submissions(host: str, port: int) -> bool:
    """Return whether a Spark master's REST server answers; it accepts submissions from any client, without a secret."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        line.sendall(_REST_STATUS)
        return b"serverSparkVersion" in _read(line, _REST_BYTES, _REST_SECONDS)
    return False


def _read(line: socket.socket, enough: int, seconds: float = _SECONDS) -> bytes:
    """Read until `enough` bytes have arrived or the time is over; return the bytes."""
    end, found = time.monotonic() + seconds, b""
    while len(found) < enough and (left := end - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            piece = line.recv(_MOST)
        except TimeoutError:
            break
        if not piece:
            break
        found += piece
    return found
