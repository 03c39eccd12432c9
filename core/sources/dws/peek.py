"""Reads a few rows of a DWS binlog for people to look at. Nothing here names a slot, so nothing can create one.

Implements `core.ports.source.BinlogReader`. Next door: `source.py` reads ranges for jobs; `peek.sql` holds
what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.peek import ChangeRow, Filter, Range
from core.domain.slot import FirstRecord, RegisteredPoint, Shard, TableIdentity
from core.drivers import pg
from core.errors import Refused, SlotkeeperError
from core.sources.dws.retention import TIME, first_at, records
from core.sources.dws.session import DwsSession
from core.sources.dws.source import identity_of, range_parts
from core.sources.dws.viewer import DwsViewer
from core.sqltext import statements

READ_LIMIT_MS = 3_000
LONGEST = 4_000
"""Characters of a value that are fetched; of a longer one its length and hash as well."""

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
        return identity_of(rows)

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
        said = f"{table} keeps no times: its binlog has none, or this kernel cannot look for one"
        return first_at(self.session, table, moment, said, "go to a point instead").get(shard.name)

    def read(self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter) -> list[ChangeRow]:
        """Rows of a range in the order of the stream."""
        if self.session.fresh or self._oriented != table:
            self.first(table, shard, what.after.point)  # the stand-in has to be told which table is meant
        statement = self._statement(identity, table, shard, what, only)
        rows = self.session.composed_rows(statement, None, READ_LIMIT_MS)
        return [
            ChangeRow(int(point), int(sequence), str(kind), pg.number(us), tuple(values))
            for point, sequence, kind, us, *values in rows
        ]

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()

    def _records(self, table: str, node: int, point: int) -> dict[str, FirstRecord]:
        found = records(self.session, table, point, node)
        self._oriented = table
        return found

    def _statement(
        self, identity: TableIdentity, table: str, shard: Shard, what: Range, only: Filter
    ) -> pg.sql.Composable:
        parts = range_parts(table, shard, what.after, what.up_to, self._new_names)
        return SQL(statements("core.sources.dws", "peek.sql")["rows"]).format(
            **parts,
            time=SQL("picked.{}").format(Identifier(TIME)) if self._new_names else SQL("NULL::bigint"),
            values=SQL(", ").join(_text_of(column.name) for column in identity.columns),
            only=_only(parts["type"], only),
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
