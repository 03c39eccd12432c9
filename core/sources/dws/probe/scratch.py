"""The scratch tables of `doctor --probe`: where they may be made, making them, and leaving nothing behind.

A table is ours once its CREATE was sent and not refused; nothing else is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slotkeeper.core.domain.inspection import Left
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS, DwsSession
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.sqltext import dotted, quoted, statements

PROBE: Book = ("slotkeeper.core.sources.dws.probe", "probe.sql")
PREFIX = "slotkeeper_probe_"
MAKE_LIMIT_MS = 30_000
"""Making, changing and dropping a table takes locks in the catalogs of every node."""

_UNSURE = ("08", "57")
"""Classes of SQLSTATEs after which a statement may have taken effect all the same."""


@dataclass(slots=True)
class Scratch:
    """The scratch tables of one probe; `ours` are those that may exist."""

    schema: str
    name: str
    stand_in: bool
    ours: list[str] = field(default_factory=list)

    @property
    def plain(self) -> str:
        """The table with enable_binlog."""
        return f"{self.schema}.{self.name}"

    @property
    def timed(self) -> str:
        """The table with enable_binlog_timestamp."""
        return f"{self.schema}.{self.name}_ts"

    @property
    def parts(self) -> str:
        """The table in partitions, with enable_binlog."""
        return f"{self.schema}.{self.name}_parts"

    def statement(self, table: str, timed: bool) -> str:
        """What makes one of them, in the words of a DWS."""
        if table == self.parts:
            return probe_statement("make_parts").replace("{table}", dotted(table))
        binlog = "enable_binlog_timestamp" if timed else "enable_binlog"
        return probe_statement("make").replace("{table}", dotted(table)).replace("{binlog}", binlog)

    def make(self, session: DwsSession, table: str, timed: bool = False) -> None:
        """Make one; raises what the server says."""
        statement: pg.sql.Composable = pg.sql.SQL(self.statement(table, timed))
        if self.stand_in:
            statement = pg.sql.SQL("SELECT dws.ddl({})").format(pg.sql.Literal(self.statement(table, timed)))
        self.ours.append(table)  # before it is sent: an interrupted CREATE may have made it
        try:
            session.answered(statement, None, MAKE_LIMIT_MS)
        except SlotkeeperError as error:
            if not error.code.startswith(_UNSURE):
                self.ours.remove(table)
            raise

    def drop(self, opened: Callable[[], DwsSession]) -> list[Left]:
        """Drop what may exist, slots first, with sessions of its own; what is left, where the server lets us not."""
        left = []
        for table in reversed(self.ours):
            why = _drop(opened, table) and _drop(opened, table)
            if why:
                left.append(Left(table, why, f"DROP TABLE {dotted(table)};"))
        self.ours = [one.table for one in left]
        return left


def probe_statement(name: str) -> str:
    """A statement of probe.sql."""
    return statements(*PROBE)[name]


def usable_schema(session: DwsSession, wanted: str) -> str:
    """The schema for scratch tables: the one that was asked for, else the first usable one; raises Refused."""
    user = DwsViewer(session).server().user
    usable = [str(row[0]) for row in session.rows("place", of=PROBE)]
    if wanted in usable or (usable and not wanted):
        return wanted or usable[0]
    where = f"in schema {wanted}" if wanted else "in any schema"
    schema = quoted(wanted or "probe")
    made = "" if wanted else f"CREATE SCHEMA {schema}; "
    cure = f"{made}GRANT USAGE, CREATE ON SCHEMA {schema} TO {quoted(user)};" + (
        f" or name one with --probe-schema: {', '.join(usable[:5])}" if usable else ""
    )
    raise Refused(f"{user} may not make a table {where}", cure, where="source")


def leftovers(session: DwsSession) -> list[Left]:
    """Tables that earlier probes could not drop, or that a probe elsewhere is using."""
    rows = session.rows("leftovers", of=PROBE)
    names = [(f"{schema}.{name}", owner) for schema, name, owner in rows]
    return [Left(name, f"owner {owner}; of another probe", f"DROP TABLE {dotted(name)};") for name, owner in names]


def _drop(opened: Callable[[], DwsSession], table: str) -> str:
    """Why a table is still there; "" where it is not."""
    try:
        session = opened()
    except SlotkeeperError as error:
        return error.message
    try:
        _clear(session, table)
        session.answered(pg.sql.SQL("DROP TABLE IF EXISTS {}").format(_named(table)), None, MAKE_LIMIT_MS)
        return "" if DwsViewer(session).table_facts(table) is None else "it is still in the catalog"
    except SlotkeeperError as error:
        return error.message
    finally:
        session.close()


def _clear(session: DwsSession, table: str) -> None:
    """Clear the table's slots, or empty it, which clears them too (documented); dropping it is what counts."""
    try:
        points = DwsViewer(session).points(table)
        for slot in sorted({one.slot for one in points or ()}):
            session.rows("drop_slot", {"table": table, "slot": slot}, REGISTER_LIMIT_MS)
        if points is not None:
            return
    except SlotkeeperError:
        session.close()
    try:
        session.answered(pg.sql.SQL("TRUNCATE {}").format(_named(table)), None, MAKE_LIMIT_MS)
    except SlotkeeperError:
        session.close()


def _named(table: str) -> pg.sql.Identifier:
    return pg.sql.Identifier(*table.split(".", 1))
