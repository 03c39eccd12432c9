"""MySQL and MariaDB sessions, and a replica's stream; each login and call has a deadline.

pymysql sends statements; this module reads the packets of a replication stream, because pymysql has no command for
them. `deadline` shuts down the socket of a late call, as it does for `pg`.
Decision: docs/adr/0040-reading-a-mysql-binlog.md.

A hostile server can request a clear-text password or a file during a login. pymysql sends the password to any server
that requests it: in clear text (`mysql_clear_password`, `dialog`), as a hash of the format before 4.1, or encrypted
with a key that the server has just sent (`sha256_password`, `caching_sha2_password`). Without TLS, each of these
reveals the password to any host that answers; without TLS, MySQL's own client rejects them ("Client-Side Cleartext
Pluggable Authentication", "Caching SHA-2 Pluggable Authentication": --get-server-public-key is off by default).
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.cursors
from pymysql.constants import COMMAND, CR, ER

from slotkeeper.core.domain.endpoint import INSISTING, Endpoint, Secret
from slotkeeper.core.drivers import tls_context
from slotkeeper.core.drivers.deadline import Call, Cut, Late, in_time, limited, shut
from slotkeeper.core.drivers.login import LOGIN_BYTES, Refusals, by_newest
from slotkeeper.core.redaction import MASK

DriverError = pymysql.err.MySQLError
"""The base class of pymysql's errors about a server or a connection."""
if TYPE_CHECKING:
    _Connection = pymysql.Connection[Any]
else:
    _Connection = pymysql.Connection
_HASHED = (b"mysql_native_password", b"caching_sha2_password", b"client_ed25519", b"sha256_password")
"""Login methods that send a hash first; the second and the last can continue with a public key, rejected below."""
_ASKED_OPEN = 'the server requests a clear-text password, which requires TLS: set sslmode = "require" or stronger'
_refusals = Refusals()
_FILE = "Received LOAD_LOCAL packet"


class NoAnswer(pymysql.err.OperationalError):
    """The client's own deadline ended a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__(CR.CR_SERVER_LOST, f"does not answer within {seconds:g} s")


class TooMuch(pymysql.err.OperationalError):
    """A server sent more bytes than a call's limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(CR.CR_NET_PACKET_TOO_LARGE, f"the server sent more than {most_bytes / (1 << 20):g} MiB")


class Unusable(pymysql.err.OperationalError):
    """A server answered that cannot be used now."""

    def __init__(self, what: str) -> None:
        super().__init__(CR.CR_CONN_HOST_ERROR, what)


class GuardedConnection(_Connection):
    """A connection that does not reveal its password to a server without TLS."""

    _secure: bool

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        if plugin_name not in _HASHED and not self._secure:
            raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_ERR, _ASKED_OPEN)
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    @property
    def server_public_key(self) -> None:
        """Always None, because pymysql requests a key only without TLS, and such a key is not trustworthy."""
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
    """Log in within `seconds`; return a pymysql connection with utf8mb4 and autocommit.

    `name` is shown as `program_name` in performance_schema.session_connect_attrs. The result has no static type,
    because pymysql has no types for sockets and packets.

    Raises DriverError; NoAnswer if the server does not answer, TooMuch if the server sends too many bytes;
    AccessRefused for an invalid TLS file. A password that was rejected twice is not tried again for hours
    (`login.Refusals`): MySQL, CREATE USER: FAILED_LOGIN_ATTEMPTS, and MariaDB, max_password_errors, lock an account.
    """

    def attempt(plain: str) -> GuardedConnection:
        with _refusals.turn(endpoint, plain, seconds) as standing:
            if standing:
                again = "rejected twice, not tried again, so that the account is not locked"
                raise pymysql.err.OperationalError(ER.ACCESS_DENIED_ERROR, f"{standing} ({again})")
            try:
                raw = _unconnected(endpoint, plain, name, conv, database)
                _open(raw, endpoint, seconds)
            except DriverError as error:
                if plain:
                    error.args = tuple(one.replace(plain, MASK) if isinstance(one, str) else one for one in error.args)
                _refusals.refused(endpoint, plain, str(error.args[-1]) if error.args else "")
                raise
            _refusals.taken(endpoint, plain)
        return raw

    return by_newest(endpoint, password, _refusals, attempt)


def _open(raw: GuardedConnection, endpoint: Endpoint, seconds: float) -> None:
    def connected() -> socket.socket:
        line = socket.create_connection((endpoint.host, endpoint.port), seconds)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        line.settimeout(None)
        return line

    try:
        line = in_time(connected, seconds, socket.socket.close)
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


@contextmanager
def answered(descriptor: int, seconds: float | None, most_bytes: int | None = None) -> Iterator[Call]:
    """Limit the time and size of the block's calls on this connection; convert all their exceptions to DriverErrors.

    Data that violates the protocol can raise any exception in pymysql's parser; the server's message is not repeated.
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
    """Close a connection without sending anything; safe to call twice.

    The rest of an answer is not read: pymysql would read it at garbage collection, and report the connection as lost.
    """
    result = getattr(raw, "_result", None)
    if result is not None:
        result.unbuffered_active = False
    with suppress(DriverError, OSError):
        raw._force_close()


def unreadable(error: Exception) -> DriverError:
    """Return the DriverError for an unreadable answer, or for a broken connection."""
    if isinstance(error, OSError):
        return pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"connection lost: {type(error).__name__}")
    if _FILE in str(error):
        what = "the server requested a local file (LOAD DATA LOCAL); the driver sent none"
        return pymysql.err.OperationalError(CR.CR_LOAD_DATA_LOCAL_INFILE_REJECTED, what)
    what = f"the server's response is not in the MySQL protocol: {type(error).__name__}"
    return pymysql.err.OperationalError(CR.CR_MALFORMED_PACKET, what)


def _unconnected(
    endpoint: Endpoint, password: str, name: str, conv: dict[Any, Any] | None, database: str
) -> GuardedConnection:
    return GuardedConnection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=password.encode(),  # pymysql would send a str as latin1
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
    """Convert libpq's sslmode for pymysql; `prefer` continues without TLS if the server has none."""
    if endpoint.sslmode == "disable":
        return {"ssl_disabled": True}
    if endpoint.sslmode not in INSISTING:
        return {}
    return {"ssl": tls_context.context(endpoint)}


NET_SECONDS = 3600
"""Seconds for which a server waits for a client that is busy (MySQL, "Server System Variables": net_write_timeout
is 60 s by default). If a sink takes longer, the job's own limits end its work."""
ROWS_AT_ONCE = 1000
LOT_BYTES = 8 << 20
"""Size in bytes of each batch of rows of a large answer; a single row can be larger."""
ANSWER_BYTES = 256 << 20
"""Maximum size in bytes of an answer in memory (ADR 24)."""
ROW_BYTES = 1 << 30
"""Maximum bytes before a row is complete: the maximum of max_allowed_packet (MySQL, "Server System Variables")."""
EVENT_BYTES = (1 << 30) + (1 << 20)
"""Maximum size in bytes of an event: the maximum of replica_max_allowed_packet, and a header."""
PIECE_BYTES = 256 * 1024
"""Maximum number of bytes that a stream reads from its socket at once."""
_MAX_PACKET = 0xFFFFFF
NON_BLOCKING = 0x01
"""The flag of a dump that ends at the binlog's end."""
_THROUGH_GTID = 0x04
_HEADER = struct.Struct("<HBB")


def code_of(error: BaseException) -> int:
    """Return the error number of the server or the client; 0 if there is none."""
    code = error.args[0] if isinstance(error, DriverError) and error.args else 0
    return code if isinstance(code, int) else 0


def said(error: BaseException) -> str:
    """Return an error's message, from the server or the client."""
    return str(error.args[-1]) if error.args else type(error).__name__


class Session:
    """One session in autocommit, used by a single thread. Calls raise DriverError; NoAnswer at the time limit."""

    def __init__(self, raw: pymysql.Connection[Any], seconds: float) -> None:
        self._raw: Any = raw  # pymysql has no types for its sockets and packets
        self.seconds = seconds
        """Time limit of a call in seconds."""

    @property
    def id(self) -> int:
        return int(self._raw.thread_id())

    @property
    def server_version(self) -> str:
        return str(self._raw.get_server_info())

    @property
    def encrypted(self) -> bool:
        return isinstance(self._raw._sock, ssl.SSLSocket)

    def rows(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        with self._answered(), self._raw.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def row(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> tuple[Any, ...] | None:
        found = self.rows(statement, values)
        return found[0] if found else None

    def read(self, statement: str, values: Sequence[object] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a large answer in batches as they arrive; the time limit is per batch. If the caller stops
        early, the session ends."""
        cursor, done = self._raw.cursor(pymysql.cursors.SSCursor), False
        try:
            with self._answered():
                cursor.execute(statement, values or None)
            while rows := self._lot(cursor):
                yield rows
            done = True
        finally:
            if not done:  # otherwise the cursor would read the rest, which can take long
                self.close()

    def _lot(self, cursor: Any) -> list[tuple[Any, ...]]:
        """Return the next rows of a large answer, limited by their number and their size in memory."""
        found, size = list[tuple[Any, ...]](), 0
        with self._answered(most_bytes=ROW_BYTES) as call:
            while len(found) < ROWS_AT_ONCE and size < LOT_BYTES and (row := cursor.fetchone()) is not None:
                call.moved = True
                found.append(row)
                size += sum(len(one) for one in row if isinstance(one, str | bytes))
        return found

    def command(self, number: int, payload: bytes) -> None:
        """Send a protocol command that the server answers with OK."""
        with self._answered():
            self._raw._execute_command(number, payload)
            self._raw._read_packet()

    def dump(self, number: int, payload: bytes) -> Dump:
        """Send a command that the server answers with a stream; afterwards the session accepts no other command."""
        with self._answered():
            self._raw._execute_command(number, payload)
        return Dump(self)

    def sever(self) -> None:
        """Shut the connection down, from any thread: a thread that waits for an answer fails."""
        line = self._raw._sock
        if line is not None:
            shut(line.fileno())

    def close(self) -> None:
        ended(self._raw)

    @contextmanager
    def _answered(self, seconds: float | None = None, most_bytes: int = ANSWER_BYTES) -> Iterator[Call]:
        line = self._raw._sock
        if line is None:
            raise pymysql.err.InterfaceError(0, "the session is closed")
        with answered(line.fileno(), self.seconds if seconds is None else seconds, most_bytes) as call:
            yield call


class Dump:
    """The packets of a stream in order, extracted from large reads."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._buffer = b""
        self._at = 0
        self._sequence = 1

    def packet(self, seconds: float) -> bytes | None:
        """Return the next complete packet, including its first byte (0); None at the end of a non-blocking dump.

        Raises DriverError for a server's error or a broken connection, and NoAnswer if no packet arrives in time.
        """
        body = self._part(seconds)
        if len(body) == _MAX_PACKET:
            parts, size = [body], len(body)
            while len(parts[-1]) == _MAX_PACKET:
                parts.append(self._part(seconds))
                size += len(parts[-1])
                if size > EVENT_BYTES:
                    raise TooMuch(EVENT_BYTES)
            body = b"".join(parts)
        if not body:
            raise pymysql.err.OperationalError(2027, "the server sent an empty packet")
        if body[0] == 0xFF:
            pymysql.err.raise_mysql_exception(body)
        if body[0] == 0xFE and len(body) < 9:
            return None
        return body

    def sever(self) -> None:
        """Shut the connection down, from any thread."""
        self._session.sever()

    def close(self) -> None:
        self._session.close()

    def _part(self, seconds: float) -> bytes:
        self._have(_HEADER.size, seconds)
        low, high, number = _HEADER.unpack_from(self._buffer, self._at)
        if number != self._sequence:
            raise pymysql.err.OperationalError(2027, f"got packet {number}, expected {self._sequence}")
        self._sequence = (self._sequence + 1) % 256
        size = low | high << 16
        self._have(_HEADER.size + size, seconds)
        begin = self._at + _HEADER.size
        self._at = begin + size
        return self._buffer[begin : self._at]

    def _have(self, wanted: int, seconds: float) -> None:
        """Wait, within the time limit, until the buffer contains the requested number of bytes."""
        have = len(self._buffer) - self._at
        if have >= wanted:
            return
        parts = [self._buffer[self._at :]]
        with self._session._answered(seconds):
            receive = self._session._raw._sock.recv
            while have < wanted:
                part = receive(PIECE_BYTES)
                if not part:
                    raise pymysql.err.OperationalError(2013, "the server closed the connection")
                parts.append(part)
                have += len(part)
        self._buffer, self._at = b"".join(parts), 0


def connect(endpoint: Endpoint, password: Secret | str, name: str, seconds: float, database: str = "") -> Session:
    """Log in within `seconds` and pin the session's settings: utf8mb4, UTC, strict, autocommit.

    `name` is shown as `program_name` in performance_schema.session_connect_attrs. Raises DriverError; NoAnswer if the
    server does not answer, and AccessRefused for an invalid TLS file.
    """
    session = Session(logged_in(endpoint, password, name, seconds, _AS_TEXT, database), seconds)
    try:
        session.rows(
            "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES',"
            f" net_write_timeout = {NET_SECONDS}, net_read_timeout = {NET_SECONDS}, NAMES utf8mb4"
        )
    except BaseException:
        session.close()
        raise
    return session


_AS_TEXT: dict[Any, Any] = {
    **dict(pymysql.converters.encoders.items()),
    **dict.fromkeys((1, 2, 3, 8, 9, 13), int),
    5: float,
}
"""Conversions that return all values except integers and doubles as the server's text, because Python's dates and
decimals cannot represent all values."""


# -- the commands of a replica ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replica:
    """The identity of a replica; `heartbeat` is in seconds.

    `server_id` and `uuid` are unique among a source's replicas: MySQL disconnects an older replica with the same
    `uuid`.
    """

    server_id: int
    uuid: str
    heartbeat: float


def register(session: Session, replica: Replica) -> None:
    """Register the session as a replica, with heartbeats and with checksums as stored in the file.

    Its id is shown by SHOW SLAVE HOSTS. MySQL, "COM_REGISTER_SLAVE"; MariaDB, "Replica Registration".
    """
    nanoseconds = int(replica.heartbeat * 1_000_000_000)
    session.rows("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum")
    session.rows("SET @source_binlog_checksum = @master_binlog_checksum")
    session.rows(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
    session.rows("SET @slave_uuid = %s, @replica_uuid = %s", (replica.uuid, replica.uuid))
    session.rows("SET @mariadb_slave_capability = 4")
    # host, user, password, port, rank and the source's id are only for display
    payload = struct.pack("<I3sHII", replica.server_id, bytes(3), 0, 0, 0)
    session.command(COMMAND.COM_REGISTER_SLAVE, payload)


def dump_file(session: Session, replica: Replica, file: str, offset: int, blocking: bool) -> Dump:
    """Return the stream from an offset of a file; the offset has 32 bits (MySQL, "COM_BINLOG_DUMP")."""
    flags = 0 if blocking else NON_BLOCKING
    payload = struct.pack("<IHI", offset, flags, replica.server_id) + file.encode()
    return session.dump(COMMAND.COM_BINLOG_DUMP, payload)


def dump_maria_gtid(session: Session, replica: Replica, state: str, blocking: bool) -> Dump:
    """Return the stream after a MariaDB GTID state of all domains; a missing domain would start at its oldest event."""
    session.rows("SET @slave_connect_state = %s, @slave_gtid_strict_mode = 0", (state,))
    session.rows("SET @slave_gtid_ignore_duplicates = 0")
    return dump_file(session, replica, "", 4, blocking)


def dump_mysql_gtid(session: Session, replica: Replica, executed: bytes, blocking: bool) -> Dump:
    """Return the stream without the transactions of an encoded GTID set (MySQL, "COM_BINLOG_DUMP_GTID")."""
    flags = _THROUGH_GTID | (0 if blocking else NON_BLOCKING)
    payload = struct.pack("<HII", flags, replica.server_id, 0) + struct.pack("<QI", 4, len(executed)) + executed
    return session.dump(COMMAND.COM_BINLOG_DUMP_GTID, payload)
