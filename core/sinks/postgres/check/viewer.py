"""Looks at a PostgreSQL sink for commands that show things: version, clock, rights. Nothing here is made or locked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.progress import QUERY_TARGET
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.search_path import names_of_path
from slotkeeper.core.drivers.session import Book, Rows
from slotkeeper.core.ports.driver import LaneSeen
from slotkeeper.core.sinks.postgres.session import SinkSession

LIMIT_MS = 5_000
"""A look's own limit: somebody waits for it, who would not for the ten minutes of a step."""
_SQL: Book = ("slotkeeper.core.sinks.postgres.check", "viewer.sql")


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """Who answers: `clock` is its time in seconds since 1970.

    `temporary` is the right that staging needs, `creates` the one to make schemas.
    """

    version: str
    user: str
    clock: float
    superuser: bool
    temporary: bool
    creates: bool


SCHEMA_RIGHTS = ("USAGE", "CREATE")
_ALTERS = (
    "owns the table", "owns its schema", "has UPDATE", "has DELETE", "has TRUNCATE", "has TRIGGER",
)  # fmt: skip
TABLE_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")


@dataclass(frozen=True, slots=True)
class Rights:
    """What we may do in a schema, or with a table, by the server's names of rights."""

    granted: frozenset[str]

    def lacks(self, *needed: str) -> str:
        """Those of `needed` that we have not, in words; empty where we have all.

        >>> Rights(frozenset({"SELECT"})).lacks("SELECT", "INSERT", "UPDATE")
        'INSERT, UPDATE'
        """
        return ", ".join(one for one in needed if one not in self.granted)


class PostgresViewer:
    """One session that only looks."""

    def __init__(self, session: SinkSession) -> None:
        self.session = session

    def server(self) -> ServerSeen:
        """Who answers."""
        version, user, clock, superuser, temporary, creates = self._rows("server", {})[0]
        return ServerSeen(str(version), str(user), float(clock), bool(superuser), bool(temporary), bool(creates))

    def objections(self) -> list[Objection]:
        """What keeps this server from being any job's sink, by its own word.

        DWS, "Syntax Compatibility Differences Among Oracle, Teradata, and MySQL" (dws_04_0042): with ORA, which is the
        default of CREATE DATABASE, an empty text is NULL.
        """
        rows = self._rows("mode", {}) if self.session.dialect.has_modes else []
        if not rows or str(rows[0][0]).upper() != "ORA":
            return []
        what = (
            "its database is ORA-compatible (sql_compatibility): it keeps each empty text as NULL, also in our tables"
        )
        return [Objection(what, "name a database that was made with DBCOMPATIBILITY 'TD' or 'MySQL'")]

    def open_schemas(self, user: str) -> list[str]:
        """Schemas on the login's own search_path in which everybody may create."""
        path = self._rows("own_path", {})
        names = names_of_path(str(path[0][0]), user) if path else []
        return [str(name) for (name,) in self._rows("open_schemas", {"names": names})]

    def schema(self, schema: str) -> Rights | None:
        """What we may do in a schema; None where it does not exist."""
        return _rights(SCHEMA_RIGHTS, self._rows("schema", {"schema": schema}))

    def table(self, table: str) -> Rights | None:
        """What we may do with a table; None where it does not exist."""
        schema, _, name = table.partition(".")
        return _rights(TABLE_RIGHTS, self._rows("table", {"schema": schema, "name": name}))

    def alters(self, schema: str, name: str) -> list[str] | None:
        """By what this login can change rows of a table or the table itself, in words; None where there is none."""
        rows = self._rows("alters", {"schema": schema, "name": name})
        return [word for word, can in zip(_ALTERS, rows[0], strict=True) if can] if rows else None

    def lanes(self, schema: str, source: str, table: str, slot: str) -> list[LaneSeen]:
        """The lanes of a slot; none where there is no progress table."""
        if self.table(f"{schema}.slotkeeper_progress") is None:
            return []
        return [LaneSeen(*row) for row in self._rows("lanes", {"source": source, "source_table": table, "slot": slot})]

    def followed(self, schema: str) -> list[tuple[str, str, str, str]]:
        """(job, source, source table, slot) of all progress rows; none where there is no progress table."""
        if self.table(f"{schema}.slotkeeper_progress") is None:
            return []
        return [
            (str(job), str(source), str(table), str(slot)) for job, source, table, slot in self._rows("followed", {})
        ]

    def queried(self, schema: str) -> list[tuple[str, str, str]]:
        """(source, source table, slot) of the progress rows of DataFrame queries; none where there is no such table."""
        if self.table(f"{schema}.slotkeeper_progress") is None:
            return []
        found = self._rows("queried", {"target": f".{QUERY_TARGET}"})
        return [(str(source), str(table), str(slot)) for source, table, slot in found]

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()

    def _rows(self, name: str, parameters: dict[str, Any]) -> Rows:
        with self.session.transaction() as cursor:
            pg.limit_transaction(cursor, LIMIT_MS)
            return self.session.run(cursor, name, parameters, _SQL).fetchall()


def _rights(names: tuple[str, ...], rows: Rows) -> Rights | None:
    if not rows:
        return None
    return Rights(frozenset(name for name, granted in zip(names, rows[0], strict=True) if granted))
