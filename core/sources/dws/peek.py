"""Reads a few rows of a DWS binlog for people to look at. Nothing here names a slot, so nothing can create one.

Implements `core.ports.source.BinlogReader`. Next door: `source.py` reads ranges for jobs; `peek.sql` holds
what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.domain.peek import ChangeRow, Filter, Range
from core.domain.slot import Column, FirstRecord, RegisteredPoint, Shard, TableIdentity
from core.drivers import pg
from core.errors import Refused, SlotkeeperError
from core.sources.dws.columns import NEW_NAMES, OLD_NAMES
from core.sources.dws.session import DwsSession
from core.sources.dws.viewer import DwsViewer
from core.sqltext import dotted, statements

READ_LIMIT_MS = 3_000
LONGEST = 4_000
"""Characters of a value that are fetched; of a longer one its length and hash as well."""

_TIME = "gs_binlog_timestamp_us"
_NO_TIMES = frozenset({"0A000", "42809", "42883"})
SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal


class DwsPeek:
    """One session that reads rows on demand."""

    def __init__(self, session: DwsSession, new_names: bool = True) -> None:
        self.session = session
        self._new_names = new_names
        self._oriented = ""

    def identity(self, table: str) -> TableIdentity:
        """The table's columns and key; a key is not asked for here."""
        try:
            rows = self.session.rows("identity", {"table": table})
        except SlotkeeperError as error:
            if error.code != "42P01":
                raise
            raise Refused(f"there is no table {table}", "check its name", error.code, "source") from error
        columns = tuple(Column(str(name), str(spelled)) for _, name, spelled, *_ in rows)
        key = tuple(name for _, name in sorted((row[4], str(row[1])) for row in rows if row[4] >= 0))
        return TableIdentity(int(rows[0][0]), columns, key, f"db{rows[0][3]}")

    def nodes(self, table: str) -> dict[str, int]:
        """The DNs that hold a table: id by name."""
        return DwsViewer(self.session).nodes(table)

    def points(self, table: str) -> Sequence[RegisteredPoint] | None:
        """Every registered point of a table; None where this kernel cannot list them."""
        return DwsViewer(self.session).points(table)

    def first(self, table: str, shard: Shard, point: int) -> FirstRecord:
        """The first record of a DN at or after a point, and the newest point."""
        found = self._records(table, shard.node_id, point)
        return next(iter(found.values()), FirstRecord(None, None))

    def firsts(self, table: str, point: int) -> dict[str, FirstRecord]:
        """The first record at or after a point by DN."""
        return self._records(table, 0, point)

    def at_time(self, table: str, shard: Shard, moment: str) -> int | None:
        """The point of a DN's first record at or after a time."""
        try:
            rows = self._reach("record_at_time", {"table": table, "at": moment})
        except SlotkeeperError as error:
            if error.code not in _NO_TIMES:
                raise
            sentence = f"{table} keeps no times: its binlog has none, or this kernel cannot look for one"
            raise Refused(sentence, "go to a point instead", error.code, "source") from error
        return next((_number(point) for name, point, _ in rows if name == shard.name), None)

    def read(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> list[ChangeRow]:
        """Rows of a range in the order of the stream."""
        if self.session.fresh or self._oriented != table:
            self.first(table, shard, what.after.point)  # the stand-in has to be told which table is meant
        statement = self._statement(identity, table, shard, what, only)
        rows = self.session.composed_rows(statement, None, READ_LIMIT_MS)
        return [
            ChangeRow(int(point), int(sequence), str(kind), _number(us), tuple(values))
            for point, sequence, kind, us, *values in rows
        ]

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()

    def _records(self, table: str, node: int, point: int) -> dict[str, FirstRecord]:
        rows = self._reach("record_at", {"table": table, "point": point, "node": node})
        self._oriented = table
        return {str(name): FirstRecord(_number(latest), _number(found)) for name, latest, found, _, _ in rows}

    def _reach(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        return self.session.composed_rows(SQL(statements("core.sources.dws", "retention.sql")[name]), parameters)

    def _statement(
        self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter
    ) -> pg.sql.Composable:
        point, sequence, kind = map(Identifier, NEW_NAMES if self._new_names else OLD_NAMES)
        values = [_text_of(column.name) for column in identity.columns]
        return SQL(statements("core.sources.dws", "peek.sql")["rows"]).format(
            point=point,
            sequence=sequence,
            type=kind,
            time=SQL("picked.{}").format(Identifier(_TIME)) if self._new_names else SQL("NULL::bigint"),
            values=SQL(", ").join(values),
            table=Literal(dotted(table)),
            node=Literal(shard.node_id),
            start=Literal(max(0, what.after.point - 1)),
            end=Literal(what.up_to + 1),
            up_to=Literal(what.up_to),
            after_point=Literal(what.after.point),
            after_sequence=Literal(what.after.sequence),
            only=_only(kind, only),
            direction=SQL("DESC" if what.newest else "ASC"),
            most=Literal(what.most),
        )


def _text_of(name: str) -> pg.sql.Composable:
    return SQL(
        "CASE WHEN length({v}) <= {most} THEN {v}"
        " ELSE left({v}, {most}) || '.. (' || length({v}) || ' characters, md5 ' || md5({v}) || ')' END"
    ).format(v=SQL("(picked.{})::text").format(Identifier(name)), most=Literal(LONGEST))


def _only(kind: pg.sql.Composable, only: Filter) -> pg.sql.Composable:
    """Conditions on types and key values; values are compared as the server spells them."""
    parts = [SQL("AND ({})::text = {}").format(Identifier(name), Literal(text)) for name, text in only.key.items()]
    if only.kinds:
        parts.append(SQL("AND {}::text IN ({})").format(kind, SQL(", ").join(map(Literal, only.kinds))))
    return SQL(" ").join(parts)


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))
