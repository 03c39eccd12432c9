"""One quiet session that watches slots: a question is one statement, and nothing else is ever sent.

Settings go with the login. DWS knows no read-only session (vendor's psycopg2 page), so only statements that read are
sent. Implements `slotkeeper.core.ports.source.SlotPoller`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.domain.slot import TableAnswer, UnreadRows
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.ttl import ttl_of
from slotkeeper.core.drivers.session import Book, Rows, Session
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.dws.session import DWS
from slotkeeper.core.sources.dws.viewer import NO_FUNCTION, moment, named, points_of, unread_of
from slotkeeper.core.sources.dws.words import WORDS

LIMIT_MS = 3_000
QUIET = replace(DWS, settings={"statement_timeout": str(LIMIT_MS)}, limit_ms=None, quiet=True)
_SQL: Book = ("slotkeeper.core.sources.dws", "poll.sql")


class DwsStatusPoller:
    """A session that is kept while it answers."""

    words = WORDS

    def __init__(self, endpoint: Endpoint, password: Secret | str, application_name: str) -> None:
        self._session = Session(endpoint, password, application_name, QUIET)
        self._lists = True

    def read_table(self, table: str) -> TableAnswer | None:
        """Points and clock; None where this kernel has just turned out not to list points."""
        try:
            rows = self._rows("points" if self._lists else "clock", {"table": table, **named(table)}, _SQL)
        except SlotkeeperError as error:
            if error.code not in NO_FUNCTION or not self._lists:
                raise
            self._lists = False
            return None
        clock, options, timeout = rows[0][:3]
        points = points_of(row[3:] for row in rows if row[3] is not None) if self._lists else None
        ttl = None if options is None else ttl_of(str(options))
        return TableAnswer(moment(clock), ttl, whole(timeout), points)

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """Unread rows per DN, slot and flag; None where the kernel cannot tell."""
        try:
            return unread_of(self._rows("consume_progress", {"table": table}))
        except SlotkeeperError as error:
            if error.code in NO_FUNCTION:
                return None
            raise

    def close(self) -> None:
        """End the session; a later question opens another one."""
        self._session.close()

    def _rows(self, name: str, parameters: dict[str, Any], of: Book | None = None) -> Rows:
        try:
            return self._session.rows(name, parameters, of=of)
        except SlotkeeperError as error:
            if error.code == "42P01":  # nothing is followed here, so this is no SCHEMA CHANGED
                raise Refused(error.message, "check the table's name", error.code, "source") from error
            raise
