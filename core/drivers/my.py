"""The only importer of pymysql: sessions of MySQL and MariaDB, and the stream of a replica, each call under a deadline.

pymysql logs in (methods, TLS) and sends statements; the packets of a replication stream are read here, because it has
no command for them. A call that is late has its socket shut by `deadline.py`, as those of `pg.py` have.
Decision: docs/adr/0040-reading-a-mysql-binlog.md. Next door: `core.sources.mysql` reads what packets hold.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pymysql
import pymysql.cursors
from pymysql.constants import COMMAND

from core.domain.endpoint import Endpoint
from core.drivers.deadline import Call, Cut, Late, in_time, limited, shut

DriverError = pymysql.err.MySQLError
"""What this driver raises for anything that a server or a line did wrong."""
CLOSE_SECONDS = 2.0
ROWS_AT_ONCE = 1000
PIECE_BYTES = 256 * 1024
"""The most that a stream takes from its socket at once."""
_MAX_PACKET = 0xFFFFFF
NON_BLOCKING = 0x01
"""Flag of a dump: it ends where the binlog ends."""
_THROUGH_GTID = 0x04
_HEADER = struct.Struct("<HBB")


class NoAnswer(pymysql.err.OperationalError):
    """Our own deadline ended a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__(2013, f"does not answer within {seconds:g} s")


def code_of(error: BaseException) -> int:
    """The server's or the client's number of an error; 0 where it has none."""
    code = error.args[0] if isinstance(error, DriverError) and error.args else 0
    return code if isinstance(code, int) else 0


def said(error: BaseException) -> str:
    """What a server, or the client in its place, says in an error."""
    return str(error.args[-1]) if error.args else type(error).__name__


class Session:
    """One session, in autocommit; not shared between threads. Every call raises DriverError, NoAnswer where late."""

    def __init__(self, raw: pymysql.Connection[Any], seconds: float) -> None:
        self._raw: Any = raw  # its sockets and packets have no types
        self.seconds = seconds
        """The time of a call."""

    @property
    def id(self) -> int:
        """The session's number at the server."""
        return int(self._raw.thread_id())

    @property
    def server_version(self) -> str:
        """As the server says it when it greets."""
        return str(self._raw.get_server_info())

    @property
    def encrypted(self) -> bool:
        """Whether the line has TLS."""
        return isinstance(self._raw._sock, ssl.SSLSocket)

    def rows(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement's answer; none where it has none."""
        with self._answered(), self._raw.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def row(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> tuple[Any, ...] | None:
        """The first row."""
        found = self.rows(statement, values)
        return found[0] if found else None

    def read(self, statement: str, values: Sequence[object] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a large answer as they come, some at a time, each lot in time. Has to be read to its end."""
        cursor = self._raw.cursor(pymysql.cursors.SSCursor)
        with self._answered():
            cursor.execute(statement, values or None)
        while True:
            with self._answered():
                rows = cursor.fetchmany(ROWS_AT_ONCE)
            if not rows:
                cursor.close()
                return
            yield list(rows)

    def command(self, number: int, payload: bytes) -> None:
        """A command of the protocol that is answered by OK."""
        with self._answered():
            self._raw._execute_command(number, payload)
            self._raw._read_packet()

    def dump(self, number: int, payload: bytes) -> Dump:
        """A command that is answered by a stream; the session is of no other use from then on."""
        with self._answered():
            self._raw._execute_command(number, payload)
        return Dump(self)

    def sever(self) -> None:
        """Cut the line, from any thread: whoever waits at it gets its end."""
        line = self._raw._sock
        if line is not None:
            shut(line.fileno())

    def close(self) -> None:
        """End the session; safe to call twice. Nothing is waited for."""
        with suppress(DriverError, OSError):
            self._raw._force_close()

    @contextmanager
    def _answered(self, seconds: float | None = None) -> Iterator[None]:
        line = self._raw._sock
        if line is None:
            raise pymysql.err.InterfaceError(0, "the session is closed")
        limit = self.seconds if seconds is None else seconds
        with limited(line.fileno(), limit) as call:
            try:
                yield
            except (DriverError, OSError, ValueError) as error:
                _raise_cut(call, limit, error)
                if isinstance(error, DriverError):
                    raise
                raise pymysql.err.OperationalError(2013, f"the line broke: {type(error).__name__}") from error
            if call.cut is Cut.INTERRUPTED and threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt


def _raise_cut(call: Call, seconds: float, error: BaseException) -> None:
    if call.cut is Cut.LATE:
        raise NoAnswer(seconds) from error
    if call.cut is Cut.INTERRUPTED and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt from error


class Dump:
    """The packets of a stream, in their order, cut out of what comes in large pieces."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._buffer = b""
        self._at = 0
        self._sequence = 1

    def packet(self, seconds: float) -> bytes | None:
        """The next packet whole, its first byte (0) included; None at the end of a dump that does not block.

        Raises DriverError for an error of the server's, or a broken line; NoAnswer where none came in time.
        """
        body = self._part(seconds)
        if len(body) == _MAX_PACKET:
            parts = [body]
            while len(parts[-1]) == _MAX_PACKET:
                parts.append(self._part(seconds))
            body = b"".join(parts)
        if not body:
            raise pymysql.err.OperationalError(2027, "the server sent an empty packet")
        if body[0] == 0xFF:
            pymysql.err.raise_mysql_exception(body)
        if body[0] == 0xFE and len(body) < 9:
            return None
        return body

    def close(self) -> None:
        """End the stream with its session."""
        self._session.close()

    def _part(self, seconds: float) -> bytes:
        self._have(_HEADER.size, seconds)
        low, high, number = _HEADER.unpack_from(self._buffer, self._at)
        if number != self._sequence:
            raise pymysql.err.OperationalError(2027, f"packet {number} came, {self._sequence} was to come")
        self._sequence = (self._sequence + 1) % 256
        size = low | high << 16
        self._have(_HEADER.size + size, seconds)
        begin = self._at + _HEADER.size
        self._at = begin + size
        return self._buffer[begin : self._at]

    def _have(self, wanted: int, seconds: float) -> None:
        """Wait until so many bytes are there, in time."""
        have = len(self._buffer) - self._at
        if have >= wanted:
            return
        parts = [self._buffer[self._at :]]
        with self._session._answered(seconds):
            receive = self._session._raw._sock.recv
            while have < wanted:
                part = receive(PIECE_BYTES)
                if not part:
                    raise pymysql.err.OperationalError(2013, "the server closed the line")
                parts.append(part)
                have += len(part)
        self._buffer, self._at = b"".join(parts), 0


def connect(endpoint: Endpoint, password: str, name: str, seconds: float, database: str = "") -> Session:
    """Log in, in time, with the session's settings pinned: utf8mb4, UTC, strict, autocommit; `name` is shown as
    `program_name` of performance_schema.session_connect_attrs.

    Raises DriverError; NoAnswer where the server does not answer.
    """
    try:
        line = in_time(lambda: _line(endpoint, seconds), seconds, socket.socket.close)
    except Late as late:
        raise NoAnswer(seconds) from late
    except OSError as error:
        raise pymysql.err.OperationalError(2003, f"cannot be reached: {error.strerror or error}") from error
    try:
        with limited(line.fileno(), seconds) as call:
            try:
                raw = _login(endpoint, password, name, line, database)
            except (DriverError, OSError, ValueError) as error:
                _raise_cut(call, seconds, error)
                raise
    except BaseException:
        line.close()
        raise
    session = Session(raw, seconds)
    try:
        session.rows("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4")
    except BaseException:
        session.close()
        raise
    return session


def _line(endpoint: Endpoint, seconds: float) -> socket.socket:
    line = socket.create_connection((endpoint.host, endpoint.port), seconds)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.settimeout(None)
    return line


def _login(endpoint: Endpoint, password: str, name: str, line: socket.socket, database: str) -> pymysql.Connection[Any]:
    raw = pymysql.Connection(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        password=password,
        database=database or None,
        charset="utf8mb4",
        autocommit=True,
        local_infile=False,
        program_name=name,
        conv=_AS_TEXT,
        defer_connect=True,
        **_tls(endpoint),
    )
    raw.connect(line)
    return raw


def _tls(endpoint: Endpoint) -> dict[str, Any]:
    """libpq's modes in pymysql's words; `prefer` goes on without where the server has none."""
    if endpoint.sslmode == "disable":
        return {"ssl_disabled": True}
    if endpoint.sslmode in ("allow", "prefer"):
        return {}
    context = ssl.create_default_context(cafile=endpoint.sslrootcert or None)
    context.check_hostname = endpoint.sslmode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if endpoint.sslmode.startswith("verify") else ssl.CERT_NONE
    if endpoint.sslcert:
        context.load_cert_chain(endpoint.sslcert, endpoint.sslkey or None, endpoint.key_password or None)
    return {"ssl": context}


_AS_TEXT: dict[Any, Any] = {
    **dict(pymysql.converters.encoders.items()),
    **dict.fromkeys((1, 2, 3, 8, 9, 13), int),
    5: float,
}
"""Answers are the server's text, but for whole numbers and doubles: no date or decimal of it is lost on Python's."""


# -- the commands of a replica ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replica:
    """Who reads: `server_id` is unique among all replicas of a source, `uuid` as well (MySQL ends an older one of the
    same); `heartbeat` in seconds."""

    server_id: int
    uuid: str
    heartbeat: float


def register(session: Session, replica: Replica, write_seconds: int) -> None:
    """Make the session a replica's: checksums as they are in the file, heartbeats, its id in SHOW SLAVE HOSTS.

    MySQL, "COM_REGISTER_SLAVE"; MariaDB, "Replica Registration". `write_seconds` is for how long the server keeps a
    line whose reader is busy.
    """
    nanoseconds = int(replica.heartbeat * 1_000_000_000)
    session.rows("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum")
    session.rows("SET @source_binlog_checksum = @master_binlog_checksum")
    session.rows(f"SET @master_heartbeat_period = {nanoseconds}, @source_heartbeat_period = {nanoseconds}")
    session.rows("SET @slave_uuid = %s, @replica_uuid = %s", (replica.uuid, replica.uuid))
    session.rows("SET @mariadb_slave_capability = 4")
    session.rows(f"SET SESSION net_write_timeout = {write_seconds}")
    # host, user and password are for people only, so are port, rank and the source's id
    payload = struct.pack("<I3sHII", replica.server_id, bytes(3), 0, 0, 0)
    session.command(COMMAND.COM_REGISTER_SLAVE, payload)


def dump_file(session: Session, replica: Replica, file: str, offset: int, blocking: bool) -> Dump:
    """The stream from an offset of a file on; the offset has 32 bits (MySQL, "COM_BINLOG_DUMP")."""
    flags = 0 if blocking else NON_BLOCKING
    payload = struct.pack("<IHI", offset, flags, replica.server_id) + file.encode()
    return session.dump(COMMAND.COM_BINLOG_DUMP, payload)


def dump_maria_gtid(session: Session, replica: Replica, state: str, blocking: bool) -> Dump:
    """The stream behind a MariaDB GTID state, which names all domains: one that is missing begins at its oldest."""
    session.rows("SET @slave_connect_state = %s, @slave_gtid_strict_mode = 0", (state,))
    session.rows("SET @slave_gtid_ignore_duplicates = 0")
    return dump_file(session, replica, "", 4, blocking)


def dump_mysql_gtid(session: Session, replica: Replica, executed: bytes, blocking: bool) -> Dump:
    """The stream without the transactions of an encoded GTID set (MySQL, "COM_BINLOG_DUMP_GTID")."""
    flags = _THROUGH_GTID | (0 if blocking else NON_BLOCKING)
    payload = struct.pack("<HII", flags, replica.server_id, 0) + struct.pack("<QI", 4, len(executed)) + executed
    return session.dump(COMMAND.COM_BINLOG_DUMP_GTID, payload)
