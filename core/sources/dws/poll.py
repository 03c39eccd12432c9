"""One quiet session that watches slots: a question is one statement, and nothing else is ever sent.

Settings go with the login. DWS knows no read-only session (vendor's psycopg2 page), so only statements that read are
sent. Implements `core.ports.source.SlotPoller`. Next door: `viewer.py` is for commands; `poll.sql` holds the
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from core.domain.endpoint import Endpoint
from core.domain.slot import RegisteredPoint, TableAnswer, UnreadRows
from core.drivers import pg
from core.errors import Refused, SlotkeeperError
from core.sources.dws.faults import translated
from core.sqltext import dotted, statements

LIMIT_MS = 3_000
_NO_FUNCTION = frozenset({"42883", "0A000"})


class DwsWatch:
    """A connection that is opened when it is needed and kept while it answers."""

    def __init__(self, endpoint: Endpoint, password: str, application_name: str) -> None:
        self._endpoint = endpoint
        self._password = password
        self._name = application_name
        self._connection: pg.Connection | None = None
        self._lists = True

    def told(self, table: str) -> TableAnswer | None:
        """Points and clock; None where this kernel has just turned out not to list points."""
        schema, _, name = table.rpartition(".")
        names = {"table": dotted(table), "schema": schema or "public", "name": name}
        try:
            rows = self._rows(statements("core.sources.dws", "poll.sql")["points" if self._lists else "clock"], names)
        except SlotkeeperError as error:
            if error.code not in _NO_FUNCTION or not self._lists:
                raise
            self._lists = False
            return None
        clock, options, timeout = rows[0][:3]
        points = [_point(*row[3:]) for row in rows if row[3] is not None] if self._lists else None
        now = datetime.fromtimestamp(float(clock), timezone.utc)
        seconds = int(timeout) if timeout is not None and str(timeout).isdigit() else None
        return TableAnswer(now, None if options is None else str(options), seconds, points)

    def unread(self, table: str) -> Sequence[UnreadRows] | None:
        """Unread rows per DN, slot and flag; None where the kernel cannot tell."""
        try:
            rows = self._rows(statements("core.sources.dws")["consume_progress"], {"table": dotted(table)})
        except SlotkeeperError as error:
            if error.code in _NO_FUNCTION:
                return None
            raise
        return [
            UnreadRows(str(node), str(slot), bool(flag), None if count is None else int(count))
            for node, _, slot, flag, _, _, count in rows
        ]

    def close(self) -> None:
        """End the session; a later question opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            connection.close()

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        try:
            with translated(self._endpoint.place):
                if self._connection is None or self._connection.closed:
                    limits = {"statement_timeout": str(LIMIT_MS)}
                    self._connection = pg.connect_quietly(self._endpoint, self._password, self._name, limits)
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, parameters)
                    return cursor.fetchall()
        except SlotkeeperError as error:
            if not error.code or (error.code[:2] in ("08", "57") and error.code != "57014"):
                self.close()
            if error.code == "42P01":  # nothing is followed here, so this is no SCHEMA CHANGED
                raise Refused(error.message, "check the table's name", error.code, "source") from error
            raise


def _point(node: object, slot: object, point: Any, at: datetime | None, xmin: Any, flag: object) -> RegisteredPoint:
    number, oldest = (None if value is None else int(value) for value in (point, xmin))
    return RegisteredPoint(str(node), str(slot), bool(flag), number, at, oldest)
