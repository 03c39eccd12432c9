"""The only importer of psycopg2: connect with our session settings, and carry driver errors out as data.

Next door: `core.sources.dws.faults` and `core.sinks.postgres.faults` say how an error counts;
`core.config.secrets` resolves the password.
"""

from __future__ import annotations

import io
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from psycopg2 import sql

from core.domain.endpoint import Endpoint
from core.drivers.logins import Refusals
from core.redaction import masked

Connection = psycopg2.extensions.connection
Cursor = psycopg2.extensions.cursor
DriverError = psycopg2.Error
"""What this driver raises for anything that a server or a line did wrong."""

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
}
"""Settings that pin the text form of values, so that two servers write and read the same bytes (design 4.2)."""

_NO_OPTIONS = ("startup parameter", "unrecognized configuration parameter", "command-line argument")
"""Words of a server or pooler that takes no settings with a login."""

COPY_BUFFER = 262_144

_refusals = Refusals()

_VALUES = re.compile(r"\b(DETAIL|CONTEXT):.*", re.DOTALL)

__all__ = [
    "TEXT_SETTINGS",
    "Connection",
    "Cursor",
    "DriverError",
    "Named",
    "codec",
    "connect",
    "connect_quietly",
    "copy_in",
    "failure",
    "named",
    "number",
    "sever",
    "sql",
    "text_form",
    "transaction",
    "without_values",
]


def connect(
    endpoint: Endpoint,
    password: str,
    application_name: str,
    settings: Mapping[str, str] | None = None,
    autocommit: bool = False,
) -> Connection:
    """Open a session with TCP keepalives, the pinned text settings and `settings` on top.

    Settings are sent one by one after login, and one that the server does not know (SQLSTATE 42704) is left out:
    a DWS speaks an older dialect than PostgreSQL. Raises psycopg2.Error.
    """
    connection = _login(endpoint, password, application_name)
    try:
        connection.autocommit = True
        apply_settings(connection, {**TEXT_SETTINGS, **(settings or {})})
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def connect_quietly(
    endpoint: Endpoint, password: str, application_name: str, settings: Mapping[str, str]
) -> Connection:
    """As `connect`, in autocommit; settings go with the login, so that no statement is sent before the first question.

    Only settings that every server knows; where the login takes none (a pooler in between), they are sent after it.
    """
    wanted = {**TEXT_SETTINGS, **settings}
    options = " ".join("-c {}={}".format(name, value.replace(" ", "\\ ")) for name, value in wanted.items())
    try:
        connection = _login(endpoint, password, application_name, options)
    except psycopg2.OperationalError as error:
        if not any(words in str(error) for words in _NO_OPTIONS):
            raise
        return connect(endpoint, password, application_name, settings, autocommit=True)
    connection.autocommit = True
    return connection


def _login(endpoint: Endpoint, password: str, application_name: str, options: str = "") -> Connection:
    seconds = max(2, endpoint.connect_timeout_ms // 1000)
    with _refusals.turn(endpoint, password, seconds) as standing:
        if standing:
            again = "refused twice, not asked again, so that no account gets locked"
            raise psycopg2.OperationalError(f"{standing} ({again})")
        try:
            connection = psycopg2.connect(
                host=endpoint.host,
                port=endpoint.port,
                dbname=endpoint.database,
                user=endpoint.user,
                password=password,
                sslmode=endpoint.sslmode,
                application_name=application_name[:63],
                connect_timeout=seconds,
                keepalives=1,
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=endpoint.socket_timeout_ms or 60_000,
                options=options or None,
            )
        except psycopg2.OperationalError as error:
            _refusals.refused(endpoint, password, str(error).strip())
            raise
        _refusals.taken(endpoint, password)
        return connection


def apply_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """SET each of `settings` for the session; one statement where the server knows them all."""
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
        if error.pgcode != "42704":  # undefined_object: a setting of a newer server
            raise


def sever(connection: Connection) -> None:
    """Shut the connection's line down, from any thread, without waiting: whatever waits there for an answer fails.

    `close` waits for the statement of another thread, and a request to cancel for a server that may not answer either.
    The server finds the line gone and ends the session.
    """
    with suppress(psycopg2.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def failure(error: BaseException) -> tuple[str, str]:
    """(SQLSTATE or "", one-line text without known secrets) of a driver error; a lost line has none: 08006.

    >>> failure(psycopg2.InterfaceError("connection already closed"))
    ('08003', 'connection already closed')
    """
    text = " ".join(masked(str(error)).split()) or type(error).__name__
    code = getattr(error, "pgcode", None)
    if code:
        return str(code), text
    if isinstance(error, psycopg2.InterfaceError):
        return "08003", text
    if isinstance(error, psycopg2.OperationalError):
        return "08006", text
    return "", text


def without_values(text: str, code: str) -> str:
    """A server's sentence without its DETAIL and CONTEXT, and without quoted values in errors about data (class 22).

    >>> without_values('invalid input syntax for type integer: "Ada" DETAIL: Failing row is (Ada).', "22P02")
    'invalid input syntax for type integer'
    """
    text = _VALUES.sub("", text).strip()
    return re.sub(r'".*"', '"..."', re.sub(r': ".*"', "", text)) if code.startswith("22") else text


_OUT = {"boolean": "boolout", "inet": "inet_out", "bpchar": "bpcharout", "character": "bpcharout"}
"""Types whose cast to text is not what COPY writes: `true` for t, a /32 for a host, trailing blanks gone."""


def text_form(plain: str, expression: sql.Composable) -> sql.Composable:
    """The text that COPY would write of a value of this type, which is no domain."""
    out = _OUT.get(re.sub(r"\(\d+\)$", "", plain))
    return sql.SQL("textin({}({}))" if out else "({1})::text").format(sql.SQL(out or ""), expression)


def number(value: object) -> int | None:
    """A whole number out of a row, where the server has one there.

    >>> number("7"), number(None)
    (7, None)
    """
    return None if value is None else int(str(value))


@dataclass(frozen=True, slots=True)
class Named:
    """What a server names beside its sentence: a column, a constraint, and where it stood; empty where it does not."""

    column: str = ""
    constraint: str = ""
    context: str = ""


def named(error: BaseException) -> Named:
    """What a driver error names; `context` may hold values of a row and must not be shown."""
    said = getattr(error, "diag", None)
    return Named(*(str(getattr(said, part, None) or "") for part in ("column_name", "constraint_name", "context")))


def codec(connection: Connection) -> str:
    """Python's name of the encoding in which the server keeps text; empty where it keeps any bytes."""
    encoding = connection.get_parameter_status("server_encoding") or "UTF8"
    return "" if encoding == "SQL_ASCII" else str(psycopg2.extensions.encodings.get(encoding, "utf-8"))


def copy_in(cursor: Cursor, statement: sql.Composable, lines: IO[bytes] | io.RawIOBase) -> int:
    """COPY ... FROM STDIN; returns the rows that the server says it took."""
    cursor.copy_expert(statement.as_string(cursor), lines, COPY_BUFFER)
    return int(cursor.rowcount)


@contextmanager
def transaction(connection: Connection) -> Iterator[Cursor]:
    """A cursor in one transaction: committed at the end of the block, rolled back on any exception."""
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
