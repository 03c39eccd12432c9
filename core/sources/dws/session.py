"""One session to a DWS: autocommit, pinned text settings, a statement limit that changes with the kind of call.

Next door: `source.py` and `slot_admin.py` send the statements of `queries.sql` through it.
Binlog calls run in autocommit because DWS's own retry does not work inside a transaction block (vendor's psycopg2
page), and because one look must not hold back the cleaning of old rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

from core.domain.endpoint import Endpoint
from core.drivers import pg
from core.errors import TooLarge, Unreachable
from core.sources.dws.faults import translated
from core.sqltext import dotted, statements

STATUS_LIMIT_MS = 2_000
"""A look's own limit: a DN that does not answer in this time counts as not answering."""

SETTINGS = {
    "client_connection_check_interval": "500",
    "row_security": "off",  # PostgreSQL: a policy that would hide rows of a read is an error then, whenever it came
}

REGISTER_LIMIT_MS = 10_000
"""The server-side limit of a registration, which bounds how late a killed driver's call can land."""


class DwsSession:
    """A lazily opened connection; dropped on any driver error, so that the next call starts afresh."""

    def __init__(self, endpoint: Endpoint, password: str, application_name: str) -> None:
        self.place = endpoint.place
        self.source = endpoint.name
        self.application_name = application_name
        self._endpoint = endpoint
        self._password = password
        self._connection: pg.Connection | None = None
        self._limit_ms: int | None = None
        self._pinned = False
        self.oriented = ""
        """The table that this connection's last sync-point call named; nothing where it made none."""

    def beside(self, mark: str, address: tuple[str, int] | None = None) -> DwsSession:
        """Another session of the same login, whose name ends in `mark`; at another address where one is given."""
        endpoint = self._endpoint
        if address:
            endpoint = replace(endpoint, host=address[0], port=address[1])
        return DwsSession(endpoint, self._password, f"{self.application_name[: 63 - len(mark)]}{mark}")

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Hold one open session for the block: a lost one is not opened again inside it.

        A registrar that stalls and wakes must find its session ended, not open another one.
        """
        with translated(self.place):
            self._ready(STATUS_LIMIT_MS)
        self._pinned = True
        try:
            yield
        finally:
            self._pinned = False

    @property
    def fresh(self) -> bool:
        """Whether the next call opens a new connection."""
        return self._connection is None or bool(self._connection.closed)

    def rows(self, name: str, parameters: dict[str, Any], limit_ms: int = STATUS_LIMIT_MS) -> list[tuple[Any, ...]]:
        """All rows of the statement `name` of queries.sql."""
        return self.composed_rows(pg.sql.SQL(statements("core.sources.dws")[name]), parameters, limit_ms)

    def composed_rows(
        self, statement: pg.sql.Composable, parameters: dict[str, Any] | None, limit_ms: int = STATUS_LIMIT_MS
    ) -> list[tuple[Any, ...]]:
        """All rows of a composed statement; its parameter `table` is a name as written in the configuration."""
        return self.answered(statement, parameters, limit_ms)[1]

    def answered(
        self, statement: pg.sql.Composable, parameters: dict[str, Any] | None, limit_ms: int = STATUS_LIMIT_MS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names of the columns that a statement answers with, and all rows; neither where it answers none."""
        if parameters and "table" in parameters:
            parameters = {**parameters, "table": dotted(parameters["table"])}
        with translated(self.place):
            try:
                connection = self._ready(limit_ms)
                with connection.cursor() as cursor:
                    cursor.execute(statement, parameters)
                    if cursor.description is None:
                        return [], []
                    return [column.name for column in cursor.description], cursor.fetchall()
            except BaseException:
                self.close()
                raise

    def copy_out(self, statement: pg.sql.Composable, out: BinaryIO, limit_ms: int) -> int:
        """COPY (statement) TO STDOUT into `out`; returns the rows that the server says it sent."""
        with translated(self.place, TooLarge):
            try:
                connection = self._ready(limit_ms)
                with connection.cursor() as cursor:
                    text = pg.sql.SQL("COPY ({}) TO STDOUT").format(statement).as_string(connection)
                    cursor.copy_expert(text, out, 262_144)
                    return int(cursor.rowcount)
            except BaseException:
                self.close()
                raise

    def cursor_out(self, statement: pg.sql.Composable, out: BinaryIO, limit_ms: int, batch: int) -> int:
        """The same rows through a server-side cursor, `batch` rows at a time, for servers that refuse COPY."""
        with translated(self.place, TooLarge):
            try:
                return self._fetch_out(self._ready(limit_ms), statement, out, batch)
            except BaseException:
                self.close()
                raise

    def _fetch_out(self, connection: pg.Connection, statement: pg.sql.Composable, out: BinaryIO, batch: int) -> int:
        count = 0
        connection.autocommit = False  # a server-side cursor lives in a transaction
        with pg.transaction(connection) as opener:
            opener.execute(pg.sql.SQL("DECLARE slotkeeper_read NO SCROLL CURSOR FOR {}").format(statement))
            while True:
                opener.execute("FETCH FORWARD %s FROM slotkeeper_read", (batch,))
                rows = opener.fetchall()
                for row in rows:
                    out.write(copy_line(row))
                count += len(rows)
                if len(rows) < batch:
                    break
            opener.execute("CLOSE slotkeeper_read")
        connection.autocommit = True
        return count

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting: a statement under way here fails at once."""
        connection = self._connection
        if connection is not None:
            pg.sever(connection)

    def close(self) -> None:
        """End the session, after a statement of another thread unless it is severed; safe to call twice."""
        connection = self._connection
        if connection is not None and not connection.closed:
            connection.close()  # may wait, and `sever` must find it meanwhile
        if self._connection is connection:
            self._connection, self._limit_ms, self.oriented = None, None, ""

    def _ready(self, limit_ms: int) -> pg.Connection:
        if self._connection is None or self._connection.closed:
            if self._pinned:
                raise Unreachable(f"source {self.place}: the session was ended", code="08003", where="source")
            self._connection = pg.connect(
                self._endpoint,
                self._password,
                self.application_name,
                settings=SETTINGS,
                autocommit=True,
            )
            self._limit_ms, self.oriented = None, ""
        if self._endpoint.socket_timeout_ms:
            limit_ms = min(limit_ms, self._endpoint.socket_timeout_ms)
        if limit_ms != self._limit_ms:
            with self._connection.cursor() as cursor:
                cursor.execute("SET statement_timeout = %s", (limit_ms,))
            self._limit_ms = limit_ms
        return self._connection


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_line(row: tuple[object, ...]) -> bytes:
    r"""One line of COPY text from values that the server already spelled as text.

    >>> copy_line((10516, None, "a\tb"))
    b'10516\t\\N\ta\\tb\n'
    """
    return ("\t".join("\\N" if v is None else str(v).translate(_ESCAPES) for v in row) + "\n").encode()
