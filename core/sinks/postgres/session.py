"""One session to a PostgreSQL sink, with the settings that the protocol's safety rests on.

Next door: `core.sinks.postgres.write.sink` (a worker's steps) and `core.sinks.postgres.progress.store` (the driver's
rows) use it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from core.clock import Clock, SystemClock
from core.domain.endpoint import Endpoint
from core.drivers import pg
from core.sinks.postgres.faults import translated
from core.sqltext import statements

SETTINGS = {
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",  # off loses commits whose points were registered already
    "lock_timeout": "30s",
    "statement_timeout": "600s",
    "idle_in_transaction_session_timeout": "60s",  # longer than a look (2 s) plus a registration (2 x 10 s)
    "client_connection_check_interval": "500ms",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


COPY_LIMIT_MS = 1_800_000
"""The least that a chunk and the exchange get: the documented default of full_sync_binlog_read_timeout."""


def lengthen(cursor: pg.Cursor, read_timeout_ms: int) -> None:
    """Give the open transaction the time of a copy: that of one read of the full copy, 0 for no limit.

    Idle as well: a chunk's transaction waits for its source. DWS: statement_timeout is documented (Statement Behavior),
    the other is set where the server has it.
    """
    limit = str(max(COPY_LIMIT_MS, read_timeout_ms) if read_timeout_ms else 0)
    cursor.execute("SET LOCAL statement_timeout = %s", (limit,))
    idle = "idle_in_transaction_session_timeout"
    cursor.execute("SELECT set_config(name, %s, true) FROM pg_settings WHERE name = %s", (limit, idle))


class SinkSession:
    """A lazily opened connection; dropped on any driver error, rolled back when taken again."""

    def __init__(
        self,
        endpoint: Endpoint,
        password: str,
        application_name: str,
        schema: str = "public",
        kind: str = "postgres",
        clock: Clock | None = None,
    ) -> None:
        self.place = endpoint.place
        self.application_name = application_name
        self.kind = kind
        self.schema = pg.sql.Identifier(schema)
        self._endpoint = endpoint
        self._password = password
        self._connection: pg.Connection | None = None
        self._clock = clock or SystemClock()
        self._opened = 0.0
        self.generation = 0
        """Grows with every new connection: what a connection had prepared is gone when it changes."""

    def ready(self) -> pg.Connection:
        """The connection, opened when there is none. Raises an error of ours."""
        if self._connection is None or self._connection.closed:
            with translated(self.place):
                self._connection = pg.connect(self._endpoint, self._password, self.application_name, SETTINGS)
            self.generation += 1
            self._opened = self._clock.monotonic()
        return self._connection

    def seconds(self) -> float:
        """The session's monotonic clock."""
        return self._clock.monotonic()

    def retire(self, seconds: float) -> None:
        """End the session where it is older than this; only between transactions."""
        if self._connection is not None and self._clock.monotonic() - self._opened >= seconds:
            self.close()

    def run(self, cursor: pg.Cursor, name: str, parameters: dict[str, Any]) -> pg.Cursor:
        """Execute the statement `name` of tables.sql with our schema."""
        text = statements("core.sinks.postgres", "tables.sql")[name]
        cursor.execute(pg.sql.SQL(text).format(schema=self.schema), parameters)
        return cursor

    def transaction(self) -> _Transaction:
        """A cursor in one transaction; driver errors come out as ours, and drop the connection.

        It commits the connection that it began on: one that was opened since holds nothing of it.
        """
        return _Transaction(self)

    def rollback(self) -> None:
        """Roll back whatever is open; a connection that cannot is dropped."""
        if self._connection is not None and not self._connection.closed:
            try:
                self._connection.rollback()
            except pg.DriverError:
                self.close()

    def cancel(self) -> None:
        """Ask the server to end the statement that another thread runs here; nothing where none is under way."""
        connection = self._connection
        if connection is not None:
            with suppress(pg.DriverError):
                connection.cancel()

    def sever(self) -> None:
        """Cut the session off, from any thread, without waiting: a statement under way here fails at once."""
        connection = self._connection
        if connection is not None:
            pg.sever(connection)

    def close(self) -> None:
        """End the session, after a statement of another thread unless it is severed; safe to call twice."""
        connection = self._connection
        if connection is None:
            return
        if not connection.closed:
            connection.close()  # may wait, and `sever` must find it meanwhile
        if self._connection is connection:
            self._connection = None


class _Transaction:
    def __init__(self, session: SinkSession) -> None:
        self._session = session
        self._connection: pg.Connection | None = None

    def __enter__(self) -> pg.Cursor:
        self._connection = self._session.ready()
        with translated(self._session.place):
            return self._connection.cursor()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._connection is not None
        if error is None:
            with translated(self._session.place):
                try:
                    self._connection.commit()  # where it is closed, this raises
                except pg.DriverError:
                    self._session.close()
                    raise
            return
        if isinstance(error, pg.DriverError):
            self._session.close()
            with translated(self._session.place):
                raise error
        self._session.rollback()
