"""Logins: libpq's parameters, what libpq does while one is under way, and refusals that must not lock an account.

Every parameter is given, so that neither the environment nor a home's files fill any in: libpq, "Environment
Variables", "The Connection Service File", "The Password File" and "SSL Support" name what it reads where a parameter is
not given; "Parameter Key Words" what each does. An empty value counts as given.

libpq gives out neither its socket nor its notices before a login is over. Its socket is found by a mark: a value of
TCP_USER_TIMEOUT that no other socket of the process has (libpq sets it before it connects; tcp(7)). Notices go to the
C library's `stderr` raw, whatever bytes a server put there (`defaultNoticeProcessor` in libpq's fe-connect.c), until
psycopg2 takes them (`_conn_sync_connect` in psycopg/connection_int.c).

A refused password is first compared with what its reference says by then: another one is tried at once. The same one is
tried twice, then hours apart. DWS, "Setting Account Security Policies": an account is locked after
`failed_login_attempts` wrong passwords in a row (default 10), for a day. A driver opens many sessions, and each would
be one more.

A host or port of another server is a common slip, so `speaks` asks whose protocol a port answers with. Sources:
PostgreSQL, "Message Flow: SSL Session Encryption" (an SSLRequest is answered by one byte, S or N); MySQL, "Connection
Phase: Protocol::HandshakeV10" (the server speaks first: a packet numbered 0, whose first byte is 10); Spark, "Spark
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
"""Most bytes of a server's answers to a login; a normal one has a few KB."""
_FIRST_MARK = 1_000_000_000
"""Milliseconds that no configuration uses: it marks a socket whose login is unfinished."""
_MARKS = 1_000_000
_numbers = itertools.count()
_OPTION: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


class LoginLine:
    """The line of one login over TCP on Linux, from before it is opened; elsewhere nothing is found or cut."""

    def __init__(self) -> None:
        self.mark = _FIRST_MARK + next(_numbers) % _MARKS
        """The login's `tcp_user_timeout`."""

    def check(self, late: bool) -> None:
        """Shut the connection if no caller waits for it, or if more bytes arrived than a login has."""
        with suppress(OSError):
            for number in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
                # not by a copy of the descriptor: closing one of a file would free SQLite's locks (fcntl(2))
                if self._is_ours(number) and (late or (received(number) or 0) > LOGIN_BYTES):
                    shut(number)

    def over(self, descriptor: int, timeout_ms: int) -> None:
        """Finish the login: set the socket's final timeout, which also removes the mark."""
        if _OPTION is not None:
            with suppress(OSError), lent(descriptor) as line:  # a socket in a folder has none
                line.setsockopt(socket.IPPROTO_TCP, _OPTION, timeout_ms)

    def _is_ours(self, descriptor: int) -> bool:
        if _OPTION is None:
            return False
        with suppress(OSError), lent(descriptor) as line:
            return line.getsockopt(socket.IPPROTO_TCP, _OPTION) == self.mark
        return False


class _Silence:
    """The C library's `stderr` leads nowhere while any login is under way; Python's own writes go to descriptor 2.

    `stderr` may be assigned in glibc ("Standard Streams" in its manual); in other C libraries it is left alone.
    """

    def __init__(self) -> None:
        self._begin_anew()
        self._kept: int | None = None
        self._nowhere: int | None = None

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._logins = 0

    def forked(self) -> None:
        """A child of a fork has none of its parent's logins."""
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
            self._nowhere = opened(os.devnull.encode(), b"we")  # e: no child inherits it
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
"""Suppress what the C library writes to `stderr` within the block."""


TRIES = 2
AGAIN_SECONDS = 6 * 3600.0
"""Seconds between attempts after the first two: four a day, fewer than ten before the server forgets them."""

RECENT_SECONDS = 10.0
RECENT_AT_ONCE = 6
"""Most parallel logins after a success: fewer than ten, in case the password changes."""

MOST = 256
"""Most passwords remembered, as hashes: short-lived tokens would accumulate."""

_Key = tuple[str, int, str, str]
T = TypeVar("T")


@dataclass(slots=True)
class _Found:
    """A login's record: consecutive rejections, the last one's time and text, and the last success."""

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
        """Wait for a turn to log in, held for the block; yields the last rejection if no attempt is due.

        Sessions that log in together would all be rejected before one rejection counts. A wait lasts at most `seconds`,
        the limit of any login: a server that was silent for so long has rejected nothing.
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
        """Count a failed login whose password can be the cause; any failure ends parallel logins."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.taken_at = None
            if said(text, PASSWORDS):
                found.count, found.at, found.text = found.count + 1, self._now(), text

    def taken(self, endpoint: Endpoint, password: str) -> None:
        """Note a login that succeeded: the server counts from 0 again, and so does this."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count, found.text, found.taken_at = 0, "", self._now()

    def forget(self, endpoint: Endpoint, password: str, but: int = 0) -> None:
        """Forget rejections of this password except `but`: the server may not have had it yet."""
        with self._ended:
            found = self._found_of(endpoint, password)
            found.count = min(found.count, but)

    def _found_of(self, endpoint: Endpoint, password: str) -> _Found:
        """What is known of a password, which counts as the newest from here on; the oldest are forgotten."""
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
    """Log in by `attempt` with the secret's current value; after a rejection, once more with a changed password.

    That is what the reference says by then, or else the one that was accepted last: a reference may be ahead of its
    server. Where the older one is accepted, the refused one was early, and its refusals are forgotten.
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
                known.forget(endpoint, plain, 1)  # the server may have changed between the two
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
"""All supported authentication methods: an empty `require_auth` would allow none."""
_NO_KEY_PASSWORD = "-"  # noqa: S105  (not a secret)
"""A dummy key password: without one OpenSSL prompts on the terminal for an encrypted key, and waits."""

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
    "gssencmode": "disable",  # it would count as encryption before TLS is tried
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
    """The parameters of one login; `seconds` limit it, `options` are of the session, `libpq` is its version number.

    Takes out of this process's environment what no parameter overrides. Raises ConfigError for too old a libpq.
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
"""Seconds for each of: the connection, a greeting, an answer."""
_MOST = 64
_REST_SECONDS = 5.0
_REST_BYTES = 4_096
_REST_STATUS = b"GET /v1/submissions/status/none HTTP/1.0\r\n\r\n"


def speaks(host: str, port: int) -> str:
    """Return "MySQL" or "PostgreSQL", or "" where it is neither for certain. No login and no password is sent."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        greeted = _read(line, 5)
        if greeted[3:5] == b"\x00\x0a":
            return "MySQL"
        if not greeted:
            line.sendall(_SSL_REQUEST)
            return "PostgreSQL" if _read(line, 2) in (b"S", b"N") else ""
    return ""


def takes_submissions(host: str, port: int) -> bool:
    """Whether a Spark master's REST server answers there: it takes submissions of any client, without a secret."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        line.sendall(_REST_STATUS)
        return b"serverSparkVersion" in _read(line, _REST_BYTES, _REST_SECONDS)
    return False


def _read(line: socket.socket, enough: int, seconds: float = _SECONDS) -> bytes:
    """Return the bytes that arrive in time, up to the needed number."""
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
