"""Queries of commands and screens for DWS: slots, unread rows, and a few rows of a table's binlog.

No statement names a slot, so none can create a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from slotkeeper.core.domain.inspection import ChangeRow, Filter, Range, Searched
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard, TableAnswer, TableIdentity, UnreadRows
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.ttl import ttl_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.dws.eligibility import TIME
from slotkeeper.core.sources.dws.position import NOTHING, DwsPosition, ours, place
from slotkeeper.core.sources.dws.slot import DwsTable
from slotkeeper.core.sources.dws.source import range_parts
from slotkeeper.core.sources.dws.viewer import (
    BOOK,
    COUNT_LIMIT_MS,
    DwsViewer,
    identity_of,
    named,
    or_none,
    points_of,
    unread_of,
)
from slotkeeper.core.sources.dws.words import WORDS
from slotkeeper.core.sqltext import statements

_POLL: Book = ("slotkeeper.core.sources.dws", "poll.sql")
READ_LIMIT_MS = 3_000
LONGEST = 4_000
"""Maximum number of characters fetched from a value; a longer value is shown with its length and hash."""

FIRST_WIDTH = 1_000
WIDER, NARROWER = 8, 16

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal


@dataclass(frozen=True, slots=True)
class Window:
    """A limited number of rows after a position and up to a point; with `newest`, the last of these rows."""

    after: DwsPosition
    up_to: int
    most: int
    newest: bool = False


class DwsInspector(DwsTable):
    """A table, with the answers for commands and screens; implements `slotkeeper.core.ports.source.Inspector`."""

    purge = None
    count_ms: int | None = COUNT_LIMIT_MS
    """Limit of a query that reads the binlog, in milliseconds; None for a session that polls for a screen."""

    def read(self) -> TableAnswer | None:
        asked, points = {"table": self.table, **named(self.table)}, None
        lists = self.session.lists_points
        rows = or_none(lambda: self.session.rows("points", asked, of=_POLL)) if lists else None
        if rows is not None:
            points = points_of(row[3:] for row in rows if row[3] is not None)
        elif lists:
            self.session.lists_points = False
            return None
        else:
            rows = self.session.rows("clock", asked, of=_POLL)
        clock, options, timeout = rows[0][:3]
        ttl = None if options is None else ttl_of(str(options))
        return TableAnswer(datetime.fromtimestamp(float(clock), timezone.utc), ttl, whole(timeout), points)

    def unread(self) -> Sequence[UnreadRows] | None:
        rows = or_none(lambda: self.session.rows("consume_progress", {"table": self.table}, self.count_ms))
        return None if rows is None else unread_of(rows)

    def consumed(self, node: int) -> bool | None:
        asked = {"table": self.table, "node": node}
        rows = or_none(lambda: self.session.rows("consumed_on", asked, self.count_ms, BOOK))
        return bool(rows[0][0]) if rows and rows[0][0] is not None else None

    def may_drop(self) -> bool | None:
        return DwsViewer(self.session).functions().get(WORDS.calls.drops)

    def latest(self, shard: Shard | None = None) -> dict[str, Position | None] | None:
        if shard is not None:
            return {name: record.latest for name, record in self.records(None, shard).items()}
        rows = or_none(lambda: self.session.rows("latest", {"table": self.table}, of=BOOK))
        return None if rows is None else {str(node): place(pg.number(point)) for node, point in rows}

    def describe(self) -> TableIdentity:
        try:
            rows = self.session.rows("identity", {"table": self.table})
        except SlotkeeperError as error:
            if error.code != "42P01":
                raise
            raise Refused(f"unknown table {self.table}", "check its name", error.code, "source") from error
        return identity_of(rows)

    def rows(self, identity: TableIdentity, shard: Shard, what: Range, only: Filter) -> Searched:
        return Windows(self, identity, shard, what, only).search()

    def first_at_or_after(self, shard: Shard, point: int) -> int | None:
        found = self.records(DwsPosition(point), shard).get(shard.name)
        return None if found is None or found.point is None else ours(found.point).point

    def in_window(self, identity: TableIdentity, shard: Shard, window: Window, only: Filter) -> list[ChangeRow]:
        """Return rows of a window in stream order; with `newest`, the last rows of the window."""
        if self.session.fresh or self.session.oriented != self.table:
            self.records(window.after, shard)  # the stand-in needs the table's name
        statement = self._window_statement(identity, shard, window, only)
        rows = self.session.composed_rows(statement, None, READ_LIMIT_MS)
        return [
            ChangeRow(DwsPosition(int(point), int(sequence)), str(kind), pg.number(us), tuple(values))
            for point, sequence, kind, us, *values in rows
        ]

    def read_nothing(self) -> str:
        """Read an empty range of the table's binlog as a job would, without naming a slot, and return the DN."""
        identity = self.describe()
        shard = min(self.nodes())
        newest = (self.latest(shard) or {}).get(shard.name)
        point = 0 if newest is None else ours(newest).point
        self.in_window(identity, shard, Window(DwsPosition(point), point, 1), Filter())
        return shard.name

    def _window_statement(
        self, identity: TableIdentity, shard: Shard, window: Window, only: Filter
    ) -> pg.sql.Composable:
        new_names = self.options.new_system_value
        parts = range_parts(self.table, shard, window.after, window.up_to, new_names)
        shown = SQL(
            "CASE WHEN length({v}) <= {most} THEN {v}"
            " ELSE left({v}, {most}) || '.. (' || length({v}) || ' characters, md5 ' || md5({v}) || ')' END"
        )
        texts = [
            _as_text(SQL("picked.{}").format(Identifier(column.name)), column.name, identity)
            for column in identity.columns
        ]
        return SQL(statements("slotkeeper.core.sources.dws", "peek.sql")["rows"]).format(
            **parts,
            time=SQL("picked.{}").format(Identifier(TIME)) if new_names else SQL("NULL::bigint"),
            values=SQL(", ").join(shown.format(v=text, most=Literal(LONGEST)) for text in texts),
            only=_only(parts["type"], only, identity),
            direction=SQL("DESC" if window.newest else "ASC"),
            most=Literal(window.most),
        )


@dataclass
class Windows:
    """A search in windows of sync points that grow while they contain few rows; `searched` is the last point searched.

    On a quiet table, the search queries the position of the next record first, so it reads no empty range.
    """

    inspector: DwsInspector
    identity: TableIdentity
    shard: Shard
    what: Range
    only: Filter
    width: int = FIRST_WIDTH
    found: list[ChangeRow] = field(default_factory=list)

    def search(self) -> Searched:
        return self._backward() if self.what.after is None else self._forward(ours(self.what.after))

    def _forward(self, at: DwsPosition) -> Searched:
        up_to = 0 if self.what.up_to is None else ours(self.what.up_to).point
        searched = max(0, at.point - 1 if at.sequence == NOTHING else at.point)
        while at.point <= up_to:
            first = self.inspector.first_at_or_after(self.shard, at.point)
            if first is None or first > up_to:
                break
            low = max(at, DwsPosition(first))
            high = min(up_to, low.point + self.width)
            rows = self._rows(Window(low, high, self._left))
            if rows is not None:
                self.found += rows
                at = DwsPosition(high + 1)
                searched = ours(self.found[-1].position).point if not self._left else high
            if not self._left or self.what.late():
                stopped = f"searched up to {searched}" if self._left or self.what.late() else ""
                return Searched(tuple(self.found), place(searched), False, stopped)
        return Searched(tuple(self.found), place(max(searched, up_to)), True)

    def _backward(self) -> Searched:
        high = up_to = 0 if self.what.up_to is None else ours(self.what.up_to).point
        oldest = self.inspector.first_at_or_after(self.shard, 0)
        while oldest is not None and high >= oldest:
            low = max(oldest, high - self.width)
            rows = self._rows(Window(DwsPosition(low), high, self._left, newest=True))
            if rows is not None:
                self.found[:0] = rows
                high = low - 1
            if not self._left or self.what.late():
                stopped = f"searched back to {high + 1}" if self._left or self.what.late() else ""
                return Searched(tuple(self.found), place(up_to), False, stopped)
        return Searched(tuple(self.found), place(up_to), True)

    @property
    def _left(self) -> int:
        return max(0, self.what.most - len(self.found))

    def _rows(self, window: Window) -> list[ChangeRow] | None:
        try:
            rows = self.inspector.in_window(self.identity, self.shard, window, self.only)
        except SlotkeeperError as error:
            if not error.timed_out or error.silent or self.width <= 1:
                raise
            self.width = max(1, self.width // NARROWER)
            return None
        self.width *= WIDER
        return rows


def _as_text(value: pg.sql.Composable, name: str, identity: TableIdentity) -> pg.sql.Composable:
    """Return SQL for a value in the server's text format; casting a user-defined type could run any function."""
    plain = next((identity.plain(column.type) for column in identity.columns if column.name == name), "")
    return pg.text_form(plain, value) if pg.is_made(plain) else SQL("({})::text").format(value)


def _only(kind: pg.sql.Composable, only: Filter, identity: TableIdentity) -> pg.sql.Composable:
    """Return conditions on types and key values; values are compared in the server's text format."""
    parts = [
        SQL("AND {} = {}").format(_as_text(Identifier(name), name, identity), Literal(text))
        for name, text in only.key.items()
    ]
    if only.kinds:
        parts.append(SQL("AND {}::text IN ({})").format(kind, SQL(", ").join(map(Literal, only.kinds))))
    return SQL(" ").join(parts)
