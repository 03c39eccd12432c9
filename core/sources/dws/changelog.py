"""Read DWS binlog tables for DataFrame readers, in ranges with fixed ends and with full row images.

Implements `slotkeeper.core.ports.kinds.Changelog`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Column, Shard, SlotStatus
from slotkeeper.core.domain.type_name import Condition, FieldType
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators, spelled
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources.dws import chunks
from slotkeeper.core.sources.dws.identity import field_type
from slotkeeper.core.sources.dws.position import DwsPosition, ours
from slotkeeper.core.sources.dws.source import ALL, DwsSource, range_parts
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.sqltext import statements

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal


class DwsChangelog(DwsSource):
    """One table and slot of DWS; not shared between threads."""

    def field_type(self, column: Column) -> FieldType:
        """Return the type of a column's values for readers; for a domain, the base type is used."""
        return field_type(self.identity.plain(column.type))

    def exists(self) -> bool | None:
        """Return whether the slot has a point. This only lists points, because a status query would create the slot."""
        points = DwsViewer(self.session).points(self.table)
        return None if points is None else any(one.slot == self.slot for one in points)

    def end_of(self, shard: Shard, after: Position, up_to: Position, status: SlotStatus) -> DwsPosition:
        """Return the last visible event at the range's last point.

        DWS does not document whether the transaction of `latest` is visible everywhere ("Subscribing to Hybrid Data
        Warehouse Binlog"): a reader that treated the whole transaction as read would silently lose later events.
        """
        self._orient(shard)
        end = DwsPosition(ours(up_to).point, None)
        parts = range_parts(
            self.table, shard, DwsPosition(max(0, end.point - 1), None), end.point, self.options.new_system_value
        )
        statement = SQL(statements("slotkeeper.core.sources.dws", "changelog.sql")["last_event"]).format(**parts)
        ((last,),) = self.session.composed_rows(statement, None)
        return self.reached(after, end, Top(None if last is None else end.point, last), status)

    def copy_images(
        self,
        shard: Shard,
        after: Position,
        up_to: Position,
        columns: Sequence[Column],
        only: Sequence[Condition],
        out: BinaryIO,
    ) -> int:
        end = ours(up_to)

        def statement(as_text: bool) -> pg.sql.Composable:
            self._orient(shard)
            parts = range_parts(self.table, shard, ours(after), end.point, self.options.new_system_value)
            conditions = [self._met(one, {}) for one in only]
            if self.options.binlog_ignore_update_before:
                conditions.append(SQL("{} <> 'B'").format(parts["type"]))
            return SQL(statements("slotkeeper.core.sources.dws", "changelog.sql")["images"]).format(
                **parts,
                up_to_sequence=Literal(ALL if end.sequence is None else end.sequence),
                columns=chunks.column_list(self.identity, columns, as_text),
                only=SQL("").join(SQL(" AND {}").format(one) for one in conditions),
            )

        options = self.options
        return self._out(statement, out, options.binlog_read_timeout, options.binlog_batch_read_size)

    def copy_rows(self, chunk: Chunk, columns: Sequence[Column], only: Sequence[Condition], out: BinaryIO) -> int:
        def statement(as_text: bool) -> pg.sql.Composable:
            listed = chunks.column_list(self.identity, columns, as_text)
            identity, operators = self.identity, self._operators
            met = [self._met(one, operators) for one in only]
            condition = SQL(" AND ").join(met) if met else None
            return chunks.read_statement(self.table, identity, chunk, listed, condition, operators)

        options = self.options
        limit_ms, batch = options.full_sync_binlog_read_timeout, options.full_sync_binlog_batch_read_size
        return self._out(statement, out, limit_ms, batch)

    def _met(self, one: Condition, operators: Operators) -> pg.sql.Composable:
        types = {column.name: column.type for column in self.identity.columns}
        compared = [
            SQL("{} {} {}::{}").format(
                Identifier(one.column), spelled(operators, one.column, one.sign), Literal(value), SQL(types[one.column])
            )
            for value in one.values
        ]
        return SQL("({})").format(SQL(" OR ").join(compared))
