"""Reads facts about DWS and its tables: columns and types, points, versions, privileges, settings. Creates no slot.

The vendor's sync-point function creates the slot that is queried, so this module does not call that function.

DWS, "Data Types": type names are as returned by format_type. Types without an equivalent (arrays, intervals, times of
day, numerics without limits, user-defined types) are read as text in the server's format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column, RegisteredPoint, TableIdentity, UnreadRows, UserType
from slotkeeper.core.domain.ttl import Ttl, ttl_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg import number
from slotkeeper.core.drivers.session import Book, Rows, names_of_path
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.dws.eligibility import ServerFacts, TableFacts
from slotkeeper.core.sources.dws.position import ours, place, unread_from
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted, statements

COUNT_LIMIT_MS = 30_000
"""Timeout of a count of unread rows, in milliseconds: the count reads the binlog itself."""

NO_FUNCTION = frozenset({"42883", "0A000"})
"""SQLSTATEs for a function that does not exist or that rejects this kind of table."""

BOOK: Book = ("slotkeeper.core.sources.dws", "viewer.sql")
_TYPES: Book = ("slotkeeper.core.sources.dws", "made_types.sql")
RANGE, MULTIRANGE = "r", "m"
NO_RELATION = "42P01"

_UNKNOWN = frozenset({"42501", "42703", "42883", "42P01"})
"""SQLSTATEs for a missing privilege on a catalog, or for a catalog with a different structure."""

USEFUL = ("pgxc_get_binlog_slots", "pgxc_get_binlog_consume_progress", "pgxc_binlog_clear_target_slot")
"""The functions needed to list, measure and drop slots; kernel 9.1.0.223 and newer kernels have them."""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """The connected server: `clock` is its time in seconds since 1970, `superuser` is None if unknown."""

    version: str
    user: str
    clock: float
    superuser: bool | None


@dataclass(frozen=True, slots=True)
class TableSeen:
    """Properties of a table, without slots; `complaint` is the error message of the binlog functions."""

    facts: TableFacts
    complaint: str


class DwsViewer:
    """Reads DWS over one session."""

    def __init__(self, session: DwsSession) -> None:
        self.session = session

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        rows = or_none(lambda: self.session.rows("slots", {"table": table}))
        return None if rows is None else points_of(rows)

    def find_news(self, places: Mapping[str, Position]) -> set[str]:
        """Return the tables with a record after a position on any DN.

        DWS, "Hybrid Data Warehouse Functions", pgxc_get_binlog_cursor_by_syncpoint: the first record after a point, and
        the example includes the point itself. A record on a DN that does not hold the table costs an extra poll.
        """
        tables, news = list(places), statements("slotkeeper.core.sources.dws")["news"]
        asked = [
            pg.sql.SQL(news).format(
                number=pg.sql.Literal(at),
                table=pg.sql.Literal(dotted(table)),
                point=pg.sql.Literal(unread_from(ours(places[table]))),
            )
            for at, table in enumerate(tables)
        ]
        self.session.oriented = ""  # the last table of the statement is the session's table now
        rows = self.session.composed_rows(pg.sql.SQL(" UNION ALL ").join(asked), None)
        return {tables[int(found)] for (found,) in rows}

    def server(self) -> ServerSeen:
        version, user, clock, superuser = self._rows("server", {})[0]
        return ServerSeen(str(version), str(user), float(clock), superuser)

    def open_schemas(self, user: str) -> list[str]:
        """Return the schemas on the login's search_path in which PUBLIC can create objects; empty if unknown."""
        try:
            path = self._rows("own_path", {})
            names = names_of_path(str(path[0][0]), user) if path else []
            return [str(name) for (name,) in self._rows("open_schemas", {"names": names})]
        except SlotkeeperError as error:
            if error.code not in _UNKNOWN:
                raise
            return []

    def ttl(self, table: str) -> Ttl | None:
        rows = self._rows("table", named(table))
        return ttl_of(str(rows[0][5])) if rows else None

    def settings(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._rows("settings", {})}

    def functions(self) -> dict[str, bool]:
        """Return the existing binlog functions and whether this login can call each of them."""
        return {str(name): bool(allowed) for name, allowed in self._rows("functions", {})}

    def server_facts(self) -> ServerFacts:
        return ServerFacts(self.server().version, self.functions(), self.settings())

    def table(self, table: str) -> TableSeen | None:
        facts = self.table_facts(table)
        if facts is None:
            return None
        complaint = ""
        if facts.readable:
            try:
                self._rows("consumed", {"table": table}, COUNT_LIMIT_MS)
            except SlotkeeperError as error:
                complaint = error.message
        return TableSeen(facts, complaint)

    def table_facts(self, table: str) -> TableFacts | None:
        rows = self._rows("table", named(table))
        if not rows:
            return None
        oid, usage, select, keys, deferrable, options, kind, persistence, *more = rows[0]
        owned, administers, secures, parts, masks = more
        spread = or_none(lambda: self._rows("distribution", {"oid": oid}))
        distribution = str(spread[0][0]) if spread else None
        columns = self._rows("columns", {"oid": oid})
        return TableFacts(
            bool(usage and select),
            bool(keys),
            bool(deferrable),
            str(options),
            distribution,
            str(kind),
            str(persistence),
            row_security=self._flag("row_security", oid) if secures else None,
            redacted=self._flag("redaction", oid) if masks else None,
            owned=bool(owned),
            administers=bool(administers),
            partitioned=kind == "p" or str(parts or "n") != "n",
            columns=tuple(str(name) for name, _ in columns),
            virtual=tuple(str(name) for name, generated in columns if generated == "v"),
            inheritors=tuple(str(name) for (name,) in self._rows("inheritors", {"oid": oid})),
            usable=bool(usage),
        )

    def listed(self, schemas: Collection[str]) -> Iterator[tuple[str, str, TableFacts]]:
        """Yield schema, name and facts of tables and views, by one statement; other facts of a table are unknown."""
        for row in self._rows("listed", {"every": not schemas, "schemas": list(schemas)}):
            schema, name, usage, select, keys, deferrable, options, kind, persistence = row
            readable, usable = bool(usage and select), bool(usage)
            given = readable, bool(keys), bool(deferrable), str(options), None, str(kind), str(persistence)
            yield str(schema), str(name), TableFacts(*given, usable=usable)

    def _flag(self, statement: str, oid: int) -> bool | None:
        try:
            return bool(self._rows(statement, {"oid": oid})[0][0])
        except SlotkeeperError as error:
            if error.code in _UNKNOWN:
                return None
            raise

    def _rows(self, name: str, parameters: dict[str, Any], limit_ms: int | None = None) -> Rows:
        return self.session.rows(name, parameters, limit_ms, BOOK)


def or_none(ask: Callable[[], Rows]) -> Rows | None:
    """Return a query's rows, or None if this kernel lacks its function; raises Refused for an unknown table."""
    try:
        return ask()
    except SlotkeeperError as error:
        if error.code in NO_FUNCTION or (error.code == NO_RELATION and "pgxc_class" in error.message):
            return None
        if error.code == NO_RELATION:  # no job follows the table yet, so this is not SCHEMA CHANGED
            raise Refused(error.message, "check the table's name", error.code, "source") from error
        raise


def points_of(rows: Iterable[Sequence[Any]]) -> list[RegisteredPoint]:
    return [
        RegisteredPoint(str(node), str(slot), bool(flag), place(number(point)), at, number(xmin))
        for node, slot, point, at, xmin, flag in rows
    ]


def unread_of(rows: Iterable[Sequence[Any]]) -> list[UnreadRows]:
    return [UnreadRows(str(node), str(slot), bool(flag), number(count)) for node, _, slot, flag, _, _, count in rows]


def named(table: str) -> dict[str, str]:
    """Return a table's schema and name as parameters of the catalog statements."""
    schema, _, name = table.rpartition(".")
    return {"schema": schema or "public", "name": name}


def identity_of(rows: Rows, kinds: tuple[UserType, ...] = ()) -> TableIdentity:
    """Return a table's identity from the result rows of the statement `identity`; the key can be empty."""
    columns = tuple(Column(row[1], row[2], row[5], row[6] or "", row[7]) for row in rows)
    key = tuple(name for _, name in sorted((row[4], row[1]) for row in rows if row[4] >= 0))
    return TableIdentity(rows[0][0], columns, key, f"db{rows[0][3]}", kinds)


def user_types(session: DwsSession, table: str) -> tuple[UserType, ...]:
    """Return the user-defined types of a table's columns, including nested types; sends one query if there are none."""
    wanted = {int(oid) for (oid,) in session.rows("user_types", {"table": table})}
    found: dict[int, UserType] = {}
    asked: set[int] = set()
    while wanted - asked:
        asking = wanted - asked
        asked |= asking
        for oid, one, within in _described(session, asking):
            found[oid] = one
            wanted.update(within)
    return tuple(found.values())


def _described(session: DwsSession, oids: Collection[int]) -> list[tuple[int, UserType, list[int]]]:
    rows = session.rows("types", {"oids": sorted(oids)}, of=_TYPES)
    spans = {oid for oid, _, kind, *_ in rows if kind in (RANGE, MULTIRANGE)}
    ranges = session.rows("ranges", {"oids": sorted(spans)}, of=_TYPES) if spans else []
    described = []
    for oid, name, kind, base, parts, table, key, within in rows:
        one = UserType(name, kind, base, tuple(parts), bool(table), tuple(key))
        inner = [int(each) for each in within]
        for span, its_name, many, subtype, spelled, options in ranges:
            if oid == span:
                one, inner = replace(one, base=spelled, parts=(options,) if options else ()), [int(subtype)]
            elif oid == many:
                one, inner = replace(one, base=its_name), [int(span)]
        described.append((int(oid), one, inner))
    return described
