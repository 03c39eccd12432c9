"""Read DWS binlog tables for DataFrame readers, in ranges with fixed ends and with full row images."""

from __future__ import annotations

from typing import BinaryIO

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.spec import BinlogOptions, Images
from slotkeeper.core.domain.type_name import Condition
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators, spelled
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sources.dws import chunks
from slotkeeper.core.sources.dws.position import ours
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import ALL, DwsSlotAdmin, range_parts
from slotkeeper.core.sqltext import statements

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal


class DwsChangelog(DwsSlotAdmin):
    """One table and slot of DWS, read with the complete images of some columns; not shared between threads."""

    def __init__(self, session: DwsSession, table: str, slot: str, options: BinlogOptions, images: Images) -> None:
        super().__init__(session, table, slot, options)
        self._images = images

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        end = ours(up_to)

        def statement(as_text: bool) -> pg.sql.Composable:
            self._orient(shard)
            parts = range_parts(self.table, shard, ours(after), end.point, self.options.new_system_value)
            conditions = [self._met(one, {}) for one in self._images.only]
            if self.options.binlog_ignore_update_before:
                conditions.append(SQL("{} <> 'B'").format(parts["type"]))
            return SQL(statements("slotkeeper.core.sources.dws", "changelog.sql")["images"]).format(
                **parts,
                up_to_sequence=Literal(ALL if end.sequence is None else end.sequence),
                columns=chunks.column_list(self.identity, self._images.columns, as_text),
                only=SQL("").join(SQL(" AND {}").format(one) for one in conditions),
            )

        options = self.options
        return self._out(statement, out, options.binlog_read_timeout, options.binlog_batch_read_size)

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        def statement(as_text: bool) -> pg.sql.Composable:
            listed = chunks.column_list(self.identity, self._images.columns, as_text)
            identity, operators = self.identity, self._operators
            met = [self._met(one, operators) for one in self._images.only]
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
