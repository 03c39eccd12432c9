"""Shared parts of sources that use PostgreSQL's protocol: key chunks, row counts, findings, privileges and errors.

Only the source splits a table into chunks and compares keys, both in the source's own order. Bounds are stored in the
source's text form and cast back to the column's type, so no other system's collation or number format matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.endpoint import Endpoint, line_finding
from slotkeeper.core.domain.finding import Finding, Level, clock_finding
from slotkeeper.core.domain.row_counts import UNTOLD_CODES, RowCount, count_within
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators, spelled
from slotkeeper.core.drivers.session import Rows, Session
from slotkeeper.core.errors import SlotkeeperError, TooLarge, Unreachable
from slotkeeper.core.sqltext import dotted, quoted

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
LIMIT = "57014"
"""SQLSTATE query_canceled: the session's statement_timeout was exceeded."""
COUNT_LIMIT_MS = 5_000
"""Time limit in milliseconds for counting the rows of one part of a table, because the count reads a whole range."""


def table_name(table: str) -> pg.sql.Composable:
    """Return `schema.table` as identifiers; a name without a schema is returned without one."""
    return Identifier(*table.split(".", 1))


def plan_statement(
    table: str,
    key: Sequence[str],
    text: Callable[[str, pg.sql.Composable], pg.sql.Composable],
    rows: int,
    only: pg.sql.Composable | None = None,
) -> pg.sql.Composable:
    """Return SQL for every `rows`-th key and the last key in key order, by one pass over the index, converted by
    `text`.
    """
    places = [Identifier(f"k{n}") for n in range(1, len(key) + 1)]
    named = [SQL("{} AS {}").format(Identifier(name), k) for name, k in zip(key, places, strict=True)]
    return SQL(
        "SELECT {texts} FROM (SELECT {named}, row_number() OVER (ORDER BY {key}) AS n,"
        " lead(1) OVER (ORDER BY {key}) AS more FROM {table}) k"
        " WHERE n % {rows} = 0 OR more IS NULL ORDER BY n"
    ).format(
        texts=SQL(", ").join(text(name, k) for name, k in zip(key, places, strict=True)),
        named=SQL(", ").join(named),
        key=SQL(", ").join(map(Identifier, key)),
        table=table_name(table) if only is None else SQL("{} WHERE {}").format(table_name(table), only),
        rows=Literal(rows),
    )


def beyond(
    key: Sequence[str], types: Mapping[str, str], bound: Sequence[str], sign: str, operators: Operators
) -> pg.sql.Composable:
    """Return SQL for key > bound or key <= bound, by column; the bound on the first column lets an index be used."""
    values = [SQL("{}::{}").format(Literal(text), SQL(types[name])) for name, text in zip(key, bound, strict=True)]
    last_sign = spelled(operators, key[-1], ">" if sign == ">" else "<=")
    nested: pg.sql.Composable = SQL("{} {} {}").format(Identifier(key[-1]), last_sign, values[-1])
    for name, value in list(zip(key, values, strict=True))[-2::-1]:
        nested = SQL("({c} {s} {v} OR ({c} {e} {v} AND {rest}))").format(
            c=Identifier(name), s=spelled(operators, name, sign), e=spelled(operators, name, "="), v=value, rest=nested
        )
    if len(key) == 1:
        return nested
    lead = SQL("{} {} {}").format(Identifier(key[0]), spelled(operators, key[0], sign + "="), values[0])
    return SQL("({} AND {})").format(lead, nested)


def count_statement(table: str, condition: pg.sql.Composable | None, most: int | None) -> pg.sql.Composable:
    """Return SQL that counts the rows of a copy, up to a limit."""
    rows = SQL("SELECT 1 FROM {}").format(table_name(table))
    if condition is not None:
        rows += SQL(" WHERE ") + condition
    if most is not None:
        rows += SQL(" LIMIT {}").format(Literal(most))
    return SQL("SELECT count(*) FROM ({}) counted").format(rows)


def counted(ask: Callable[[int | None, int], Rows]) -> RowCount:
    """Return the row count of a table, queried by `ask(most, limit_ms)`; unknown if it is unreadable."""

    def within(most: int | None, limit_ms: int) -> int | None:
        try:
            return int(ask(most, limit_ms)[0][0])
        except SlotkeeperError as error:
            if error.code != LIMIT:
                raise
            return None

    try:
        return count_within(within)
    except SlotkeeperError as error:
        if error.code[:2] not in UNTOLD_CODES:
            raise
        return RowCount(None, why=error.message)


def server_findings(
    place: str, endpoint: Endpoint, session: Session, server: tuple[Any, ...], before: float, after: float
) -> Iterator[Finding]:
    """Return `doctor`'s findings; `server` is (version, user, clock, superuser), read between `before` and `after`."""
    version, user, clock, superuser = server
    yield Finding(place, Level.OK, f"connected to {endpoint.place} as {user}: {str(version)[:100]}")
    yield line_finding(place, endpoint, session.line())
    yield Finding(place, Level.OK, session.prove())
    yield clock_finding(place, float(clock), before, after)
    if superuser:
        yield Finding(place, Level.WARN, f"{user} is a superuser; SELECT on the tables is enough")


def grants(endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
    """Return GRANT statements with the minimum privileges to follow and compare these tables (`schema.*`: all).

    DWS: PUBLIC can call the binlog functions unless that privilege was revoked; separate findings report this.
    Hologres: sufficient from version 2.1 on.
    """
    to = quoted(endpoint.user)
    schemas = sorted({quoted(name.partition(".")[0]) for name in tables})
    return [
        f"GRANT CONNECT ON DATABASE {quoted(endpoint.database)} TO {to};",
        *(f"GRANT USAGE ON SCHEMA {one} TO {to};" for one in schemas),
        *(line for name in tables for line in _reads(name, to)),
    ]


def _reads(name: str, to: str) -> list[str]:
    schema, _, own = name.partition(".")
    if own != "*":
        return [f"GRANT SELECT ON {dotted(name)} TO {to};"]
    later = f"ALTER DEFAULT PRIVILEGES IN SCHEMA {quoted(schema)} GRANT SELECT ON TABLES TO {to};"
    return [
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(schema)} TO {to};",
        f"{later} -- as each role that creates tables there",
    ]


def plain_error(error: BaseException, place: str) -> tuple[SlotkeeperError | None, str, str, str]:
    """Return (error, code, text, message) for a driver error; `error` is None unless the driver's error has the same
    meaning on every server.
    """
    code, text = pg.failure(error)
    message = f"source {place}: {safe(pg.without_values(text, code), 300)}"
    found: SlotkeeperError | None = None
    if isinstance(error, pg.NoAnswer):
        found = Unreachable(f"source {place} {text}", "", code, "source").after_limit()
    elif isinstance(error, pg.TooMuch):
        found = TooLarge(f"source {place} {text}", "", code, "source")
    elif refusals.refusal(code, text):
        found = refusals.error_of(text)(message, refusals.cure(text), code, "source")
    return found, code, text, message
