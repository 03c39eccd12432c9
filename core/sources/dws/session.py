"""A session to DWS: autocommit, fixed text-format settings, and a statement timeout for each kind of call.

Binlog calls run in autocommit because DWS's own retry does not work inside a transaction block (vendor's psycopg2
page), and because a status query must not hold back the cleanup of old rows. `classify` determines the kind of an error
from its SQLSTATE, and from the message only if DWS returns no specific SQLSTATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from slotkeeper.core.domain.endpoint import Endpoint, Secret, moved
from slotkeeper.core.drivers import passing, pg
from slotkeeper.core.drivers.session import Dialect, Session
from slotkeeper.core.errors import (
    Busy,
    Refused,
    SlotkeeperError,
    TooLarge,
    Trouble,
    TroubleName,
    Unclassified,
    Unreachable,
)
from slotkeeper.core.sources.pg_base import LIMIT, plain_error

_NAMES = re.compile(r"\b(gs_binlog_(sync_point|event_sequence|event_type)|sync_point|event_sequence)\b")
"""Old and new names of the binlog's own columns, except `type`, which can also be a user's column."""
SWITCH = "set new_system_value = {} in the job's [jobs.JOB.binlog], and start the job"
_POOLER = ("pooler: failed to create", "could not connect", "Connection refused", "connection to server")


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Unreachable) -> SlotkeeperError:
    """Return Slotkeeper's error for a driver error at endpoint `place`; `timed_out` is the error class for timeouts."""
    found, code, text, message = plain_error(error, place)
    if found is not None:
        return found
    if code == "42P01":
        return Trouble(
            message, "check whether the table was dropped or renamed", code, "source", name=TroubleName.SCHEMA_CHANGED
        )
    named = _NAMES.search(text) if code == "42703" else None  # undefined_column
    if named:
        old = "gs_" in named[0]
        what = f"{message}: new_system_value = {str(old).lower()} does not match this kernel"
        return Refused(what, SWITCH.format("false" if old else "true"), code, "source")
    if code == "42883":  # undefined_function
        return Refused(message, "this kernel lacks a binlog function: upgrade to 9.1.0.200 or newer", code, "source")
    return _kind(code, text, timed_out)(message, "", code, "source").after_limit(code == LIMIT)


def _kind(code: str, text: str, timed_out: type[SlotkeeperError]) -> type[SlotkeeperError]:
    """Return the error class for a code; for a lost connection, a more specific code in the message has precedence."""
    if code == LIMIT:
        return timed_out
    if code == "53200" and timed_out is not TooLarge:
        return Busy  # retried: this query cannot be made smaller, and other sessions will free memory
    if code in passing.BY_CODE:
        return passing.BY_CODE[code]
    lost = code.startswith("08") or (code[:2] != "22" and any(words in text for words in _POOLER))
    return passing.lost_line(text) if lost else Unclassified


STATUS_LIMIT_MS = 2_000
"""Timeout of a status query in milliseconds, after which the DN counts as not answering."""

REGISTER_LIMIT_MS = 10_000
"""Server-side timeout of a registration, in milliseconds; limits how late a killed driver's call can take effect."""

SETTINGS = {
    "client_connection_check_interval": "500",
    "row_security": "off",  # PostgreSQL: a policy that would hide rows, even a newly added one, then causes an error
}

PATH = "pg_catalog"
"""DWS, "Statement Behavior", search_path: pg_temp is always searched first; listing it later is an error."""

DWS = Dialect(
    "source",
    ("slotkeeper.core.sources.dws", "queries.sql"),
    SETTINGS,
    classify,
    autocommit=True,
    limit_ms=STATUS_LIMIT_MS,
    path=PATH,
)

POLL_LIMIT_MS = 3_000
QUIET = replace(DWS, settings={"statement_timeout": str(POLL_LIMIT_MS)}, limit_ms=None, quiet=True)
"""For a screen: settings are sent with the login, and each query is one statement that only reads, because DWS has no
read-only session (vendor's psycopg2 page)."""


class DwsSession(Session):
    """A session to DWS."""

    def __init__(
        self, endpoint: Endpoint, password: Secret | str, application_name: str, dialect: Dialect = DWS
    ) -> None:
        super().__init__(endpoint, password, application_name, dialect)
        self.source = endpoint.name
        self._may_be_read_only = True
        self.oriented = ""
        """The table of the last sync-point call on this connection; empty before the first call."""
        self.lists_points = True
        """Whether the kernel can list points, as far as known."""

    def beside(self, mark: str, address: tuple[str, int] | None = None) -> DwsSession:
        """Return another session of the same login, whose name ends in `mark`, to another address if one is given."""
        endpoint = moved(self._endpoint, *address) if address else self._endpoint
        return DwsSession(endpoint, self._password, f"{self.application_name[: 63 - len(mark)]}{mark}")

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Make the transactions of the block read-only, if this login can change that setting (on DWS it cannot).

        PostgreSQL, "Statement Behavior": default_transaction_read_only. The value is restored; an error ends the
        session.
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
