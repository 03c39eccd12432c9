"""One session to a DWS: autocommit, pinned text settings, a statement limit that changes with the kind of call.

Binlog calls run in autocommit because DWS's own retry does not work inside a transaction block (vendor's psycopg2
page), and because one status must not hold back the cleaning of old rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotkeeper.core.domain.endpoint import Endpoint, Secret, moved
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.faults import classify

STATUS_LIMIT_MS = 2_000
"""A status's own limit: a DN that does not answer in this time counts as not answering."""

REGISTER_LIMIT_MS = 10_000
"""The server-side limit of a registration, which bounds how late a killed driver's call can land."""

SETTINGS = {
    "client_connection_check_interval": "500",
    "row_security": "off",  # PostgreSQL: a policy that would hide rows of a read is an error then, whenever it came
}

PATH = "pg_catalog"
"""DWS, "Statement Behavior", search_path: pg_temp is always first, and named behind another schema is an error."""

DWS = Dialect(
    "source",
    ("slotkeeper.core.sources.dws", "queries.sql"),
    SETTINGS,
    classify,
    autocommit=True,
    limit_ms=STATUS_LIMIT_MS,
    path=PATH,
)


class DwsSession(Session):
    """A session to a DWS."""

    def __init__(self, endpoint: Endpoint, password: Secret | str, application_name: str) -> None:
        super().__init__(endpoint, password, application_name, DWS)
        self.source = endpoint.name
        self._may_be_read_only = True
        self.oriented = ""
        """The table that this connection's last sync-point call named; nothing where it made none."""

    def beside(self, mark: str, address: tuple[str, int] | None = None) -> DwsSession:
        """Another session of the same login, whose name ends in `mark`; at another address where one is given."""
        endpoint = moved(self._endpoint, *address) if address else self._endpoint
        return DwsSession(endpoint, self._password, f"{self.application_name[: 63 - len(mark)]}{mark}")

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Let the transactions of the block be read-only ones, where this login may say so (on a DWS it may not).

        PostgreSQL, "Statement Behavior": default_transaction_read_only. What it was before comes back; on an error the
        session is ended.
        """
        if self._may_be_read_only:
            try:
                self.composed_rows(pg.sql.SQL("SET default_transaction_read_only = on"), None)
            except SlotkeeperError as error:
                if error.code not in ("42501", "42704"):
                    raise
                self._may_be_read_only = False
        yield
        if self._may_be_read_only:
            self.composed_rows(pg.sql.SQL("RESET default_transaction_read_only"), None)

    def _connect(self) -> pg.Connection:
        self.oriented = ""
        return super()._connect()
