"""One session to a PostgreSQL sink, with the settings that the protocol's safety rests on."""

from __future__ import annotations

import re
from dataclasses import replace

from slotkeeper.core.clock import Clock
from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book, Dialect, Session
from slotkeeper.core.sinks.postgres.dialect import DIALECTS
from slotkeeper.core.sinks.postgres.faults import classify
from slotkeeper.core.sqltext import statements

SETTINGS = {
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",  # off loses commits whose points were registered already
    "lock_timeout": "30s",
    "statement_timeout": "600s",
    "idle_in_transaction_session_timeout": "60s",  # longer than a status (2 s) plus a registration (2 x 10 s)
    "client_connection_check_interval": "500ms",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_LIKE = re.compile(r"[\\%_]")
"""What means more than itself in LIKE."""

COPY_LIMIT_MS = 1_800_000
"""The least that a chunk and the exchange get: the documented default of full_sync_binlog_read_timeout."""


def lengthen(cursor: pg.Cursor, read_timeout_ms: int) -> None:
    """Give the open transaction the time of a copy: that of one read of the full copy, 0 for no limit.

    Idle as well: a chunk's transaction waits for its source. DWS: statement_timeout is documented (Statement Behavior),
    the other is set where the server has it.
    """
    limit_ms = max(COPY_LIMIT_MS, read_timeout_ms) if read_timeout_ms else 0
    limit = str(limit_ms)
    pg.limit_transaction(cursor, limit_ms)
    idle = "idle_in_transaction_session_timeout"
    cursor.execute("SELECT set_config(name, %s, true) FROM pg_settings WHERE name = %s", (limit, idle))


POSTGRES = Dialect("sink", ("slotkeeper.core.sinks.postgres", "tables.sql"), SETTINGS, classify)


def dialect_of(kind: str) -> Dialect:
    """What a session to a sink of this kind is given."""
    own = DIALECTS[kind]
    return replace(POSTGRES, path=own.path, settings={**SETTINGS, **dict(own.settings)})


class SinkSession(Session):
    """A session to a sink; `kind` names its dialect, `schema` has our own tables there."""

    def __init__(
        self,
        endpoint: Endpoint,
        password: Secret | str,
        application_name: str,
        schema: str = "public",
        kind: str = "postgres",
        clock: Clock | None = None,
    ) -> None:
        self.dialect = DIALECTS[kind]
        super().__init__(endpoint, password, application_name, dialect_of(kind), clock)
        # where the endpoint says how long its line may be silent, that limits each statement
        self.transaction_ms = endpoint.socket_timeout_ms
        self.schema = pg.sql.Identifier(schema)
        self.parts = {"schema": self.schema}

    def end_sessions(self, name: str, begins: bool = False) -> int:
        """End this login's other sessions in this database by their name, or what it `begins` with; how many.

        They are told to end, and are not waited for.
        """
        pattern = _LIKE.sub(r"\\\g<0>", name) + "%" * begins
        return len([one for (one,) in self.fetched("end_sessions", {"pattern": pattern}) if one])

    def of_dialect(self, name: str, of: Book = POSTGRES.book) -> str:
        """The name of a statement: of the one that this dialect has for itself, where there is one."""
        own = f"{name}_{self.dialect.name}"
        return own if own in statements(*of) else name
