"""One session to a Hologres front end: autocommit, pinned text settings, a limit that changes with the kind of call.

Reads by SQL need an ordinary connection and SELECT on the table, no walsender (Hologres, "Subscribe to Hologres
binlogs").
"""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.sources.hologres.faults import classify

STATUS_LIMIT_MS = 2_000
"""A question about a shard has its own limit: one that does not answer in this time counts as not answering."""

SETTINGS = {"client_connection_check_interval": "500"}
"""Left out where the server does not know it (it speaks PostgreSQL 11)."""

HOLOGRES = Dialect(
    "source",
    ("slotkeeper.core.sources.hologres", "queries.sql"),
    SETTINGS,
    classify,
    autocommit=True,
    limit_ms=STATUS_LIMIT_MS,
)


class HoloSession(Session):
    """A session to a Hologres."""

    def __init__(self, endpoint: Endpoint, password: Secret | str, application_name: str) -> None:
        super().__init__(endpoint, password, application_name, HOLOGRES)
        self.source = endpoint.name
