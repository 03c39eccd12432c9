"""The only module that imports psycopg2: connects with pinned session settings, and returns driver errors as data."""

from __future__ import annotations

import ctypes
import io
import re
import select
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from psycopg2 import sql as sql
from psycopg2.extensions import libpq_version

from slotkeeper.core.domain.endpoint import Endpoint, Secret, secret_of
from slotkeeper.core.drivers.deadline import GRACE_SECONDS, Call, Cut, Late, in_time, limited, shut
from slotkeeper.core.drivers.login import LoginLine, Refusals, by_newest, parameters, silenced
from slotkeeper.core.redaction import masked

DriverError = psycopg2.Error
"""The base class of psycopg2's errors about a server or a connection."""
ROLLBACK_SECONDS = 5.0
"""Time limit of a ROLLBACK in seconds; if the server does not answer, the transaction ends with the connection."""
ANSWER_BYTES = 256 * 1024 * 1024
"""Maximum size in bytes of one statement's answer, which libpq holds in memory; COPY is read row by row."""
ROW_BYTES = 1024 * 1024 * 1024
"""Maximum size in bytes of one COPY row, whose message libpq holds in memory more than once. A correct server has no
larger rows, because it builds each in one allocation (`MaxAllocSize`, PostgreSQL's memutils.h)."""

TEXT_SETTINGS: Mapping[str, str] = {
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "lc_monetary": "C",
    "xmloption": "content",
    "client_encoding": "UTF8",
    "array_nulls": "on",
    "transform_null_equals": "off",
}
"""Settings that pin the text form of values, so that two servers write and read the same bytes (design 4.2).

The last two decide how text parses (PostgreSQL, "Version and Platform Compatibility"; DWS, "Compatibility with Earlier
Versions", "Platform and Client Compatibility"): with array_nulls off, a NULL in an array becomes the text NULL; with
transform_null_equals on, `= NULL` in a row filter becomes IS NULL.
"""

_NO_OPTIONS = ("startup parameter", "unrecognized configuration parameter", "command-line argument")
"""Error messages of a server or pooler that accepts no settings at login."""

COPY_BUFFER = 262_144

_refusals = Refusals()

_libpq = ctypes.CDLL(psycopg2._psycopg.__file__)
"""The libpq that psycopg2 is linked to; calls release the interpreter's lock."""
_libpq.PQgetCancel.restype = ctypes.c_void_p
_libpq.PQgetCancel.argtypes = [ctypes.c_void_p]
_libpq.PQcancel.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
_libpq.PQfreeCancel.argtypes = [ctypes.c_void_p]

_LABELS = "DETAIL|CONTEXT|DÉTAIL|CONTEXTE|ZUSAMMENHANG|DETALLE|CONTEXTO|DETALHE|DETTAGLI|CONTESTO|DETALJ|KONTEXT"
"""DETAIL and CONTEXT in the languages of the driver's library, which the locale chooses."""
_VALUES = re.compile(rf"\b({_LABELS})\s?:.*", re.DOTALL)
LINE = re.compile(r"\s*\bLINE \d+: .*", re.DOTALL)
"""The part of a statement that a client quotes in an error, which can contain values."""
_QUOTE = r'["»«„“”\u201a\u2018\u2019\u2039\u203a「」『』]'


class NoAnswer(psycopg2.OperationalError):
    """The client's own deadline ended a call: the server did not answer within its own limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"does not answer within {seconds:g} s")


class TooMuch(psycopg2.OperationalError):
    """A statement's answer exceeded its size limit and was cut off."""

    def __init__(self, most_bytes: int, what: str = "answered one statement with") -> None:
        super().__init__(f"{what} more than {most_bytes / 1024**2:g} MiB; connection closed")


class Connection(psycopg2.extensions.connection):
    """A connection whose calls end at a deadline: the server's statement limit plus `GRACE_SECONDS`."""

    def __init__(self, *args: Any, login_ms: int, opened: Callable[[int], None], **options: Any) -> None:
        self.login_ms = login_ms
        """Statement limit in milliseconds until the server has a limit."""
        self.limit_ms: int | None = login_ms
        """The statement limit set on the server, in milliseconds; 0 means no limit, None means not set."""
        self.transaction_ms: int | None = None
        """The open transaction's own limit, if any."""
        super().__init__(*args, **options)
        opened(self.fileno())
        self.notices = self.notifies = deque(maxlen=0)  # type: ignore[assignment]  # no code reads them
        self.cursor_factory = Cursor
        self.to_cancel: int = _libpq.PQgetCancel(self.pgconn_ptr)
        """libpq's PGcancel, created early: the connection of `pgconn_ptr` can be freed at any time."""
        weakref.finalize(self, _libpq.PQfreeCancel, self.to_cancel).atexit = False

    def cursor(self, *args: Any, **options: Any) -> Cursor:  # type: ignore[override]
        found: Cursor = super().cursor(*args, **options)
        return found

    @property
    def seconds(self) -> float | None:
        """Time limit of a call in seconds; None if the server has no limit."""
        limit_ms = self.limit_ms if self.transaction_ms is None else self.transaction_ms
        return limit_ms / 1000 + GRACE_SECONDS if limit_ms else None

    def commit(self) -> None:
        """Commit within the time limit; without an answer, the outcome is unknown. Raises psycopg2.Error."""
        with _answered(self, self.seconds, ANSWER_BYTES):
            self.transaction_ms = None
            super().commit()

    def rollback(self) -> None:
        self.transaction_ms = None
        with _answered(self, ROLLBACK_SECONDS, ANSWER_BYTES):
            super().rollback()


class Cursor(psycopg2.extensions.cursor):
    """A cursor whose statements end at the deadline of its connection."""

    connection: Connection

    def execute(self, query: Any, vars: Any = None) -> None:
        with _answered(self.connection, self.connection.seconds, ANSWER_BYTES):
            super().execute(query, vars)

    def copy_expert(self, sql: Any, file: Any, size: int = COPY_BUFFER) -> None:
        """Run psycopg2's `copy_expert` within the time limit, which includes the reads and writes of `file`."""
        with _answered(self.connection, self.connection.seconds, ROW_BYTES, "sent one row with") as call:
            given: Any = _Copied(file, call) if call else file
            try:
                super().copy_expert(sql, given, size)
            except psycopg2.Error as error:
                error.rows_came = call and (call.moved or call.moved_before)  # type: ignore[attr-defined]
                raise


class _Copied:
    """The stream of a COPY; each written row resets the byte count of the call.

    For COPY FROM, `read` returns the end of the data, or raises an error, only once the connection is writable again.

    psycopg2 ends a COPY with PQputCopyEnd under the interpreter's lock (`_pq_copy_in_v3` in psycopg/pqpath.c), which
    sends up to 8 KB that libpq still buffers: if the server has stopped reading, all threads of the process would
    block, including the thread that enforces deadlines.
    """

    def __init__(self, file: Any, call: Call) -> None:
        self._file = file
        self._descriptor = call.descriptor
        write = getattr(file, "write", None)
        if write:

            def write_row(row: Any) -> Any:
                call.moved = True
                return write(row)

            self.write = write_row  # as an attribute: it is called for each row

    def read(self, size: int = -1) -> Any:
        try:
            data = self._file.read(size)
        except BaseException:
            self._drain()
            raise
        if not data:
            self._drain()
        return data

    def _drain(self) -> None:
        # Linux reports a socket as writable once a third of its buffer is free, which is more than is left to send
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLOUT)
        waiting.poll()


@contextmanager
def _answered(
    connection: Connection, seconds: float | None, most_bytes: int, what: str = "answered one statement with"
) -> Iterator[Call | None]:
    """Limit a call's answer in seconds and bytes; raise `NoAnswer` or `TooMuch` if it exceeds a limit.

    Yields None for a connection that libpq has already closed: a call there fails at once. If the server has ended the
    connection, psycopg2 raises libpq's last result, which has no SQLSTATE and only reports the lost connection;
    `last_words` is the server's preceding message (PostgreSQL, "Connection Status Functions", PQerrorMessage).
    """
    descriptor = connection.fileno()
    if descriptor < 0:
        yield None
        return
    with limited(descriptor, seconds, most_bytes) as call:
        try:
            yield call
        except psycopg2.Error as error:
            if call.cut is Cut.LATE:
                raise NoAnswer(seconds or 0) from error
            if call.cut is Cut.MUCH:
                raise TooMuch(most_bytes, what) from error
            if _is_interrupted(call):
                raise KeyboardInterrupt from error
            if error.pgcode is None and connection.closed:
                with suppress(psycopg2.Error):
                    last_words = (connection.info.error_message or "").removesuffix(str(error))
                    error.last_words = last_words  # type: ignore[attr-defined]
            raise
        if _is_interrupted(call):
            raise KeyboardInterrupt


def _is_interrupted(call: Call) -> bool:
    """Return whether Ctrl-C interrupted a call of the main thread, where psycopg2 prints and discards the exception."""
    return call.cut is Cut.INTERRUPTED and threading.current_thread() is threading.main_thread()


def limit(connection: Connection, limit_ms: int) -> None:
    """Set the session's statement limit on the server, and derive the deadline of calls from it; 0 means no limit."""
    connection.limit_ms = connection.login_ms
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = %s", (limit_ms,))
    connection.limit_ms = limit_ms


def limit_transaction(cursor: Cursor, limit_ms: int) -> None:
    """Set another limit for the open transaction's statements, on the server and in this process; 0 means no limit."""
    cursor.connection.transaction_ms = limit_ms
    cursor.execute("SET LOCAL statement_timeout = %s", (str(limit_ms),))


def rename(connection: Connection, name: str) -> None:
    """Change the session's application_name on the server, between transactions, in one round trip.

    PostgreSQL, "Error Reporting and Logging": application_name can be set by any user, and is shown in
    pg_stat_activity with at most 63 characters.
    """
    with autocommitted(connection), connection.cursor() as cursor:
        cursor.execute("SET application_name = %s", (name,))


@contextmanager
def autocommitted(connection: Connection) -> Iterator[None]:
    """Run the statements of the block outside a transaction; call it only between transactions."""
    before, connection.autocommit = connection.autocommit, True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = before


def cancel(connection: Connection) -> None:
    """Ask the server, over a separate connection, to end another thread's statement; ignore failures.

    psycopg2's `cancel` holds the interpreter's lock (`psyco_conn_cancel` in psycopg/connection_type.c) while PQcancel
    waits, without a limit, for the server to close that connection. This function can wait as long, but blocks only its
    own thread.
    """
    if not connection.closed and connection.to_cancel:
        _libpq.PQcancel(connection.to_cancel, ctypes.create_string_buffer(256), 256)


def connect(
    endpoint: Endpoint,
    password: Secret | str,
    application_name: str,
    settings: Mapping[str, str] | None = None,
    autocommit: bool = False,
    path: str = "",
    check: Callable[[Connection], None] | None = None,
) -> Connection:
    """Open a session with TCP keepalives, the pinned text settings and the additional `settings`.

    Settings are sent after the login; settings that the server does not know (SQLSTATE 42704) are skipped, because DWS
    has an older dialect than PostgreSQL. `path` is the search_path as SQL, always set first; if it is empty, the
    login's own path remains. `check` is called with the connection before anything is set. Raises psycopg2.Error.
    """
    connection = log_in(endpoint, password, application_name)
    try:
        if check is not None:
            check(connection)
        if path:
            with connection.cursor() as cursor:
                cursor.execute(f"SET search_path = {path}")
        apply_settings(connection, {**TEXT_SETTINGS, **(settings or {})})
        connection.limit_ms = _limit_of(settings or {})
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def connect_quietly(
    endpoint: Endpoint,
    password: Secret | str,
    application_name: str,
    settings: Mapping[str, str],
    path: str,
    check: Callable[[Connection], None],
) -> Connection:
    """Like `connect`, in autocommit; settings are part of the login, so that no statement precedes the first query.

    Use only settings that every server knows. If the login accepts no settings (because of a pooler), the settings are
    sent after the login, and `check` is called before that.
    """
    wanted = {**TEXT_SETTINGS, **settings, "search_path": path}
    options = " ".join("-c {}={}".format(name, value.replace(" ", "\\ ")) for name, value in wanted.items())
    try:
        connection = log_in(endpoint, password, application_name, options)
    except psycopg2.OperationalError as error:
        if not any(words in str(error) for words in _NO_OPTIONS):
            raise
        return connect(endpoint, password, application_name, settings, True, path, check)
    connection.limit_ms = _limit_of(settings)
    return connection


_UNITS = {"": 1, "ms": 1, "s": 1_000, "min": 60_000}


def _limit_of(settings: Mapping[str, str]) -> int | None:
    """Return the statement_timeout in the settings, in milliseconds; None if it is not set.

    >>> _limit_of({"statement_timeout": "600s"}), _limit_of({"statement_timeout": "3000"}), _limit_of({})
    (600000, 3000, None)
    """
    found = re.fullmatch(r"(\d+)(ms|s|min|)", settings.get("statement_timeout", ""))
    return int(found[1]) * _UNITS[found[2]] if found else None


def log_in(endpoint: Endpoint, password: Secret | str, application_name: str, options: str = "") -> Connection:
    """Return a connection in autocommit with no settings except the login's `options`. Raises psycopg2.Error."""
    connection: Connection = login_as(Connection, endpoint, password, application_name, options)
    connection.autocommit = True
    return connection


def login_as(
    made: Callable[..., Any], endpoint: Endpoint, password: Secret | str, application_name: str, options: str
) -> Any:
    """Return a connection of class `made`, which takes `login_ms` and calls `opened` with its socket.

    Raises psycopg2.Error; SecretUnread if the password cannot be read.
    """
    return by_newest(
        endpoint, password, _refusals, lambda plain: _login_as(made, endpoint, plain, application_name, options)
    )


def _login_as(made: Callable[..., Any], endpoint: Endpoint, password: str, application_name: str, options: str) -> Any:
    seconds, line = max(2, endpoint.connect_timeout_ms // 1000), LoginLine()

    def opening() -> Any:
        # libpq's `connect_timeout` applies to each address of a host separately, and not to the name lookup
        # (PostgreSQL, "Parameter Key Words": https://www.postgresql.org/docs/17/libpq-connect.html)
        given = parameters(endpoint, password, application_name, seconds, options, libpq_version())
        opened = partial(line.over, timeout_ms=given["tcp_user_timeout"])
        kind = partial(made, login_ms=endpoint.connect_timeout_ms, opened=opened)
        with silenced():
            return psycopg2.connect(**{**given, "tcp_user_timeout": line.mark}, connection_factory=kind)

    with _refusals.turn(endpoint, password, seconds) as standing:
        if standing:
            again = "rejected twice, not tried again, so that the account is not locked"
            raise psycopg2.OperationalError(f"{standing} ({again})")
        try:
            connection = in_time(opening, seconds + GRACE_SECONDS, _end, line.check)
        except Late:
            raise NoAnswer(seconds + GRACE_SECONDS) from None
        except UnicodeDecodeError:  # psycopg2 decodes the server's text in libpq's message
            raise psycopg2.OperationalError("the program at this address is not a PostgreSQL server") from None
        except psycopg2.OperationalError as error:
            text = str(error)
            if password and password in text:  # a server can echo what it was sent
                text = text.replace(password, "***")
                error = psycopg2.OperationalError(text)
            _refusals.refused(endpoint, password, text.strip())
            if "timeout expired" in text:
                raise NoAnswer(seconds) from None
            raise error from None
        _refusals.taken(endpoint, password)
        return connection


def _end(connection: Any) -> None:
    shut(connection.fileno())
    connection.close()


def apply_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """SET each of `settings` for the session; in one statement if the server knows them all."""
    with connection.cursor() as cursor:
        try:
            cursor.execute("; ".join(f"SET {name} = %s" for name in settings), tuple(settings.values()))
        except psycopg2.Error as error:
            if error.pgcode is None:
                raise
            for name, value in settings.items():
                _apply_one(cursor, name, value)


def _apply_one(cursor: Cursor, name: str, value: str) -> None:
    try:
        cursor.execute(f"SET {name} = %s", (value,))
    except psycopg2.Error as error:
        # undefined_object: the server does not know the setting; insufficient_privilege: some logins cannot set it
        if error.pgcode != "42704" and (name, error.pgcode) != ("default_transaction_read_only", "42501"):
            raise


def sever(connection: Connection) -> None:
    """Shut the connection down, from any thread, without waiting: a call that waits for an answer fails.

    `close` waits for the statement of another thread, and a cancel request waits for a server that may not answer
    either. The server detects the lost connection and ends the session.
    """
    with suppress(psycopg2.Error):
        shut(connection.fileno())


def rows_came(error: BaseException) -> bool:
    """Return whether the COPY that raised this error had forwarded rows before it failed."""
    return bool(getattr(error.__cause__, "rows_came", False))


def hiding(error: psycopg2.Error, password: Secret | str) -> psycopg2.Error:
    """Mark the error so that `failure` hides the password, and return it; a server can echo the data of a login."""
    error.hidden = secret_of(password)  # type: ignore[attr-defined]
    return error


def failure(error: BaseException) -> tuple[str, str]:
    """Return (SQLSTATE or "", one-line message without known secrets) of a driver error; 08006 for a lost connection.

    >>> failure(psycopg2.InterfaceError("connection already closed"))
    ('08003', 'connection already closed')
    """
    hidden = getattr(error, "hidden", None)  # a password that can be too short or common to be masked everywhere
    whole = getattr(error, "last_words", "") or str(error)
    said = hidden.hidden_in(whole) if hidden else whole
    text = " ".join(masked(said).split()) or type(error).__name__
    code = getattr(error, "pgcode", None)
    if code:
        return str(code), text
    if isinstance(error, psycopg2.InterfaceError):
        return "08003", text
    if isinstance(error, psycopg2.OperationalError):
        return "08006", text
    return "", text


def without_values(text: str, code: str) -> str:
    """Return a server's message without DETAIL and CONTEXT; data errors (class 22) lose values and the statement, too.

    >>> without_values('invalid input syntax for type integer: "Ada" DETAIL: Failing row is (Ada).', "22P02")
    'invalid input syntax for type integer'
    >>> without_values('invalid input syntax for type uuid: "Ada" LINE 1: SELECT 1 WHERE id = \\'Ada\\'::uuid', "22P02")
    'invalid input syntax for type uuid'
    >>> without_values('ungültige Eingabesyntax für Typ integer: »Ada«', "22P02")
    'ungültige Eingabesyntax für Typ integer'
    """
    text = _VALUES.sub("", text).strip()
    if not code.startswith("22"):
        return text
    text = LINE.sub("", text)
    text = re.sub(rf"{_QUOTE}.*{_QUOTE}", '"..."', re.sub(rf"\s?[:\uff1a] ?{_QUOTE}.*{_QUOTE}", "", text))
    return re.sub(r'(?<!HINT)\s?[:\uff1a] ?[^"].*', "", text)  # such as the bytes of an invalid text


_OUT = {"boolean": "boolout", "inet": "inet_out", "bpchar": "bpcharout", "character": "bpcharout"}
"""Types whose cast to text differs from COPY's text: `true` for t, a /32 for a host, no trailing blanks."""


MADE_TEXT = r"CASE WHEN format(E'\045s', {0}) = '' AND {0} IS NULL THEN NULL ELSE format(E'\045s', {0}) END"
"""SQL for the text of a user-defined type's value as COPY writes it, with the type's own output function. The type's
owner may have created a cast to text; `::text` would then run the owner's function as the job's login. `format` needs
no cast (PostgreSQL, "String Functions and Operators", since 9.1; no page documents it for DWS). `format` converts NULL
to an empty string, and a row of NULLs IS NULL, so the expression tests both conditions. \\045 is the percent sign,
which would mark a parameter."""


def text_form(plain: str, expression: sql.Composable) -> sql.Composable:
    """Return SQL for the text that COPY writes for a value of this type, which must not be a domain."""
    if is_made(plain):
        return sql.SQL(MADE_TEXT).format(expression)
    out = _OUT.get(re.sub(r"\(\d+\)$", "", plain))
    return sql.SQL("textin({}({}))" if out else "({1})::text").format(sql.SQL(out or ""), expression)


def is_made(plain: str) -> bool:
    """Return whether a type is user-defined; only built-in types are written without a schema.

    >>> is_made("kinds.mood[]"), is_made("numeric(12,2)")
    (True, False)
    """
    return "." in plain


def number(value: object) -> int | None:
    """Convert a row's value to an integer; None for NULL.

    >>> number("7"), number(None)
    (7, None)
    """
    return None if value is None else int(str(value))


@dataclass(frozen=True, slots=True)
class Named:
    """Names that a server returns along with its message: a column, a constraint, and the context; empty if missing."""

    column: str = ""
    constraint: str = ""
    context: str = ""


def named(error: BaseException) -> Named:
    """Return the names in a driver error; `context` can contain values of a row and must not be shown."""
    said = getattr(error, "diag", None)
    return Named(*(str(getattr(said, part, None) or "") for part in ("column_name", "constraint_name", "context")))


def codec(connection: Connection) -> str:
    """Return Python's name of the server's text encoding; empty if the server stores arbitrary bytes."""
    encoding = connection.get_parameter_status("server_encoding") or "UTF8"
    return "" if encoding == "SQL_ASCII" else str(psycopg2.extensions.encodings.get(encoding, "utf-8"))


def copy_in(cursor: Cursor, statement: sql.Composable, lines: IO[bytes] | io.RawIOBase) -> int:
    """Run COPY ... FROM STDIN; return the number of rows that the server reports."""
    cursor.copy_expert(statement.as_string(cursor), lines, COPY_BUFFER)
    return int(cursor.rowcount)


@contextmanager
def transaction(connection: Connection) -> Iterator[Cursor]:
    """Yield a cursor in one transaction: committed at the end of the block, rolled back on any exception."""
    try:
        with connection.cursor() as cursor:
            yield cursor
        connection.commit()
    except BaseException:
        if not connection.closed:
            try:
                connection.rollback()
            except psycopg2.Error:
                connection.close()
        raise
