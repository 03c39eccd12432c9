"""Which columns and rows of a table a channel mirrors, as parts of the statements that read it.

Next door: `source.py` reads ranges with it, `chunks.py` the table itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.slot import Column, TableIdentity
from core.domain.spec import ChannelSpec
from core.drivers import pg
from core.errors import Refused

SQL, Identifier = pg.sql.SQL, pg.sql.Identifier


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of the columns to read in order (none: all), and a condition over the row's columns (empty: all rows)."""

    names: tuple[str, ...] = ()
    where: str = ""

    @classmethod
    def of(cls, channel: ChannelSpec) -> Selection:
        """What a channel mirrors."""
        return cls(tuple(source for source, _ in channel.columns), channel.where)

    def columns(self, identity: TableIdentity) -> tuple[Column, ...]:
        """The columns to read; raises Refused where one is not there or a key column is left out."""
        if not self.names:
            return identity.columns
        there = {column.name: column for column in identity.columns}
        absent = [name for name in self.names if name not in there]
        if absent:
            known = ", ".join(there)
            raise Refused(
                f"columns names {absent[0]!r}, which the source table has not", f"it has {known}", where="source"
            )
        left = [name for name in identity.key if name not in self.names]
        if left:
            what = f"columns leaves out {left[0]!r}, which is part of the source's key"
            raise Refused(what, "map every column of the primary key", where="source")
        return tuple(there[name] for name in self.names)

    def condition(self) -> pg.sql.Composable:
        """The row filter for a WHERE of its own rows; true where there is none."""
        return SQL("({})").format(SQL(self.where)) if self.where else SQL("true")

    def kind(self, kind: pg.sql.Composable) -> pg.sql.Composable:
        """An event's type as it is staged: an image that the filter does not accept is an x, which ends its row.

        DWS, "Subscribing to Hybrid Data Warehouse Binlog": the types are I, d, B and U. Any other is a ?, which ends
        the step: it is not known what it does to a row, and it may be spelled as our own x.
        """
        known = SQL("WHEN {0} IN ('I', 'd', 'B', 'U') THEN {0} ELSE '?' END").format(kind)
        if not self.where:
            return SQL("CASE {}").format(known)
        refused = SQL("{} IN ('I', 'U') AND {} IS NOT TRUE").format(kind, self.condition())
        return SQL("CASE WHEN {} THEN 'x' {}").format(refused, known)
