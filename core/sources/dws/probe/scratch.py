"""The scratch tables of the probe of DWS, and the session that queries them.

The contract tests of the stand-in ask the same questions as the probe of a real cluster. The probe uses only documented
calls, and only on its own tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from slotkeeper.core.domain.probing import Left, ProbeFinding, ScratchTables, code_of, usable_schema
from slotkeeper.core.domain.slot import RegisteredPoint, Shard
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.eligibility import NEW_NAMES
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, ours, points_of
from slotkeeper.core.sources.dws.probe.questions import Event, Written
from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS, DwsSession
from slotkeeper.core.sources.dws.source import DwsSlotAdmin
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.sqltext import dotted, quoted, statements

PROBE: Book = ("slotkeeper.core.sources.dws.probe", "probe.sql")
MAKE_LIMIT_MS = 30_000
"""Timeout in milliseconds for creating, altering and dropping a table, which locks catalogs on every node."""


@dataclass(slots=True)
class Scratch(ScratchTables):
    """The scratch tables of one probe."""

    schema: str
    name: str
    stand_in: bool

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
        """The partitioned table, with enable_binlog."""
        return f"{self.schema}.{self.name}_parts"

    def statement(self, table: str, timed: bool) -> str:
        if table == self.parts:
            return probe_statement("make_parts").replace("{table}", dotted(table))
        binlog = "enable_binlog_timestamp" if timed else "enable_binlog"
        return probe_statement("make").replace("{table}", dotted(table)).replace("{binlog}", binlog)

    def create(self, session: DwsSession, table: str, timed: bool = False) -> None:
        statement: pg.sql.Composable = pg.sql.SQL(self.statement(table, timed))
        if self.stand_in:
            statement = pg.sql.SQL("SELECT dws.ddl({})").format(pg.sql.Literal(self.statement(table, timed)))
        self.make(table, lambda: session.answered(statement, None, MAKE_LIMIT_MS))

    def drop_all(self, opened: Callable[[], DwsSession]) -> list[Left]:
        """Drop the tables that may exist, slots first, in separate sessions; return those that could not be dropped."""
        return self.drop(lambda table: _drop(opened, table), lambda table: f"DROP TABLE {dotted(table)};")


def probe_statement(name: str) -> str:
    return statements(*PROBE)[name]


def place_for(session: DwsSession, wanted: str) -> str:
    """Return the schema for the scratch tables."""
    user = DwsViewer(session).server().user

    def grant(schema: str) -> str:
        name = quoted(schema or "probe")
        made = "" if schema else f"CREATE SCHEMA {name}; "
        return f"{made}GRANT USAGE, CREATE ON SCHEMA {name} TO {quoted(user)};"

    return usable_schema([str(row[0]) for row in session.rows("place", of=PROBE)], wanted, user, grant, "source")


def leftovers(session: DwsSession) -> list[Left]:
    """Return the scratch tables that earlier probes could not drop or that another running probe is using."""
    rows = session.rows("leftovers", of=PROBE)
    names = [(f"{schema}.{name}", owner) for schema, name, owner in rows]
    return [Left(name, f"owner {owner}; from another probe", f"DROP TABLE {dotted(name)};") for name, owner in names]


def _drop(opened: Callable[[], DwsSession], table: str) -> str:
    """Drop a table; return why it still exists, or "" if it does not."""
    try:
        session = opened()
    except SlotkeeperError as error:
        return error.message
    try:
        _clear(session, table)
        session.answered(pg.sql.SQL("DROP TABLE IF EXISTS {}").format(_named(table)), None, MAKE_LIMIT_MS)
        return "" if DwsViewer(session).table_facts(table) is None else "the catalog still lists the table"
    except SlotkeeperError as error:
        return error.message
    finally:
        session.close()


def _clear(session: DwsSession, table: str) -> None:
    """Clear the table's slots, or truncate the table, which also clears them (documented); errors are ignored."""
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


SLOT = "probe"
HOME = 1
"""The value of the distribution column in the rows that are used for queries about one DN."""
AT_FIRST = 2
"""Number of groups at the start that locate the probe's records, which all other groups need."""


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """The status that the server reports for one DN."""

    shard: Shard
    points: SyncPoints
    latest: int
    xmin: int


class ProbeContext(DwsSlotAdmin):
    """A session that uses one scratch table, and the facts found so far."""

    def __init__(self, session: DwsSession, scratch: Scratch, table: str) -> None:
        super().__init__(session, table, SLOT, BinlogOptions(binlog=True))
        self.scratch = scratch
        self.home = Shard("", 0)
        self.written: list[Written] = []
        self.events: list[Event] = []
        self.answers: dict[str, ProbeFinding] = {}

    def shards(self) -> list[Shard]:
        """Return the DNs of the table as reported for its slot, or else the DNs of the cluster."""
        return [one.shard for one in self.statuses(None)] or self.nodes()

    def statuses(self, shard: Shard | None) -> list[ProbeStatus]:
        return [
            ProbeStatus(one.shard, points_of(one.kept), ours(one.latest).point, points_of(one.kept).xmin)
            for one in self.read_status(shard)
        ]

    def here(self) -> ProbeStatus:
        """Return a status of the DN that stores `HOME`, or of any DN while that DN is unknown."""
        return self.statuses(self.home)[0]

    def ask_slot(self, checkpoint: bool = False) -> list[tuple[Any, ...]]:
        """Return the status for one checkpoint flag of the slot on all DNs, as rows in the server's order."""
        self.session.oriented = self.table
        return self.asked("ask_slot", {"slot": self.slot, "checkpoint": checkpoint})

    def begin(self) -> str:
        """Start recording with both points registered on every DN; return the full sync's result, "" if unsupported."""
        try:
            return self.full_sync()
        except SlotkeeperError as error:
            if error.code != "42883":  # no such function
                raise
        statuses = {one.shard: one for one in self.statuses(None)}
        latest = max((one.latest for one in statuses.values()), default=1)
        for shard in statuses or self.nodes():
            for flag in (False, True):
                self.register(shard, latest, flag, statuses[shard].xmin if shard in statuses else 3)
        return ""

    def write(self, statement: str, *events: tuple[str, tuple[int, int], str]) -> None:
        """Run one transaction on the table `{t}`, and record its events."""
        self.act(statement)
        if events:
            self.written.append(Written(events))

    def act(self, statement: str, limit_ms: int = MAKE_LIMIT_MS) -> None:
        text = statement.replace("{t}", dotted(self.table))
        self.session.answered(pg.sql.SQL(text), None, limit_ms)

    def refusal(self, statement: str) -> str:
        return code_of(lambda: self.act(statement))

    def asked(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        return self.session.rows(name, {"table": self.table, **parameters}, REGISTER_LIMIT_MS, PROBE)

    def register_all(self, point: int, xmin: int | None = None, flags: Sequence[bool] = (False, True)) -> list[int]:
        given = {"slot": self.slot, "point": point, "xmin": self.here().xmin if xmin is None else xmin}
        return [int(self.asked("register_all", {**given, "checkpoint": flag})[0][0]) for flag in flags]

    def raw(self, node: int = 0, start: int = 0, end: int | None = None) -> tuple[list[str], list[Event]]:
        """Return the rows of a range with the server's column names; by default the range is the whole binlog."""
        names, rows = self.raw_rows(node, start, end)
        found = []
        for *system, place, key, value in rows:  # three system columns, or four with the time
            point, sequence, kind = system[:3]
            time_us = int(system[3]) if len(system) > len(NEW_NAMES) and system[3] is not None else None
            own = pg.number(place), pg.number(key)
            found.append(Event(int(point), int(sequence), str(kind), time_us, own, value))
        return names, found

    def raw_rows(
        self, node: int = 0, start: int = 0, end: int | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the column names and the rows of a range, whatever columns the table has."""
        if self.session.oriented != self.table or self.session.fresh:
            self.ask_slot()
        far = self.here().latest + 1_000_000 if end is None else end
        literal = pg.sql.Literal
        statement = pg.sql.SQL(probe_statement("raw_changes")).format(
            table=literal(dotted(self.table)), node=literal(node), start=literal(start), end=literal(far)
        )
        return self.session.answered(statement, None, REGISTER_LIMIT_MS)

    def own(self, events: Sequence[Event]) -> list[int]:
        """Return the points of events, each once, in order."""
        return sorted({one.point for one in events})

    def read(self, after: DwsPosition, end: int, copied: bool = True) -> list[tuple[int, int, str]]:
        """Return (point, sequence, code) of events in a range of the home DN, read with the reader's own statement."""
        out = BytesIO()
        self.copy_allowed = copied
        self.copy_changes(self.home, after, DwsPosition(end, None), out)
        lines = (line.split("\t") for line in out.getvalue().decode().splitlines())
        return [(int(point), int(sequence), kind) for point, sequence, kind, *_ in lines]

    def listed(self) -> Sequence[RegisteredPoint] | None:
        return DwsViewer(self.session).points(self.table)

    def lacks(self, number: int) -> str:
        """Return why a group, by its number, cannot be asked; "" if it can."""
        lost = number > AT_FIRST and not self.home.name
        return "it requires the probe's own records, which no DN returned" if lost else ""

    def said(self, name: str) -> str | None:
        return self.answers[name].answer if name in self.answers else None

    def named_anew(self, new: bool) -> None:
        """Use the new or the old names of the system columns from now on."""
        self.options = replace(self.options, new_system_value=new)
